use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::Arc,
};

use keyless_core::{Authority, Code};
use keyless_egress::{EngineConfig, Limits, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::scene::{
    ALLOWED, Answer, OTHER, PATIENCE, Scene, Setting, comes_true, hasty, read_head, read_rest,
};

#[test]
fn connect_swaps_for_the_named_host_alone() {
    let scene = Scene::new();
    let bearer = format!("authorization: Bearer {}", scene.placeholder);
    let answer = scene.curl(&["-H", &bearer, "https://allowed.test/echo"]);
    assert_eq!(answer.status, 200, "{}{}", answer.head, answer.body);
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(
        request.header("authorization").unwrap(),
        format!("Bearer {}", scene.canary.value())
    );
    assert!(answer.body.contains(&scene.placeholder), "the echo is scrubbed: {}", answer.body);
    scene.assert_sealed(&answer);

    // The other host is a tunnel: its own certificate, the placeholder as it is.
    let answer = scene.curl_as(
        &scene.session.proxy_credential(),
        "origin.pem",
        &["-H", &bearer, "https://other.test/"],
    );
    assert_eq!(answer.status, 200, "{}{}", answer.head, answer.body);
    let request = scene.other.requests().pop().unwrap();
    assert_eq!(request.header("authorization").unwrap(), format!("Bearer {}", scene.placeholder));
    assert!(scene.broker.events.lock().iter().any(|event| event.note.as_str() == "tunnel"));
    scene.assert_sealed(&answer);
}

#[test]
fn no_credential_no_look_up() {
    let scene = Scene::new();
    let answer = scene.curl_as("session-1:wrong", "session.pem", &["https://allowed.test/"]);
    assert_eq!(answer.status, 0);
    assert!(answer.body.contains("407"), "{}", answer.body);
    scene.assert_refused(&[Code::ProxyAuthRequired]);
    for credential in ["nobody:x", "session-1", ":"] {
        let answer = scene.curl_as(credential, "session.pem", &["http://allowed.test/"]);
        assert_eq!((answer.status, answer.refusal()), (407, Some("proxy_auth_required")));
        assert!(answer.head.to_ascii_lowercase().contains("proxy-authenticate: basic"));
    }
    scene.assert_refused(&[Code::ProxyAuthRequired; 4]);
    assert!(scene.allowed.connections().is_empty());
}

#[test]
fn the_proxys_credential_stays_here() {
    let scene = Scene::of(Setting {
        other: keyless_testkit::OriginOptions::cleartext(),
        ..Setting::default()
    });
    let answer = scene.curl(&["http://other.test/echo?a=%2F&b"]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let request = scene.other.requests().pop().unwrap();
    assert_eq!(request.target, "/echo?a=%2F&b");
    assert_eq!(request.header("proxy-authorization"), None);
    assert_eq!(request.header("proxy-connection"), None);
    assert_eq!(request.header("host").unwrap(), OTHER);
}

/// Nothing in the head of a CONNECT reaches the destination, and names are told to name servers.
#[test]
fn a_placeholder_in_a_connect_goes_nowhere() {
    let scene = Scene::new();
    let placeholder = &scene.placeholder;
    let lower = placeholder.to_ascii_lowercase();
    for (target, field) in [
        (format!("{placeholder}.other.test:443"), "x: y".to_owned()),
        (format!("{lower}.other.test:443"), "x: y".to_owned()),
        ("other.test:443".to_owned(), format!("x: {placeholder}")),
        ("allowed.test:443".to_owned(), format!("user-agent: a {placeholder}")),
    ] {
        let credential = data_encoding::BASE64.encode(scene.session.proxy_credential().as_bytes());
        let mut stream = scene.plain();
        write!(
            stream,
            "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{field}\r\n\
             proxy-authorization: Basic {credential}\r\n\r\n"
        )
        .unwrap();
        let answer = Answer::parse(&read_head(&mut stream));
        let refusal = (answer.status, answer.refusal());
        assert_eq!(refusal, (403, Some("location_not_allowed")), "{target} {field}");
    }
    let socket = preamble_socket(&scene);
    let mut stream = dial(&socket, format!("{placeholder}.other.test:443\n").as_bytes());
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let answer = scene.curl(&[&format!("http://{lower}.other.test/")]);
    assert_eq!(answer.refusal(), Some("location_not_allowed"));
    scene.assert_refused(&[Code::LocationNotAllowed; 6]);
    assert!(scene.allowed.connections().is_empty() && scene.other.connections().is_empty());
}

#[test]
fn cleartext_to_the_secrets_host_is_refused() {
    let scene = Scene::new();
    let bearer = format!("authorization: Bearer {}", scene.placeholder);
    let answer = scene.curl(&["-H", &bearer, "http://allowed.test/"]);
    assert_eq!((answer.status, answer.refusal()), (403, Some("cleartext")), "{}", answer.body);
    assert!(answer.body.contains("\"remediation\""));
    assert!(scene.allowed.recorded().is_empty());
    scene.assert_refused(&[Code::Cleartext]);
}

/// Nothing listens there, and nobody is asked: the reason is the cleartext, not the closed port.
#[test]
fn cleartext_is_refused_before_anything_is_dialled() {
    let scene = Scene::new();
    let bearer = format!("Authorization: Bearer {}", scene.placeholder);
    let answer = scene.curl(&["-H", &bearer, "http://allowed.test:81/"]);
    assert_eq!((answer.status, answer.refusal()), (403, Some("cleartext")), "{}", answer.body);
}

#[test]
fn origin_form_at_the_proxy_is_refused() {
    let scene = Scene::new();
    let credential = data_encoding::BASE64.encode(scene.session.proxy_credential().as_bytes());
    let mut stream = scene.plain();
    write!(
        stream,
        "GET / HTTP/1.1\r\nhost: a.test\r\nproxy-authorization: Basic {credential}\r\n\r\n"
    )
    .unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 400"));
}

#[test]
fn a_preamble_names_the_destination() {
    let scene = Scene::new();
    let socket = preamble_socket(&scene);
    let stream = dial(&socket, b"allowed.test:443\n");
    let mut tls = rustls::StreamOwned::new(scene.tls_client(ALLOWED, &[]), stream);
    write!(
        tls,
        "GET /echo HTTP/1.1\r\nhost: {ALLOWED}\r\nx: {}\r\nconnection: close\r\n\r\n",
        scene.placeholder
    )
    .unwrap();
    let answer = Answer::parse(&read_rest(&mut tls));
    assert_eq!(answer.status, 200, "{}", answer.head);
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(request.header("x").unwrap(), scene.canary.value());
    scene.assert_sealed(&answer);
}

#[test]
fn bad_preambles_are_closed_with_an_entry() {
    let scene = Scene::of(Setting {
        config: EngineConfig { limits: hasty(), ..EngineConfig::default() },
        ..Setting::default()
    });
    let socket = preamble_socket(&scene);
    let mut refused = Vec::new();
    for (bytes, code) in [
        (&b"no port\n"[..], Code::BadRequest),
        (&[b'a'; 1024], Code::BadRequest),
        (b"allowed.test:4", Code::BadRequest),
        (b"8.8.8.8:443\n", Code::RawAddress),
        (b"allowed.test:25\n", Code::PortRefused),
        (b"localhost:8000\n", Code::InternalDestination),
    ] {
        let mut stream = dial(&socket, bytes);
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = read_rest(&mut stream);
        let (is_mail, is_told) = (answer.starts_with("554 "), answer.contains("the preamble: "));
        let is_unreadable = !bytes.ends_with(b"\n") || bytes.contains(&b' ');
        assert_eq!(is_told && answer.starts_with("keyless: "), is_unreadable, "{answer}");
        assert!(is_told || is_mail || answer.is_empty(), "{answer}");
        refused.push(code);
        scene.assert_refused(&refused);
    }
}

#[test]
fn a_server_may_speak_first_through_a_tunnel() {
    let scene = Scene::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 ready\r\n").unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        stream.write_all(heard.to_ascii_uppercase().as_bytes()).unwrap();
    });
    let name = format!("127.0.0.1:{port}");
    let allowed = Scene::of(Setting {
        config: EngineConfig {
            internal_allowlist: vec![Authority::parse(&name).unwrap()],
            ..EngineConfig::default()
        },
        ..Setting::default()
    });
    drop(scene);
    let (head, mut stream) = allowed.connect(&name);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut greeting = [0; 11];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_rest(&mut stream), "HELLO", "a half-close is passed on");
    server.join().unwrap();
}

#[test]
fn raw_addresses_are_refused_and_logged() {
    let scene = Scene::new();
    let (ours, theirs) = tokio::io::duplex(64);
    let target = Target::RawAddress("93.184.216.34:443".parse().unwrap());
    scene.runtime.block_on(scene.engine.serve_stream(Arc::clone(&scene.session), theirs, target));
    drop(ours);
    scene.assert_refused(&[Code::RawAddress]);
    let authority = scene.broker.events.lock()[0].authority.clone().unwrap();
    assert_eq!(authority.to_string(), "93.184.216.34:443");
    // At every door the same.
    let (head, _) = scene.connect("93.184.216.34:443");
    assert!(head.contains("x-keyless-refused: raw_address"), "{head}");
    let answer = scene.curl(&["http://93.184.216.34/"]);
    assert_eq!((answer.status, answer.refusal()), (403, Some("raw_address")));
    let (head, _) = scene.connect("[2606:4700::1111]:443");
    assert!(head.contains("x-keyless-refused: raw_address"), "{head}");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let scene = Scene::of(Setting {
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let others = [scene.connect("other.test:443"), scene.connect("allowed.test:443")];
    assert!(others.iter().all(|(head, _)| head.starts_with("HTTP/1.1 200")));
    let (head, _) = scene.connect("other.test:443");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(head.contains("too_many_connections"));
    drop(others);
    assert!(comes_true(|| scene.connect("other.test:443").0.starts_with("HTTP/1.1 200")));
}

/// Where the client knows of no proxy: in the clear as an answer, else as an alert.
#[test]
fn one_connection_too_many_is_told_so_at_the_other_doors() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let scene = Scene::of(Setting {
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let (head, first) = scene.connect("allowed.test:443");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let socket = preamble_socket(&scene);
    for host in [ALLOWED, OTHER] {
        let request = format!("{host}:80\nGET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let mut stream = dial(&socket, request.as_bytes());
        let answer = Answer::parse(&read_head(&mut stream));
        assert_eq!((answer.status, answer.refusal()), (503, Some("too_many_connections")));
    }
    let mut stream = dial(&socket, b"allowed.test:443\n\x16\x03\x01");
    let mut alert = [0; 7];
    stream.read_exact(&mut alert).unwrap();
    assert_eq!(alert, [0x15, 3, 3, 0, 2, 2, 80]);

    let (mut ours, theirs) = tokio::io::duplex(4096);
    let target = Target::Name(Authority::parse("allowed.test:80").unwrap());
    let (engine, session) = (Arc::clone(&scene.engine), Arc::clone(&scene.session));
    scene.runtime.spawn(async move { engine.serve_stream(session, theirs, target).await });
    let answer = scene.runtime.block_on(async {
        ours.write_all(b"GET / HTTP/1.1\r\nhost: allowed.test\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        ours.read_exact(&mut answer).await.unwrap();
        answer
    });
    assert_eq!(&answer, b"HTTP/1.1 503");
    drop(ours);
    drop(first);
    scene.assert_refused(&[Code::TooManyConnections; 4]);
}

#[test]
fn one_request_too_many_is_told_so() {
    let limits = Limits { requests: 1, ..Limits::default() };
    let scene = Scene::of(Setting {
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let ask = |path: &str| {
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        let head = format!("GET {path} HTTP/1.1\r\nhost: {ALLOWED}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        (read_head(&mut stream), stream)
    };
    let (head, slow) = ask("/drip?n=4000&chunk=1&ms=20");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (head, _) = ask("/status/204");
    assert!(head.contains("x-keyless-refused: too_many_connections"), "{head}");
    drop(slow);
    assert!(comes_true(|| ask("/status/204").0.starts_with("HTTP/1.1 204")));
}

#[test]
fn a_closed_session_is_over() {
    let scene = Scene::new();
    let (_, mut tunnel) = scene.connect("other.test:443");
    let mut kept = scene.tls(ALLOWED, &[b"http/1.1"]);
    let request = format!("GET /status/204 HTTP/1.1\r\nhost: {ALLOWED}\r\n\r\n");
    kept.write_all(request.as_bytes()).unwrap();
    assert!(read_head(&mut kept).starts_with("HTTP/1.1 204"));
    scene.engine.close(scene.session.id());
    assert_eq!(tunnel.read(&mut [0]).unwrap_or(0), 0, "the tunnel is cut");
    kept.write_all(request.as_bytes()).unwrap();
    let answer = Answer::parse(&read_rest(&mut kept));
    assert_eq!((answer.status, answer.refusal()), (403, Some("session_ended")));
    assert!(scene.connect("other.test:443").0.starts_with("HTTP/1.1 407"));
}

fn preamble_socket(scene: &Scene) -> std::path::PathBuf {
    let path = scene.path("egress.sock");
    let _context = scene.runtime.enter();
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    scene.runtime.spawn(Arc::clone(&scene.engine).serve_unix(listener, Arc::clone(&scene.session)));
    path
}

fn dial(socket: &std::path::Path, preamble: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(preamble).unwrap();
    stream
}

#[test]
fn bytes_right_after_connect_belong_to_the_tunnel() {
    let scene = Scene::new();
    let mut client = scene.tls_client(ALLOWED, &[b"http/1.1"]);
    let credential = data_encoding::BASE64.encode(scene.session.proxy_credential().as_bytes());
    let mut bytes = format!(
        "CONNECT allowed.test:443 HTTP/1.1\r\nhost: allowed.test:443\r\nproxy-authorization: Basic {credential}\r\n\r\n"
    )
    .into_bytes();
    client.write_tls(&mut bytes).unwrap();
    let mut stream = scene.plain();
    stream.write_all(&bytes).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
    let mut tls = rustls::StreamOwned::new(client, stream);
    tls.write_all(b"GET / HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(Answer::parse(&read_rest(&mut tls)).status, 200);
}

#[test]
fn a_refusal_of_a_large_upload_arrives() {
    let scene = Scene::new();
    let body = scene.path("upload");
    std::fs::write(&body, vec![b'x'; 32 << 20]).unwrap();
    let unknown = format!("authorization: Bearer kloak_{}", "0".repeat(26));
    let data = format!("@{}", body.display());
    for client in ["--http1.1", "--http2"] {
        let answer = scene.curl(&[
            client,
            "-H",
            "expect:",
            "-H",
            &unknown,
            "--data-binary",
            &data,
            "https://allowed.test/sink",
        ]);
        assert_eq!(answer.refusal(), Some("unknown_placeholder"), "{client} {}", answer.body);
    }
    assert!(scene.allowed.requests().is_empty());
}
