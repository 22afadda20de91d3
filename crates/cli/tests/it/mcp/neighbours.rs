//! Other people's processes on the machine, and other processes of one's own account: what of a broker they can read.

use std::{
    fs,
    os::unix::{net::UnixStream, process::CommandExt as _},
    process::{Command, Output},
};

use keyless_testkit::Origin;
use serde_json::{Value, json};

use crate::{
    invocation::{Background, memory_of},
    world::{ALLOWED, VARIABLE, World, wait_until},
};

/// The broker's account, and a stranger's. Only root can give a process another one.
const OWNER: u32 = 40_001;
const STRANGER: u32 = 40_002;
/// What everybody who may trace a process reads of it, and nobody else.
const GUARDED: [&str; 12] = [
    "environ", "maps", "smaps", "mem", "auxv", "syscall", "stack", "fd", "root", "readv", "ptrace",
    "pidfd",
];

/// A broker of an account of its own, where this test may make one.
struct Owned<'w> {
    world: &'w World,
    owner: Option<u32>,
}

impl<'w> Owned<'w> {
    fn unlocked(world: &'w World) -> Self {
        let broker = Self::locked(world);
        let unlocked = broker.keyless(&["unlock", "--for", "10m"]);
        assert!(unlocked.status.success(), "{}", String::from_utf8_lossy(&unlocked.stderr));
        broker
    }

    fn locked(world: &'w World) -> Self {
        let owner = rustix::process::geteuid().is_root().then_some(OWNER);
        if let Some(owner) = owner {
            let home = world.home.keyless_home().parent().unwrap().to_owned();
            // Wherever the binary is, another account may not reach it.
            fs::copy(crate::invocation::KEYLESS, home.join("keyless-binary")).unwrap();
            let all = ["-R", &format!("{owner}:{owner}"), home.to_str().unwrap()];
            assert!(Command::new("chown").args(all).status().unwrap().success());
        }
        Self { world, owner }
    }

    /// `keyless ARGUMENTS` of this account, with another process of it that has hold of the program before it runs.
    fn watched(&self, way: &str, arguments: &[&str]) -> Background<'w> {
        let (binary, factor) = (self.binary(), self.world.operator_file("passphrase"));
        let script = ["python3", "-c", include_str!("watcher.py"), way];
        let factor = ["--factor", factor.to_str().unwrap()];
        let words = [&script[..], &factor, &[&binary], arguments].concat();
        self.world.keyless(&[]).instead(&words).by_account(self.owner).start()
    }

    fn is_unlocked(&self) -> bool {
        let status = self.keyless(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        status["data"]["unlocked"] == json!(true)
    }

    fn binary(&self) -> String {
        let home = self.world.home.keyless_home();
        let copy = home.parent().unwrap().join("keyless-binary");
        match self.owner {
            Some(_) => copy.to_str().unwrap().to_owned(),
            None => crate::invocation::KEYLESS.to_owned(),
        }
    }

    fn keyless(&self, arguments: &[&str]) -> Output {
        let binary = self.binary();
        let words = [&[binary.as_str()], arguments].concat();
        let words = self.world.keyless(&[]).instead(&words).by_account(self.owner);
        let output = words.into_command().output().unwrap();
        self.world.saw("stdout", &output.stdout);
        output
    }

    /// A session that has used the secret and stays.
    fn used(&self, origin: &Origin) -> Background<'w> {
        let script = r#"curl -sS -H "X: $TOKEN" https://api.allowed.test/ > /dev/null; echo used; read -r x"#;
        let binary = self.binary();
        let words = [binary.as_str(), "run", "--no-jail", "--", "sh", "-c", script];
        // With a passphrase it would open the store by itself.
        let run = self.world.keyless(&[]).without_passphrase().instead(&words);
        let mut run = run.by_account(self.owner).start();
        assert_eq!(run.line(), "used");
        self.world.assert_received(origin);
        run
    }

    /// The process behind the socket, as the kernel names it.
    fn process(&self) -> i32 {
        let socket = self.world.home.keyless_home().join("run/agent.sock");
        let stream = UnixStream::connect(socket).unwrap();
        let peer = rustix::net::sockopt::socket_peercred(&stream).unwrap();
        assert!(self.owner.is_none_or(|owner| peer.uid.as_raw() == owner));
        peer.pid.as_raw_nonzero().get()
    }

    /// What a process of `account` gets hold of.
    fn tried_by(&self, account: Option<u32>) -> Value {
        let script = include_str!("neighbours.py");
        let run = self.world.home.keyless_home().join("run");
        let mut command = Command::new("python3");
        command.args(["-c", script, &self.process().to_string(), run.to_str().unwrap()]);
        command.current_dir("/");
        let output = by_account(&mut command, account).output().unwrap();
        self.world.saw("a neighbour", &output.stdout);
        self.world.saw("a neighbour", &output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        let fault = String::from_utf8_lossy(&output.stderr);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {fault}"))
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.keyless(&["lock"]);
    }
}

fn by_account(command: &mut Command, account: Option<u32>) -> &mut Command {
    match account {
        Some(account) => command.uid(account).gid(account),
        None => command,
    }
}

#[test]
fn nobody_reads_a_brokers_memory_or_hears_a_value_at_its_sockets() {
    let world = World::with_token();
    let broker = Owned::unlocked(&world);
    // Another process of the account that the broker runs as: an agent outside of every jail.
    let same = broker.tried_by(broker.owner);
    for what in GUARDED {
        assert!(
            same[what].as_str().is_some_and(|came| came.starts_with("denied")),
            "{what}: {same}"
        );
    }
    let opened = same["agent.sock"].to_string();
    assert!(opened.contains("placeholder") && opened.contains(VARIABLE), "{same}");
    let operators = same["operator.sock"].as_array().unwrap();
    for answer in operators {
        let answer: Value = serde_json::from_str(answer.as_str().unwrap()).unwrap();
        let code = answer["code"].as_str().unwrap();
        assert!(["operator_required", "bad_request"].contains(&code), "{same}");
    }
    let Some(_) = broker.owner else { return };
    // Somebody else's.
    let strangers = broker.tried_by(Some(STRANGER));
    for what in GUARDED.into_iter().chain(["agent.sock", "operator.sock"]) {
        let came = strangers[what].as_str();
        assert!(came.is_some_and(|came| came.starts_with("denied")), "{what}: {strangers}");
    }
}

/// As `keyless unlock` starts a broker, and by hand. The program's memory and its map are opened before its first
/// instruction, as by a process that watches for it and wins, and are read while the store is open.
#[test]
fn who_has_opened_a_brokers_memory_before_it_began_reads_no_value() {
    if tracing_is_forbidden() {
        return;
    }
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    // The factor's word on the routes to the origin.
    let broker = Owned::unlocked(&world);
    broker.keyless(&["lock"]);
    let unlocks = ["broker", "--factor-stdin", "--for", "600s"];
    for (way, in_front) in [(&unlocks[..], false), (&["broker"], true)] {
        let mut watcher = broker.watched("hold", way);
        assert_eq!(watcher.line(), "held", "{way:?}");
        wait_until("it is unlocked", || broker.is_unlocked());
        let mut session = broker.used(&origin);
        // Who may do anything finds the value: it is there.
        if let Ok(all) = memory_of(broker.process().unsigned_abs()) {
            assert!(world.canary.find(&all).is_some(), "{way:?}");
        }
        watcher.say(world.canary.value());
        let seen: Value = serde_json::from_str(&watcher.line()).unwrap();
        assert_eq!(seen["found"], json!(false), "{way:?}: {seen}");
        // What was opened is the memory of the process that stands in front, or of none any more.
        assert_eq!(seen["read"].as_u64().unwrap() > 0, in_front, "{way:?}: {seen}");
        session.say("");
        session.wait();
        broker.keyless(&["lock"]);
    }
}

#[test]
fn a_broker_that_is_traced_opens_no_store() {
    if tracing_is_forbidden() {
        return;
    }
    let world = World::with_token();
    let broker = Owned::locked(&world);
    for way in [&["broker"][..], &["serve", "--http", "127.0.0.1:0"]] {
        let mut watcher = broker.watched("trace", way);
        assert_eq!(watcher.line(), r#"{"ended": 7}"#, "{way:?}");
        assert!(!broker.is_unlocked(), "{way:?}");
    }
}

/// Yama lets nobody trace, or nobody without a capability.
fn tracing_is_forbidden() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    ["2", "3"].contains(&scope.trim())
}
