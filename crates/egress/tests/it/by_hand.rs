//! Destinations whose HTTP/2 is written by hand: what they did not process, and what they cut.

use std::{
    io::{Read, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, mpsc},
    thread,
};

use bytes::Bytes;
use futures_util::future::join_all;
use h2::Reason;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use keyless_core::Authority;
use keyless_egress::EngineConfig;
use keyless_testkit::{Alpn, Handler, OriginOptions, TestCa, reply};
use parking_lot::Mutex;
use rustls::{ServerConnection, StreamOwned};

use crate::{
    scene::{ALLOWED, PATIENCE, Scene, Setting, read_rest},
    streams,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, in HPACK's own table.
const OK: &[u8] = &[0x88];

/// One connection to such a destination.
struct Peer(StreamOwned<ServerConnection, TcpStream>);

impl Peer {
    /// The next request's stream; nothing once the client has left.
    fn next_head(&mut self) -> Option<u32> {
        loop {
            let (kind, flags, stream) = self.read()?;
            match kind {
                HEADERS => return Some(stream),
                SETTINGS if flags & 1 == 0 => self.write(SETTINGS, 1, 0, b""),
                _ => {}
            }
        }
    }

    fn read(&mut self) -> Option<(u8, u8, u32)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some((head[3], head[4], stream))
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        // A client that has left reads nothing.
        let _ = self.0.write_all(&frame);
    }

    fn reset(&mut self, stream: u32, reason: Reason) {
        self.write(RST_STREAM, 0, stream, &u32::from(reason).to_be_bytes());
    }

    /// Nothing above `last` was processed.
    fn go_away(&mut self, last: u32) {
        self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    }

    fn answer_all(mut self) {
        while let Some(stream) = self.next_head() {
            self.write(HEADERS, END_STREAM | END_HEADERS, stream, OK);
        }
    }
}

/// A scene whose destination serves its first connection so and answers everything on others; how many there were.
fn scene(first: impl Fn(Peer) + Send + 'static) -> (Scene, Arc<Mutex<usize>>) {
    let ca = TestCa::new();
    let destination = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = Authority::parse("allowed.test:443").unwrap();
    let to = Authority::parse(&destination.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig { connect_to: [(from, to)].into(), ..EngineConfig::default() };
    let tls = Arc::new(ca.issue(&[ALLOWED]).unwrap().server_config(&[b"h2"]).unwrap());
    let met = Arc::<Mutex<usize>>::default();
    let count = Arc::clone(&met);
    thread::spawn(move || {
        let (mut first, mut handed) = (Some(first), 0);
        for tcp in destination.incoming().map_while(Result::ok) {
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::clone(&tls)).unwrap(), tcp);
            // The client's preface.
            if stream.read_exact(&mut [0; 24]).is_err() {
                continue;
            }
            handed += 1;
            *count.lock() = handed;
            let mut peer = Peer(stream);
            peer.write(SETTINGS, 0, 0, b"");
            match first.take() {
                Some(first) => drop(thread::spawn(move || first(peer))),
                None => drop(thread::spawn(move || peer.answer_all())),
            }
        }
    });
    (Scene::of(Setting { config, ..Setting::with(ca) }), met)
}

/// RFC 9113, sections 6.8 and 8.7.
#[test]
fn what_was_not_processed_is_sent_over_another_connection() {
    for goes_away in [true, false] {
        let (scene, met) = scene(move |mut peer| {
            let heads: Vec<u32> = (0..4).map_while(|_| peer.next_head()).collect();
            if goes_away {
                peer.go_away(heads[0]);
            } else {
                heads[1..].iter().for_each(|stream| peer.reset(*stream, Reason::REFUSED_STREAM));
            }
            peer.write(HEADERS, END_STREAM | END_HEADERS, heads[0], OK);
            peer.answer_all();
        });
        scene.runtime.block_on(async {
            let client = streams::client(&scene).await;
            let ask = || {
                let mut client = client.clone();
                async move { client.send_request(streams::get("/")).await.unwrap().status() }
            };
            let answers = join_all((0..4).map(|_| ask())).await;
            assert_eq!(answers, [StatusCode::OK; 4], "{goes_away}");
        });
        assert_eq!(*met.lock(), 2, "{goes_away}: those that follow share one connection");
    }
}

/// Of a body some may be gone, and what failed for another reason may have been done.
#[test]
fn what_may_have_been_processed_is_not_sent_again() {
    let cancel = |mut peer: Peer| {
        let stream = peer.next_head().unwrap();
        peer.reset(stream, Reason::CANCEL);
        peer.answer_all();
    };
    let refuse = |mut peer: Peer| {
        let stream = peer.next_head().unwrap();
        peer.reset(stream, Reason::REFUSED_STREAM);
        peer.answer_all();
    };
    for (body, (scene, met)) in [("", scene(cancel)), ("some", scene(refuse))] {
        scene.runtime.block_on(async {
            let mut client = streams::client(&scene).await;
            let body = Full::new(Bytes::from(body)).boxed();
            let request = Request::post("https://allowed.test/").body(body).unwrap();
            let status = client.send_request(request).await.unwrap().status();
            assert_eq!(status, StatusCode::BAD_GATEWAY);
        });
        assert_eq!(*met.lock(), 1);
    }
}

/// RFC 9113, section 8.1: that follows a whole answer, and makes none of one that is cut.
#[test]
fn an_answer_that_is_reset_without_a_fault_is_whole_only_if_it_has_ended() {
    for ends in [true, false] {
        let (scene, _) = scene(move |mut peer| {
            let stream = peer.next_head().unwrap();
            peer.write(HEADERS, END_HEADERS, stream, OK);
            peer.write(DATA, if ends { END_STREAM } else { 0 }, stream, b"begun");
            peer.reset(stream, Reason::NO_ERROR);
            peer.answer_all();
        });
        let mut client = scene.tls(ALLOWED, &[b"http/1.1"]);
        let head = format!("GET / HTTP/1.1\r\nhost: {ALLOWED}\r\nconnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        let answer = read_rest(&mut client);
        let is_whole = answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("0\r\n\r\n");
        assert_eq!(is_whole, ends, "{answer}");
    }
}

/// As Node does when a program closes its stream.
#[test]
fn an_upload_that_is_reset_without_a_fault_is_not_whole() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let ca = TestCa::new();
        let (say, said) = mpsc::channel();
        let handler = Handler::new(move |request| {
            let say = say.clone();
            async move {
                say.send(request.into_body().collect().await.is_ok()).unwrap();
                reply(StatusCode::OK, "")
            }
        });
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).handler(handler).alpn(alpn);
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        scene.runtime.block_on(async {
            let stream = streams::tls(&scene).await;
            let (requests, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = Request::post("https://allowed.test/").body(()).unwrap();
            let mut requests = requests.ready().await.unwrap();
            let (_answer, mut body) = requests.send_request(request, false).unwrap();
            body.send_data(Bytes::from_static(b"begun"), false).unwrap();
            while scene.allowed.requests().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            body.send_reset(Reason::NO_ERROR);
            let is_whole = tokio::task::block_in_place(|| said.recv_timeout(PATIENCE));
            assert_eq!(is_whole, Ok(false), "{alpn:?}");
        });
    }
}
