use std::{
    io::{ErrorKind, IoSlice, Read, Write as _},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use data_encoding::BASE64;
use keyless_core::Code;
use keyless_egress::{Allowance, EgressPolicy};
use keyless_testkit::{Alpn, OriginOptions, Script, Step, TestCa};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::scene::{ALLOWED, Answer, PATIENCE, Scene, Setting, comes_true, read_head};

/// A request over an intercepted connection whose answer goes on for minutes.
fn endless(scene: &Scene) -> impl Read + Send + 'static {
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let token = &scene.placeholder;
    let request = format!(
        "GET /drip?n=1000000&chunk=1&ms=5 HTTP/1.1\r\nhost: {ALLOWED}\r\nx-key: {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
    let mut first = [0; 10];
    stream.read_exact(&mut first).unwrap();
    stream
}

/// Whether reading comes to an end, in time.
fn is_cut(mut stream: impl Read + Send + 'static) -> bool {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut rest = Vec::new();
        // Cut without a goodbye, mostly.
        let _ = stream.read_to_end(&mut rest);
        tell.send(rest.len())
    });
    told.recv_timeout(PATIENCE).is_ok_and(|length| length < 900_000)
}

/// Whether it ends with a reset: without TLS, chunks and lengths, that alone tells a cut from an end.
fn is_reset(mut stream: TcpStream) -> bool {
    let ended = stream.read_to_end(&mut Vec::new());
    ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Allows the allowed host alone.
fn lock_down(scene: &Scene) {
    // Without its exact route, the other origin is just a loopback address.
    scene.reload(|config| {
        config.connect_to.retain(|from, _| from.host.to_string() == ALLOWED);
        config.policy = EgressPolicy::Allowlist(Vec::new());
    });
}

/// One more request over a kept-alive connection.
fn ask(stream: &mut (impl Read + std::io::Write), header: &str) -> Answer {
    let request = format!("GET /status/200 HTTP/1.1\r\nhost: {ALLOWED}\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    Answer::parse(&read_head(stream))
}

#[test]
fn the_end_of_a_session_cuts_an_answer_that_streams() {
    let scene = Scene::new();
    let stream = endless(&scene);
    scene.engine.close(scene.session.id());
    assert!(is_cut(stream));
    assert!(comes_true(|| scene.engine.in_flight() == 0));
    let gone =
        scene.allowed.wait_until(PATIENCE, |seen| seen.connections.iter().all(|one| one.closed));
    assert!(gone, "the destination's side is closed as well");
}

#[test]
fn a_withdrawn_secret_is_refused_aloud_and_what_streams_is_cut() {
    let scene = Scene::new();
    let token = format!("x-key: {}\r\n", scene.placeholder);
    let mut kept = scene.tls(ALLOWED, &[b"http/1.1"]);
    assert_eq!(ask(&mut kept, &token).status, 200);
    let stream = endless(&scene);
    scene.engine.replace_secrets(&scene.session, &[]);
    let answer = ask(&mut kept, &token);
    assert_eq!((answer.status, answer.refusal()), (403, Some("secret_withdrawn")));
    assert!(is_cut(stream));
    // A new connection is told the same, and may do without.
    let answer = scene.curl(&["-H", token.trim(), "https://allowed.test/"]);
    assert_eq!(answer.refusal(), Some("secret_withdrawn"), "{}", answer.head);
    assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
    // What it had published before is scrubbed on.
    let echo = format!("https://allowed.test/echo?{}", scene.canary.value());
    scene.assert_sealed(&scene.curl(&[&echo]));
    scene.engine.replace_secrets(&scene.session, std::slice::from_ref(&scene.secret));
    assert_eq!(scene.curl(&["-H", token.trim(), "https://allowed.test/"]).status, 200);
    assert!(scene.refused().iter().all(|code| *code == Code::SecretWithdrawn));
}

#[test]
fn replacing_secrets_by_the_same_disturbs_nothing() {
    let scene = Scene::new();
    let mut stream = endless(&scene);
    for _ in 0..20 {
        scene.engine.replace_secrets(&scene.session, std::slice::from_ref(&scene.secret));
        scene.reload(|config| config.policy = EgressPolicy::Allowlist(Vec::new()));
        scene.reload(|_| {});
    }
    let mut more = [0; 200];
    stream.read_exact(&mut more).unwrap();
    assert!(scene.refused().is_empty());
}

#[test]
fn the_lockdown_can_be_flipped() {
    let scene = Scene::new();
    let (head, tunnel) = scene.connect("other.test:443");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    lock_down(&scene);
    assert!(is_reset(tunnel));
    assert!(scene.waits_for(Code::DestinationNotListed));
    let (head, _) = scene.connect("other.test:443");
    assert!(head.contains("x-keyless-refused: destination_not_listed"), "{head}");
    assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
    scene.reload(|_| {});
    let (head, _) = scene.connect("other.test:443");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

/// To HTTP/1.0, the end of the connection is the end of the body.
#[test]
fn a_cut_answer_in_the_clear_does_not_look_whole() {
    let other = OriginOptions::cleartext();
    let scene = Scene::of(Setting { other, ..Setting::default() });
    let credential = BASE64.encode(scene.session.proxy_credential().as_bytes());
    let ask = |path: &str| {
        let mut stream = scene.plain();
        let head = format!(
            "GET http://other.test{path} HTTP/1.0\r\nhost: other.test\r\nproxy-authorization: Basic {credential}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_head(&mut stream);
        assert!(head.contains(" 200 ") && !head.contains("content-length"), "{head}");
        stream
    };
    let mut whole = ask("/events?n=3&ms=1");
    assert!(whole.read_to_end(&mut Vec::new()).unwrap() > 10);
    let mut endless = ask("/events?n=1000000&ms=5");
    endless.read_exact(&mut [0; 10]).unwrap();
    lock_down(&scene);
    assert!(is_reset(endless));
}

/// A Unix socket knows no resets, so the funnel hands its client's own socket over.
#[test]
fn a_client_behind_a_funnel_sees_the_reset() {
    let scene = Scene::new();
    let path = scene.path("egress.sock");
    let listener = scene.runtime.block_on(async { tokio::net::UnixListener::bind(&path) }).unwrap();
    scene.runtime.spawn(Arc::clone(&scene.engine).serve_unix(listener, Arc::clone(&scene.session)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let funnel = UnixStream::connect(&path).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [accepted.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)));
    let preamble = [IoSlice::new(b"other.test:443\n")];
    sendmsg(&funnel, &preamble, &mut control, SendFlags::empty()).unwrap();
    assert!(scene.other.wait_until(PATIENCE, |seen| !seen.connections.is_empty()));
    lock_down(&scene);
    assert!(is_reset(client));
}

#[test]
fn a_kept_connection_is_judged_again_after_a_reload() {
    let scene = Scene::new();
    let mut kept = scene.tls(ALLOWED, &[b"http/1.1"]);
    assert_eq!(ask(&mut kept, "").status, 200);
    scene.reload(|config| config.connect_to.clear());
    let answer = ask(&mut kept, "");
    // Its real name does not exist; the point is that the old address is not used.
    assert!([502, 504].contains(&answer.status), "{}", answer.head);
    assert_eq!(scene.allowed.requests().len(), 1);
}

#[test]
fn a_drain_lets_end_what_is_under_way() {
    let scene = Scene::new();
    let mut kept = scene.tls(ALLOWED, &[b"http/1.1"]);
    let mut slow = scene.tls(ALLOWED, &[b"http/1.1"]);
    assert_eq!(ask(&mut kept, "").status, 200);
    let request = format!("GET /drip?n=50&chunk=1&ms=20 HTTP/1.1\r\nhost: {ALLOWED}\r\n\r\n");
    slow.write_all(request.as_bytes()).unwrap();
    read_head(&mut slow);
    // The first may be told of a moment after its answer is read.
    assert!(comes_true(|| scene.engine.in_flight() == 1));
    scene.engine.drain();
    let answer = ask(&mut kept, "");
    assert_eq!((answer.status, answer.refusal()), (503, Some("draining")));
    let (head, _) = scene.connect("allowed.test:443");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    let mut whole = [0; 50];
    slow.read_exact(&mut whole).unwrap();
    scene.runtime.block_on(scene.engine.drained());
}

/// Another proxy may serve what is cut at a drain's end; a session that was ended is so everywhere.
#[test]
fn what_a_drain_cuts_is_told_apart_from_a_session_that_was_ended() {
    for (is_over, status, told) in [(true, 503, "draining"), (false, 403, "session_ended")] {
        let ca = TestCa::new();
        let silent = Script::new([Step::ReadHead, Step::ReadToEnd]);
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).script(silent).alpn(Alpn::Http1);
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        let answer = thread::scope(|scope| {
            let asking = scope.spawn(|| scene.curl(&["https://allowed.test/"]));
            assert!(comes_true(|| !scene.allowed.everything_received().is_empty()));
            scene.engine.drain();
            if is_over {
                scene.engine.end_drain();
            }
            scene.engine.close(scene.session.id());
            asking.join().unwrap()
        });
        assert_eq!((answer.status, answer.refusal()), (status, Some(told)), "{}", answer.body);
    }
}

#[test]
fn a_session_has_so_many_requests_a_minute() {
    let allowance = Allowance { requests_per_minute: Some(3), bytes_per_hour: None };
    let scene = Scene::of(Setting { allowance, ..Setting::default() });
    let statuses: Vec<u16> =
        (0..3).map(|_| scene.curl(&["https://allowed.test/status/204"]).status).collect();
    assert_eq!(statuses, [204, 204, 204]);
    let answer = scene.curl(&["https://allowed.test/status/204"]);
    assert_eq!(answer.status, 429);
    let (head, _) = scene.connect("other.test:443");
    assert!(head.contains("x-keyless-refused: quota_exceeded"), "{head}");
    // One every 20 s, of which some may have gone by.
    for head in [&answer.head, &head] {
        let again = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
        assert!((10..=20).contains(&again.trim().parse::<u32>().unwrap()), "{head}");
    }
    assert_eq!(scene.allowed.requests().len(), 3);
    // Both are logged with what the agent was told, and how much that was.
    let events = scene.broker.events.lock();
    assert_eq!(events.len(), 2);
    for so_far in events.iter().map(|event| event.so_far.unwrap()) {
        assert_eq!((so_far.status, so_far.sent), (Some(429), 0));
        assert!(so_far.received > 50 && so_far.took < PATIENCE, "{so_far:?}");
    }
}

#[test]
fn a_session_has_so_many_bytes_an_hour() {
    let allowance = Allowance { requests_per_minute: None, bytes_per_hour: Some(100_000) };
    let scene = Scene::of(Setting { allowance, ..Setting::default() });
    let answer = scene.curl(&["https://allowed.test/bytes?n=60000"]);
    assert_eq!((answer.status, answer.body.len()), (200, 60_000));
    let answer = scene.curl(&["https://allowed.test/bytes?n=60000"]);
    assert_eq!(answer.status, 0, "cut in the middle: {}", answer.body);
    let answer = scene.curl(&["https://allowed.test/"]);
    assert_eq!(answer.refusal(), Some("quota_exceeded"));
}

/// The destination has answered nothing by then, or has begun to.
#[test]
fn a_body_that_is_refused_on_its_way_is_logged_with_how_far_it_came() {
    let allowance = Allowance { requests_per_minute: None, bytes_per_hour: Some(100_000) };
    let scene = Scene::of(Setting { allowance, ..Setting::default() });
    let body = scene.path("body");
    std::fs::write(&body, vec![b'x'; 1 << 20]).unwrap();
    let data = format!("@{}", body.display());
    let answer = scene.curl(&["--data-binary", &data, "https://allowed.test/sink"]);
    assert_eq!((answer.status, answer.refusal()), (429, Some("quota_exceeded")));
    scene.reload(|config| config.allowance.bytes_per_hour = Some(50_000));
    scene.curl(&["https://allowed.test/bytes?n=600000"]);
    scene.assert_refused(&[Code::QuotaExceeded; 2]);
    let events = scene.broker.events.lock();
    let [up, down] = [0, 1].map(|number| events[number].so_far.unwrap());
    assert_eq!((up.status, down.status), (Some(429), Some(200)));
    assert!((100_000..=1 << 20).contains(&up.sent) && up.received == 0, "{up:?}");
    assert!((50_000..600_000).contains(&down.received) && down.sent == 0, "{down:?}");
    assert!(!up.took.is_zero() && !down.took.is_zero());
}

#[test]
fn what_a_request_came_to_is_told_once() {
    let scene = Scene::new();
    let url = "https://allowed.test/bytes?n=5000";
    assert_eq!(scene.curl(&["-d", "12345", url]).status, 200);
    let told = || scene.broker.finished.lock().clone();
    while told().is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    let told = told();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].sent, told[0].received, told[0].status), (5, 5000, Some(200)));
    assert_eq!(told[0].request, Some(("POST".to_owned(), "/bytes".to_owned())));
}
