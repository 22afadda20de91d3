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
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, in HPACK's own table.
const OK: &[u8] = &[0x88];

/// More of a body than is kept.
const LONG: usize = 100_000;

/// One connection to such a destination.
struct Peer(StreamOwned<ServerConnection, TcpStream>);

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Peer {
    /// The next request's stream; nothing once the client has left.
    fn next_head(&mut self) -> Option<u32> {
        self.next(HEADERS).map(|frame| frame.stream)
    }

    fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// A request's body, if it comes whole.
    fn read_body(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let frame = self.read()?;
            match frame.kind {
                DATA => body.extend(frame.payload),
                RST_STREAM => return None,
                _ => {}
            }
            if frame.kind == DATA && frame.flags & END_STREAM != 0 {
                return Some(body);
            }
        }
    }

    fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags & 1 == 0 {
            self.write(SETTINGS, 1, 0, b"");
        }
        Some(Frame { kind, flags, stream, payload })
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
fn scene(first: impl Fn(Peer) + Send + Sync + 'static) -> (Scene, Arc<Mutex<usize>>) {
    scene_of(1, first, Peer::answer_all)
}

/// One whose destination serves its `few` first connections so, and others otherwise.
fn scene_of(
    few: usize,
    first: impl Fn(Peer) + Send + Sync + 'static,
    others: impl Fn(Peer) + Send + Sync + 'static,
) -> (Scene, Arc<Mutex<usize>>) {
    let (first, others) = (Arc::new(first), Arc::new(others));
    let ca = TestCa::new();
    let destination = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = Authority::parse("allowed.test:443").unwrap();
    let to = Authority::parse(&destination.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig { connect_to: [(from, to)].into(), ..EngineConfig::default() };
    let tls = Arc::new(ca.issue(&[ALLOWED]).unwrap().server_config(&[b"h2"]).unwrap());
    let met = Arc::<Mutex<usize>>::default();
    let count = Arc::clone(&met);
    thread::spawn(move || {
        let mut handed = 0;
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
            let (first, others) = (Arc::clone(&first), Arc::clone(&others));
            thread::spawn(move || if handed <= few { first(peer) } else { others(peer) });
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

/// nginx ends a connection so after some requests, and may do it several times in a row.
#[test]
fn a_small_body_is_sent_again_from_its_beginning() {
    for goes_away in [true, false] {
        let (say, said) = mpsc::channel();
        let refuse = move |mut peer: Peer| {
            let stream = peer.next_head().unwrap();
            // Some of it has arrived.
            assert!(!peer.next(DATA).unwrap().payload.is_empty());
            if goes_away {
                peer.go_away(0);
            } else {
                peer.reset(stream, Reason::REFUSED_STREAM);
            }
            peer.answer_all();
        };
        let take = move |mut peer: Peer| {
            let stream = peer.next_head().unwrap();
            say.send(peer.read_body()).unwrap();
            peer.write(HEADERS, END_STREAM | END_HEADERS, stream, OK);
            peer.answer_all();
        };
        let (scene, met) = scene_of(4, refuse, take);
        let bearer = format!("authorization: Bearer {}", scene.placeholder);
        let answer = scene.curl(&["-H", &bearer, "-d", "whole", "https://allowed.test/"]);
        assert_eq!(answer.status, 200, "{goes_away} {}", answer.body);
        let came = said.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(came, b"whole", "{goes_away}");
        assert_eq!(*met.lock(), 5, "{goes_away}");
    }
}

/// What failed for another reason may have been done, and of a long body too much is gone.
#[test]
fn what_may_have_been_processed_is_not_sent_again() {
    let cancel = |mut peer: Peer| {
        let stream = peer.next_head().unwrap();
        peer.reset(stream, Reason::CANCEL);
        peer.answer_all();
    };
    let refuse_late = |mut peer: Peer| {
        let stream = peer.next_head().unwrap();
        for window in [0, stream] {
            peer.write(WINDOW_UPDATE, 0, window, &(1_u32 << 20).to_be_bytes());
        }
        assert_eq!(peer.read_body().unwrap().len(), LONG);
        peer.reset(stream, Reason::REFUSED_STREAM);
        peer.answer_all();
    };
    let scenes = [(0, scene(cancel)), (4, scene(cancel)), (LONG, scene(refuse_late))];
    for (length, (scene, met)) in scenes {
        scene.runtime.block_on(async {
            let mut client = streams::client(&scene).await;
            let body = Full::new(Bytes::from(vec![b'x'; length])).boxed();
            let request = Request::post("https://allowed.test/").body(body).unwrap();
            let status = client.send_request(request).await.unwrap().status();
            assert_eq!(status, StatusCode::BAD_GATEWAY, "{length}");
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
