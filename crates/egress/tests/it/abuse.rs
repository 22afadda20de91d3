use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use keyless_core::{Code, EgressRule, Signer};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Alpn, OriginOptions, Script, Step, TestCa};

use crate::{
    scene::{ALLOWED, Answer, PATIENCE, Scene, Setting, comes_true, read_rest},
    streams,
};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const RST_STREAM: u8 = 3;
/// RFC 9113, section 7.
const ENHANCE_YOUR_CALM: u32 = 11;

/// :method GET, :scheme https, :path /, :authority allowed.test.
fn request_fields() -> Vec<u8> {
    [&[0x82, 0x87, 0x84, 0x41, 12][..], ALLOWED.as_bytes()].concat()
}

#[test]
fn a_flood_of_continuations_is_told_to_go_away() {
    let scene = Scene::new();
    let mut flood = preface();
    flood.extend(frame(HEADERS, 0, 1, &request_fields()));
    for _ in 0..10_000 {
        // One field without indexing each: `a: b`.
        flood.extend(frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b']));
    }
    let before = peak_memory();
    assert_eq!(goaway(&scene, &flood), Some(ENHANCE_YOUR_CALM));
    assert_grown_little(before);
    assert!(scene.allowed.requests().is_empty());
    assert_still_serves(&scene);
}

/// Of a path that is a fragment the root is left, and of two fields of a name one may count to some.
#[test]
fn what_readers_of_http2_disagree_on_is_refused() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let ca = TestCa::new();
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(alpn);
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        let host = [&[0, 4][..], b"host", &[12], ALLOWED.as_bytes()].concat();
        let length = [&[0, 14][..], b"content-length", &[1], b"3"].concat();
        let plain = request_fields();
        let path = |path: &[u8]| {
            let length = u8::try_from(path.len()).unwrap();
            [&[0x82, 0x87, 0x04, length][..], path, &plain[3..]].concat()
        };
        let twice = |field: &[u8]| [&plain, field, field].concat();
        for (fields, end, status) in [
            (twice(&host), 5, 400),
            (twice(&length), 4, 400),
            (path(b"?x"), 5, 400),
            ([&plain[..], &host].concat(), 5, 200),
            (path(b"#x"), 5, 200),
            ([&path(b"/sink")[..], &length].concat(), 4, 200),
        ] {
            let mut sent = preface();
            sent.extend(frame(HEADERS, end, 1, &fields));
            if end == 4 {
                sent.extend(frame(0, 1, 1, b"abc"));
            }
            let of_stream = |answers: &[u8]| {
                let mut heads = frames(answers).into_iter().filter(|(kind, ..)| *kind == HEADERS);
                heads.next().map(|(_, _, head)| head.to_vec())
            };
            let head = answers(&scene, &sent, |answers| of_stream(answers).is_some());
            // `:status` 200 and 400 have indexes of their own.
            let expected = if status == 200 { 0x88 } else { 0x8c };
            let head = of_stream(&head).unwrap();
            assert!(head.contains(&expected), "{fields:?}: {head:?}");
        }
        let requests = scene.allowed.requests();
        let paths: Vec<_> = requests
            .iter()
            .map(|one| one.target.trim_start_matches("https://allowed.test"))
            .collect();
        assert_eq!(paths, ["/", "/", "/sink"]);
    }
}

#[test]
fn rapid_resets_are_told_to_go_away() {
    let scene = Scene::new();
    let mut flood = preface();
    for number in 0..10_000_u32 {
        flood.extend(frame(HEADERS, 5, 2 * number + 1, &request_fields()));
        flood.extend(frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]));
    }
    let before = peak_memory();
    assert_eq!(goaway(&scene, &flood), Some(ENHANCE_YOUR_CALM));
    assert_grown_little(before);
    assert!(scene.allowed.requests().len() < 2_000, "{}", scene.allowed.requests().len());
    assert_still_serves(&scene);
}

/// 4 KiB in the table, named 16,000 times in one head: 64 MiB if it were unpacked.
#[test]
fn a_bomb_of_fields_is_not_unpacked() {
    let scene = Scene::new();
    let before = peak_memory();
    let mut bomb = preface();
    for stream in 0..20_u32 {
        let mut fields = request_fields();
        // A literal with indexing: name `a`, a value of 3,900 bytes.
        fields.extend([0x40, 1, b'a', 0x7f, 0xbd, 0x1d]);
        fields.extend([b'x'; 3_900]);
        fields.extend([0xbe; 11_000]);
        bomb.extend(frame(HEADERS, 5, 2 * stream + 1, &fields));
    }
    let refused = |answers: &[u8]| {
        let ends = frames(answers).into_iter().filter(|(kind, ..)| *kind == RST_STREAM);
        ends.map(|(_, stream, _)| stream).collect::<Vec<_>>()
    };
    let is_over = |answers: &[u8]| refused(answers).len() == 20 || goaway_in(answers).is_some();
    let answers = answers(&scene, &bomb, is_over);
    assert_grown_little(before);
    assert!(scene.allowed.requests().is_empty());
    // Each by itself, or all of them at once.
    assert!(is_over(&answers), "{:?}", refused(&answers));
    assert_still_serves(&scene);
}

/// Up to twice the bound; beyond, it is a bare 431.
#[test]
fn a_head_that_is_too_large_is_told_so_over_either_version() {
    let scene = Scene::new();
    let fields: Vec<(String, String)> =
        (0..70).map(|n| (format!("x-{n}"), "a".repeat(1_000))).collect();
    let mut arguments = vec!["--http1.1".to_owned(), "https://allowed.test/".to_owned()];
    for (name, value) in &fields {
        arguments.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    let answer = scene.curl(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((answer.status, answer.refusal()), (431, Some("head_too_large")));
    // Not by curl: its library sends no head over 64 KiB.
    scene.runtime.block_on(async {
        let mut client = streams::client(&scene).await;
        let named: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let answer = client.send_request(streams::get_with("/", &named)).await.unwrap();
        assert_eq!(answer.status(), 431);
        assert_eq!(answer.headers()["x-keyless-refused"], "head_too_large");
        let body = answer.collect().await.unwrap().to_bytes();
        assert!(body.windows(11).any(|part| part == b"remediation"), "{body:?}");
    });
    scene.assert_refused(&[Code::HeadTooLarge; 2]);
    assert!(scene.allowed.requests().is_empty());
}

/// What asks for an answer each time is read no faster than its answers are.
#[test]
fn floods_that_ask_for_answers_hold_no_memory() {
    for (kind, payload) in [(SETTINGS, &[0, 4, 0, 1, 0, 0][..]), (PING, &[0; 8])] {
        let scene = Scene::new();
        let before = peak_memory();
        let mut stream = scene.tls(ALLOWED, &[b"h2"]);
        stream.sock.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.write_all(&preface()).unwrap();
        let flood = frame(kind, 0, 0, payload).repeat(2_000);
        // Up to 17 MB and more, and nothing is read: the writing stalls, or the connection is cut.
        let written = (0..500).take_while(|_| stream.write_all(&flood).is_ok()).count();
        let grown = peak_memory() - before;
        assert!(grown < 32 << 10, "{grown} KiB after {written} rounds of {kind}");
        assert_still_serves(&scene);
    }
}

/// A second for a head, and one for the next request.
fn impatient() -> EngineConfig {
    let second = Duration::from_secs(1);
    let limits = Limits { head_time: second, idle_time: second, ..Limits::default() };
    EngineConfig { limits, ..EngineConfig::default() }
}

/// The error code of the GOAWAY by which a client that goes on with `dripped` is ended.
fn goaway_after_drips(scene: &Scene, begun: &[u8], dripped: &[u8]) -> Option<u32> {
    let mut stream = scene.tls(ALLOWED, &[b"h2"]);
    stream.sock.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(&[&preface()[..], begun].concat()).unwrap();
    let (mut answers, start) = (Vec::new(), Instant::now());
    while goaway_in(&answers).is_none() && start.elapsed() < PATIENCE {
        if stream.write_all(dripped).and_then(|()| stream.flush()).is_err() {
            break;
        }
        // "Nothing more for now" is an error too.
        let _ = stream.read_to_end(&mut answers);
    }
    goaway_in(&answers)
}

/// As over HTTP/1: what is dripped keeps a connection, and may not keep it for good.
#[test]
fn a_head_that_drips_over_http2_is_ended_in_time() {
    let more = frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b']);
    let mut half = frame(HEADERS, 4, 1, &[0; 200]);
    half.truncate(12);
    for (begun, dripped) in
        [(frame(HEADERS, 0, 1, &request_fields()), &more[..]), (half, &[0]), (vec![0], &[])]
    {
        let scene = Scene::of(Setting { config: impatient(), ..Setting::default() });
        let code = goaway_after_drips(&scene, &begun, dripped);
        assert_eq!(code, Some(ENHANCE_YOUR_CALM), "{begun:?}");
        scene.assert_refused(&[Code::HeadTimeout]);
        let logged = scene.broker.events.lock()[0].authority.clone();
        assert_eq!(logged.map(|it| it.to_string()).as_deref(), Some("allowed.test:443"));
        assert!(scene.allowed.requests().is_empty());
    }
}

#[test]
fn a_connection_that_only_pings_is_told_to_go_away() {
    let scene = Scene::of(Setting { config: impatient(), ..Setting::default() });
    let ping = frame(PING, 0, 0, &[0; 8]);
    assert_eq!(goaway_after_drips(&scene, &[], &ping), Some(0));
    scene.assert_refused(&[]);
}

/// Events, calls of gRPC and WebSockets may be silent for hours.
#[test]
fn an_open_stream_outlives_the_time_of_an_idle_connection() {
    let ca = TestCa::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 12\r\n\r\n";
    let script = Script::new([
        Step::ReadHead,
        Step::Pause(Duration::from_secs(3)),
        Step::Send(format!("{head}before").into()),
        Step::Pause(Duration::from_secs(3)),
        Step::Send("-after".into()),
    ]);
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
        config: impatient(),
        ..Setting::with(ca)
    });
    let answer = scene.curl(&["--http2", "https://allowed.test/"]);
    assert_eq!((answer.status, answer.body.as_str()), (200, "before-after"));
}

/// What a key signs is read whole. Each body may be 16 MiB, and all of them have one room.
#[test]
fn slow_uploads_that_are_read_whole_share_one_room() {
    let scene = signing(Limits {
        whole_bytes: 16 << 20,
        whole_bytes_per_session: 8 << 20,
        ..Limits::default()
    });
    let half = vec![b'x'; 2 << 20];
    let upload = || {
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        let head = "POST / HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 4194304\r\n\r\n";
        // One that is refused is not read to its end.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&half));
        stream
    };
    let small = || scene.curl(&["-d", "small", "https://allowed.test/"]);
    let waiting: Vec<_> = (0..4).map(|_| upload()).collect();
    assert!(comes_true(|| small().refusal() == Some("too_many_connections")));
    let refused = small();
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("read whole are held by this session"), "{}", refused.body);

    let before = peak_memory();
    let more: Vec<_> = (0..60).map(|_| upload()).collect();
    assert!(comes_true(|| scene.refused().len() >= 60), "{}", scene.refused().len());
    let grown = peak_memory() - before;
    assert!(grown < 48 << 10, "{grown} KiB");
    // Another session has room of its own.
    let second = scene.open_session("second");
    std::fs::write(scene.path("second.pem"), second.ca_pem()).unwrap();
    let url = "https://allowed.test/";
    let answer = scene.curl_as(&second.proxy_credential(), "second.pem", &["-d", "small", url]);
    assert_eq!(answer.status, 200, "{}", answer.body);

    drop((waiting, more));
    assert!(comes_true(|| small().status == 200), "{}", small().body);
}

#[test]
fn an_upload_that_is_read_whole_may_not_pause_for_long() {
    let scene = signing(Limits { body_pause: Duration::from_secs(1), ..Limits::default() });
    let head = "POST / HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 9\r\n\r\nbegun";
    let answer = Answer::parse(&scene.raw(head.as_bytes()));
    assert_eq!((answer.status, answer.refusal()), (400, Some("bad_request")));
    assert!(answer.body.contains("nothing more of its body came for 1 seconds"), "{}", answer.body);
    assert!(scene.allowed.requests().is_empty());
}

/// One that never pauses for long would hold its room for good.
#[test]
fn an_upload_that_is_read_whole_may_not_drip() {
    let limits =
        Limits { body_pause: Duration::from_millis(500), body_rate: 1 << 20, ..Limits::default() };
    let scene = signing(limits);
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = "POST / HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it is still read");
        if scene.refused() == [Code::BadRequest] {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let answer = Answer::parse(&read_rest(&mut stream));
    assert_eq!((answer.status, answer.refusal()), (400, Some("bad_request")));
    assert!(answer.body.contains("less than 1048576 bytes a second"), "{}", answer.body);
    assert!(scene.allowed.requests().is_empty());
}

/// The request was done, so a slow answer is passed on as it comes and not refused.
#[test]
fn an_answer_that_drips_streams_after_a_while() {
    let ca = TestCa::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 12\r\n\r\n";
    let script = Script::new([
        Step::ReadHead,
        Step::Send(format!("{head}before").into()),
        Step::Pause(Duration::from_secs(2)),
        Step::Send("-after".into()),
    ]);
    let limits = Limits { body_pause: Duration::from_millis(300), ..Limits::default() };
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1),
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::with(ca)
    });
    let token = format!("x: {}", scene.placeholder);
    let answer = scene.curl(&["--http1.1", "-H", &token, "https://allowed.test/"]);
    assert_eq!((answer.status, answer.body.as_str()), (200, "before-after"));
    assert!(answer.head.contains("transfer-encoding: chunked"), "{}", answer.head);
}

/// A scene whose key signs what goes to the allowed host.
fn signing(limits: Limits) -> Scene {
    let rule = |rule| EgressRule { sign: Some(Signer::parse("github-webhook").unwrap()), ..rule };
    Scene::of(Setting {
        rule,
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    })
}

fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The error code of the GOAWAY that the proxy answers with.
fn goaway(scene: &Scene, bytes: &[u8]) -> Option<u32> {
    goaway_in(&answers(scene, bytes, |answers| goaway_in(answers).is_some()))
}

fn goaway_in(answers: &[u8]) -> Option<u32> {
    let (.., payload) = frames(answers).into_iter().find(|(kind, ..)| *kind == GOAWAY)?;
    Some(u32::from_be_bytes(payload.get(4..8)?.try_into().unwrap()))
}

/// Kind, stream and payload of each; the last payload may not be all of it.
fn frames(mut rest: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _flags, d, e, f, g, tail @ ..] = rest {
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap();
        let (payload, after) = tail.split_at(length.min(tail.len()));
        frames.push((*kind, u32::from_be_bytes([*d, *e, *f, *g]), payload));
        rest = after;
    }
    frames
}

/// Everything that the proxy sends back while and after it is sent these bytes. Silence is the end of it if that may be
/// all, and else a busy machine's pause.
fn answers(scene: &Scene, bytes: &[u8], may_be_all: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut stream = scene.tls(ALLOWED, &[b"h2"]);
    stream.sock.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    for piece in bytes.chunks(16 << 10) {
        // It may be cut off before the last of them.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let (mut answers, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        // Not through the stream: it would first write what could not be written.
        match stream.conn.read_tls(&mut stream.sock) {
            Ok(1..) if stream.conn.process_new_packets().is_ok() => {
                // "Nothing more for now" is an error too.
                let _ = stream.conn.reader().read_to_end(&mut answers);
            }
            Err(error)
                if error.kind() == ErrorKind::WouldBlock
                    && !may_be_all(&answers)
                    && Instant::now() < deadline => {}
            _ => return answers,
        }
    }
}

fn assert_still_serves(scene: &Scene) {
    assert_eq!(scene.curl(&["--http2", "https://allowed.test/status/204"]).status, 204);
}

fn assert_grown_little(before: u64) {
    let grown = peak_memory() - before;
    assert!(grown < 32 << 10, "{grown} KiB");
}

/// The most memory that this process ever held, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
