//! Connections: what egress is told about them, and how bytes, ends and failures pass.

use std::{io::ErrorKind, net::Ipv4Addr, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use keyless_guest::{Carrier, Link, PreambleCarrier, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use crate::scene::{Egress, PATIENCE, Scene, rest};

#[tokio::test]
async fn a_connection_arrives_with_its_name() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    scene.resolve("other.test.").await;
    let address = scene.resolve("Api.Example.TEST.").await;
    let mut client = scene.connect(address).await;
    client.write_all(b"hello").await.unwrap();
    let (preamble, mut far) = egress.accept().await;
    assert_eq!(preamble, format!("api.example.test:{}\n", scene.port));
    far.write_all(b"welcome").await.unwrap();
    let mut received = [0; 7];
    client.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"welcome");
    drop(client);
    assert_eq!(rest(&mut far).await, b"hello");
}

#[tokio::test]
async fn an_address_without_a_name_is_told_as_it_is() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    for address in [Ipv4Addr::new(127, 9, 9, 9), Ipv4Addr::LOCALHOST] {
        let _client = scene.connect(address).await;
        let (preamble, _far) = egress.accept().await;
        assert_eq!(preamble, format!("{address}:{}\n", scene.port));
    }
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    let mut client = scene.connect(scene.resolve("a.test.").await).await;
    client.write_all(b"request").await.unwrap();
    client.shutdown().await.unwrap();
    let (_, mut far) = egress.accept().await;
    assert_eq!(rest(&mut far).await, b"request", "the end of the request is passed on");
    far.write_all(b"answer, after the end").await.unwrap();
    drop(far);
    assert_eq!(rest(&mut client).await, b"answer, after the end");
}

#[tokio::test]
async fn many_bytes_arrive_as_they_were_in_both_directions() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    let bytes: Vec<u8> =
        (0..3_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let client = scene.connect(scene.resolve("a.test.").await).await;
    let (_, far) = egress.accept().await;
    let (mut client_in, mut client_out) = client.into_split();
    let (mut far_in, mut far_out) = tokio::io::split(far);
    let send = async |out: &mut (dyn tokio::io::AsyncWrite + Unpin + Send)| {
        out.write_all(&bytes).await.unwrap();
        out.shutdown().await.unwrap();
    };
    let (got, answered, (), ()) = tokio::join!(
        rest(&mut far_in),
        rest(&mut client_in),
        send(&mut client_out),
        send(&mut far_out),
    );
    assert!(got == bytes && answered == bytes);
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_the_writer() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    let mut client = scene.connect(scene.resolve("a.test.").await).await;
    let (_, _far) = egress.accept().await;
    let chunk = vec![0; 1 << 20];
    let flood = async {
        for _ in 0..256 {
            client.write_all(&chunk).await.unwrap();
        }
    };
    // Kernel buffers take a few MiB; 256 MiB go nowhere while the far side does not read.
    assert!(timeout(Duration::from_secs(2), flood).await.is_err());
}

#[tokio::test]
async fn without_egress_a_connection_is_closed_and_the_next_one_works() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("egress.sock");
    let scene = Scene::new(PreambleCarrier::new(path.clone()), 8);
    let address = scene.resolve("a.test.").await;
    let mut client = scene.connect(address).await;
    assert!(matches!(timeout(PATIENCE, client.read(&mut [0])).await.unwrap(), Ok(0) | Err(_)));

    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let _client = scene.connect(address).await;
    timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
}

#[tokio::test]
async fn over_the_limit_a_connection_waits_for_its_turn() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 1);
    let (first, second) = (scene.resolve("one.test.").await, scene.resolve("two.test.").await);
    let one = scene.connect(first).await;
    let mut two = scene.connect(second).await;
    two.write_all(b"patient").await.unwrap();
    let (preamble, far) = egress.accept().await;
    assert!(preamble.starts_with("one.test:"));
    let early = timeout(Duration::from_millis(200), egress.accept()).await;
    assert!(early.is_err(), "the second waits while the first is open");
    drop((one, far));
    let (preamble, mut far) = egress.accept().await;
    assert!(preamble.starts_with("two.test:"));
    drop(two);
    assert_eq!(rest(&mut far).await, b"patient");
}

#[tokio::test]
async fn dropping_the_funnel_ends_its_connections() {
    let egress = Egress::listen();
    let scene = Scene::new(egress.carrier(), 8);
    let mut client = scene.connect(scene.resolve("a.test.").await).await;
    let (_, mut far) = egress.accept().await;
    scene.funnel.abort();
    assert!(rest(&mut far).await.is_empty());
    assert!(is_reset(&mut client).await);
}

/// To a client that is told no length, an end is the end of what it gets.
#[tokio::test]
async fn what_is_cut_on_one_side_is_cut_on_the_other() {
    let egress = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way_out = Link::Tcp(egress.local_addr().unwrap());
    let scene = Scene::new(PreambleCarrier::new(way_out), 8);
    let address = scene.resolve("a.test.").await;
    for breaks_off in [true, false] {
        let mut client = scene.connect(address).await;
        let (mut far, _) = timeout(PATIENCE, egress.accept()).await.unwrap().unwrap();
        far.write_all(b"half of").await.unwrap();
        client.read_exact(&mut [0; 7]).await.unwrap();
        let mut told = vec![0; format!("a.test:{}\n", scene.port).len()];
        far.read_exact(&mut told).await.unwrap();
        if breaks_off {
            far.set_zero_linger().unwrap();
        }
        drop(far);
        if breaks_off {
            assert!(is_reset(&mut client).await);
        } else {
            assert!(rest(&mut client).await.is_empty(), "an end stays an end");
        }
    }
    let client = scene.connect(address).await;
    let (mut far, _) = timeout(PATIENCE, egress.accept()).await.unwrap().unwrap();
    let mut told = vec![0; format!("a.test:{}\n", scene.port).len()];
    far.read_exact(&mut told).await.unwrap();
    client.set_zero_linger().unwrap();
    drop(client);
    assert!(is_reset(&mut far).await, "an upload that breaks off");
}

/// Whether the next that is heard is a reset.
async fn is_reset(stream: &mut TcpStream) -> bool {
    let heard = timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
    heard.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Panics over one name, and reports the others.
struct Touchy {
    calm: Arc<Notify>,
}

impl Carrier for Touchy {
    fn carry(&self, _stream: TcpStream, target: Target) -> BoxFuture<'static, ()> {
        let calm = Arc::clone(&self.calm);
        async move {
            let Target::Name(authority) = target else { panic!("no name: {target:?}") };
            assert_ne!(authority.host.to_string(), "panic.test");
            calm.notify_one();
        }
        .boxed()
    }
}

#[tokio::test]
async fn one_panic_ends_one_connection() {
    let calm = Arc::new(Notify::new());
    let scene = Scene::new(Touchy { calm: Arc::clone(&calm) }, 2);
    let (bad, good) = (scene.resolve("panic.test.").await, scene.resolve("good.test.").await);
    for _ in 0..5 {
        scene.connect(bad).await;
    }
    scene.connect(good).await;
    timeout(PATIENCE, calm.notified()).await.unwrap();
}
