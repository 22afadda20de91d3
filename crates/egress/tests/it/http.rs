use std::{
    future::ready,
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    time::Duration,
};

use data_encoding::BASE64;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use keyless_core::{Authority, Code, Location, Locations};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Alpn, Handler, OriginOptions, Script, Snapshot, Step, TestCa, reply};

use crate::{
    scene::{ALLOWED, Answer, PATIENCE, Scene, Setting, comes_true, read_head, read_rest},
    streams,
};

fn scene_speaking(alpn: Alpn) -> Scene {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(alpn);
    Scene::of(Setting { allowed, ..Setting::with(ca) })
}

#[test]
fn both_versions_on_both_sides() {
    for (alpn, upstream) in [
        (Alpn::Both, http::Version::HTTP_2),
        (Alpn::Http1, http::Version::HTTP_11),
        (Alpn::Http2, http::Version::HTTP_2),
        (Alpn::Silent, http::Version::HTTP_11),
    ] {
        let scene = scene_speaking(alpn);
        for (client, said) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
            let bearer = format!("authorization: Bearer {}", scene.placeholder);
            let answer = scene.curl(&[
                client,
                "-H",
                &bearer,
                "-H",
                "cookie: a=1",
                "--data",
                "some=body",
                "https://allowed.test/echo?q=%2F&r",
            ]);
            assert!(answer.head.starts_with(said), "{alpn:?} {client}: {}", answer.head);
            let request = scene.allowed.requests().pop().unwrap();
            assert_eq!(request.version, upstream, "{alpn:?} {client}");
            assert!(request.target.ends_with("/echo?q=%2F&r"), "{}", request.target);
            assert_eq!(request.body, b"some=body");
            let bearer = request.header("authorization").unwrap();
            assert_eq!(bearer, format!("Bearer {}", scene.canary.value()));
            scene.assert_sealed(&answer);
        }
    }
}

/// hyper leaves it away unless the head says that it is there; searches are asked for so.
#[test]
fn a_get_keeps_its_body_of_no_declared_length() {
    let scene = scene_speaking(Alpn::Http1);
    let body = "4\r\nfind\r\n0\r\n\r\n";
    let answer = scene.raw(
        format!("GET /sink HTTP/1.1\r\nhost: {ALLOWED}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{body}")
            .as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!((request.body.as_slice(), request.complete), (&b"find"[..], true));
}

/// Over HTTP/2 the end of its stream says that there is none; over HTTP/1.1 some servers answer 411 without a length.
#[test]
fn a_post_without_a_body_says_so() {
    for (alpn, client, method, said) in [
        (Alpn::Http1, "--http2", "POST", Some("0")),
        (Alpn::Http1, "--http2", "PUT", Some("0")),
        (Alpn::Http1, "--http2", "PATCH", Some("0")),
        (Alpn::Http1, "--http2", "GET", None),
        (Alpn::Http1, "--http2", "DELETE", None),
        // As it came.
        (Alpn::Http1, "--http1.1", "POST", None),
        (Alpn::Http2, "--http1.1", "POST", Some("0")),
        (Alpn::Http2, "--http1.1", "GET", None),
    ] {
        let scene = scene_speaking(alpn);
        let answer = scene.curl(&[client, "-X", method, "https://allowed.test/"]);
        assert_eq!(answer.status, 200, "{}", answer.head);
        let request = scene.allowed.requests().pop().unwrap();
        let length = request.header("content-length");
        assert_eq!(length.as_deref(), said, "{client} {method} to {alpn:?}");
        assert_eq!(request.header("transfer-encoding"), None, "{client} {method} to {alpn:?}");
    }
}

/// Its answer comes in no chunks; its connection lasts where both say so, and the answer tells its length (RFC 9112, sections
/// 6.1 and 9.3).
#[test]
fn a_client_of_http_1_0_gets_what_it_can_read() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_speaking(alpn);
        let keep = "connection: keep-alive\r\n";
        for (path, more, is_kept) in [
            ("/bytes?n=5", "", false),
            ("/bytes?n=5", keep, true),
            ("/events?n=5", "", false),
            ("/events?n=5", keep, false),
        ] {
            let case = format!("{alpn:?} {path} {more}");
            let mut client = scene.tls(ALLOWED, &[b"http/1.0"]);
            let head = format!("GET {path} HTTP/1.0\r\nhost: {ALLOWED}\r\n{more}\r\n");
            client.write_all(head.as_bytes()).unwrap();
            let head = read_head(&mut client);
            assert!(head.starts_with("HTTP/1.0 200"), "{case}: {head}");
            assert!(!head.contains("transfer-encoding"), "{case}: {head}");
            assert_eq!(head.contains("connection: keep-alive"), is_kept, "{case}: {head}");
            if is_kept {
                client.read_exact(&mut [0; 5]).unwrap();
                let next = format!("GET /status/204 HTTP/1.0\r\nhost: {ALLOWED}\r\n\r\n");
                client.write_all(next.as_bytes()).unwrap();
                assert!(read_head(&mut client).starts_with("HTTP/1.0 204"), "{case}");
            }
            let mut rest = String::new();
            client.read_to_string(&mut rest).expect("it ends as TLS would have it");
            let events = if path.starts_with("/events") { 5 } else { 0 };
            assert_eq!(rest.matches("data:").count(), events, "{case}: {rest}");
        }
    }
}

/// Of OPTIONS and TRACE it says how many may pass them on (RFC 9110, section 7.6.2); to others it says nothing.
#[test]
fn max_forwards_is_counted() {
    let scene = scene_speaking(Alpn::Both);
    for (client, method, left, went) in [
        ("--http1.1", "OPTIONS", "2", Some("1")),
        ("--http2", "TRACE", "1", Some("0")),
        ("--http1.1", "OPTIONS", "0", None),
        ("--http2", "OPTIONS", "0", None),
        ("--http1.1", "TRACE", "0", None),
        ("--http1.1", "GET", "0", Some("0")),
        ("--http1.1", "OPTIONS", "some", Some("some")),
    ] {
        let field = format!("max-forwards: {left}");
        let answer = scene.curl(&[client, "-X", method, "-H", &field, "https://allowed.test/"]);
        let status = if went.is_none() && method == "TRACE" { 501 } else { 200 };
        assert_eq!(answer.status, status, "{method} {left}: {}", answer.head);
        let sent = scene.allowed.requests().pop().and_then(|sent| sent.header("max-forwards"));
        assert_eq!(sent.as_deref(), went, "{client} {method} {left}");
        scene.allowed.clear();
    }
}

#[test]
fn names_keep_their_case_and_order() {
    let scene = scene_speaking(Alpn::Http1);
    let answer = scene.raw(
        b"GET / HTTP/1.1\r\nHoSt: allowed.test\r\nX-ONE: 1\r\nconnection: close\r\nx-Two: 2\r\nAccept: a\r\naccept: b\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200"));
    let sent = String::from_utf8(scene.allowed.recorded()).unwrap();
    let expected = "HoSt: allowed.test\r\nX-ONE: 1\r\nx-Two: 2\r\n";
    assert!(sent.contains(expected), "{sent}");
    assert!(sent.contains("accept: b"), "{sent}");
}

/// Blanks around a field's value say nothing, nor does what stands between two fields of one name (RFC 9110, section 5.3).
#[test]
fn without_a_placeholder_every_byte_but_the_hops_own_goes_on() {
    let scene = scene_speaking(Alpn::Http1);
    let line = "POST /a//b/../c?q=%41+&&;kloak_ HTTP/1.1\r\n";
    let rest = "user-AGENT: x\r\ncontent-length: 4\r\n\r\n%00\n";
    let came = "HoSt: allowed.test\r\nAccept: a\r\nX-ONE:  odd  ä \r\naccept: b\r\n";
    let went = "HoSt: allowed.test\r\nAccept: a\r\naccept: b\r\nX-ONE: odd  ä\r\n";
    let of_hop = "Connection: close, x-hop\r\nX-Hop: 1\r\n";
    let answer = scene.raw(format!("{line}{of_hop}{came}{rest}").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let sent = scene.allowed.recorded();
    assert_eq!(String::from_utf8_lossy(&sent), format!("{line}{went}{rest}"));
}

#[test]
fn a_header_in_odd_case_is_swapped_and_keeps_it() {
    let scene = scene_speaking(Alpn::Http1);
    let answer = scene.raw(
        format!(
            "GET / HTTP/1.1\r\nhost: allowed.test\r\naUtHoRiZaTiOn: Bearer {}\r\nconnection: close\r\n\r\n",
            scene.placeholder
        )
        .as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let sent = String::from_utf8(scene.allowed.recorded()).unwrap();
    let expected = format!("\r\naUtHoRiZaTiOn: Bearer {}\r\n", scene.canary.value());
    assert!(sent.contains(&expected), "{sent}");
}

#[test]
fn connections_are_kept_and_shared_with_no_other_session() {
    let scene = scene_speaking(Alpn::Http1);
    let urls = ["https://allowed.test/bytes?n=10000"; 10];
    let answer = scene.curl(&[&["--http1.1"][..], &urls].concat());
    assert_eq!(answer.status, 200);
    // A second client connection of the same session.
    assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
    assert_eq!(scene.allowed.requests().len(), 11);
    assert_eq!(scene.allowed.connections().len(), 1, "one upstream connection for all of them");
}

/// A destination of many names, of whose connections so many are kept in all.
fn scene_of_names(alpn: Alpn, pool_idle: usize) -> Scene {
    let ca = TestCa::new();
    let limits = Limits { pool_idle, ..Limits::default() };
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED, "*.allowed.test"]).alpn(alpn),
        destinations: vec![ALLOWED, "*.allowed.test"],
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::with(ca)
    });
    let to = Authority::parse(&scene.allowed.address().to_string()).unwrap();
    scene.reload(|config| {
        let names = (0..100).map(|n| Authority::parse(&format!("n{n}.allowed.test:443")).unwrap());
        config.connect_to.extend(names.map(|name| (name, to.clone())));
    });
    scene
}

fn ask_once(scene: &Scene, name: &str) -> String {
    let mut client = scene.tls(name, &[b"http/1.1"]);
    let request = format!("GET /status/204 HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    read_head(&mut client)
}

#[test]
fn connections_to_many_names_are_kept_so_far_as_there_may_be_in_all() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_of_names(alpn, 4);
        for n in 0..20 {
            let head = ask_once(&scene, &format!("n{n}.allowed.test"));
            assert!(head.starts_with("HTTP/1.1 204"), "{head}");
        }
        // One was opened since room was made last.
        let few = |seen: &Snapshot| seen.connections.iter().filter(|one| !one.closed).count() <= 5;
        assert!(scene.allowed.wait_until(PATIENCE, few), "{alpn:?}");
        let before = scene.allowed.connections().len();
        ask_once(&scene, "n19.allowed.test");
        assert_eq!(scene.allowed.connections().len(), before, "the newest is kept");
        ask_once(&scene, "n0.allowed.test");
        assert_eq!(scene.allowed.connections().len(), before + 1, "the oldest is not");
    }
}

/// Its own process, as every test here has, has no descriptor left but those that two ends of a client take.
#[test]
fn where_no_descriptor_is_free_idle_connections_give_up_theirs() {
    let scene = scene_of_names(Alpn::Http1, 512);
    for n in 0..8 {
        ask_once(&scene, &format!("n{n}.allowed.test"));
    }
    // An end that closes late would be one more for the engine, and none for the server in this process.
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut last, mut same) = (count(), 0);
    while same < 5 {
        std::thread::sleep(Duration::from_millis(100));
        let now = count();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    let open = || std::fs::File::open("/dev/null");
    let highest = u64::try_from(open().unwrap().as_raw_fd()).unwrap() + 40;
    let limit = rustix::process::Rlimit { current: Some(highest), maximum: Some(highest) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let mut taken: Vec<_> = std::iter::from_fn(|| open().ok()).collect();
    taken.truncate(taken.len() - 2);
    let head = ask_once(&scene, "n9.allowed.test");
    assert!(head.starts_with("HTTP/1.1 204"), "{head}");
}

#[test]
fn sessions_and_roots_share_no_connection() {
    let scene = scene_speaking(Alpn::Both);
    let fetch = || assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
    fetch();
    fetch();
    assert_eq!(scene.allowed.connections().len(), 1);
    scene.reload(|config| config.extra_roots_pem.push(config.extra_roots_pem[0].clone()));
    fetch();
    assert_eq!(scene.allowed.connections().len(), 2, "older roots verified the first one");
    let second = scene.open_session("session-2");
    std::fs::write(scene.path("second.pem"), second.ca_pem()).unwrap();
    let answer =
        scene.curl_as(&second.proxy_credential(), "second.pem", &["https://allowed.test/"]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(scene.allowed.connections().len(), 3);
    scene.reload(|config| config.extra_roots_pem.clear());
    assert_eq!(scene.curl(&["https://allowed.test/"]).refusal(), Some("upstream_tls"));
}

#[test]
fn a_refusal_that_is_found_late_is_still_an_answer() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let ca = TestCa::new();
        let scene = Scene::of(Setting {
            allowed: OriginOptions::tls(&ca, &[ALLOWED]).alpn(alpn),
            locations: Locations::from_iter([Location::Header]),
            ..Setting::with(ca)
        });
        let body = scene.path("late");
        let text = format!("{}{}", "x".repeat(8 << 20), scene.placeholder);
        std::fs::write(&body, text).unwrap();
        let data = format!("@{}", body.display());
        for client in ["--http1.1", "--http2"] {
            let answer = scene.curl(&[
                client,
                "-H",
                "expect:",
                "--data-binary",
                &data,
                "https://allowed.test/sink",
            ]);
            assert_eq!(
                answer.refusal(),
                Some("location_not_allowed"),
                "{alpn:?} {client} {} {}",
                answer.head,
                answer.body
            );
        }
        assert!(scene.allowed.requests().iter().all(|request| !request.complete));
        scene.assert_refused(&[Code::LocationNotAllowed; 2]);
    }
}

#[test]
fn a_kept_connection_that_died_is_replaced() {
    let ca = TestCa::new();
    // Answers once per connection and then closes it.
    let once = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let script =
        Script::new([keyless_testkit::Step::ReadHead, keyless_testkit::Step::Send(once.into())]);
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
        ..Setting::with(ca)
    });
    for _ in 0..5 {
        let answer = scene.curl(&["--data", "x=y", "https://allowed.test/"]);
        assert_eq!(answer.status, 200, "{} {}", answer.head, answer.body);
        let closed = |record: &Snapshot| record.connections.iter().all(|one| one.closed);
        assert!(scene.allowed.wait_until(PATIENCE, closed));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Of HTTP/1.1, by hand, with a destination that closes when its script is over.
fn scene_of_steps(steps: impl IntoIterator<Item = Step>) -> Scene {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1).script(Script::new(steps));
    Scene::of(Setting { allowed, ..Setting::with(ca) })
}

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// Which of the two comes first, its end or the next request, is chance.
#[test]
fn a_connection_that_ends_after_each_answer_fails_no_request_that_changes_nothing() {
    let scene = scene_of_steps([Step::ReadHead, Step::Send(NO_CONTENT.into())]);
    let mut client = scene.tls(ALLOWED, &[b"http/1.1"]);
    for number in 0..100 {
        let request = format!("GET / HTTP/1.1\r\nhost: {ALLOWED}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let head = read_head(&mut client);
        assert!(head.starts_with("HTTP/1.1 204"), "{number}: {head}");
    }
}

#[test]
fn what_changes_nothing_is_asked_once_more_where_a_kept_connection_ends_unanswered() {
    let steps = || [Step::ReadHead, Step::Send(NO_CONTENT.into()), Step::ReadHead];
    for (method, again) in
        [("GET", "HTTP/1.1 204"), ("OPTIONS", "HTTP/1.1 204"), ("DELETE", "HTTP/1.1 502")]
    {
        let scene = scene_of_steps(steps());
        let mut client = scene.tls(ALLOWED, &[b"http/1.1"]);
        let bearer = format!("authorization: Bearer {}", scene.placeholder);
        for status in ["HTTP/1.1 204", again] {
            let request = format!("{method} / HTTP/1.1\r\nhost: {ALLOWED}\r\n{bearer}\r\n\r\n");
            client.write_all(request.as_bytes()).unwrap();
            let head = read_head(&mut client);
            assert!(head.starts_with(status), "{method}: {head}");
        }
        let received = scene.allowed.everything_received();
        let value = scene.canary.value();
        let times = memchr::memmem::find_iter(&received, value.as_bytes()).count();
        assert_eq!(times, if again.ends_with("204") { 3 } else { 2 }, "{method}");
    }
    // A new one that ends so has nothing to be asked again for.
    let scene = scene_of_steps([Step::ReadHead]);
    let answer = scene.curl(&["https://allowed.test/"]);
    assert_eq!((answer.status, scene.allowed.connections().len()), (502, 1), "{}", answer.body);
}

#[test]
fn answers_without_bodies_stay_without() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_speaking(alpn);
        for client in ["--http1.1", "--http2"] {
            for status in ["204", "304"] {
                let url = format!("https://allowed.test/status/{status}");
                let answer = scene.curl(&[client, &url]);
                assert_eq!(
                    (answer.status.to_string().as_str(), answer.body.as_str()),
                    (status, "")
                );
            }
            let answer = scene.curl(&[client, "--head", "https://allowed.test/bytes?n=1234"]);
            assert_eq!(answer.status, 200, "{alpn:?} {client}: {}", answer.body);
            assert!(
                answer.head.to_ascii_lowercase().contains("content-length: 1234"),
                "{}",
                answer.head
            );
        }
    }
}

#[test]
fn trailers_arrive() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_speaking(alpn);
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        let request = "GET /echo/trailers HTTP/1.1\r\nhost: allowed.test\r\nte: trailers\r\nconnection: close, te\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.to_ascii_lowercase().contains("\r\nx-echo: "), "{alpn:?}: {answer}");
    }
}

/// `TE` is about one connection, and over HTTP/1.1 counts only where `Connection` names it (RFC 9110, section 10.1.4).
#[test]
fn that_trailers_are_welcome_is_said_as_each_version_has_it() {
    for (alpn, client, asks, said) in [
        (Alpn::Http1, "--http2", "te: trailers", (Some("trailers"), Some("te"))),
        (Alpn::Http1, "--http1.1", "te: gzip, trailers", (Some("trailers"), Some("te"))),
        (Alpn::Http1, "--http1.1", "te: gzip", (None, None)),
        (Alpn::Http2, "--http2", "te: trailers", (Some("trailers"), None)),
        (Alpn::Http2, "--http1.1", "te: trailers", (Some("trailers"), None)),
    ] {
        let scene = scene_speaking(alpn);
        let answer = scene.curl(&[client, "-H", asks, "https://allowed.test/"]);
        assert_eq!(answer.status, 200, "{client}: {} {}", answer.head, answer.body);
        let request = scene.allowed.requests().pop().unwrap();
        let (te, connection) = (request.header("te"), request.header("connection"));
        assert_eq!((te.as_deref(), connection.as_deref()), said, "{client} {asks} to {alpn:?}");
    }
}

/// What changes how a message is read, or says who refused it, has no place behind it.
#[test]
fn trailers_say_nothing_that_heads_do() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let ca = TestCa::new();
        let handler = Handler::new(|_| {
            let mut trailers = http::HeaderMap::new();
            for (name, value) in [
                ("x-sum", "1"),
                ("content-length", "9"),
                ("set-cookie", "a=1"),
                ("x-keyless-refused", "internal"),
                ("alt-svc", "h3=\":443\""),
            ] {
                trailers.insert(name, value.parse().unwrap());
            }
            let frames = [Frame::data("body".into()), Frame::trailers(trailers)];
            let body = StreamBody::new(stream::iter(frames.map(Ok)));
            let mut answer = reply(StatusCode::OK, "");
            let said = "x-sum, set-cookie, x-keyless-refused, alt-svc";
            answer.headers_mut().insert("trailer", said.parse().unwrap());
            ready(answer.map(|_| body.boxed_unsync()))
        });
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(alpn).handler(handler);
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        scene.runtime.block_on(async {
            let mut client = streams::client(&scene).await;
            let asked = streams::get_with("/", &[("te", "trailers")]);
            let answer = client.send_request(asked).await.unwrap().into_body().collect().await;
            let answer = answer.unwrap();
            let names: Vec<_> =
                answer.trailers().unwrap().keys().map(http::HeaderName::as_str).collect();
            assert_eq!(names, ["x-sum"], "{alpn:?}");
        });
    }
}

/// Nothing is swapped there, and who sends one is told so.
#[test]
fn a_placeholder_in_a_trailer_is_refused() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_speaking(alpn);
        for (name, value) in
            [("x-t", scene.placeholder.as_str()), (&*scene.placeholder.to_ascii_lowercase(), "y")]
        {
            let request = format!(
                "POST /sink HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\ntrailer: x-t\r\n\
                 transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{name}: {value}\r\n\r\n"
            );
            let answer = Answer::parse(&scene.raw(request.as_bytes()));
            assert_eq!((answer.status, answer.refusal()), (400, Some("bad_request")), "{alpn:?}");
            assert!(answer.body.contains("in a trailer"), "{}", answer.body);
        }
        scene.assert_refused(&[Code::BadRequest; 2]);
        let received = scene.allowed.everything_received();
        assert!(memchr::memmem::find(&received, scene.placeholder.as_bytes()).is_none());
    }
}

#[test]
fn expect_is_answered_without_a_stall() {
    let scene = Scene::new();
    let body = scene.path("body");
    std::fs::write(&body, vec![b'x'; 4 << 20]).unwrap();
    let data = format!("@{}", body.display());
    for client in ["--http1.1", "--http2"] {
        let answer = scene.curl(&[
            client,
            "-H",
            "expect: 100-continue",
            "--expect100-timeout",
            "80",
            "--data-binary",
            &data,
            "--max-time",
            "60",
            "https://allowed.test/sink",
        ]);
        assert_eq!(answer.status, 200, "{client}: {} {}", answer.head, answer.body);
        assert_eq!(scene.allowed.requests().pop().unwrap().body_bytes, 4 << 20);
    }
}

#[test]
fn early_hints_come_before_the_answer() {
    let ca = TestCa::new();
    let script = Script::early_hints("the answer");
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
        ..Setting::with(ca)
    });
    let answer = scene.curl(&["--http2", "https://allowed.test/"]);
    assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"));
    let request = "GET / HTTP/1.1\r\nhost: allowed.test\r\n\r\n";
    let text = scene.raw(
        &[request, &request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")]
            .concat()
            .into_bytes(),
    );
    let hints: Vec<_> = text.match_indices("HTTP/1.1 103 Early Hints\r\nlink: ").collect();
    assert!(text.starts_with("HTTP/1.1 103"), "{text}");
    assert_eq!(hints.len(), 2, "{text}");
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
}

#[test]
fn alt_svc_does_not_lead_past_the_proxy() {
    let ca = TestCa::new();
    let text = "HTTP/1.1 200 OK\r\nalt-svc: h3=\":443\"\r\nX-Kept: 1\r\ncontent-length: 0\r\n\r\n";
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(Script::answer(text)).alpn(Alpn::Http1),
        ..Setting::with(ca)
    });
    let answer = scene.curl(&["--http1.1", "https://allowed.test/"]);
    assert!(answer.head.contains("X-Kept: 1"), "{}", answer.head);
    assert!(!answer.head.to_ascii_lowercase().contains("alt-svc"), "{}", answer.head);
}

#[test]
fn an_answer_has_one_length_in_one_word() {
    for (lengths, passed) in
        [("3, 3", Some("3")), ("3\r\ncontent-length: 3", Some("3")), ("3, 5", None), ("3,", None)]
    {
        let ca = TestCa::new();
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {lengths}\r\n\r\nabc");
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
        let allowed = allowed.script(Script::answer(text));
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        for client in ["--http1.1", "--http2"] {
            let answer = scene.curl(&[client, "https://allowed.test/"]);
            let head = answer.head.to_ascii_lowercase();
            let said: Vec<_> =
                head.lines().filter_map(|line| line.strip_prefix("content-length: ")).collect();
            match passed {
                Some(one) => assert_eq!((said, &*answer.body), (vec![one], "abc"), "{lengths}"),
                None => assert_eq!(answer.refusal(), Some("upstream_protocol"), "{lengths}"),
            }
        }
    }
}

/// The agent learns why, as long as there is a head to say it in.
#[test]
fn a_body_that_is_not_in_its_coding_is_a_bad_gateway() {
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let ca = TestCa::new();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: {coding}");
        let plain = "just text, \u{fe} and no coding at all";
        let length = plain.len();
        let script = Script::new([
            Step::ReadHead,
            Step::Send(format!("{head}\r\ncontent-length: {length}\r\n\r\n{plain}").into()),
            Step::ReadHead,
            Step::Send(format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n").into()),
            Step::Send(format!("{length:x}\r\n{plain}\r\n0\r\n\r\n").into()),
        ]);
        let scene = Scene::of(Setting {
            allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
            ..Setting::with(ca)
        });
        for _ in 0..2 {
            let answer =
                scene.curl(&["-H", &format!("x: {}", scene.placeholder), "https://allowed.test/"]);
            assert_eq!(
                (answer.status, answer.refusal()),
                (502, Some("upstream_protocol")),
                "{coding}"
            );
            assert!(answer.body.contains("Content-Encoding"), "{}", answer.body);
        }
        scene.assert_refused(&[Code::UpstreamProtocol; 2]);
    }
}

#[test]
fn a_placeholder_behind_escapes_is_refused_with_the_reason() {
    let scene = Scene::new();
    let form = format!("a=1&token={}", scene.placeholder.replace('_', "%5F"));
    let json = format!("{{\"token\":\"{}\"}}", scene.placeholder.replacen('k', "\\u006b", 1));
    for (kind, body) in [("application/x-www-form-urlencoded", form), ("application/json", json)] {
        let kind = format!("content-type: {kind}");
        for expect in ["transfer-encoding: chunked", "x: y"] {
            let answer = scene.curl(&[
                "--http1.1",
                "-H",
                &kind,
                "-H",
                expect,
                "--data",
                &body,
                "https://allowed.test/",
            ]);
            assert_eq!(
                (answer.status, answer.refusal()),
                (400, Some("placeholder_escaped")),
                "{expect}"
            );
        }
    }
    assert!(scene.allowed.requests().iter().all(|request| !request.complete));
}

#[test]
fn a_part_of_a_form_is_swapped_and_its_boundaries_stay() {
    let scene = Scene::new();
    let file = scene.path("file");
    std::fs::write(&file, [&[0xff, 0, b'\r', b'\n'][..], &[b'-'; 5000]].concat()).unwrap();
    let token = format!("token={}", scene.placeholder);
    let upload = format!("file=@{}", file.display());
    let answer = scene.curl(&["-F", &token, "-F", &upload, "https://allowed.test/sink"]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let request = scene.allowed.requests().pop().unwrap();
    assert!(request.complete, "the length fits");
    let kind = request.header("content-type").unwrap();
    let boundary = format!("--{}", kind.split("boundary=").nth(1).unwrap());
    let text = String::from_utf8_lossy(&request.body).into_owned();
    assert_eq!(text.matches(&boundary).count(), 3, "{text}");
    let part = format!("name=\"token\"\r\n\r\n{}\r\n{boundary}", scene.canary.value());
    assert!(text.contains(&part), "{text}");
}

#[test]
fn an_upstream_that_speaks_no_http_is_a_bad_gateway() {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED])
            .script(Script::answer("220 mail\r\n\r\n"))
            .alpn(Alpn::Http1),
        ..Setting::with(ca)
    });
    let answer = scene.curl(&["https://allowed.test/"]);
    assert_eq!((answer.status, answer.refusal()), (502, Some("upstream_protocol")));
}

/// Whether its chunks are none or it ends, there is nothing of it yet that was passed on.
/// Its connection ends without TLS's goodbye.
fn with_a_server_that_ends_after(answer: &str) -> Scene {
    let said = Step::Send(answer.to_owned().into());
    let script = Script::new([Step::ReadHead, said, Step::Abort]);
    let ca = TestCa::new();
    Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
        ..Setting::with(ca)
    })
}

#[test]
fn an_answer_whose_body_breaks_at_once_is_a_bad_gateway() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = format!("fa0\r\n{}\r\n", "x".repeat(4000));
    for (answer, why) in [
        (format!("{chunked}no chunk\r\n"), "chunks can't be read"),
        (format!("{chunked}FFFFFFFFFFFFFFFF1\r\n"), "chunks can't be read"),
        (format!("{chunked}{long}no chunk\r\n"), ""),
    ] {
        let scene = with_a_server_that_ends_after(&answer);
        for version in ["--http1.1", "--http2"] {
            let token = format!("authorization: Bearer {}", scene.placeholder);
            for header in ["accept: */*", &token] {
                let answer = scene.curl(&[version, "-H", header, "https://allowed.test/"]);
                if why.is_empty() {
                    assert_eq!(answer.status, 0, "{version} {}", answer.head);
                    continue;
                }
                let told = (answer.status, answer.refusal());
                assert_eq!(told, (502, Some("upstream_protocol")), "{version} {}", answer.body);
                assert!(answer.body.contains(why), "{version} {}", answer.body);
            }
        }
        assert_eq!(scene.refused().len(), if why.is_empty() { 0 } else { 4 }, "{answer}");
    }
}

/// As it does for curl, Node and Python without Keyless; what tells a length or comes in chunks is cut off there.
#[test]
fn an_answer_of_no_length_ends_with_its_connection_however_that_ends() {
    let (one, two) = ("HTTP/1.0 200 OK", "HTTP/1.1 200 OK");
    let text = "x".repeat(300_000);
    for (head, body, whole) in [
        (one.to_owned(), text.clone(), true),
        (two.to_owned(), text.clone(), true),
        (format!("{one}\r\ncontent-length: 300001"), text.clone(), false),
        (format!("{two}\r\ntransfer-encoding: chunked"), format!("493e0\r\n{text}\r\n"), false),
    ] {
        let scene = with_a_server_that_ends_after(&format!("{head}\r\n\r\n{body}"));
        for version in ["--http1.1", "--http2"] {
            // With a value released, an answer's end is held back for the scrub.
            let token = format!("authorization: Bearer {}", scene.placeholder);
            let answer = scene.curl(&[version, "-H", &token, "https://allowed.test/"]);
            assert_eq!(answer.status, if whole { 200 } else { 0 }, "{version} {head}");
            assert!(!whole || answer.body == text, "{version} {head}: {}", answer.body.len());
            // One that breaks off after its head would look whole as HTTP/1.0.
            assert!(!answer.head.starts_with("HTTP/1.0"), "{}", answer.head);
        }
    }
}

#[test]
fn a_client_that_leaves_takes_the_upstream_with_it() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let scene = scene_speaking(alpn);
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        let request = "GET /drip?n=1000000&chunk=1&ms=20 HTTP/1.1\r\nhost: allowed.test\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        read_head(&mut stream);
        drop(stream);
        if alpn == Alpn::Http1 {
            let gone = scene.allowed.wait_until(PATIENCE, |record| {
                record.connections.iter().all(|connection| connection.closed)
            });
            assert!(gone, "the origin still sends");
        }
    }
}

#[test]
fn a_slow_reader_holds_little() {
    for (alpn, client) in [(Alpn::Http1, &b"http/1.1"[..]), (Alpn::Http2, b"http/1.1")] {
        let scene = scene_speaking(alpn);
        let mut stream = scene.tls(ALLOWED, &[client]);
        let request = "GET /bytes?n=1000000000 HTTP/1.1\r\nhost: allowed.test\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        read_head(&mut stream);
        std::thread::sleep(Duration::from_millis(700));
        let sent: u64 = scene.allowed.connections().iter().map(|record| record.sent_bytes).sum();
        assert!(sent < 64 << 20, "{alpn:?}: the origin could send {sent} bytes");
    }
}

#[test]
fn many_streams_share_one_connection() {
    let scene = Scene::new();
    let urls: Vec<String> =
        (0..40).map(|n| format!("https://allowed.test/bytes?n={n}000")).collect();
    let mut arguments = vec!["--http2", "--parallel", "--parallel-max", "20"];
    arguments.extend(urls.iter().map(String::as_str));
    let answer = scene.curl(&arguments);
    assert_eq!(answer.status, 200);
    assert_eq!(scene.allowed.requests().len(), 40);
    assert_eq!(scene.allowed.connections().len(), 1);
}

#[test]
fn parallel_requests_reuse_what_others_have_left() {
    let scene = scene_speaking(Alpn::Http1);
    let urls: Vec<String> =
        (0..200).map(|n| format!("https://allowed.test/bytes?n={n}00")).collect();
    let mut arguments = vec!["--http2", "--parallel", "--parallel-max", "8"];
    arguments.extend(urls.iter().map(String::as_str));
    assert_eq!(scene.curl(&arguments).status, 200);
    assert_eq!(scene.allowed.requests().len(), 200);
    let connections = scene.allowed.connections().len();
    assert!(connections <= 20, "{connections} connections for 8 requests at a time");
}

/// Many servers take what tells no length for empty, or refuse it.
#[test]
fn what_says_its_length_has_one_upstream() {
    let scene = Scene::new();
    let file = scene.path("file");
    let data = format!("@{}", file.display());
    let sent = |kind: &str, more: &[&str]| {
        let content_type = format!("content-type: {kind}");
        let url = format!("https://{ALLOWED}/sink");
        let own = ["--data-binary", &data, "-H", &content_type, &url];
        assert_eq!(scene.curl(&[&own[..], more].concat()).status, 200, "{kind}");
        let request = scene.allowed.requests().pop().unwrap();
        (request.header("content-length"), request.header("transfer-encoding"))
    };
    let of = |length: usize| (Some(length.to_string()), None);
    let files = [
        "application/octet-stream",
        "application/zip",
        "image/png",
        "application/x-git-receive-pack-request",
    ];
    let data =
        ["application/json", "text/plain", "application/x-www-form-urlencoded", "image/svg+xml"];
    std::fs::write(&file, vec![b'x'; 300_000]).unwrap();
    for kind in files.iter().chain(&data) {
        assert_eq!(sent(kind, &[]), of(300_000), "{kind}");
    }
    std::fs::write(&file, [vec![b'x'; 300_000], scene.placeholder.clone().into()].concat())
        .unwrap();
    for version in ["--http1.1", "--http2"] {
        let swapped = 300_000 + scene.canary.value().len();
        for kind in ["application/json", "application/octet-stream", "image/png"] {
            assert_eq!(sent(kind, &[version]), of(swapped), "{version} {kind}");
        }
    }
    let unsigned = ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"];
    assert_eq!(sent("text/plain", &unsigned), of(300_000 + scene.canary.value().len()));
    // A longer one that says its length can't have another, and one that says none is swapped.
    std::fs::write(&file, [vec![b'x'; 9 << 20], scene.placeholder.clone().into()].concat())
        .unwrap();
    let kind = "content-type: application/octet-stream";
    let whole = format!("@{}", file.display());
    let own = ["--data-binary", &whole, "-H", kind, "https://allowed.test/sink"];
    let answer = scene.curl(&own);
    assert_eq!(answer.refusal(), Some("body_digest"), "{}", answer.body);
    assert!(answer.body.contains("transfer-encoding: chunked"), "{}", answer.body);
    let chunked = [&own[..], &["-H", "transfer-encoding: chunked"]].concat();
    assert_eq!(scene.curl(&chunked).status, 200);
    scene.canary.find(&scene.allowed.everything_received()).unwrap();
    // A file keeps its length however long it is, and data that may change has none from some length on.
    std::fs::write(&file, vec![b'x'; 9 << 20]).unwrap();
    for kind in files {
        assert_eq!(sent(kind, &[]), of(9 << 20), "{kind}");
    }
    assert_eq!(sent("text/plain", &unsigned), of(9 << 20));
    let has_length = |(length, _): (Option<String>, Option<String>)| length.is_some();
    for kind in data {
        assert!(!has_length(sent(kind, &[])), "{kind}");
    }
}

/// One that pauses goes on as it comes, as do those that tell no length.
#[test]
fn what_says_its_length_and_does_not_come_streams() {
    let limits = Limits { body_pause: Duration::from_millis(300), ..Limits::default() };
    let scene = Scene::of(Setting {
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let (first, last) = ("x".repeat(300_000), format!("{}-end", scene.placeholder));
    let length = first.len() + last.len();
    let head = "POST /sink HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\ncontent-type: text/plain";
    stream
        .write_all(format!("{head}\r\ncontent-length: {length}\r\n\r\n{first}").as_bytes())
        .unwrap();
    assert!(comes_true(|| !scene.allowed.recorded().is_empty()), "its head goes before its end");
    stream.write_all(last.as_bytes()).unwrap();
    assert_eq!(Answer::parse(&read_rest(&mut stream)).status, 200);
    let request = scene.allowed.requests().pop().unwrap();
    assert!(request.body.ends_with(format!("x{}-end", scene.canary.value()).as_bytes()));
    assert_eq!(request.body.len(), first.len() + scene.canary.value().len() + 4);
}

fn in_lines(text: &[u8], width: usize, end: &str) -> String {
    let text = BASE64.encode(text);
    let lines = text.as_bytes().chunks(width).map(String::from_utf8_lossy);
    lines.flat_map(|line| [line.into_owned(), end.to_owned()]).collect()
}

/// GitHub's contents API, and MIME.
#[test]
fn a_file_that_comes_in_lines_of_base64_has_no_value_in_it() {
    for (width, end, kind) in [
        (60, "\\n", "application/json"),
        (76, "\\n", "application/json"),
        (76, "\r\n", "multipart/mixed; boundary=b"),
    ] {
        let ca = TestCa::new();
        let handler = Handler::new(move |request: Request<_>| {
            let said = request.headers()["x-token"].as_bytes().to_vec();
            let file = [&[b'-'; 400][..], b"token=", &said, &[b'-'; 400]].concat();
            let mut answer = reply(
                StatusCode::OK,
                format!("{{\"content\":\"{}\"}}", in_lines(&file, width, end)),
            );
            answer.headers_mut().insert("content-type", kind.parse().unwrap());
            ready(answer)
        });
        let scene = Scene::of(Setting {
            allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(handler),
            ..Setting::with(ca)
        });
        let token = format!("x-token: {}", scene.placeholder);
        let answer = scene.curl(&["-H", &token, "https://allowed.test/repos/a/b/contents/.env"]);
        let text = answer.body.split('"').nth(3).unwrap().replace(end, "");
        let file = BASE64.decode(text.as_bytes()).unwrap();
        scene.canary.assert_absent("the file", &file);
        let placeholder = scene.placeholder.as_bytes();
        assert!(file.windows(placeholder.len()).any(|part| part == placeholder), "{text}");
        assert!(file.starts_with(&[b'-'; 400]) && file.ends_with(&[b'-'; 400]), "{text}");
        scene.assert_sealed(&answer);
    }
}

/// What is encoded is not looked into on its way out: a mail that quotes a placeholder arrives as it was written.
#[test]
fn a_placeholder_inside_base64_arrives_as_it_was_sent() {
    let scene = Scene::new();
    let text = format!("{}{}{}", "a".repeat(50), scene.placeholder, "b".repeat(500_000));
    let part = "--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    for text in [&text[..500], &text] {
        let mail = format!("{part}{}--b--\r\n", in_lines(text.as_bytes(), 76, "\r\n"));
        std::fs::write(scene.path("mail"), &mail).unwrap();
        let data = format!("@{}", scene.path("mail").display());
        let kind = "content-type: multipart/mixed; boundary=b";
        let bearer = format!("authorization: Bearer {}", scene.placeholder);
        for expect in ["x: y", "transfer-encoding: chunked"] {
            let url = "https://allowed.test/sink";
            let sent = ["-H", kind, "-H", &bearer, "-H", expect, "--data-binary", &data, url];
            assert_eq!(scene.curl(&sent).status, 200, "{expect}");
            let request = scene.allowed.requests().pop().unwrap();
            assert!(request.body == mail.as_bytes(), "{expect}");
            let value = format!("Bearer {}", scene.canary.value());
            assert_eq!(request.header("authorization"), Some(value));
        }
    }
}
