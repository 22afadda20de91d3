use std::{
    future::pending,
    io::{Read, Write},
    net::TcpStream,
};

use hyper::ext::ReasonPhrase;
use keyless_core::{Code, Location, Locations};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Handler, OriginOptions, Script, TestCa, websocket};
use rustls::{ClientConnection, StreamOwned};

use crate::scene::{ALLOWED, PATIENCE, Scene, Setting, comes_true, read_head, read_rest};

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

/// A connection that has become a WebSocket is one still.
#[test]
fn a_websocket_counts_among_the_connections() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let scene = Scene::of(Setting {
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::default()
    });
    let mut stream = opened(&scene);
    // HTTP is over by the time that a frame has been there and back.
    stream.write_all(&frame(1, b"hello")).unwrap();
    assert_eq!(read_message(&mut stream), b"hello");
    assert!(scene.connect("other.test:443").0.starts_with("HTTP/1.1 503"));
    drop(stream);
    assert!(comes_true(|| scene.connect("other.test:443").0.starts_with("HTTP/1.1 200")));
}

#[test]
fn a_handshake_ends_with_its_client() {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(Handler::new(|_| pending())),
        ..Setting::with(ca)
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    // A frame too soon is not lost, and hides no end.
    stream.write_all(format!("{HANDSHAKE}\r\n").as_bytes()).unwrap();
    stream.write_all(&frame(1, b"too soon")).unwrap();
    assert!(comes_true(|| !scene.allowed.requests().is_empty()));
    assert_eq!(scene.engine.in_flight(), 1);
    drop(stream);
    assert!(comes_true(|| scene.engine.in_flight() == 0 && scene.engine.connections() == 0));
}

/// The origin's frames are scrubbed without anybody asking.
#[test]
fn echoes_in_frames_are_scrubbed() {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(Handler::new(|request| async move {
            let value = request.headers()["authorization"].to_str().unwrap().to_owned();
            let (first, second) = value.split_at(value.len() - 5);
            // In one frame; in two with a ping between; in binary.
            let frames = [
                server_frame(0x81, value.as_bytes()),
                server_frame(0x01, first.as_bytes()),
                server_frame(0x89, value.as_bytes()),
                server_frame(0x80, second.as_bytes()),
                server_frame(0x82, value.as_bytes()),
            ];
            websocket::say(request, frames.concat())
        })),
        ..Setting::with(ca)
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = format!(
        "{HANDSHAKE}sec-websocket-extensions: permessage-deflate\r\nauthorization: Bearer {}\r\n\r\n",
        scene.placeholder
    );
    stream.write_all(head.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(request.header("sec-websocket-extensions"), None, "no extension is offered");
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    scene.canary.assert_absent("the frames", &received);
    let text = String::from_utf8_lossy(&received);
    let whole = format!("Bearer {}", scene.placeholder);
    assert!(text.contains(&whole), "{text}");
    assert_eq!(text.matches("kloak_").count(), 4, "{text}");
}

/// The status line of a handshake has the server's own words, like any other.
#[test]
fn a_value_in_the_reason_of_a_handshake_stays_there() {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(Handler::new(|request| async move {
            let value = request.headers()["authorization"].clone();
            let mut reply = websocket::say(request, Vec::new());
            let reason = ReasonPhrase::try_from(value.as_bytes()).unwrap();
            reply.extensions_mut().insert(reason);
            reply
        })),
        ..Setting::with(ca)
    });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = format!("{HANDSHAKE}authorization: Bearer {}\r\n\r\n", scene.placeholder);
    stream.write_all(head.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
}

/// A message that began before anything was sent out ends after it.
#[test]
fn a_value_that_is_sent_while_a_message_comes_is_scrubbed_from_its_end() {
    let scene = Scene::of(Setting {
        locations: Locations::from_iter([Location::Websocket]),
        ..Setting::default()
    });
    let mut stream = opened(&scene);
    let mut beginning = frame(1, b"before ");
    beginning[0] &= 0x7f;
    stream.write_all(&beginning).unwrap();
    // The way back has begun by then, too.
    let mut begun = [0; 9];
    stream.read_exact(&mut begun).unwrap();
    assert_eq!(begun, *b"\x01\x07before ");
    stream.write_all(&frame(0, scene.placeholder.as_bytes())).unwrap();
    assert_eq!(read_message(&mut stream), scene.placeholder.as_bytes());
}

#[test]
fn text_messages_are_swapped_where_the_secret_asks_for_it() {
    let scene = Scene::of(Setting {
        locations: Locations::from_iter([Location::Header, Location::Websocket]),
        ..Setting::default()
    });
    let mut stream = opened(&scene);
    let message = format!("{{\"token\":\"{}\"}}", scene.placeholder).into_bytes();
    stream.write_all(&frame(1, &message)).unwrap();
    assert_eq!(read_message(&mut stream), message, "swapped, echoed, scrubbed");
    // In fragments, cut within the placeholder.
    let (first, second) = message.split_at(20);
    let mut fragments = frame(1, first);
    fragments[0] &= 0x7f;
    fragments.extend(frame(0, second));
    stream.write_all(&fragments).unwrap();
    assert_eq!(read_message(&mut stream), message);
    // A long one, with the placeholder across the pieces that it is taken in.
    let mut long = vec![b'x'; (256 << 10) - 10];
    long.extend_from_slice(scene.placeholder.as_bytes());
    long.extend(vec![b'y'; 400_000]);
    stream.write_all(&frame(1, &long)).unwrap();
    assert!(read_message(&mut stream) == long);
    // Binary messages are not looked at.
    stream.write_all(&frame(2, &message)).unwrap();
    assert_eq!(read_message(&mut stream), message);
    let received = scene.allowed.everything_received();
    let value = scene.canary.value();
    let unmasked = unmasked_payloads(&received);
    assert_eq!(unmasked.matches(value).count(), 3, "{} bytes", unmasked.len());
    assert_eq!(unmasked.matches(&scene.placeholder).count(), 1);
    assert_eq!(scene.broker.releases.lock().len(), 3);
}

#[test]
fn a_refused_message_closes_both_sides_with_the_reason() {
    let scene = Scene::of(Setting {
        locations: Locations::from_iter([Location::Websocket]),
        ..Setting::default()
    });
    let mut stream = opened(&scene);
    let hidden = format!("{{\"a\":\"{}\"}}", scene.placeholder.replacen('k', "\\u006b", 1));
    stream.write_all(&frame(1, hidden.as_bytes())).unwrap();
    let mut close = Vec::new();
    let _ = stream.read_to_end(&mut close);
    let reason = [&[0x88, 21, 0x03, 0xf0][..], b"placeholder_escaped"].concat();
    assert_eq!(close, reason);
    assert!(scene.waits_for(Code::PlaceholderEscaped));
    let closed =
        |record: &keyless_testkit::Snapshot| record.connections.iter().all(|one| one.closed);
    assert!(scene.allowed.wait_until(PATIENCE, closed));
}

#[test]
fn frames_that_break_the_protocol_end_it() {
    for broken in [&[0x81, 0][..], &[0xc1, 0x80, 0, 0, 0, 0], &[0x80, 0x80, 0, 0, 0, 0]] {
        let scene = Scene::new();
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        stream.write_all(format!("{HANDSHAKE}\r\n").as_bytes()).unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
        stream.write_all(broken).unwrap();
        let mut close = Vec::new();
        let _ = stream.read_to_end(&mut close);
        assert_eq!(close[..1], [0x88], "{broken:?}: {close:?}");
        assert!(scene.waits_for(Code::BadRequest), "{broken:?}");
    }
}

#[test]
fn a_session_that_ends_cuts_its_websockets() {
    let scene = Scene::new();
    let mut stream = opened(&scene);
    scene.engine.close(scene.session.id());
    let mut close = Vec::new();
    let _ = stream.read_to_end(&mut close);
    assert_eq!(close, [&[0x88, 15, 0x03, 0xf0][..], b"session_ended"].concat());
}

/// 1001: what it was about may go on over another connection.
#[test]
fn the_end_of_a_drain_says_that_it_goes_away() {
    let scene = Scene::new();
    let mut stream = opened(&scene);
    scene.engine.drain();
    scene.engine.end_drain();
    scene.engine.close(scene.session.id());
    let mut close = Vec::new();
    let _ = stream.read_to_end(&mut close);
    assert_eq!(close, [&[0x88, 10, 0x03, 0xe9][..], b"draining"].concat());
}

/// A Close would stand in the middle of the frame.
#[test]
fn a_session_that_ends_within_a_frame_just_cuts() {
    let ca = TestCa::new();
    let scene = Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(Handler::new(|request| async move {
            // More than all buffers on its way take.
            websocket::say(request, server_frame(0x82, &vec![b'x'; 64 << 20]))
        })),
        ..Setting::with(ca)
    });
    let mut stream = opened(&scene);
    // It has begun, and nobody reads on.
    let mut received = vec![0; 16];
    stream.read_exact(&mut received).unwrap();
    // Until it stands still, within a frame.
    let (mut room, mut before) = (vec![0; 64 << 20], 0);
    while let come = stream.sock.peek(&mut room).unwrap()
        && come > before
    {
        before = come;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    scene.engine.close(scene.session.id());
    let _ = stream.read_to_end(&mut received);
    assert!(received.len() < 64 << 20);
    // A long frame comes in several: each has its own bytes and no others, as far as it came.
    let mut rest = &received[..];
    while let [_, 127, tail @ ..] = rest
        && let Some((length, tail)) = tail.split_first_chunk()
    {
        let length = usize::try_from(u64::from_be_bytes(*length)).unwrap();
        let (payload, next) = tail.split_at(length.min(tail.len()));
        assert!(payload.iter().all(|byte| *byte == b'x'));
        rest = next;
    }
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

/// A connection on which a handshake without any secret was answered.
fn opened(scene: &Scene) -> StreamOwned<ClientConnection, TcpStream> {
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    stream.write_all(format!("{HANDSHAKE}\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
    stream
}

/// An unmasked server frame with this first byte, short or of 64 KiB and more.
fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64;
    match u8::try_from(length).ok().filter(|length| *length < 126) {
        Some(short) => [&[first, short][..], payload].concat(),
        None => [&[first, 127][..], &length.to_be_bytes(), payload].concat(),
    }
}

/// The payloads of all client frames in what an origin received, one after the other.
fn unmasked_payloads(received: &[u8]) -> String {
    let start = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let (mut rest, mut text) = (&received[start..], String::new());
    while let [_, second, tail @ ..] = rest
        && second & 0x80 != 0
    {
        let (length, tail) = match second & 0x7f {
            126 => (usize::from(u16::from_be_bytes(tail[..2].try_into().unwrap())), &tail[2..]),
            127 => (
                usize::try_from(u64::from_be_bytes(tail[..8].try_into().unwrap())).unwrap(),
                &tail[8..],
            ),
            short => (usize::from(short), tail),
        };
        let (mask, tail) = tail.split_at(4);
        let payload =
            tail[..length].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        text.push_str(&String::from_utf8_lossy(&payload.collect::<Vec<u8>>()));
        rest = &tail[length..];
    }
    text
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
fn read_message(stream: &mut impl Read) -> Vec<u8> {
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
