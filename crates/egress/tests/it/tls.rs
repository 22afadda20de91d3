use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use keyless_core::{Authority, EgressRule, Signer};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{OriginOptions, TestCa};

use crate::scene::{ALLOWED, Answer, Scene, Setting, comes_true, read_rest};

#[test]
fn a_strict_openssl_verifies_the_leaf() {
    let scene = Scene::new();
    let mut tls = scene.tls(ALLOWED, &[]);
    tls.flush().unwrap();
    tls.write_all(b"x").unwrap();
    let chain = tls.conn.peer_certificates().unwrap().to_vec();
    std::fs::write(scene.path("leaf.der"), &chain[0]).unwrap();
    let verify = Command::new("openssl")
        .args(["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", ALLOWED])
        .arg("-CAfile")
        .arg(scene.path("session.pem"))
        .arg(scene.path("leaf.der"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&verify.stderr).into_owned();
    assert!(verify.status.success(), "{words}");
    let text =
        openssl(&["x509", "-inform", "DER", "-noout", "-text", "-in"], &scene.path("leaf.der"));
    for part in [
        "DNS:allowed.test",
        "CA:FALSE",
        "Digital Signature",
        "TLS Web Server Authentication",
        "X509v3 Subject Key Identifier",
        "X509v3 Authority Key Identifier",
        "prime256v1",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let authority = openssl(&["x509", "-noout", "-text", "-in"], &scene.path("session.pem"));
    for part in ["CA:TRUE, pathlen:0", "Certificate Sign", "Subject Key Identifier", "prime256v1"] {
        assert!(authority.contains(part), "{part} is missing: {authority}");
    }
    let days_3 = (48 * 3600).to_string();
    let expires = Command::new("openssl")
        .args(["x509", "-noout", "-checkend", &days_3, "-in"])
        .arg(scene.path("session.pem"))
        .status()
        .unwrap();
    assert!(!expires.success(), "the authority lives at most 48 hours");
}

#[test]
fn no_sni_takes_the_connections_name() {
    let scene = Scene::new();
    let mut config = scene.tls_config(&[b"http/1.1"]);
    config.enable_sni = false;
    let name = ALLOWED.try_into().unwrap();
    let client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let (_, stream) = scene.connect("allowed.test:443");
    let mut tls = rustls::StreamOwned::new(client, stream);
    tls.write_all(b"GET / HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(Answer::parse(&read_rest(&mut tls)).status, 200);
}

#[test]
fn a_client_hello_may_come_in_pieces() {
    let scene = Scene::new();
    let mut client = scene.tls_client(ALLOWED, &[b"http/1.1"]);
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    // Two records out of one, and each byte in its own segment.
    let body = &hello[5..];
    let (first, second) = body.split_at(body.len() / 3);
    let mut bytes = Vec::new();
    for part in [first, second] {
        bytes.extend([0x16, 3, 1]);
        bytes.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend(part);
    }
    let (_, mut stream) = scene.connect("allowed.test:443");
    stream.set_nodelay(true).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        stream.write_all(&[*byte]).unwrap();
        if at % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let mut tls = rustls::StreamOwned::new(client, stream);
    tls.write_all(b"GET / HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(Answer::parse(&read_rest(&mut tls)).status, 200);
}

#[test]
fn an_old_client_gets_an_alert() {
    let scene = Scene::new();
    let (_, mut stream) = scene.connect("allowed.test:443");
    // A ClientHello that offers TLS 1.0 alone.
    let mut hello = vec![1, 0, 0, 41, 3, 1];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 47, 1, 0]);
    let mut record = vec![0x16, 3, 1, 0, u8::try_from(hello.len()).unwrap()];
    record.extend(hello);
    stream.write_all(&record).unwrap();
    let mut answer = [0; 7];
    let read = stream.read(&mut answer).unwrap_or(0);
    assert!(read == 0 || answer[0] == 0x15, "{answer:?}");
}

#[test]
fn tls_1_2_and_1_3_are_spoken() {
    let scene = Scene::new();
    for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        let mut arguments = version.to_vec();
        arguments.push("https://allowed.test/");
        assert_eq!(scene.curl(&arguments).status, 200, "{version:?}");
    }
}

#[test]
fn an_upstream_that_cannot_prove_its_name_gets_nothing() {
    let ca = TestCa::new();
    let stranger = TestCa::new();
    for (what, allowed) in [
        ("expired", OriginOptions::tls(&ca, &[ALLOWED]).expired()),
        ("wrong name", OriginOptions::tls(&ca, &["else.test"])),
        ("unknown authority", OriginOptions::tls(&stranger, &[ALLOWED])),
        ("no TLS at all", OriginOptions::cleartext()),
    ] {
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca.clone()) });
        let bearer = format!("authorization: Bearer {}", scene.placeholder);
        let answer = scene.curl(&["-H", &bearer, "https://allowed.test/"]);
        assert_eq!((answer.status, answer.refusal()), (502, Some("upstream_tls")), "{what}");
        assert!(scene.allowed.requests().is_empty(), "{what}");
        assert!(scene.broker.releases.lock().is_empty(), "{what}: no value was asked for");
        scene.canary.assert_absent("the origin", &scene.allowed.everything_received());
    }
}

/// What `openssl req -x509` makes is an authority's, and what a server of old speaks is no matter of its name.
#[test]
fn an_upstream_of_openssls_own_making_is_told_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (key, cert) = (folder.path().join("key"), folder.path().join("cert"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=allowed.test", "-addext", "subjectAltName=DNS:allowed.test"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success());
    for (version, code, words) in [
        ("-tls1_2", "upstream_tls", "basicConstraints=CA:FALSE"),
        ("-tls1_1", "upstream_protocol", "which are 1.2 and 1.3"),
    ] {
        let port = free_port();
        let at = format!("127.0.0.1:{port}");
        let mut server = Command::new("openssl")
            .args(["s_server", "-www", version, "-cipher", "DEFAULT@SECLEVEL=0", "-accept", &at])
            .arg("-key")
            .arg(&key)
            .arg("-cert")
            .arg(&cert)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert!(comes_true(|| TcpStream::connect(&at).is_ok()));
        let route = (Authority::parse("allowed.test:443").unwrap(), Authority::parse(&at).unwrap());
        let config = EngineConfig {
            connect_to: [route].into(),
            extra_roots_pem: vec![std::fs::read(&cert).unwrap()],
            ..EngineConfig::default()
        };
        let scene = Scene::of(Setting { config, ..Setting::default() });
        let answer = scene.curl(&["https://allowed.test/"]);
        let _ = server.kill().and_then(|()| server.wait());
        assert_eq!((answer.status, answer.refusal()), (502, Some(code)), "{}", answer.body);
        assert!(answer.body.contains(words), "{}", answer.body);
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn openssl(arguments: &[&str], file: &std::path::Path) -> String {
    let output = Command::new("openssl").args(arguments).arg(file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A client's key is released before there is room for its request: that it was is told all the same.
#[test]
fn what_is_released_to_a_request_without_room_comes_to_an_end() {
    let limits = Limits { requests: 0, ..Limits::default() };
    let scene = Scene::of(Setting {
        rule: |rule| EgressRule { sign: Some(Signer::TlsClient { chain: None }), ..rule },
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let answer = scene.curl(&["https://allowed.test/"]);
    assert_eq!((answer.status, answer.refusal()), (503, Some("too_many_connections")));
    let released = scene.broker.releases.lock()[0].correlation_id.clone();
    let is_over = || scene.broker.finished.lock().iter().any(|it| it.correlation_id == released);
    assert!(comes_true(is_over));
}
