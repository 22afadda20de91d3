//! What a destination does not read of a request, and what it says beyond an answer's end: neither is another message.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use keyless_core::{Authority, EgressRule, Location, Locations, RequestRule};
use keyless_egress::EngineConfig;
use keyless_testkit::{Alpn, OriginOptions, Script, Step, TestCa};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::scene::{ALLOWED, Answer, Scene, Setting, comes_true, read_head, read_rest};

/// Long enough for what must not come.
const A_WHILE: Duration = Duration::from_millis(300);

/// `lazy_server.py`, and the requests that it says it has got.
struct LazyServer {
    process: Child,
    port: u16,
    got: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl LazyServer {
    fn start(ca: &TestCa) -> Self {
        let folder = TempDir::new().unwrap();
        let leaf = ca.issue(&[ALLOWED]).unwrap();
        let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        fs::write(&chain, &leaf.certificate_pem).unwrap();
        fs::write(&key, &leaf.key_pem).unwrap();
        let mut process = Command::new("python3")
            .args(["-c", include_str!("lazy_server.py")])
            .args([chain, key])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let got = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&got);
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| heard.lock().push(line)));
        Self { process, port, got, _folder: folder }
    }

    /// What it has got after a while in which more could have come.
    fn got(&self) -> Vec<String> {
        thread::sleep(A_WHILE);
        std::mem::take(&mut *self.got.lock())
    }
}

impl Drop for LazyServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A secret at such a server, with what its rule says.
fn lazy(rule: fn(EgressRule) -> EgressRule, follows: Follows) -> (Scene, LazyServer) {
    let ca = TestCa::new();
    let server = LazyServer::start(&ca);
    let from = Authority::parse("allowed.test:443").unwrap();
    let to = Authority::parse(&format!("127.0.0.1:{}", server.port)).unwrap();
    let config = EngineConfig { connect_to: [(from, to)].into(), ..EngineConfig::default() };
    let locations = follows.locations();
    (Scene::of(Setting { locations, rule, config, ..Setting::with(ca) }), server)
}

/// When a body follows its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    AtOnce,
    /// Once the answer is here, and too long to be read before it is sent.
    Late,
}

impl Follows {
    /// Where the value may go: a body that it can't be in is not read before it is sent.
    fn locations(self) -> Locations {
        match self {
            Self::AtOnce => Locations::ALL,
            Self::Late => Locations::from_iter([Location::Header]),
        }
    }
}

/// A request with the value and a body, its answer, and what comes of another request over the same connection.
fn two_requests(
    scene: &Scene,
    request: &str,
    more: &str,
    body: &str,
    follows: Follows,
) -> (Answer, Option<Answer>) {
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let bearer = format!("host: allowed.test\r\nauthorization: Bearer {}", scene.placeholder);
    let padding = if follows == Follows::Late { "y".repeat(300 << 10) } else { String::new() };
    let body = &format!("{body}{padding}");
    let length = body.len();
    let more = format!("{more}content-type: application/octet-stream\r\n");
    let head = format!("{request} HTTP/1.1\r\n{bearer}\r\n{more}content-length: {length}\r\n\r\n");
    let mut read_answer = |sent: &[&str], has_body: bool| {
        // A connection that is closed takes nothing.
        for part in sent {
            let _ = stream.write_all(part.as_bytes());
        }
        let mut text = read_head(&mut stream);
        while text.starts_with("HTTP/1.1 100") {
            text = read_head(&mut stream);
        }
        let mut answer = Answer::parse(&text);
        let said = answer.head.to_ascii_lowercase();
        let length = said.split_once("content-length: ").map(|(_, rest)| rest);
        let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if has_body && stream.read_exact(&mut body).is_ok() {
            answer.body = String::from_utf8(body).unwrap();
        }
        answer
    };
    let has_body = !request.starts_with("HEAD");
    let first = match follows {
        Follows::AtOnce => read_answer(&[&head, body], has_body),
        Follows::Late => read_answer(&[&head], has_body),
    };
    thread::sleep(A_WHILE);
    let late = if follows == Follows::Late { body } else { "" };
    let next = format!("GET /repos/acme/next HTTP/1.1\r\n{bearer}\r\n\r\n");
    let second = read_answer(&[late, &next], true);
    (first, Some(second).filter(|answer| answer.status > 0))
}

/// Rules, questions and the log see every request that is sent with a value.
#[test]
fn a_body_that_nobody_reads_is_no_request() {
    let begun = "GET /repos/other/secret HTTP/1.1\r\nHost: allowed.test\r\nX: ";
    for follows in [Follows::AtOnce, Follows::Late] {
        let allow = |rule| EgressRule {
            allow: vec![RequestRule::parse("GET,HEAD,DELETE,OPTIONS /repos/acme/**").unwrap()],
            ..rule
        };
        let (scene, server) = lazy(allow, follows);
        let whole = format!(
            "DELETE /repos/acme/all HTTP/1.1\r\nHost: allowed.test\r\nAuthorization: Bearer {}\r\n\r\n",
            scene.placeholder
        );
        for (method, body, more) in [
            ("GET", begun, ""),
            ("GET", begun, "expect: 100-continue\r\n"),
            ("GET", &whole, ""),
            ("HEAD", &whole, ""),
            ("DELETE", begun, ""),
            ("OPTIONS", &whole, "expect: 100-continue\r\n"),
        ] {
            if follows == Follows::Late && body == begun {
                continue;
            }
            let case = format!("{method} {follows:?} {more}{body}");
            let request = format!("{method} /repos/acme/x");
            let (answer, next) = two_requests(&scene, &request, more, body, follows);
            assert_eq!(answer.status, 200, "{case}: {}", answer.body);
            let got = server.got();
            let expected = [format!("{request} with"), "GET /repos/acme/next with".into()];
            assert!(got == expected || got == expected[..1], "{case}: {got:?}");
            if let Some(next) = next {
                assert_eq!(next.body, "seen /repos/acme/next", "{case}");
            }
        }
    }
}

/// Also what has a use for a body may be refused by its head alone.
#[test]
fn what_is_answered_early_has_its_answer_and_the_rest_is_not_sent() {
    let begun = "GET /repos/other/secret HTTP/1.1\r\nHost: allowed.test\r\nX: ";
    let whole = &format!("{begun}\r\n\r\n");
    for (follows, more, statuses) in [
        (Follows::Late, "", &["200", "401", "413"][..]),
        (Follows::Late, "expect: 100-continue\r\n", &["200", "404"]),
        (Follows::AtOnce, "", &["307", "401", "413", "503"]),
    ] {
        let (scene, server) = lazy(|rule| rule, follows);
        for status in statuses {
            let request = format!("POST /repos/acme/x?{status}");
            let body = if follows == Follows::Late { whole } else { begun };
            let (answer, next) = two_requests(&scene, &request, more, body, follows);
            assert_eq!(answer.status.to_string(), *status, "{follows:?} {more}{}", answer.body);
            assert!(answer.body.starts_with("seen /repos/acme/x"), "{}", answer.body);
            let got = server.got();
            assert_eq!(got[0], format!("{request} with"));
            // What left with the head is the server's to read; nothing of ours completes it.
            let is_other = |request: &&String| request.contains("other");
            let others: Vec<_> = got.iter().filter(is_other).collect();
            let is_inert = others.iter().all(|request| request.ends_with(" without"));
            assert!(
                is_inert && (others.is_empty() || follows == Follows::AtOnce),
                "{status}: {got:?}"
            );
            if let Some(next) = next {
                assert_eq!(next.body, "seen /repos/acme/next", "{status}");
            }
        }
    }
}

/// A body that its destination does not ask for stays here, and a server that does not know the word gets it after a while.
#[test]
fn a_body_waits_for_who_is_to_ask_for_it() {
    let no = "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 2\r\n\r\nno";
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    for (steps, status) in [
        (vec![Step::Pause(A_WHILE), Step::Send(no.into()), Step::ReadToEnd], 417),
        (vec![Step::Send(go_on.into()), Step::ReadBytes(9), Step::Send(ok.into())], 200),
        (vec![Step::ReadBytes(9), Step::Send(ok.into())], 200),
    ] {
        let ca = TestCa::new();
        let script = Script::new([Step::ReadHead].into_iter().chain(steps));
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1).script(script);
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
        let expect = "expect: 100-continue";
        let answer = scene.curl(&["-H", expect, "--data", "some=body", "https://allowed.test/"]);
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(comes_true(|| scene.allowed.connections().iter().all(|one| one.closed)));
        let sent = scene.allowed.everything_received();
        let is_sent = memchr::memmem::find(&sent, b"some=body").is_some();
        assert_eq!(is_sent, status == 200);
    }
}

/// As many handshakes as before where there is nothing to fear.
#[test]
fn ordinary_requests_share_a_connection() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let long = scene.path("long");
    fs::write(&long, vec![b'x'; 3 << 20]).unwrap();
    let long = format!("@{}", long.display());
    let chunked = "transfer-encoding: chunked";
    let binary = "content-type: application/octet-stream";
    for arguments in [
        &["https://allowed.test/echo"][..],
        &["--data", "a=b", "https://allowed.test/sink"],
        &["-X", "PUT", "--data-binary", &long, "https://allowed.test/sink"],
        &["-H", binary, "--data-binary", &long, "https://allowed.test/sink"],
        &["-H", chunked, "--data-binary", &long, "https://allowed.test/sink"],
        &["--http1.1", "-H", chunked, "--data", "a=b", "https://allowed.test/sink"],
        &["-X", "POST", "https://allowed.test/sink"],
        &["-X", "DELETE", "https://allowed.test/sink"],
        &["--head", "https://allowed.test/bytes?n=10"],
        &["https://allowed.test/status/404"],
    ] {
        let answer = scene.curl(arguments);
        assert!([200, 404].contains(&answer.status), "{arguments:?}: {}", answer.body);
    }
    assert_eq!(scene.allowed.connections().len(), 1);
    // One that has a body without a use says that it is the last.
    let answer = scene.curl(&["-X", "GET", "--data", "a=b", "https://allowed.test/sink"]);
    assert_eq!(answer.status, 200);
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(request.header("connection").as_deref(), Some("close"));
    assert_eq!(request.body, b"a=b");
    assert_eq!(scene.curl(&["https://allowed.test/echo"]).status, 200);
    assert_eq!(scene.allowed.connections().len(), 2);
}

/// What a destination says without having been asked answers nobody.
#[test]
fn bytes_beyond_an_answer_are_no_answer() {
    let beyond = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nbeyond";
    for (method, first) in [
        ("GET", format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok{beyond}")),
        (
            "GET",
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n{beyond}"
            ),
        ),
        ("HEAD", format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{beyond}", beyond.len())),
        (
            "GET",
            format!("HTTP/1.1 204 No Content\r\ncontent-length: {}\r\n\r\n{beyond}", beyond.len()),
        ),
        (
            "GET",
            format!(
                "HTTP/1.1 304 Not Modified\r\ncontent-length: {}\r\n\r\n{beyond}",
                beyond.len()
            ),
        ),
    ] {
        // In one piece with it, and after it.
        for cut in [first.len(), first.len() - beyond.len()] {
            let ca = TestCa::new();
            let script = Script::new([
                Step::ReadHead,
                Step::Send(first[..cut].to_owned().into()),
                Step::Pause(A_WHILE / 2),
                Step::Send(first[cut..].to_owned().into()),
                Step::ReadHead,
                Step::Send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate".into()),
                Step::StartOver,
            ]);
            let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1).script(script);
            let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
            let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
            let request = format!("{method} / HTTP/1.1\r\nhost: allowed.test\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let head = read_head(&mut stream);
            assert!(head.starts_with(&first[..12]), "{head}");
            if method == "GET" && head.starts_with("HTTP/1.1 200") {
                let whole = if head.contains("chunked") { 12 } else { 2 };
                stream.read_exact(&mut vec![0; whole]).unwrap();
            }
            thread::sleep(A_WHILE);
            let next = "GET /next HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n";
            stream.write_all(next.as_bytes()).unwrap();
            let rest = read_rest(&mut stream);
            assert_eq!(scene.allowed.connections().len(), 2, "{method} {first}: {rest}");
            assert!(rest.starts_with(&first[..12]), "{rest}");
        }
    }
}
