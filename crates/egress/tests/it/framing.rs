use std::{
    io::{ErrorKind, Read as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use keyless_core::Code;
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Alpn, OriginOptions, TestCa};

use crate::scene::{ALLOWED, Answer, PATIENCE, Scene, Setting, hasty, read_head, read_rest};

#[test]
fn what_readers_disagree_on_is_refused_and_closed() {
    let scene = Scene::new();
    let post = "POST / HTTP/1.1\r\nhost: allowed.test\r\n";
    let mut refused = Vec::new();
    let cases = [
        (
            format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            "both Content-Length and Transfer-Encoding",
        ),
        (
            format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!"),
            "more than one field Content-Length",
        ),
        (format!("{post}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n"), "other than chunked"),
        (
            format!("{post}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
            "other than chunked",
        ),
        (format!("{post}content-length: +5\r\n\r\nhello"), "no number of bytes"),
        (format!("{post}x: y\n\r\n"), "does not end with CR and LF"),
        (format!("{post}x : y\r\n\r\n"), "a space before the colon"),
        (format!("{post}x: y\r\n folded\r\n\r\n"), "folded"),
        (format!("{post}x: a\0b\r\n\r\n"), "a letter that values have not"),
        (format!("{post}host: other.test\r\n\r\n"), "more than one field Host"),
        (
            "CONNECT other.test:443 HTTP/1.1\r\nhost: other.test:443\r\n\r\n".to_owned(),
            "a CONNECT inside",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "no field Host"),
        (
            "GET https://allowed.test#x HTTP/1.1\r\nhost: allowed.test\r\n\r\n".to_owned(),
            "a fragment",
        ),
        ("GET /#@other.test/ HTTP/1.1\r\nhost: allowed.test\r\n\r\n".to_owned(), "a fragment"),
        ("GET / HTTP/3.0\r\nhost: allowed.test\r\n\r\n".to_owned(), "neither HTTP/1.0 nor"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "neither HTTP/1.0 nor"),
        // What speaks another protocol, such as TLS once more, gets its answer at once.
        ("\u{1}".to_owned(), "does not begin as a request"),
        ("\u{16}\u{3}\u{1}".to_owned(), "does not begin as a request"),
    ];
    for (case, why) in cases {
        let text = scene.raw(case.as_bytes());
        let answer = Answer::parse(&text);
        assert_eq!(
            (answer.status, answer.refusal()),
            (400, Some("bad_request")),
            "{case:?}: {text}"
        );
        assert!(text.contains(why), "{case:?}: {text}");
        refused.push(Code::BadRequest);
        scene.assert_refused(&refused);
    }
    assert!(scene.allowed.recorded().is_empty(), "nothing reached the origin");
}

#[test]
fn broken_chunks_end_the_request() {
    let scene = Scene::new();
    let head = "POST /echo HTTP/1.1\r\nhost: allowed.test\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(1 << 20));
    for chunks in ["FFFFFFFFFFFFFFFF1\r\n", "5\nhello\r\n0\r\n\r\n", "0x5\r\nhello", &long] {
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        // The answer may come before the last byte is written.
        let _ = stream.write_all(format!("{head}{chunks}").as_bytes());
        let answer = Answer::parse(&read_rest(&mut stream));
        assert_eq!((answer.status, answer.refusal()), (400, Some("bad_request")));
    }
    scene.assert_refused(&[Code::BadRequest; 4]);
    assert!(scene.allowed.requests().iter().all(|request| !request.complete));
}

#[test]
fn a_flood_of_trailers_is_too_large() {
    let scene = Scene::new();
    let head = "POST /echo HTTP/1.1\r\nhost: allowed.test\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = format!("x: {}\r\n", "y".repeat(70 << 10));
    for trailers in ["x: y\r\n".repeat(300), long] {
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        // The answer may come before the last byte is written.
        let _ = stream.write_all(format!("{head}2\r\nhi\r\n0\r\n{trailers}\r\n").as_bytes());
        let answer = Answer::parse(&read_rest(&mut stream));
        assert_eq!((answer.status, answer.refusal()), (431, Some("head_too_large")));
    }
    scene.assert_refused(&[Code::HeadTooLarge; 2]);
}

#[test]
fn a_body_that_breaks_off_is_its_senders_fault() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = "POST /echo HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 1000000\r\n\r\nhello";
    stream.write_all(head.as_bytes()).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(scene.waits_for(Code::BadRequest), "{:?}", scene.refused());
}

#[test]
fn a_good_request_before_a_bad_one_is_answered_in_order() {
    let scene = Scene::new();
    let good = "GET /status/204 HTTP/1.1\r\nhost: allowed.test\r\n\r\n";
    let text = scene.raw(format!("{good}{good}GET / HTTP/1.1\nhost: a\n\n").as_bytes());
    assert_eq!(text.matches("HTTP/1.1 204").count(), 2, "{text}");
    assert!(text.contains("HTTP/1.1 400"), "{text}");
}

#[test]
fn heads_have_bounds() {
    let scene = Scene::new();
    let large =
        format!("GET / HTTP/1.1\r\nhost: allowed.test\r\nx: {}\r\n\r\n", "x".repeat(65 << 10));
    let many = format!("GET / HTTP/1.1\r\nhost: allowed.test\r\n{}\r\n", "x: y\r\n".repeat(500));
    for (head, bound) in [(large, "more than 64 KiB"), (many, "more than 100 fields")] {
        let answer = Answer::parse(&scene.raw(head.as_bytes()));
        assert_eq!((answer.status, answer.refusal()), (431, Some("head_too_large")));
        assert!(answer.body.contains(bound), "{}", answer.body);
    }
    let almost = format!(
        "GET / HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\nx: {}\r\n\r\n",
        "x".repeat(60 << 10)
    );
    assert_eq!(Answer::parse(&scene.raw(almost.as_bytes())).status, 200);
}

/// Some clients have signed it so.
#[test]
fn a_target_with_letters_that_urls_have_not_arrives_byte_for_byte() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let (odd, token) = ("/a\"b<c>{d}|e^f`?x={1}<2>", &scene.placeholder);
    let all = [odd, "/plain", "https://allowed.test/<b>?\"", &format!("{odd}&token={token}")];
    for target in all {
        let fields = format!("host: allowed.test\r\nauthorization: Bearer {token}");
        let request = format!("GET {target} HTTP/1.1\r\n{fields}\r\nconnection: close\r\n\r\n");
        // The origin is hyper's, which takes no such target from us either.
        assert!(scene.raw(request.as_bytes()).starts_with("HTTP/1.1 "));
    }
    assert!(scene.refused().is_empty());
    let received = String::from_utf8(scene.allowed.recorded()).unwrap();
    let lines: Vec<_> = received.lines().filter(|line| line.starts_with("GET ")).collect();
    let value = scene.canary.value();
    assert_eq!(lines[0], format!("GET {odd} HTTP/1.1"));
    assert_eq!(lines[1..3], ["GET /plain HTTP/1.1", "GET /<b>?\" HTTP/1.1"]);
    assert_eq!(
        lines[3],
        format!("GET /a%22b%3Cc%3E%7Bd%7D|e%5Ef%60?x={{1}}%3C2%3E&token={value} HTTP/1.1")
    );
}

/// A value in it, or HTTP/2 on its way: it goes on as a browser would have sent it.
#[test]
fn letters_that_urls_have_not_are_escaped() {
    let scene = Scene::new();
    let body =
        "POST /a\"<b>`^{c}|?q=<> HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 2\r\n\r\nhi";
    let next = "GET /next HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n";
    let text = scene.raw(format!("{body}{next}").as_bytes());
    assert!(!text.contains("HTTP/1.1 400"), "{text}");
    let requests = scene.allowed.requests();
    assert_eq!(requests[0].target, "https://allowed.test/a%22%3Cb%3E%60%5E%7Bc%7D|?q=%3C%3E");
    assert_eq!(
        (&requests[0].body[..], &*requests[1].target),
        (&b"hi"[..], "https://allowed.test/next")
    );
}

/// A request line has a path, whether the client's URL had one or not.
#[test]
fn a_url_without_a_path_has_one_upstream() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    for (target, sent) in [
        ("https://allowed.test", "GET / HTTP/1.1"),
        ("https://allowed.test?q=1", "GET /?q=1 HTTP/1.1"),
    ] {
        let request =
            format!("GET {target} HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n");
        assert!(scene.raw(request.as_bytes()).starts_with("HTTP/1.1 200"), "{target}");
        let received = scene.allowed.everything_received();
        let received = String::from_utf8_lossy(&received).into_owned();
        assert!(received.lines().any(|line| line == sent), "{received}");
    }
}

#[test]
fn a_head_that_does_not_come_times_out() {
    let scene = Scene::of(Setting {
        config: EngineConfig { limits: hasty(), ..EngineConfig::default() },
        ..Setting::default()
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    stream.write_all(b"GET / HT").unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    assert!(head.contains("head_timeout"));
}

/// From its first byte to its last, whatever comes in between; 30 s unless a test says less.
#[test]
fn a_head_that_drips_times_out() {
    assert_eq!(Limits::default().head_time, Duration::from_secs(30));
    let scene = Scene::of(Setting {
        config: EngineConfig { limits: hasty(), ..EngineConfig::default() },
        ..Setting::default()
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let begun = Instant::now();
    stream.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
    while scene.refused().is_empty() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        if stream.write_all(b"x").and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    assert!(begun.elapsed() >= hasty().head_time, "{:?}", begun.elapsed());
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 408") && head.contains("head_timeout"), "{head}");
    scene.assert_refused(&[Code::HeadTimeout]);
}

/// HTTP/2 agreed upon, and not begun: nothing of it can be answered yet.
#[test]
fn a_preface_that_does_not_come_times_out() {
    let scene = Scene::of(Setting {
        config: EngineConfig { limits: hasty(), ..EngineConfig::default() },
        ..Setting::default()
    });
    for begun in ["", "PRI * HTTP/2.0"] {
        let mut stream = scene.tls(ALLOWED, &[b"h2"]);
        stream.write_all(begun.as_bytes()).unwrap();
        stream.flush().unwrap();
        let mut heard = Vec::new();
        // Its settings, and the end: a connection that stays open is a time-out of this read.
        let ended = stream.read_to_end(&mut heard).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(_) | Err(ErrorKind::UnexpectedEof)), "{begun:?}: {ended:?}");
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    }
}

#[test]
fn an_answer_is_not_lost_over_bytes_that_nobody_reads() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let large = format!("GET / HTTP/1.1\r\nhost: allowed.test\r\nx: {}", "x".repeat(300 << 10));
    stream.write_all(large.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 431"), "{head}");
}

/// What the connection says counts, and what contradicts it is refused; a request of old need not repeat it.
#[test]
fn a_request_agrees_with_its_connection() {
    let scene = Scene::new();
    for (head, status) in [
        ("GET http://allowed.test/ HTTP/1.1\r\nhost: allowed.test", 400),
        ("GET https://allowed.test/ HTTP/1.1\r\nhost: allowed.test", 200),
        ("GET foo HTTP/1.1\r\nhost: allowed.test", 400),
        ("GET / HTTP/1.0", 200),
    ] {
        let answer = scene.raw(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes());
        assert_eq!(Answer::parse(&answer).status, status, "{head}: {answer}");
    }
    assert_eq!(scene.allowed.requests().len(), 2);
}

/// hyper would write `<none>`.
#[test]
fn a_status_without_a_name_gets_none() {
    let scene = Scene::new();
    let ask = "GET /status/299 HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n";
    let answer = scene.raw(ask.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 299 \r\n"), "{answer}");
}
