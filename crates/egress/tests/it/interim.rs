use std::{fmt::Write as _, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use keyless_core::Authority;
use keyless_egress::EngineConfig;
use keyless_testkit::TestCa;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::scene::{ALLOWED, Scene, Setting};

/// What an origin says before its answer: given what the request authorizes itself with, a field each.
type Hints = fn(&str) -> Vec<(&'static str, String)>;

const STYLE: &str = "</style.css>; rel=preload";

#[test]
fn hints_come_before_the_answer_over_both_versions_on_both_sides() {
    for upstream in [&b"http/1.1"[..], b"h2"] {
        let hinting = Hinting::new(upstream, |_| vec![("link", STYLE.to_owned())]);
        for (client, said) in [("--http1.1", "HTTP/1.1 103"), ("--http2", "HTTP/2 103")] {
            // The second one goes over a kept connection.
            for _ in 0..2 {
                let answer = hinting.scene.curl(&[client, "https://allowed.test/"]);
                assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"), "{client}");
                let [hint] = answer.interim.as_slice() else {
                    panic!("{upstream:?} {client}: {:?}", answer.interim)
                };
                assert!(hint.starts_with(said), "{upstream:?} {client}: {hint}");
                assert!(hint.contains(&format!("link: {STYLE}")), "{upstream:?} {client}: {hint}");
            }
        }
        // HTTP/1.0 knows none.
        let answer = hinting.scene.raw(b"GET / HTTP/1.0\r\nhost: allowed.test\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.0 200"), "{upstream:?}: {answer}");
    }
}

/// As in an answer: values are scrubbed, and what leads past the proxy is left out.
#[test]
fn hints_are_scrubbed_over_both_versions_on_both_sides() {
    let hints: Hints = |authorization| {
        vec![
            ("link", format!("</{authorization}>; rel=preload")),
            ("alt-svc", "h3=\":443\"".to_owned()),
            ("x-keyless-refused", "internal".to_owned()),
        ]
    };
    for upstream in [&b"http/1.1"[..], b"h2"] {
        let hinting = Hinting::new(upstream, hints);
        let scene = &hinting.scene;
        let bearer = format!("authorization: Bearer {}", scene.placeholder);
        for client in ["--http1.1", "--http2"] {
            let answer = scene.curl(&[client, "-H", &bearer, "https://allowed.test/"]);
            assert_eq!(answer.status, 200, "{upstream:?} {client}");
            let hints = answer.interim.join("\n");
            let link = format!("link: </Bearer {}>; rel=preload", scene.placeholder);
            assert!(hints.contains(&link), "{upstream:?} {client}: {hints}");
            scene.canary.assert_absent("the hints", hints.as_bytes());
            assert!(!hints.contains("alt-svc") && !hints.contains("x-keyless"), "{hints}");
        }
    }
}

/// A client could wait for so many bytes (RFC 9110, section 8.6).
#[test]
fn a_hint_has_no_length() {
    let hints: Hints = |_| vec![("content-length", "3".to_owned()), ("link", STYLE.to_owned())];
    let hinting = Hinting::new(b"http/1.1", hints);
    for client in ["--http1.1", "--http2"] {
        let answer = hinting.scene.curl(&[client, "https://allowed.test/"]);
        assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"), "{client}");
        let hint = answer.interim.concat();
        assert!(hint.contains(STYLE) && !hint.contains("content-length"), "{client}: {hint}");
    }
}

/// Nothing holds them back, so there is an end to what is passed on.
#[test]
fn no_more_hints_are_sent_than_a_client_may_be_made_to_hold() {
    let hints: Hints = |_| (0..1000).map(|_| ("x-hint", "x".repeat(1 << 10))).collect();
    for upstream in [&b"http/1.1"[..], b"h2"] {
        let hinting = Hinting::new(upstream, hints);
        let answer = hinting.scene.curl(&["--http2", "https://allowed.test/"]);
        assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"));
        let count = answer.interim.len();
        assert!((1..64).contains(&count), "{upstream:?}: {count}");
    }
}

/// An origin that hints, and a scene that leads there.
struct Hinting {
    scene: Scene,
    _origin: Runtime,
}

impl Hinting {
    fn new(version: &[u8], hints: Hints) -> Self {
        let ca = TestCa::new();
        let tls = ca.issue(&[ALLOWED]).unwrap().server_config(&[version]).unwrap();
        let origin = Runtime::new().unwrap();
        let address = origin.block_on(listen(tls, hints));
        let mut config = EngineConfig::default();
        let from = Authority::parse(&format!("{ALLOWED}:443")).unwrap();
        config.connect_to.insert(from, Authority::parse(&address.to_string()).unwrap());
        let scene = Scene::of(Setting { config, ..Setting::with(ca) });
        Self { scene, _origin: origin }
    }
}

async fn listen(tls: ServerConfig, hints: Hints) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                tokio::spawn(serve_http2(stream, hints));
            } else {
                tokio::spawn(serve_http1(stream, hints));
            }
        }
    });
    address
}

async fn serve_http1(mut stream: TlsStream<TcpStream>, hints: Hints) {
    let mut head = String::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(char::from(byte));
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: "));
        let mut answer = String::new();
        for (name, value) in hints(authorization.unwrap_or_default()) {
            write!(answer, "HTTP/1.1 103 Early Hints\r\n{name}: {value}\r\n\r\n").unwrap();
        }
        answer.push_str("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nthe answer");
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        head.clear();
    }
}

async fn serve_http2(stream: TlsStream<TcpStream>, hints: Hints) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let authorization = request.headers().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        for (name, value) in hints(&authorization.unwrap_or_default()) {
            let mut hint = Response::new(());
            *hint.status_mut() = StatusCode::EARLY_HINTS;
            *hint.headers_mut() =
                HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            respond.send_informational(hint).unwrap();
        }
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"the answer"), true).unwrap();
    }
}
