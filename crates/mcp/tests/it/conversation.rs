//! Lines in, lines out: versions, bad lines, and that the server lives on.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText, approval::RequestId};
use keyless_mcp::{
    Ask, MAX_LINE, Reply, Secrets, Server, Toolset,
    secrets::{Page, Requested},
    serve_streams,
};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
    },
    task::JoinHandle,
};

/// Answers requests with one id, and everything else with an error.
struct Broker;

impl Secrets for Broker {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(async move {
            match ask {
                Ask::Request { .. } => {
                    let request_id = RequestId::parse("prov-0123456789ab").unwrap();
                    Ok(Reply::Requested(Requested { request_id }))
                }
                Ask::Page { .. } => {
                    let url = SafeText::words("http://localhost:1/open/00").into();
                    Ok(Reply::Page(Page { url: Some(url) }))
                }
                Ask::Poll { request_id } => {
                    let words = SafeText::words("unknown request_id: ").and(&request_id);
                    Err(Error::with(Code::RequestNotFound, words))
                }
                _ => Err(Code::SecretNotFound.into()),
            }
        })
    }
}

/// A client that speaks bare lines.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Client {
    fn connect() -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (read, write) = split(far);
        let server = Server::new(Toolset::Secrets(Arc::new(Broker)));
        let serving = tokio::spawn(serve_streams(server, read, write));
        let (from, to) = split(near);
        Self { to, from: BufReader::new(from).lines(), serving }
    }

    async fn greeted() -> Self {
        let mut client = Self::connect();
        client.greet("2025-06-18").await;
        client
    }

    async fn greet(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        let answer = self.call("initialize", params).await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer
    }

    async fn say(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).await.unwrap();
        self.to.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.from.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.say(&request.to_string()).await;
        let answer = self.hear().await;
        assert_eq!(answer["id"], 7, "{answer}");
        answer
    }

    async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.call("tools/call", json!({ "name": name, "arguments": arguments })).await;
        answer["result"].clone()
    }

    async fn is_alive(&mut self) {
        let path = json!({ "path": "team/jira/key" });
        let result = self.tool("secrets_request_provision", path).await;
        assert_eq!(result["structuredContent"], json!({ "request_id": "prov-0123456789ab" }));
    }
}

#[tokio::test]
async fn versions_are_answered_as_asked() {
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-06-18"),
    ] {
        let answer = Client::connect().greet(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], answered, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "keyless-secrets");
    }
}

#[tokio::test]
async fn a_reply_is_text_and_structure() {
    let mut client = Client::greeted().await;
    let path = json!({ "path": "team/jira/key" });
    let result = client.tool("secrets_request_provision", path).await;
    assert_eq!(result["isError"], false);
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, json!({ "request_id": "prov-0123456789ab" }));
    assert_eq!(result["structuredContent"], text);
}

/// A client that offers to show links gets one beside the answer, which comes whatever the client does with it; one that
/// does not offer it, or only forms, gets none.
#[tokio::test]
async fn the_way_to_the_page_is_for_clients_that_offer_it() {
    for (elicitation, is_shown) in [
        (json!({ "url": {} }), true),
        (json!({ "form": {}, "url": {} }), true),
        (json!({ "form": {} }), false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        let mut client = Client::connect();
        let mut capabilities = json!({});
        if !elicitation.is_null() {
            capabilities["elicitation"] = elicitation.clone();
        }
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "t", "version": "1" },
        });
        client.call("initialize", hello).await;
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "secrets_request_provision", "arguments": { "path": "team/jira/key" } } });
        client.say(&request.to_string()).await;
        let mut heard = client.hear().await;
        if is_shown {
            // The tool answers although nobody has said anything, before or after.
            let mut answer = client.hear().await;
            if heard["id"] == 7 {
                std::mem::swap(&mut heard, &mut answer);
            }
            assert_eq!(heard["method"], "elicitation/create", "{elicitation} {heard}");
            assert_eq!(heard["params"]["mode"], "url");
            assert_eq!(heard["params"]["url"], "http://localhost:1/open/00");
            assert_eq!(heard["params"]["elicitationId"], "prov-0123456789ab");
            let asked = heard["id"].clone();
            heard = answer;
            let declined =
                json!({ "jsonrpc": "2.0", "id": asked, "result": { "action": "decline" } });
            client.say(&declined.to_string()).await;
        }
        assert_eq!(heard["id"], 7, "{elicitation} {heard}");
        assert_eq!(
            heard["result"]["structuredContent"],
            json!({ "request_id": "prov-0123456789ab" })
        );
        client.tool("secrets_status", json!({})).await;
    }
}

#[tokio::test]
async fn errors_are_told_with_a_remedy() {
    let mut client = Client::greeted().await;
    let poll = json!({ "request_id": "prov-00112233aabb" });
    for (tool, arguments, error) in [
        ("secrets_describe", json!({ "path": "team/jira/key" }), "not-found"),
        ("secrets_describe", json!({ "path": "jira" }), "invalid-path"),
        ("secrets_describe", json!({}), "invalid-arguments"),
        ("secrets_poll_status", poll, "unknown request_id: prov-00112233aabb"),
    ] {
        let result = client.tool(tool, arguments).await;
        assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None));
        let text = result["content"][0]["text"].as_str().unwrap();
        let fault: Value = serde_json::from_str(text).unwrap();
        assert_eq!(fault["error"], error, "{fault}");
        assert!(fault["remediation"]["user_message"].is_string());
    }
    let unknown = json!({ "name": "secrets_get", "arguments": { "path": "team/jira/key" } });
    assert_eq!(client.call("tools/call", unknown).await["error"]["code"], -32602);
    assert_eq!(
        client.call("tools/call", json!({ "arguments": {} })).await["error"]["code"],
        -32602
    );
    assert_eq!(client.call("no/such", json!({})).await["error"]["code"], -32601);
    client.is_alive().await;
}

#[tokio::test]
async fn bad_lines_are_answered_and_it_lives_on() {
    let mut client = Client::greeted().await;
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(MAX_LINE));
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let cases =
        [("{", -32700), ("\u{0}", -32700), (batch, -32600), ("true", -32600), (&huge, -32600)];
    for (line, code) in cases {
        client.say(line).await;
        let answer = client.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)));
        client.is_alive().await;
    }
    client.say("").await;
    client.is_alive().await;
}

#[tokio::test]
async fn requests_before_initialize_are_refused() {
    let mut client = Client::connect();
    assert_eq!(client.call("tools/list", json!({})).await["error"]["code"], -32600);
    assert_eq!(client.call("ping", json!({})).await["result"], json!({}));
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client.greet("2025-06-18").await;
    let tools = client.call("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 11);
}

#[tokio::test]
async fn it_ends_with_its_input() {
    let Client { mut to, mut from, serving } = Client::greeted().await;
    to.shutdown().await.unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(from.next_line().await.unwrap(), None);
    let Client { mut to, serving, .. } = Client::connect();
    to.shutdown().await.unwrap();
    serving.await.unwrap().unwrap();
}
