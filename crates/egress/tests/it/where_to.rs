use std::io::Write as _;

use http::Request;
use keyless_core::{Authority, Code, Destination};
use keyless_egress::{Allowance, EgressPolicy, EngineConfig};

use crate::{
    scene::{ALLOWED, Answer, Scene, Setting, read_head, read_rest},
    streams,
};

#[test]
fn internal_addresses_are_refused_in_every_spelling() {
    let scene = Scene::new();
    for target in [
        "127.0.0.1:443",
        "10.0.0.1:443",
        "172.16.0.1:443",
        "192.168.0.1:443",
        "169.254.169.254:80",
        "0.0.0.0:443",
        "100.64.0.1:443",
        "192.0.0.170:443",
        "198.18.0.1:443",
        "240.0.0.1:443",
        "224.0.0.1:443",
        "[fd00::1]:443",
        "[fe80::1]:443",
        "[::1]:443",
        "[::]:443",
        "[fec0::1]:443",
        "[::ffff:169.254.169.254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "[64:ff9b:1::a9fe:a9fe]:80",
        "[2002:a9fe:a9fe::]:80",
        "[2001:0:4136:e378:8000:63bf:f5ff:fffe]:80",
        "[::a9fe:a9fe]:80",
        "[::ffff:0:7f00:1]:80",
        "[0:0:0:0:0:ffff:a9fe:a9fe]:80",
    ] {
        let (head, _) = scene.connect(target);
        assert!(head.starts_with("HTTP/1.1 403"), "{target}: {head}");
        assert!(head.contains("x-keyless-refused: raw_address"), "{target}: {head}");
    }
    let (head, _) = scene.connect("localhost:8000");
    assert!(head.contains("x-keyless-refused: internal_destination"), "{head}");
    for target in ["[fe80::1%25eth0]:443", "0x7f.1:443", "2130706433:443", "127.1:443", "a..b:443"]
    {
        let (head, _) = scene.connect(target);
        assert!(head.starts_with("HTTP/1.1 400"), "{target}: {head}");
    }
}

#[test]
fn mail_and_shells_are_not_carried() {
    let scene = Scene::new();
    for port in [22, 25, 465, 587] {
        let (head, _) = scene.connect(&format!("github.test:{port}"));
        assert!(head.contains("x-keyless-refused: port_refused"), "{head}");
    }
}

#[test]
fn names_that_do_not_exist_are_a_bad_gateway() {
    let scene = Scene::new();
    let (head, _) = scene.connect("no-such-host.invalid:443");
    let expected = ["HTTP/1.1 502", "HTTP/1.1 504"];
    assert!(expected.iter().any(|status| head.starts_with(status)), "{head}");
}

#[test]
fn a_dead_destination_is_a_bad_gateway() {
    let route =
        |from: &str| (Authority::parse(from).unwrap(), Authority::parse("127.0.0.1:1").unwrap());
    let scene = Scene::of(Setting {
        config: EngineConfig {
            connect_to: [route("dead.test:443"), route("allowed.test:443")].into(),
            ..EngineConfig::default()
        },
        ..Setting::default()
    });
    let (head, _) = scene.connect("dead.test:443");
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    assert!(head.contains("connect_failed"), "{head}");
    let answer = scene.curl(&["https://allowed.test/"]);
    assert_eq!((answer.status, answer.refusal()), (502, Some("connect_failed")));
}

#[test]
fn a_list_confines_egress_to_itself_and_the_secrets_hosts() {
    let listed = vec![Destination::parse("listed.test").unwrap()];
    let scene = Scene::of(Setting {
        config: EngineConfig { policy: EgressPolicy::Allowlist(listed), ..EngineConfig::default() },
        ..Setting::default()
    });
    let (head, _) = scene.connect("unlisted.test:443");
    assert!(head.contains("x-keyless-refused: destination_not_listed"), "{head}");
    let (head, _) = scene.connect("listed.test:8443");
    assert!(head.contains("x-keyless-refused: destination_not_listed"), "{head}");
    assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
}

#[test]
fn an_internal_exception_is_exactly_its_word() {
    let scene = Scene::of(Setting {
        config: EngineConfig {
            internal_allowlist: vec![Authority::parse("localhost:9").unwrap()],
            ..EngineConfig::default()
        },
        ..Setting::default()
    });
    let code = |target: &str| scene.connect(target).0;
    assert!(code("localhost:9").contains("connect_failed"), "it may be tried");
    assert!(code("localhost:10").contains("internal_destination"));
    assert!(code("127.0.0.1:9").contains("raw_address"));
}

#[test]
fn one_authority_or_none() {
    let scene = Scene::new();
    for request in [
        "GET / HTTP/1.1\r\nhost: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: allowed.test:8443\r\n\r\n",
        "GET https://other.test/ HTTP/1.1\r\nhost: allowed.test\r\n\r\n",
    ] {
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        stream
            .write_all(request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let answer = Answer::parse(&read_rest(&mut stream));
        assert_eq!(
            (answer.status, answer.refusal()),
            (421, Some("authority_mismatch")),
            "{request}"
        );
    }
    assert!(scene.allowed.recorded().is_empty());
    scene.assert_refused(&[Code::AuthorityMismatch; 3]);
    for host in ["ALLOWED.test", "allowed.test.", "allowed.test:443"] {
        let answer = scene.curl(&["-H", &format!("host: {host}"), "https://allowed.test/"]);
        assert_eq!(answer.status, 200, "{host}");
    }
    let answer = scene.curl(&["--http2", "-H", "host: other.test", "https://allowed.test/"]);
    assert_eq!(answer.status, 421);
    scene.assert_refused(&[Code::AuthorityMismatch; 4]);
    assert_all_name_the_host(&scene);
}

#[test]
fn a_connect_whose_host_names_another_is_told_so() {
    let scene = Scene::new();
    let credential = data_encoding::BASE64.encode(scene.session.proxy_credential().as_bytes());
    let of_another = "the CONNECT is for allowed.test:443, its field Host names other.test:443";
    for (host, status, why) in [
        ("other.test:443", 421, of_another),
        ("other.test", 421, of_another),
        ("allowed.test:8443", 421, "its field Host names allowed.test:8443"),
        ("allowed.test:x", 400, "its field Host: the port is not a number"),
        ("allowed.test", 200, ""),
        ("ALLOWED.test.:443", 200, ""),
    ] {
        let mut stream = scene.plain();
        let head = format!(
            "CONNECT allowed.test:443 HTTP/1.1\r\nhost: {host}\r\nproxy-authorization: Basic {credential}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = read_head(&mut stream);
        if status != 200 {
            text += &read_rest(&mut stream);
        }
        let answer = Answer::parse(&text);
        assert_eq!(answer.status, status, "{host}: {text}");
        assert!(answer.body.contains(why) && !answer.body.contains("target"), "{host}: {text}");
    }
    assert_all_name_the_host(&scene);
}

/// What is refused before a destination is agreed upon is logged with the one that the connection, or the URL, is for.
#[test]
fn every_refused_request_is_logged_with_its_host() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let stream = streams::tls(&scene).await;
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let get = Request::get("https://allowed.test/status/204").body(()).unwrap();
        let mut requests = requests.ready().await.unwrap();
        // By its answer the client knows the server's settings, which allow what follows.
        let (answer, _) = requests.send_request(get, true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 204);
        let udp = h2::ext::Protocol::from_static("connect-udp");
        for (protocol, status) in [(None, 400), (Some(udp), 403)] {
            let mut open = Request::connect("https://allowed.test/").body(()).unwrap();
            protocol.map(|protocol| open.extensions_mut().insert(protocol));
            let (answer, _stream) = requests.send_request(open, false).unwrap();
            assert_eq!(answer.await.unwrap().status(), status);
        }
    });
    scene.reload(|config| {
        config.allowance = Allowance { requests_per_minute: Some(0), bytes_per_hour: None };
    });
    for url in ["https://allowed.test/", "http://allowed.test/"] {
        assert_eq!(scene.curl(&[url]).refusal(), Some("quota_exceeded"));
    }
    let codes = [Code::BadRequest, Code::UpgradeRefused, Code::QuotaExceeded, Code::QuotaExceeded];
    scene.assert_refused(&codes);
    assert_all_name_the_host(&scene);
}

#[track_caller]
fn assert_all_name_the_host(scene: &Scene) {
    for event in &*scene.broker.events.lock() {
        let host = event.authority.as_ref().map(|authority| authority.host.to_string());
        assert_eq!(host.as_deref(), Some(ALLOWED), "{event:?}");
    }
}

#[test]
fn connect_and_sni_must_agree() {
    let scene = Scene::new();
    let (_, stream) = scene.connect("allowed.test:443");
    let mut tls = rustls::StreamOwned::new(scene.tls_client("other.test", &[]), stream);
    let error = tls.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap_err();
    assert!(error.to_string().contains("UnrecognisedName"), "{error}");
    assert!(scene.waits_for(Code::AuthorityMismatch));
    let (head, _) = scene.connect("ALLOWED.TEST.:443");
    assert!(head.starts_with("HTTP/1.1 200"));
}
