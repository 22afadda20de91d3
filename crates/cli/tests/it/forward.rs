//! `keyless forward`: guests of several sessions on one node, with a hypervisor's Unix sockets.

use std::{
    io::{ErrorKind, IoSlice, Read as _, Write as _},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{fd::AsFd as _, unix::net::UnixStream},
    thread,
    time::Duration,
};

use rustix::{
    net::{
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::set_socket_linger,
    },
    process::Signal,
};
use serde_json::json;

use crate::{
    node::Node,
    world::{ALLOWED, EVIL, World, wait_until},
};

#[test]
fn a_guest_reaches_its_own_session() {
    let mut world = World::empty();
    let (origin, evil) = (world.origin(ALLOWED), world.origin(EVIL));
    let node = Node::start(&world);
    let guest = node.forwarder("thread-7");
    let placeholder = node.placeholder("thread-7");
    let answer = guest.get(ALLOWED, &placeholder);
    assert!(answer.contains("200 OK") && answer.contains(&placeholder), "{answer}");
    assert_eq!(origin.requests()[0].header("x-key"), Some(world.canary.value().to_owned()));
    assert!(guest.get(EVIL, &placeholder).contains("200 OK"));
    assert_eq!(evil.requests()[0].header("x-key"), Some(placeholder));
    let sessions: Vec<_> = world
        .log()
        .into_iter()
        .filter(|entry| entry["action"] == "egress")
        .map(|entry| entry["agent"]["session_id"].clone())
        .collect();
    assert!(!sessions.is_empty() && sessions.iter().all(|id| id == "thread-7"), "{sessions:?}");
}

#[test]
fn the_forwarder_never_holds_the_value() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let node = Node::start(&world);
    let guest = node.forwarder("thread-7");
    let placeholder = node.placeholder("thread-7");
    guest.get(ALLOWED, &placeholder);
    world.assert_received(&origin);
    let memory = guest.memory();
    let found = |text: &[u8]| memory.windows(text.len()).any(|window| window == text);
    assert!(found(b"keyless-forward/1 thread-7"), "the search finds what is there");
    world.canary.assert_absent("the forwarder's memory", &memory);
    assert!(!found(placeholder.as_bytes()), "it sees the guest's TLS, and not what is in it");
}

#[test]
fn one_guests_placeholder_is_nothing_in_anothers_hands() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let node = Node::start(&world);
    let (seven, eight) = (node.forwarder("thread-7"), node.forwarder("thread-8"));
    let stolen = node.placeholder("thread-8");
    let answer = seven.get(ALLOWED, &stolen);
    assert!(answer.contains("unknown_placeholder"), "{answer}");
    assert!(eight.get(ALLOWED, &stolen).contains("200 OK"));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_guest_can_not_say_who_it_is() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let node = Node::start(&world);
    let guest = node.forwarder("thread-7");
    let placeholder = node.placeholder("thread-8");
    for preamble in [
        "keyless-forward/1 thread-8\\napi.allowed.test:443\\n",
        "api.allowed.test:443 thread-8\\n",
        "443\\n",
        "\\n",
    ] {
        let answer = guest.get_with_preamble(ALLOWED, &placeholder, preamble);
        assert!(!answer.contains("HTTP/1.1"), "{preamble} {answer}");
    }
    assert_eq!(origin.connections().len(), 0);
}

#[test]
fn over_tcp_a_token_admits() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let place = |name: &str| world.operator_file(name).display().to_string();
    let (right, wrong) = (place("forward.token"), place("wrong.token"));
    world.home.write("operator/forward.token", "a-token-of-this-node\n").unwrap();
    world.home.write("operator/wrong.token", "a-token-of-that-node\n").unwrap();
    let listen = ["--listen", "forward:127.0.0.1:0"];
    let node = Node::start_with(&world, &[&listen[..], &["--forward-token", &right]].concat());
    let door = node.ready["listening"][0].as_str().unwrap().strip_prefix("forward:").unwrap();
    let placeholder = node.placeholder("thread-7");
    let liar = node.forwarder_to("thread-8", &["--to", door, "--token-file", &wrong]);
    assert!(!liar.get(ALLOWED, &node.placeholder("thread-8")).contains("HTTP/1.1"));
    let guest = node.forwarder_to("thread-7", &["--to", door, "--token-file", &right]);
    assert!(guest.get(ALLOWED, &placeholder).contains("200 OK"));
    assert_eq!(origin.requests().len(), 1);
    wait_until("it is logged", || world.log_of("proxy_auth_required").len() == 1);

    let bare = ["forward", "--listen", "unix:/tmp/x", "--to", door, "--session", "s"];
    let seen = world.keyless(&bare).run();
    assert!(seen.exits(2).errors().contains("--token-file"), "{}", seen.errors());
}

/// In the clear and without a length, the end of the connection is the end of the answer. A funnel on this machine lends
/// the forwarder its client's socket, which goes on to the sidecar.
#[test]
fn an_answer_that_breaks_off_does_not_look_whole() {
    let mut world = World::empty();
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    world.route("plain.test:80", &origin.local_addr().unwrap().to_string());
    let node = Node::start(&world);
    let guest = node.forwarder("thread-7");
    let origin = thread::spawn(move || {
        for linger in [Some(Duration::ZERO), None] {
            let (mut stream, _) = origin.accept().unwrap();
            stream.read_exact(&mut [0; "GET / HTTP/1.0\r\n\r\n".len()]).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhalf of").unwrap();
            // A reset overtakes what was not read yet.
            stream.read_exact(&mut [0; 1]).unwrap();
            set_socket_linger(&stream, linger).unwrap();
        }
    });
    for breaks_off in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let mut funnel = UnixStream::connect(&guest.socket).unwrap();
        let descriptors = [accepted.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let preamble = [IoSlice::new(b"plain.test:80\n")];
        sendmsg(&funnel, &preamble, &mut control, SendFlags::empty()).unwrap();
        funnel.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = [0; "HTTP/1.0 200 OK\r\n\r\nhalf of".len()];
        funnel.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(b"half of"));
        funnel.write_all(b".").unwrap();
        assert_eq!(funnel.read(&mut [0]).unwrap(), 0);
        drop((funnel, accepted));
        let ended = client.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(ended, if breaks_off { Err(ErrorKind::ConnectionReset) } else { Ok(0) });
    }
    origin.join().unwrap();
}

/// A snapshot that is restored later, elsewhere: same key and authority, another process.
#[test]
fn a_restored_guest_finds_everything_as_it_was() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let placeholder = {
        let mut node = Node::start(&world);
        let guest = node.forwarder("thread-7");
        let placeholder = node.placeholder("thread-7");
        assert!(guest.get(ALLOWED, &placeholder).contains("200 OK"));
        node.sidecar.signal(Signal::TERM);
        assert_eq!(node.sidecar.wait().code(), Some(0));
        placeholder
    };
    let baked = std::fs::read(world.operator_file("fleet-ca.pem")).unwrap();
    let node = Node::start(&world);
    assert_eq!(std::fs::read(node.ca()).unwrap(), baked);
    assert_eq!(node.placeholder("thread-7"), placeholder);
    assert!(node.forwarder("thread-7").get(ALLOWED, &placeholder).contains("200 OK"));
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_forwarder_waits_for_its_sidecar_and_cleans_up() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let mut node = Node::start(&world);
    let mut guest = node.forwarder("thread-7");
    let placeholder = node.placeholder("thread-7");
    node.sidecar.signal(Signal::TERM);
    node.sidecar.wait();
    assert!(!guest.get(ALLOWED, &placeholder).contains("HTTP/1.1"), "nobody is there");
    let node = Node::start(&world);
    assert!(guest.get(ALLOWED, &placeholder).contains("200 OK"));
    assert_eq!(origin.requests().len(), 1);
    guest.process.signal(Signal::TERM);
    assert_eq!(guest.process.wait().code(), Some(0));
    wait_until("the socket is gone", || !guest.socket.exists());
    drop(node);
}

/// The host's own vsock (vhost-vsock): each guest is a session, or one guest is the session.
#[test]
fn vsock_is_listened_on_where_the_kernel_has_it() {
    let world = World::empty();
    if !std::path::Path::new("/dev/vsock").exists() {
        let bare =
            ["forward", "--listen", "vsock:7:41025", "--to", "unix:/tmp/x", "--session", "s"];
        let seen = world.keyless(&bare).run();
        assert!(seen.exits(2).errors().contains("vsock:7:41025"), "{}", seen.errors());
        return;
    }
    let node = Node::start_with(&world, &["--listen", "vsock:41026", "--listen", "vsock:7:41027"]);
    assert_eq!(node.ready["listening"], json!(["vsock:41026", "vsock:7:41027"]));
    let taken = ["forward", "--listen", "vsock:7:41026", "--to", "unix:/tmp/x", "--session", "s"];
    let seen = world.keyless(&taken).run();
    let errors = seen.exits(2).errors();
    assert!(
        errors.contains("vsock:7:41026") && errors.contains("another address or port"),
        "{errors}"
    );
}
