//! A company's own proxy on the way out, and hosts whose TLS is left alone.

use std::{
    io::{self, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use data_encoding::BASE64;
use keyless_core::{Authority, Destination};
use keyless_egress::{EngineConfig, Limits, ProxyCredential, UpstreamProxy};
use keyless_testkit::{OriginOptions, TestCa};
use zeroize::Zeroizing;

use crate::scene::{ALLOWED, Scene, Setting, read_head, read_rest};

/// A host that no DNS here knows.
const BEYOND: &str = "beyond.invalid";

/// A proxy that takes one credential and leads everything to one place.
struct Corporate {
    address: SocketAddr,
    leads_to: Arc<Mutex<Option<SocketAddr>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Corporate {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let corporate = Self {
            address: listener.local_addr().unwrap(),
            leads_to: Arc::default(),
            heads: Arc::default(),
        };
        let (leads_to, heads) = (Arc::clone(&corporate.leads_to), Arc::clone(&corporate.heads));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (leads_to, heads) = (Arc::clone(&leads_to), Arc::clone(&heads));
                thread::spawn(move || serve(client, &leads_to, &heads));
            }
        });
        corporate
    }

    fn settings(&self, credential: &str) -> EngineConfig {
        let pair = Zeroizing::new(credential.to_owned());
        let proxy = UpstreamProxy {
            address: Authority::parse(&self.address.to_string()).unwrap(),
            credential: ProxyCredential::new(pair),
            direct: Vec::new(),
        };
        EngineConfig { upstream_proxy: Some(proxy), ..EngineConfig::default() }
    }
}

fn serve(
    mut client: TcpStream,
    leads_to: &Mutex<Option<SocketAddr>>,
    heads: &Mutex<Vec<String>>,
) -> Option<()> {
    let head = read_head(&mut client);
    let knows = head.contains(&format!("Basic {}", BASE64.encode(b"staff:pass")));
    heads.lock().unwrap().push(head);
    if !knows {
        client.write_all(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n").ok()?;
        return None;
    }
    let mut server = TcpStream::connect(leads_to.lock().unwrap().as_ref()?).ok()?;
    client.write_all(b"HTTP/1.1 200 Connected\r\nVia: staff\r\n\r\n").ok()?;
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    io::copy(&mut server, &mut client).ok()?;
    client.shutdown(Shutdown::Both).ok()
}

fn beyond(corporate: &Corporate, credential: &str) -> Scene {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED, BEYOND]),
        destinations: vec![ALLOWED, BEYOND],
        config: corporate.settings(credential),
        ..Setting::with(ca)
    });
    *corporate.leads_to.lock().unwrap() = Some(scene.allowed.address());
    scene
}

#[test]
fn a_company_proxy_sees_names_and_no_value() {
    let corporate = Corporate::start();
    let scene = beyond(&corporate, "staff:pass");
    let bearer = format!("authorization: Bearer {}", scene.placeholder);
    let answer = scene.curl(&["-H", &bearer, "https://beyond.invalid/x"]);
    assert_eq!(answer.status, 200, "{}{}", answer.head, answer.body);
    let expected = format!("Bearer {}", scene.canary.value());
    assert_eq!(scene.allowed.requests()[0].header("authorization"), Some(expected));
    scene.assert_sealed(&answer);
    let heads = corporate.heads.lock().unwrap().clone();
    assert!(heads[0].starts_with("CONNECT beyond.invalid:443 HTTP/1.1\r\n"), "{heads:?}");
    scene.canary.assert_absent("the company's proxy", heads.concat().as_bytes());
    // The operator's exact routes go past it.
    assert_eq!(scene.curl(&["https://allowed.test/"]).status, 200);
    assert_eq!(corporate.heads.lock().unwrap().len(), heads.len());
    // Inside is inside, proxy or not.
    let inside = scene.curl(&["https://localhost/"]);
    assert_eq!(inside.status, 0, "{}", inside.head);
    assert_eq!(corporate.heads.lock().unwrap().len(), heads.len());
}

#[test]
fn a_credential_that_it_does_not_take_is_told() {
    let corporate = Corporate::start();
    let scene = beyond(&corporate, "staff:wrong");
    let answer = scene.curl(&["https://beyond.invalid/"]);
    assert_eq!(answer.refusal(), Some("upstream_proxy_failed"), "{}", answer.body);
    assert!(answer.body.contains("does not take our credential (407)"), "{}", answer.body);
    assert!(!answer.body.contains("wrong"), "{}", answer.body);
}

/// Behind one that drops packets it is not the destination that fails; what a proxy waits for itself may be either's doing.
#[test]
fn one_that_does_not_answer_is_told_apart_from_its_destinations() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let corporate = Corporate { address, leads_to: Arc::default(), heads: Arc::default() };
    let limits = Limits { connect_time: Duration::from_secs(1), ..Limits::default() };
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        destinations: vec![ALLOWED, BEYOND],
        config: EngineConfig { limits, ..corporate.settings("staff:pass") },
        ..Setting::with(ca)
    });
    let (head, _) = scene.connect("elsewhere.invalid:443");
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    assert!(head.contains("x-keyless-refused: connect_timeout"), "{head}");
    // Of a queue that is full the kernel drops what comes.
    rustix::net::listen(&listener, 0).unwrap();
    let waiting: Vec<_> = (0..4)
        .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok())
        .collect();
    assert!(waiting.len() < 4, "the queue is not full");
    let (head, mut rest) = scene.connect("elsewhere.invalid:443");
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    assert!(head.contains("x-keyless-refused: upstream_proxy_failed"), "{head}");
    let body = read_rest(&mut rest);
    assert!(body.contains("(it does not answer)"), "{body}");
    let answer = scene.curl(&["https://beyond.invalid/"]);
    assert_eq!(answer.refusal(), Some("upstream_proxy_failed"), "{}", answer.body);
}

#[test]
fn hosts_that_are_passed_through_keep_their_certificate_and_get_no_value() {
    let pass_through = vec![Destination::parse(ALLOWED).unwrap()];
    let config = EngineConfig { pass_through, ..EngineConfig::default() };
    let scene = Scene::of(Setting { config, ..Setting::default() });
    let bearer = format!("authorization: Bearer {}", scene.placeholder);
    let credential = scene.session.proxy_credential();
    let arguments = ["-H", &bearer, "https://allowed.test/"];
    let answer = scene.curl_as(&credential, "origin.pem", &arguments);
    assert_eq!(answer.status, 200, "{}{}", answer.head, answer.body);
    let expected = format!("Bearer {}", scene.placeholder);
    assert_eq!(scene.allowed.requests()[0].header("authorization"), Some(expected));
    scene.canary.assert_absent("the origin", &scene.allowed.everything_received());
}
