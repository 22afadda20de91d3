use std::io::{Read as _, Write as _};

use keyless_testkit::{OriginOptions, Script, TestCa};

use crate::scene::{ALLOWED, Scene, Setting, read_head, read_rest};

const HANDSHAKE: &str = "GET /websocket HTTP/1.1\r\nhost: allowed.test\r\nupgrade: websocket\r\n\
    connection: Upgrade\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn a_handshake_is_swapped_and_frames_pass() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = format!("{HANDSHAKE}authorization: Bearer {}\r\n\r\n", scene.placeholder);
    stream.write_all(head.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(
        request.header("authorization").unwrap(),
        format!("Bearer {}", scene.canary.value())
    );
    for length in [1_usize, 125, 70_000, 3 << 20] {
        let message: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
        stream.write_all(&frame(2, &message)).unwrap();
        assert!(read_message(&mut stream) == message, "{length}");
    }
    assert!(scene.broker.events.lock().iter().any(|event| event.note.as_str() == "websocket"));
}

#[test]
fn a_session_that_ends_cuts_its_websockets() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[]);
    stream.write_all(format!("{HANDSHAKE}\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
    scene.engine.close(scene.session.id());
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn other_upgrades_are_no_upgrades() {
    let scene = Scene::new();
    for upgrade in ["h2c", "foo", "websocket, foo"] {
        let text = scene.raw(
            format!(
                "GET /echo HTTP/1.1\r\nhost: allowed.test\r\nupgrade: {upgrade}\r\n\
                 connection: upgrade, http2-settings, close\r\nhttp2-settings: AAM\r\n\r\n"
            )
            .as_bytes(),
        );
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let request = scene.allowed.requests().pop().unwrap();
        assert_eq!(request.header("upgrade"), None);
        assert_eq!(request.header("http2-settings"), None);
    }
}

#[test]
fn a_refused_handshake_leaves_the_connection_usable() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let refused = HANDSHAKE.replace("/websocket", "/status/403");
    stream.write_all(format!("{refused}\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 403"));
    stream
        .write_all(b"GET /status/204 HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n")
        .unwrap();
    let rest = read_rest(&mut stream);
    assert!(rest.starts_with("HTTP/1.1 204"), "{rest}");
}

#[test]
fn a_handshake_for_another_host_leaves_the_connection_usable() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    for handshake in [
        HANDSHAKE.replace("host: allowed", "host: other"),
        HANDSHAKE.replace("key: dGhl", "no: dGhl"),
    ] {
        stream.write_all(format!("{handshake}content-length: 0\r\n\r\n").as_bytes()).unwrap();
        let head = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 4"), "{head}");
        if head.contains("connection: close") {
            return;
        }
        let length: usize = head.split("content-length: ").nth(1).unwrap()[..3].parse().unwrap();
        stream.read_exact(&mut vec![0; length]).unwrap();
    }
    panic!("a handshake without a key is a bad request");
}

#[test]
fn an_upstream_must_prove_that_it_is_one() {
    let ca = TestCa::new();
    let lie = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
               sec-websocket-accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n";
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).script(Script::answer(lie)),
        ..Setting::with(ca)
    });
    let mut stream = scene.tls(ALLOWED, &[]);
    stream.write_all(format!("{HANDSHAKE}\r\n").as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.contains("x-keyless-refused: upstream_protocol"), "{head}");
}

/// A final, masked client frame.
fn frame(opcode: u8, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match message.len() {
        short @ 0..=125 => frame.push(0x80 | u8::try_from(short).unwrap()),
        middle @ 126..=0xffff => {
            frame.push(0x80 | 0x7e);
            frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
        }
        long => {
            frame.push(0x80 | 0x7f);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    frame.extend(mask);
    frame.extend(message.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The payload of one message, put together from its frames.
fn read_message(stream: &mut impl std::io::Read) -> Vec<u8> {
    let mut message = Vec::new();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let length = match head[1] & 0x7f {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                stream.read_exact(&mut length).unwrap();
                usize::try_from(u64::from_be_bytes(length)).unwrap()
            }
            short => usize::from(short),
        };
        let start = message.len();
        message.resize(start + length, 0);
        stream.read_exact(&mut message[start..]).unwrap();
        if head[0] & 0x80 != 0 {
            return message;
        }
    }
}
