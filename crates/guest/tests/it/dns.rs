//! DNS as a resolver speaks it: datagrams, and several queries over one TCP connection.

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::RecordType,
    serialize::binary::BinDecodable,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use crate::scene::{Egress, PATIENCE, Scene, address, query};

#[tokio::test]
async fn both_questions_of_getaddrinfo_are_answered() {
    let scene = Scene::new(Egress::listen().carrier(), 8);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // glibc sends both at once and waits for both answers.
    client.send_to(&query(1, "a.test.", RecordType::A), scene.dns_udp).await.unwrap();
    client.send_to(&query(2, "a.test.", RecordType::AAAA), scene.dns_udp).await.unwrap();
    let mut buffer = [0; 512];
    for (id, answers) in [(1, 1), (2, 0)] {
        let received = timeout(PATIENCE, client.recv(&mut buffer)).await.unwrap().unwrap();
        let reply = Message::from_bytes(&buffer[..received]).unwrap();
        assert_eq!((reply.metadata.id, reply.answers.len()), (id, answers));
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    }
}

#[tokio::test]
async fn junk_does_not_stop_the_server() {
    let scene = Scene::new(Egress::listen().carrier(), 8);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for junk in [&b""[..], b"x", &[0xff; 12], &[0; 5000]] {
        client.send_to(junk, scene.dns_udp).await.unwrap();
    }
    assert_eq!(scene.resolve("a.test.").await.octets()[..2], [127, 1]);
}

#[tokio::test]
async fn a_tcp_connection_carries_several_queries() {
    let scene = Scene::new(Egress::listen().carrier(), 8);
    let over_udp = scene.resolve("b.test.").await;
    let mut client = TcpStream::connect(scene.dns_tcp).await.unwrap();
    let mut sent = Vec::new();
    for (id, name) in [(1, "a.test."), (2, "b.test."), (3, "a.test.")] {
        let query = query(id, name, RecordType::A);
        sent.extend(u16::try_from(query.len()).unwrap().to_be_bytes());
        sent.extend(query);
    }
    // In two pieces, the first of which ends inside a length.
    client.write_all(&sent[..1]).await.unwrap();
    client.write_all(&sent[1..]).await.unwrap();
    let mut addresses = Vec::new();
    for id in 1..=3 {
        let length = timeout(PATIENCE, client.read_u16()).await.unwrap().unwrap();
        let mut reply = vec![0; length.into()];
        client.read_exact(&mut reply).await.unwrap();
        let reply = Message::from_bytes(&reply).unwrap();
        assert_eq!(reply.metadata.id, id);
        addresses.push(address(&reply).unwrap());
    }
    assert_eq!(addresses[0], addresses[2]);
    assert_eq!(addresses[1], over_udp, "both transports share one pool");
}

#[tokio::test]
async fn a_tcp_client_that_sends_no_query_is_let_go() {
    let scene = Scene::new(Egress::listen().carrier(), 8);
    for junk in [&b"\xff\xff"[..], b"\0\0", b"\0\x03abc"] {
        let mut client = TcpStream::connect(scene.dns_tcp).await.unwrap();
        client.write_all(junk).await.unwrap();
        let mut buffer = [0; 1];
        let ended = timeout(PATIENCE, client.read(&mut buffer)).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{junk:?}");
    }
}
