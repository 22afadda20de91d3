use proptest::prelude::*;

use super::{packet::checksum, *};

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
const PORT: u16 = 61_443;

fn reflector() -> Reflector {
    Reflector::new(OWN, PEER, PORT)
}

fn end(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

/// A packet as a kernel makes it, its sums included.
fn packet(protocol: u8, from: SocketAddrV4, to: SocketAddrV4, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut transport = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    if protocol == 6 {
        transport.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    } else {
        transport.extend([0; 4]);
    }
    transport.extend(data);
    let length = u16::try_from(transport.len()).unwrap();
    let pseudo =
        [&from.ip().octets()[..], &to.ip().octets(), &[0, protocol], &length.to_be_bytes()];
    let sum = checksum(&[&pseudo.concat()[..], &transport].concat());
    if protocol == 6 {
        transport[16..18].copy_from_slice(&sum);
    }
    let mut bytes = vec![0x45, 0];
    bytes.extend((length + 20).to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend(from.ip().octets());
    bytes.extend(to.ip().octets());
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum);
    [bytes, transport].concat()
}

fn tcp(from: &str, to: &str, flags: u8, data: &[u8]) -> Vec<u8> {
    packet(6, end(from), end(to), flags, data)
}

#[test]
fn a_connection_is_turned_and_its_answers_are_turned_back() {
    let (mut reflector, now) = (reflector(), Instant::now());
    let mut out = tcp("192.0.0.2:40000", "127.1.0.7:5432", 2, b"");
    assert_eq!(reflector.reflect(&mut out, now), Reflected::Packet);
    assert_eq!(out, tcp("192.0.0.1:1024", "192.0.0.2:61443", 2, b""), "checksums too");
    assert_eq!(reflector.destination(1024), Some(end("127.1.0.7:5432")));
    let mut back = tcp("192.0.0.2:61443", "192.0.0.1:1024", 18, b"hello");
    assert_eq!(reflector.reflect(&mut back, now), Reflected::Packet);
    assert_eq!(back, tcp("127.1.0.7:5432", "192.0.0.2:40000", 18, b"hello"));
}

#[test]
fn what_is_not_tcp_is_refused_as_a_closed_port_is() {
    let mut udp = packet(17, end("192.0.0.2:5000"), end("127.1.0.7:443"), 0, b"QUIC");
    let Reflected::Answer(answer) = reflector().reflect(&mut udp, Instant::now()) else {
        panic!("no answer");
    };
    assert_eq!(answer[9], 1, "ICMP");
    assert_eq!(answer[12..20], [127, 1, 0, 7, 192, 0, 0, 2]);
    assert_eq!(answer[20..22], [3, 3], "port unreachable");
    assert_eq!(answer[28..], udp[..28], "quotes the header and eight bytes");
    assert_eq!((checksum(&answer[..20]), checksum(&answer[20..])), ([0, 0], [0, 0]));
}

#[test]
fn nothing_else_is_answered() {
    let mut ping = packet(1, end("192.0.0.2:2048"), end("127.1.0.7:0"), 0, b"");
    let mut many = packet(17, end("192.0.0.2:5353"), end("224.0.0.251:5353"), 0, b"");
    let mut foreign = tcp("10.0.0.1:40000", "127.1.0.7:443", 2, b"");
    let mut middle = tcp("192.0.0.2:40000", "127.1.0.7:443", 16, b"x");
    let mut unknown = tcp("192.0.0.2:61443", "192.0.0.1:2000", 16, b"x");
    let mut fragment = tcp("192.0.0.2:40000", "127.1.0.7:443", 2, b"");
    fragment[6] = 0x20;
    let mut short = tcp("192.0.0.2:40000", "127.1.0.7:443", 2, b"")[..39].to_vec();
    let mut six = vec![0x60; 40];
    for packet in [
        &mut ping,
        &mut many,
        &mut foreign,
        &mut middle,
        &mut unknown,
        &mut fragment,
        &mut short,
        &mut six,
    ] {
        let before = packet.clone();
        assert_eq!(reflector().reflect(packet, Instant::now()), Reflected::Nothing);
        assert_eq!(*packet, before);
    }
}

proptest! {
    #[test]
    fn a_turned_packet_is_as_good_as_one_made_so(
        program in 1u16.., port in 1u16.., address: [u8; 4],
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        prop_assume!(program != PORT || Ipv4Addr::from(address) != PEER);
        let (mut reflector, now) = (reflector(), Instant::now());
        let (from, to) = (SocketAddrV4::new(OWN, program), SocketAddrV4::new(address.into(), port));
        let mut out = packet(6, from, to, 2, &data);
        prop_assert_eq!(reflector.reflect(&mut out, now), Reflected::Packet);
        let turned = packet(6, SocketAddrV4::new(PEER, 1024), SocketAddrV4::new(OWN, PORT), 2, &data);
        prop_assert!(same(&out, &turned), "{:?} {:?}", out, turned);
    }
}

/// Equal, where a sum of 0xffff is one of 0.
fn same(a: &[u8], b: &[u8]) -> bool {
    let normal = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for at in [10, 36] {
            if bytes[at..at + 2] == [0xff, 0xff] {
                bytes[at..at + 2].fill(0);
            }
        }
        bytes
    };
    normal(a) == normal(b)
}
