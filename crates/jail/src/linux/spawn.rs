//! A jail for one command, and how the caller keeps hold of it from outside.

use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::net::Shutdown;
use rustix::process::Signal;

use crate::linux::channel::{self, Order, Report};
use crate::linux::orders::{Ground, Purpose};
use crate::linux::relay::Terminals;
use crate::linux::standing::{Guardian, Origin, Standing};
use crate::linux::sys;
use crate::linux::terminal::Outer;
use crate::outcome::{Exit, JailError, Jailed};
use crate::plan::{ESCAPE_VARIABLES, Plan};

/// The command in a jail. Dropping it kills everything in the jail, and takes that down.
#[derive(Debug)]
pub struct JailProcess {
    control: OwnedFd,
    command: OwnedFd,
    /// Where the caller has a terminal.
    terminals: Option<Terminals>,
    end: Mutex<End>,
}

/// How it ended, once it has; until then, who knows when everything has.
#[derive(Debug)]
enum End {
    Open(Guardian),
    Seen(Exit),
}

impl JailProcess {
    pub(crate) fn new(
        control: OwnedFd,
        command: OwnedFd,
        terminals: Option<Terminals>,
        guardian: Guardian,
    ) -> Self {
        Self { control, command, terminals, end: Mutex::new(End::Open(guardian)) }
    }

    /// Sends a signal to the command (not to its children), as `kill` would. Does nothing once it ended.
    pub fn signal(&self, signal: i32) {
        if let Some(terminals) = &self.terminals {
            terminals.note(signal);
        }
        let _ = sys::signal_pidfd(&self.command, signal);
    }

    /// Blocks until the command ends; by then every process of the jail has ended. May be called
    /// again, and from any thread.
    ///
    /// Meanwhile what is typed at the caller's terminal goes to the command's own, if the caller is in the foreground, and
    /// what comes back goes there. If the command is stopped (by Ctrl-Z, say), so is the caller's process group, for its shell
    /// to see.
    pub fn wait(&self) -> Exit {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let guardian = match &mut *end {
            End::Open(guardian) => guardian,
            End::Seen(exit) => return *exit,
        };
        let report = match &self.terminals {
            Some(terminals) => terminals.relay(&self.control, &self.command),
            None => self.report(),
        };
        let exit = match report {
            Some(Report::Exited(code)) => Exit::Code(code),
            Some(Report::Signalled(signal)) => Exit::Signal(signal),
            // The init was killed, and with it everything.
            _ => {
                guardian.see_the_end();
                Exit::Signal(libc::SIGKILL)
            }
        };
        // All but the init had ended before it told. That waits to be let go: of the keeper's when this is dropped,
        // of a child of ours now, as it has to be waited for.
        if guardian.is_ours() {
            self.kill();
        }
        guardian.reap();
        *end = End::Seen(exit);
        exit
    }

    /// The last report, for a command that has no terminal.
    fn report(&self) -> Option<Report> {
        loop {
            match channel::receive(&self.control).ok()?? {
                (Report::Stopped(_), _) => {}
                (report, _) => return Some(report),
            }
        }
    }

    /// Passes on what the terminal said to the caller's process group, of which the command is not where it has a
    /// terminal of its own. Else it has heard it.
    pub fn signal_of_terminal(&self, signal: i32) {
        let passed_on = Signal::from_named_raw(signal)
            .filter(|signal| matches!(*signal, Signal::INT | Signal::QUIT));
        if let (Some(terminals), Some(signal)) = (&self.terminals, passed_on) {
            terminals.pass_on(signal, &self.command);
        }
    }

    /// Whether [`JailProcess::wait`] has seen the end, so that all there is left to do is to take the jail down.
    pub fn has_ended(&self) -> bool {
        self.end.try_lock().is_ok_and(|end| matches!(*end, End::Seen(_)))
    }

    /// Sends a signal to every process in the jail.
    pub fn signal_all(&self, signal: i32) {
        channel::order(&self.control, Order::Signal(signal));
    }

    /// Kills everything in the jail; [`JailProcess::wait`] then says `Signal(9)`.
    pub fn kill(&self) {
        let _ = rustix::net::shutdown(&self.control, Shutdown::Both);
    }
}

impl Drop for JailProcess {
    fn drop(&mut self) {
        self.kill();
        self.wait();
    }
}

/// Starts the plan's command in a new jail. Blocks for the few milliseconds of the set-up.
///
/// The command inherits standard input, output and error. A terminal that controls the caller's session it does not get,
/// but one of its own in place of it, and [`JailProcess::wait`] passes on between the two; where there is none, the
/// session and process group are the caller's. It is running when this returns; its connections wait until they are
/// accepted.
pub fn spawn(plan: &Plan) -> Result<Jailed, JailError> {
    let outer = Outer::find();
    let fitting = outer.as_ref().map(Outer::fitting);
    let mut ground = Ground::new(Purpose::Run, plan, ways_out_of_caller());
    ground.terminal = fitting;
    let mut standing = Standing::make(&ground, Origin::Caller)?;
    // A key that stops the terminal's group stops the caller until here, and whoever starts the jail with it.
    let terminals = match (outer, standing.master.take(), fitting) {
        (Some(outer), Some(master), Some(fitting)) => Some(Terminals::join(outer, master, fitting)),
        _ => None,
    };
    let terminals = terminals.transpose().map_err(JailError::Start)?;
    standing.hand(plan, None).map_err(JailError::Start)?;
    standing.begin(plan, terminals)
}

/// Whether a jail can be made here, by making one and taking it down.
pub fn check() -> Result<(), JailError> {
    Standing::probe(&Ground::new(Purpose::Probe, &Plan::default(), ways_out_of_caller()))
}

/// The sockets that the caller's own variables name, wherever they are.
pub(crate) fn ways_out_of_caller() -> Vec<OsString> {
    ESCAPE_VARIABLES
        .iter()
        .filter_map(std::env::var_os)
        .flat_map(|value| paths_named(value.as_bytes()))
        .map(OsString::from)
        .collect()
}

/// The paths that a variable of [`ESCAPE_VARIABLES`] names: as is, behind `unix:` or `unix://`, or
/// among the comma separated fields of a D-Bus address (`unix:path=/p,guid=..;unix:path=/q`). The whole of it is a path
/// too, since a file's name may have a comma in it.
fn paths_named(value: &[u8]) -> Vec<PathBuf> {
    let fields = value.split(|byte| matches!(byte, b';' | b','));
    let mut paths: Vec<PathBuf> = iter::once(value).chain(fields).filter_map(path_in).collect();
    paths.dedup();
    paths
}

fn path_in(field: &[u8]) -> Option<PathBuf> {
    let field = field.strip_prefix(b"unix:").unwrap_or(field);
    let field = field.strip_prefix(b"path=").unwrap_or(field);
    let path = field.strip_prefix(b"//").unwrap_or(field);
    path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_in_every_spelling() {
        let check = |value: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(paths_named(value.as_bytes()), expected, "{value}");
        };
        check("/tmp/ssh-x/agent.1", &["/tmp/ssh-x/agent.1"]);
        check("unix:///var/run/docker.sock", &["/var/run/docker.sock"]);
        let bus = "/run/user/1/bus,guid=ab;unix:path=/q";
        check(&format!("unix:path={bus}"), &[bus, "/run/user/1/bus", "/q"]);
        check("/tmp/tmux-0/default,123,0", &["/tmp/tmux-0/default,123,0", "/tmp/tmux-0/default"]);
        // In a variable, a name need not be text.
        let odd = OsStr::from_bytes(b"/tmp/\xff/agent");
        assert_eq!(paths_named(odd.as_bytes()), [PathBuf::from(odd)]);
        check("tcp://127.0.0.1:2375", &[]);
        check("unix:abstract=/tmp/dbus-1", &[]);
    }
}
