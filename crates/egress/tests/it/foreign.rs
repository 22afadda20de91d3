use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use keyless_core::{Authority, Code};
use keyless_egress::EngineConfig;
use keyless_testkit::TestCa;
use rustls::{ServerConnection, StreamOwned};

use crate::scene::{PATIENCE, Scene, Setting, comes_true};

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];

/// A policy's refusal, to a client that would rather have TLS, and to one that would not.
#[test]
fn postgres_shows_the_reason() {
    let scene = scene();
    let startup = b"\0\0\0\x14\0\x03\0\0user\0agent\0\0";
    for request in [&SSL_REQUEST[..], b""] {
        let mut stream = dial(&scene, "8.8.8.8:5432");
        if !request.is_empty() {
            stream.write_all(request).unwrap();
            let mut answer = [0];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"N");
        }
        stream.write_all(startup).unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[0], b'E');
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) - 4;
        let mut fields = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut fields).unwrap();
        let text = String::from_utf8(fields).unwrap();
        assert!(text.starts_with("SFATAL\0VFATAL\0C08004\0Mkeyless: "), "{text}");
        assert!(text.contains("[raw_address]\0H"), "{text}");
        assert!(text.ends_with("\0\0"), "{text}");
    }
    scene.assert_refused(&[Code::RawAddress; 2]);
}

/// What is no HTTP asks nothing by itself once it is open.
#[test]
fn a_held_session_opens_no_tunnel_until_it_is_let_go() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let at = Authority::parse(&server.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig {
        connect_to: [(Authority::parse("allowed.test:22").unwrap(), at)].into(),
        ..EngineConfig::default()
    };
    let scene = Scene::of(Setting { config, ..Setting::default() });
    let id = scene.session.id().to_owned();
    scene.engine.hold(&id, Some(Code::AgentSuspended));
    let mut held = dial(&scene, "allowed.test:22");
    let _ = held.read_to_end(&mut Vec::new());
    scene.assert_refused(&[Code::AgentSuspended]);
    assert!(server.accept().is_err());
    scene.engine.hold(&id, None);
    let _open = dial(&scene, "allowed.test:22");
    assert!(comes_true(|| server.accept().is_ok()));
}

/// A login is heard to its end before anything is dialled, and what is none goes nowhere.
#[test]
fn a_login_that_is_none_reaches_no_database() {
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    database.set_nonblocking(true).unwrap();
    let at = Authority::parse(&database.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig {
        connect_to: [(Authority::parse("allowed.test:5432").unwrap(), at)].into(),
        ..EngineConfig::default()
    };
    let destinations = vec!["allowed.test:5432"];
    let scene = Scene::of(Setting { destinations, config, ..Setting::default() });
    let startup = b"\0\0\0\x14\0\x03\0\0user\0agent\0\0";
    for (said, password) in [
        (&b"\0\0\0\x14\0\x03\0\0user\0agent\0x"[..], &b""[..]),
        (b"\0\0\xff\xff\0\x03\0\0", b""),
        (startup, b"Q\0\0\0\x05\0"),
        (startup, b"p\0\0\0\x08a\0b\0"),
        (startup, b"p\0\x10\0\0"),
    ] {
        let mut stream = dial(&scene, "allowed.test:5432");
        stream.write_all(said).unwrap();
        if !password.is_empty() {
            let mut asked = [0; 9];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(asked, *b"R\0\0\0\x08\0\0\0\x03");
            stream.write_all(password).unwrap();
        }
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut rest);
        assert!(scene.waits_for(Code::BadRequest), "{said:?} {password:?}");
        scene.broker.events.lock().clear();
    }
    assert!(database.accept().is_err(), "something was dialled");
}

/// libpq 17 and newer offer their protocol's name inside of the TLS that they ask for.
#[test]
fn a_client_of_a_database_is_met_in_its_own_protocol() {
    let scene = scene();
    let startup = b"\0\0\0\x14\0\x03\0\0user\0agent\0\0";
    let shake = |alpn: &[&[u8]]| {
        let mut stream = dial(&scene, "allowed.test:5432");
        stream.write_all(&SSL_REQUEST).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let mut stream = StreamOwned::new(scene.tls_client("allowed.test", alpn), stream);
        stream.write_all(startup)?;
        let mut asked = [0; 9];
        stream.read_exact(&mut asked)?;
        assert_eq!(asked, *b"R\0\0\0\x08\0\0\0\x03");
        Ok::<_, std::io::Error>(stream.conn.alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(shake(&[b"postgresql"]).unwrap(), Some(b"postgresql".to_vec()));
    assert_eq!(shake(&[]).unwrap(), None);
    let refused = shake(&[b"http/1.1"]).unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("application"), "{refused}");
    assert!(scene.waits_for(Code::BadRequest));
    let events = scene.broker.events.lock();
    let note = events
        .iter()
        .find_map(|event| Some(event.note.to_string()).filter(|note| !note.is_empty()))
        .unwrap();
    assert!(note.contains("by ALPN"), "{note}");
}

/// libpq takes none before it is let in. The database does not wait for that: it says them when they come to its mind.
#[test]
fn notices_before_a_login_come_after_it() {
    let ca = TestCa::new();
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Authority::parse(&database.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig {
        connect_to: [(Authority::parse("allowed.test:5432").unwrap(), at)].into(),
        ..EngineConfig::default()
    };
    let destinations = vec!["allowed.test:5432"];
    let tls = ca.issue(&["allowed.test"]).unwrap().server_config(&[]).unwrap();
    let scene = Scene::of(Setting { destinations, config, ..Setting::with(ca) });
    let value = scene.canary.value().to_owned();
    let serving = thread::spawn(move || {
        let (mut tcp, _) = database.accept().unwrap();
        tcp.read_exact(&mut [0; 8]).unwrap();
        tcp.write_all(b"S").unwrap();
        let tls = ServerConnection::new(Arc::new(tls)).unwrap();
        remark_and_let_in(StreamOwned::new(tls, tcp), &value);
    });
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = door.local_addr().unwrap().port();
    let door = {
        let database = dial(&scene, "allowed.test:5432");
        thread::spawn(move || join(door.accept().unwrap().0, database))
    };
    let psql = Command::new("psql")
        .args(["-X", "-c", "SELECT 1", "-d"])
        .arg(format!("host=127.0.0.1 port={port} user=agent dbname=notes sslmode=disable"))
        .env("PGPASSWORD", &scene.placeholder)
        .output()
        .unwrap();
    let said = [psql.stdout, psql.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    for expected in ["SELECT 1", "before the login", &scene.placeholder] {
        assert!(said.contains(expected), "no {expected}: {said}");
    }
    scene.canary.assert_absent("what psql said", said.as_bytes());
    door.join().unwrap();
    serving.join().unwrap();
}

/// PostgreSQL waits for a login for a minute, a person who is asked about one may take five.
#[test]
fn a_database_that_hung_up_meanwhile_is_met_once_more() {
    let ca = TestCa::new();
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Authority::parse(&database.local_addr().unwrap().to_string()).unwrap();
    let config = EngineConfig {
        connect_to: [(Authority::parse("allowed.test:5432").unwrap(), at)].into(),
        ..EngineConfig::default()
    };
    let destinations = vec!["allowed.test:5432"];
    let tls = Arc::new(ca.issue(&["allowed.test"]).unwrap().server_config(&[]).unwrap());
    let scene = Scene::of(Setting { destinations, config, ..Setting::with(ca) });
    *scene.broker.hesitates.lock() = Duration::from_millis(500);
    let value = scene.canary.value().to_owned();
    let serving = thread::spawn(move || {
        for is_patient in [false, true] {
            let (mut tcp, _) = database.accept().unwrap();
            tcp.read_exact(&mut [0; 8]).unwrap();
            tcp.write_all(b"S").unwrap();
            let mut tls = ServerConnection::new(Arc::clone(&tls)).unwrap();
            tls.complete_io(&mut tcp).unwrap();
            if is_patient {
                let mut client = StreamOwned::new(tls, tcp);
                assert!(!hear(&mut client).is_empty());
                say(&mut client, b'R', &[0, 0, 0, 3]);
                client.read_exact(&mut [0]).unwrap();
                assert!(hear(&mut client).starts_with(value.as_bytes()));
                say(&mut client, b'R', &[0, 0, 0, 0]);
            }
        }
    });
    let mut client = dial(&scene, "allowed.test:5432");
    client.write_all(b"\0\0\0\x14\0\x03\0\0user\0agent\0\0").unwrap();
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"R\0\0\0\x08\0\0\0\x03");
    let length = u32::try_from(scene.placeholder.len() + 5).unwrap().to_be_bytes();
    let password = [b"p", &length[..], scene.placeholder.as_bytes(), b"\0"].concat();
    client.write_all(&password).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"R\0\0\0\x08\0\0\0\0", "{}", String::from_utf8_lossy(&answer));
    serving.join().unwrap();
}

fn say(client: &mut impl Write, kind: u8, body: &[u8]) {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    client.write_all(&[&[kind], &length[..], body].concat()).unwrap();
}

fn hear(client: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
    client.read_exact(&mut body).unwrap();
    body
}

/// A database that remarks something before it asks who is there, and again before it lets them in.
fn remark_and_let_in(mut client: impl Read + Write, password: &str) {
    let notice = |words: &str| format!("SNOTICE\0VNOTICE\0C00000\0M{words}\0\0");
    hear(&mut client);
    say(&mut client, b'N', notice("before the login").as_bytes());
    say(&mut client, b'R', &[0, 0, 0, 3]);
    client.read_exact(&mut [0]).unwrap();
    assert!(hear(&mut client).starts_with(password.as_bytes()));
    say(&mut client, b'N', notice(&format!("welcome with {password}")).as_bytes());
    say(&mut client, b'R', &[0, 0, 0, 0]);
    say(&mut client, b'Z', b"I");
    client.read_exact(&mut [0]).unwrap();
    assert_eq!(hear(&mut client), b"SELECT 1\0");
    say(&mut client, b'C', b"SELECT 1\0");
    say(&mut client, b'Z', b"I");
    // Its goodbye.
    let _ = client.read_to_end(&mut Vec::new());
}

/// Carries bytes both ways, until both have ended.
fn join(client: TcpStream, database: UnixStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), database.try_clone().unwrap());
    let there = thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (database, client);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    there.join().unwrap();
}

#[test]
fn others_show_it_in_their_own_words() {
    let scene = scene();
    let mut refused = Vec::new();
    for (target, said, begins, code) in [
        ("allowed.test:3306", &b""[..], &b"\0\xff\x6a\x04keyless: "[..], Code::ProtocolRefused),
        ("allowed.test:6379", b"*1\r\n$4\r\nPING\r\n", b"-ERR keyless: ", Code::ProtocolRefused),
        ("allowed.test:2222", b"SSH-2.0-x\r\n", b"SSH-2.0-Keyless\r\n", Code::ProtocolRefused),
        ("other.test:22", b"SSH-2.0-x\r\n", b"SSH-2.0-Keyless\r\n", Code::PortRefused),
        ("other.test:25", b"", b"554 5.7.1 keyless: ", Code::PortRefused),
        ("8.8.8.8:80", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 403 ", Code::RawAddress),
        ("8.8.8.8:443", b"\x16\x03\x01\x02\x00", b"\x15\x03\x03\0\x02\x02\x31", Code::RawAddress),
    ] {
        let mut stream = dial(&scene, target);
        stream.write_all(said).unwrap();
        let mut answer = vec![0; 600];
        let read = stream.read(&mut answer).unwrap();
        answer.truncate(read);
        // MySQL's packet begins with its length.
        let from = if target.ends_with("3306") { 3 } else { 0 };
        assert!(
            answer[from..].starts_with(begins),
            "{target}: {:?}",
            String::from_utf8_lossy(&answer)
        );
        refused.push(code);
        scene.assert_refused(&refused);
    }
}

/// Where no secret would be needed, another protocol is none of our business.
#[test]
fn a_foreign_tunnel_stays_a_tunnel() {
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Authority::parse(&database.local_addr().unwrap().to_string()).unwrap();
    let route = |from: &str| (Authority::parse(from).unwrap(), at.clone());
    let config = EngineConfig {
        connect_to: [route("db.test:5432"), route("allowed.test:5433"), route("allowed.test:3306")]
            .into(),
        ..EngineConfig::default()
    };
    let scene = Scene::of(Setting { config, ..Setting::default() });
    for target in ["db.test:5432", "allowed.test:5433"] {
        let mut stream = dial(&scene, target);
        stream.write_all(&SSL_REQUEST).unwrap();
        let (mut server, _) = database.accept().unwrap();
        let mut heard = [0; 8];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(heard, SSL_REQUEST, "{target}");
        server.write_all(b"S").unwrap();
        stream.read_exact(&mut heard[..1]).unwrap();
        assert_eq!(heard[0], b'S', "{target}");
    }
    let mut stream = dial(&scene, "allowed.test:3306");
    let (mut server, _) = database.accept().unwrap();
    server.write_all(b"its greeting").unwrap();
    let mut greeting = [0; 12];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"its greeting");
    assert!(scene.refused().is_empty());
}

/// A secret that names a database and the like beside its HTTPS.
fn scene() -> Scene {
    let ports = [443, 2222, 3306, 5432, 6379];
    let destinations =
        ports.map(|port| &*Box::leak(format!("allowed.test:{port}").into_boxed_str())).to_vec();
    Scene::of(Setting { destinations, ..Setting::default() })
}

/// A connection as the jail's funnel hands it over.
fn dial(scene: &Scene, target: &str) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let _context = scene.runtime.enter();
    let theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
    let target = keyless_egress::Target::Name(Authority::parse(target).unwrap());
    let (engine, session) = (Arc::clone(&scene.engine), Arc::clone(&scene.session));
    scene.runtime.spawn(async move { engine.serve_stream(session, theirs, target).await });
    ours
}
