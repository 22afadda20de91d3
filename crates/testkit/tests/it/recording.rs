//! What an origin records and answers, seen by curl and by a raw TLS socket.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use keyless_testkit::{Alpn, Gate, Handler, Origin, OriginOptions, Script, Step, TestCa};
use rustls::{ClientConnection, StreamOwned};

use crate::clients::{Curl, PATIENCE};

const NAME: &str = "api.allowed.test";

/// Opens a TLS connection, says `request` and returns all that comes until the origin closes.
fn say(ca: &TestCa, origin: &Origin, request: &[u8]) -> Vec<u8> {
    let config = Arc::new(ca.client_config(&[b"http/1.1"]));
    let tls = ClientConnection::new(config, NAME.try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(origin.address()).unwrap());
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A truncated end is an error after the bytes, which is what some scripts are for.
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn http1_is_recorded_to_the_byte() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME])).unwrap();
    let request = "POST /a%2Fb?q=1 HTTP/1.1\r\nhOsT: api.allowed.test\r\nX-One:  1\r\n\
                   Connection: close\r\nContent-Length: 4\r\n\r\nbody";
    let answer = say(&ca, &origin, request.as_bytes());
    assert_eq!(String::from_utf8(origin.recorded()).unwrap(), request);
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let requests = origin.requests();
    assert_eq!((requests.len(), requests[0].target.as_str()), (1, "/a%2Fb?q=1"));
    assert_eq!((&requests[0].body[..], requests[0].complete), (&b"body"[..], true));
    let names: Vec<_> = requests[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "x-one", "connection", "content-length"]);
    assert!(origin.wait_until(PATIENCE, |seen| seen.connections[0].closed));
    let connection = &origin.connections()[0];
    assert_eq!(connection.server_name.as_deref(), Some(NAME));
    assert_eq!(connection.sent, answer);
}

#[test]
fn http2_text_is_found_in_everything_received() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME]).alpn(Alpn::Http2)).unwrap();
    let curl = Curl::new(&ca, NAME, &origin);
    let answer = curl.get("/echo", &["-H", "X-Value: a-value-in-hpack"]);
    assert!(answer.contains("x-value: a-value-in-hpack"), "{answer}");
    let seen = String::from_utf8_lossy(&origin.everything_received()).into_owned();
    assert!(seen.contains("GET https://api.allowed.test"), "{seen}");
    assert!(seen.contains("x-value: a-value-in-hpack"), "{seen}");
}

#[test]
fn every_coding_decodes_to_the_echo() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME])).unwrap();
    let curl = Curl::new(&ca, NAME, &origin);
    for path in
        ["/echo", "/echo/gzip", "/echo/br", "/echo/zstd", "/echo/deflate", "/chunks?sizes=1,7"]
    {
        let answer = curl.get(path, &["--compressed", "-d", "payload"]);
        assert!(answer.ends_with("\n\npayload"), "{path}: {answer}");
    }
}

#[test]
fn headers_trailers_and_events_echo() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME])).unwrap();
    let curl = Curl::new(&ca, NAME, &origin);
    let answer = curl.get("/echo/headers", &["-i", "-H", "X-Say: word"]);
    assert!(answer.contains("x-echo: word") && answer.contains("location: /next?token=word"));
    for version in ["--http1.1", "--http2"] {
        let with_trailers = ["-i", version, "-H", "X-Say: word", "-H", "TE: trailers"];
        assert!(curl.get("/echo/trailers", &with_trailers).contains("x-echo: word"), "{version}");
    }
    let events = curl.get("/events?n=2&ms=1", &["-H", "X-Say: word"]);
    assert_eq!(events, "id: 0\ndata: word\n\nid: 1\ndata: word\n\n");
}

#[test]
fn sizes_are_exact_in_both_directions() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME]).keep(1000)).unwrap();
    let curl = Curl::new(&ca, NAME, &origin);
    assert_eq!(curl.get("/bytes?n=3000000", &[]).len(), 3_000_000);
    assert_eq!(curl.get("/drip?n=50&chunk=20&ms=1", &[]).len(), 50);
    assert_eq!(curl.get("/sink", &["-d", &"x".repeat(50_000)]), "50000\n");
    let upload = origin.requests().pop().unwrap();
    assert_eq!((upload.body.len(), upload.body_bytes), (1000, 50_000));
}

#[test]
fn scripts_are_sent_verbatim() {
    let ca = TestCa::new();
    let options = || OriginOptions::tls(&ca, &[NAME]).alpn(Alpn::Http1);
    let origin = Origin::start(options().script(Script::early_hints("done"))).unwrap();
    let answer = Curl::new(&ca, NAME, &origin).get("/", &["-i"]);
    assert!(answer.starts_with("HTTP/1.1 103 Early Hints"), "{answer}");
    assert!(answer.ends_with("done"), "{answer}");

    let broken = Step::SendSlowly {
        bytes: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort".into(),
        chunk: 7,
        pause: Duration::from_millis(1),
    };
    let script = Script::new([Step::ReadHead, Step::ReadBytes(2), broken, Step::Abort]);
    let origin = Origin::start(options().script(script)).unwrap();
    let answer = say(&ca, &origin, b"POST / HTTP/1.1\r\n\r\nok");
    assert!(answer.ends_with(b"short"));
    assert_eq!(origin.recorded(), b"POST / HTTP/1.1\r\n\r\nok");
}

#[test]
fn a_websocket_repeats_messages() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME])).unwrap();
    let handshake = "GET /websocket HTTP/1.1\r\nHost: api.allowed.test\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // A text frame "hi" and a close frame, both masked with zeros.
    let bytes = [handshake.as_bytes(), b"\x81\x82\0\0\0\0hi\x88\x80\0\0\0\0"].concat();
    let answer = say(&ca, &origin, &bytes);
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    assert!(answer.ends_with(b"\x81\x02hi\x88\x00"));
}

#[test]
fn an_expired_certificate_and_a_foreign_ca_are_refused_by_clients() {
    let ca = TestCa::new();
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME]).expired()).unwrap();
    assert!(Curl::new(&ca, NAME, &origin).run("/", &[]).is_err());
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME])).unwrap();
    assert!(Curl::new(&TestCa::new(), NAME, &origin).run("/", &[]).is_err());
    assert!(origin.wait_until(PATIENCE, |seen| {
        seen.connections.iter().any(|connection| connection.handshake_error.is_some())
    }));
    assert!(origin.recorded().is_empty());
}

#[test]
fn a_gate_asks_for_the_credential() {
    let ca = TestCa::new();
    let handler = Handler::text("in").behind(Gate::Bearer("right".into()));
    let origin = Origin::start(OriginOptions::tls(&ca, &[NAME]).handler(handler)).unwrap();
    let curl = Curl::new(&ca, NAME, &origin);
    assert_eq!(curl.get("/", &["-H", "Authorization: Bearer right"]), "in");
    assert!(curl.get("/", &["-i"]).contains(" 401"));
}
