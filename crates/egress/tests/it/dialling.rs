//! How destinations are dialled when many ask at once.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use http::StatusCode;
use keyless_core::{Authority, EgressRule, Signer};
use keyless_egress::{EngineConfig, ProxyCredential, UpstreamProxy};
use keyless_testkit::{Alpn, Handler, OriginOptions, TestCa, reply};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::scene::{ALLOWED, PATIENCE, Scene, Setting, comes_true, read_head};

const REQUESTS: usize = 4;

/// A way to an origin on which the first connection is slow, and the others get no further before all are there.
struct Way {
    at: SocketAddr,
    to: Arc<Mutex<Option<SocketAddr>>>,
}

impl Way {
    fn open() -> Self {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, to) = (door.local_addr().unwrap(), Arc::<Mutex<Option<SocketAddr>>>::default());
        let (origin, arrived) = (Arc::clone(&to), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for client in door.incoming().map_while(Result::ok) {
                let number = arrived.fetch_add(1, Ordering::SeqCst);
                let (arrived, origin) = (Arc::clone(&arrived), origin.lock().unwrap());
                thread::spawn(move || {
                    if number == 0 {
                        thread::sleep(Duration::from_millis(500));
                    }
                    let deadline = Instant::now() + PATIENCE;
                    while number > 0 && arrived.load(Ordering::SeqCst) < REQUESTS {
                        if Instant::now() > deadline {
                            return;
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                    carry(client, TcpStream::connect(origin).unwrap());
                });
            }
        });
        Self { at, to }
    }

    /// A scene whose origin speaks HTTP/1.1 at the end of this way, and answers once all have asked.
    fn scene(&self, rule: fn(EgressRule) -> EgressRule) -> Scene {
        let ca = TestCa::new();
        let from = Authority::parse("allowed.test:443").unwrap();
        let to = Authority::parse(&self.at.to_string()).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let handler = Handler::new(move |_| {
            let asked = Arc::clone(&asked);
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                while asked.load(Ordering::SeqCst) < REQUESTS {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                reply(StatusCode::OK, "")
            }
        });
        let scene = Scene::of(Setting {
            allowed: OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1).handler(handler),
            config: EngineConfig { connect_to: [(from, to)].into(), ..EngineConfig::default() },
            rule,
            ..Setting::with(ca)
        });
        *self.to.lock() = Some(scene.allowed.address());
        scene
    }
}

fn carry(client: TcpStream, origin: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), origin.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (origin, client);
    let _ = std::io::copy(&mut from, &mut to);
}

/// All at once; each one's status, or what it was refused for.
fn ask(scene: &Scene) -> Vec<String> {
    thread::scope(|scope| {
        let ask = || {
            let answer = scene.curl(&["https://allowed.test/"]);
            answer.refusal().map_or_else(|| answer.status.to_string(), str::to_owned)
        };
        let asking: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// One connection could have served all of them, had it spoken HTTP/2: the others wait for that, and not for each other.
#[test]
fn who_waited_for_the_first_connection_dials_at_once() {
    let scene = Way::open().scene(|rule| rule);
    assert_eq!(ask(&scene), ["200"; REQUESTS]);
}

/// The key was released before the wait.
#[test]
fn a_client_key_outlasts_the_wait_for_another_connection() {
    let scene = Way::open().scene(|rule| {
        let sign = Some(Signer::TlsClient { chain: None });
        EgressRule { sign, ..rule }
    });
    let leaf = scene.ca.issue_client("agent").unwrap();
    let pem = format!("{}{}", leaf.key_pem, leaf.certificate_pem);
    scene.broker.values.lock().insert(scene.secret.path.clone(), pem);
    *scene.broker.permits_last.lock() = Duration::from_millis(200);
    assert_eq!(ask(&scene), ["200"; REQUESTS]);
}

/// A tunnel begins with its CONNECT, not with the destination's answer.
#[test]
fn a_drain_waits_for_who_is_still_being_connected() {
    let way_out = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = UpstreamProxy {
        address: Authority::parse(&way_out.local_addr().unwrap().to_string()).unwrap(),
        credential: ProxyCredential::new(Zeroizing::new("staff:pass".to_owned())),
        direct: Vec::new(),
    };
    let config = EngineConfig { upstream_proxy: Some(proxy), ..EngineConfig::default() };
    let scene = Scene::of(Setting { config, ..Setting::default() });
    thread::scope(|scope| {
        let asking = scope.spawn(|| scene.connect("beyond.invalid:443"));
        let (mut dialled, _) = way_out.accept().unwrap();
        read_head(&mut dialled);
        scene.engine.drain();
        assert_eq!(scene.engine.in_flight(), 1);
        let draining = scene.runtime.spawn({
            let engine = Arc::clone(&scene.engine);
            async move { engine.drained().await }
        });
        dialled.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let (head, tunnel) = asking.join().unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(!draining.is_finished(), "the tunnel is open");
        drop((tunnel, dialled));
        assert!(comes_true(|| draining.is_finished()));
    });
}
