//! Other people's processes on the machine, and other processes of one's own account: what of a broker they can read.

use std::{
    fs,
    os::unix::{net::UnixStream, process::CommandExt as _},
    process::{Command, Output},
};

use serde_json::Value;

use crate::world::{VARIABLE, World};

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
        let owner = rustix::process::geteuid().is_root().then_some(OWNER);
        if let Some(owner) = owner {
            let home = world.home.keyless_home().parent().unwrap().to_owned();
            // Wherever the binary is, another account may not reach it.
            fs::copy(crate::invocation::KEYLESS, home.join("keyless-binary")).unwrap();
            let all = ["-R", &format!("{owner}:{owner}"), home.to_str().unwrap()];
            assert!(Command::new("chown").args(all).status().unwrap().success());
        }
        let broker = Self { world, owner };
        let unlocked = broker.keyless(&["unlock", "--for", "10m"]);
        assert!(unlocked.status.success(), "{}", String::from_utf8_lossy(&unlocked.stderr));
        broker
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
        let mut command = self.world.keyless(&[]).instead(&words).into_command();
        let output = as_account(&mut command, self.owner).output().unwrap();
        self.world.saw("stdout", &output.stdout);
        output
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
        let output = as_account(&mut command, account).output().unwrap();
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

fn as_account(command: &mut Command, account: Option<u32>) -> &mut Command {
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
