//! Requests of one session over HTTP: an id is one request's until it is answered or cancelled.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error};
use keyless_mcp::{Ask, Credential, HTTP_PATH, Reply, Secrets, Server, Toolset, serve_http};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};

const CREDENTIAL: &str = "0123456789abcdef0123456789abcdef";

/// Answers each question once it is let.
struct Broker {
    asked: AtomicUsize,
    let_go: Semaphore,
}

impl Secrets for Broker {
    fn ask(&self, _: Ask) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.let_go.acquire().await.unwrap().forget();
            Err(Code::SecretNotFound.into())
        })
    }
}

impl Broker {
    async fn is_asked(&self, times: usize) {
        let asked = async {
            while self.asked.load(Ordering::SeqCst) < times {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), asked).await.unwrap();
    }
}

/// A client of one session.
#[derive(Clone)]
struct Client {
    to: SocketAddr,
    session: Option<String>,
}

impl Client {
    async fn greeted(to: SocketAddr) -> Self {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let mut client = Self { to, session: None };
        let greeted = client.post(&hello).await;
        let session = greeted.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        client.session = Some(session.unwrap().to_owned());
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn post(&self, message: &Value) -> String {
        let (body, to) = (message.to_string(), self.to);
        let session = self.session.as_ref();
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {HTTP_PATH} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\
             authorization: Bearer {CREDENTIAL}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        timeout(Duration::from_secs(20), read).await.expect("it is answered").unwrap();
        answer
    }

    /// Something that takes its time.
    async fn ask(&self, id: i64) -> String {
        let call = json!({ "name": "secrets_describe", "arguments": { "path": "team/a/key" } });
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }))
            .await
    }

    async fn ping(&self, id: i64) -> String {
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await
    }
}

/// Serves on a port of its own.
async fn served(server: Server) -> (SocketAddr, JoinHandle<Result<(), Error>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let credential = Credential::new(CREDENTIAL.to_owned()).unwrap();
    (to, tokio::spawn(serve_http(server, listener, credential)))
}

#[tokio::test]
async fn an_id_is_one_requests_until_it_is_answered_or_cancelled() {
    let broker = Arc::new(Broker { asked: AtomicUsize::new(0), let_go: Semaphore::new(0) });
    let server = Server::new(Toolset::Secrets(Arc::clone(&broker) as _));
    let (to, serving) = served(server).await;
    let (client, other) = (Client::greeted(to).await, Client::greeted(to).await);
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.ask(7).await })
    };
    broker.is_asked(1).await;
    for refused in [client.ping(7).await, client.ask(7).await] {
        assert!(refused.contains("-32600") && refused.contains("still waits"), "{refused}");
        assert!(refused.contains("\"id\":7"), "{refused}");
    }
    // Another session's ids are its own.
    assert!(other.ping(7).await.contains("\"result\""));
    broker.let_go.add_permits(1);
    let answer = asking.await.unwrap();
    assert!(answer.contains("\"id\":7") && answer.contains("not-found"), "{answer}");
    assert_eq!(broker.asked.load(Ordering::SeqCst), 1, "it was done once");
    assert!(client.ping(7).await.contains("\"result\""));

    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.ask(8).await })
    };
    broker.is_asked(2).await;
    client
        .post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 8 } }))
        .await;
    assert!(client.ping(8).await.contains("\"result\""));
    drop(asking);
    serving.abort();
}

/// Any process of this machine can connect.
#[tokio::test]
async fn who_shows_no_credential_keeps_nobody_out() {
    let broker = Arc::new(Broker { asked: AtomicUsize::new(0), let_go: Semaphore::new(0) });
    let server = Server::new(Toolset::Secrets(Arc::clone(&broker) as _));
    let (to, serving) = served(server).await;
    let client = Client::greeted(to).await;
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.ask(7).await })
    };
    broker.is_asked(1).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
        silent.push(stream);
    }
    let begun = Instant::now();
    assert!(client.ping(8).await.contains("\"result\""));
    assert!(Client::greeted(to).await.ping(2).await.contains("\"result\""));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Nor does what was under way give way to them.
    broker.let_go.add_permits(1);
    assert!(asking.await.unwrap().contains("not-found"));
    serving.abort();
}

#[tokio::test]
async fn a_session_begins_once_and_no_notification_is_answered() {
    let broker = Arc::new(Broker { asked: AtomicUsize::new(0), let_go: Semaphore::new(0) });
    let (to, serving) = served(Server::new(Toolset::Secrets(broker as _))).await;
    let client = Client::greeted(to).await;
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" } });
    let again = json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params });
    let refused = client.post(&again).await;
    assert!(refused.contains("-32600") && refused.contains("already"), "{refused}");
    assert!(client.ping(3).await.contains("\"result\""));
    // Nor is a notification answered that can't be read.
    let bad = json!({ "jsonrpc": "2.0", "method": "notifications/xx", "params": [1] });
    let refused = client.post(&bad).await;
    assert!(refused.starts_with("HTTP/1.1 400") && !refused.contains("jsonrpc"), "{refused}");
    serving.abort();
}
