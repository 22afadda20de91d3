//! What a caller asks for, and how it keeps hold of a command in its jail, from outside.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::Shutdown;

use crate::channel::{self, Report};
use crate::network::funnel::FunnelSockets;
use crate::orders::{Ground, Purpose};
use crate::plan::{ESCAPE_VARIABLES, Plan, paths_named};
use crate::standing::{Guardian, Origin, Standing};
use crate::sys;
use crate::terminal::Foreground;

/// Why there is no jail, or no command in it.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The command is not in the `PATH`, or not at its path; a shell's exit status for it is 127.
    #[error("command {} was not found", command.display())]
    CommandNotFound {
        /// As it was asked for.
        command: OsString,
    },
    /// The command is there and can't be executed; a shell's exit status for it is 126.
    #[error("command {} cannot be executed", command.display())]
    CommandNotExecutable {
        /// As it was asked for.
        command: OsString,
        /// What the kernel says.
        source: io::Error,
    },
    /// The process behind the jail ended without a word: killed, or out of memory.
    #[error("the jail's init ended before it was ready")]
    Lost,
    /// A step of the set-up failed that this machine should allow.
    #[error("failed to {doing}")]
    SetUp {
        /// What was being done.
        doing: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The jail's init could not be started at all.
    #[error("failed to start the jail's init")]
    Start(#[source] io::Error),
    /// This machine does not allow a jail.
    #[error("{cause}")]
    Unavailable {
        /// The setting or feature that is missing, by name.
        cause: String,
        /// A command or sentence that changes it.
        remedy: String,
        /// What the kernel says to the step that failed.
        source: io::Error,
    },
    /// The working directory can't be entered inside the jail: gone, or hidden.
    #[error("working directory {} cannot be entered inside the jail", path.display())]
    WorkingDirectory {
        /// As it was asked for.
        path: OsString,
        /// What the kernel says.
        source: io::Error,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A running command and the way out of its jail.
#[derive(Debug)]
pub struct Jailed {
    /// Where the jail's connections and DNS queries arrive.
    pub sockets: FunnelSockets,
    /// The command.
    pub process: JailProcess,
}

impl Jailed {
    /// See [`JailProcess::signal`].
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// See [`JailProcess::wait`].
    pub fn wait(&self) -> Exit {
        self.process.wait()
    }
}

/// The command in a jail. Dropping it kills everything in the jail, and takes that down.
#[derive(Debug)]
pub struct JailProcess {
    control: OwnedFd,
    command: OwnedFd,
    foreground: Foreground,
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
        foreground: Foreground,
        guardian: Guardian,
    ) -> Self {
        Self { control, command, foreground, end: Mutex::new(End::Open(guardian)) }
    }

    /// Sends a signal to the command (not to its children), as `kill` would. Does nothing once it ended.
    pub fn signal(&self, signal: i32) {
        let _ = sys::signal_pidfd(&self.command, signal);
    }

    /// Blocks until the command ends; by then every process of the jail has ended. May be called
    /// again, and from any thread.
    ///
    /// If the caller was in the foreground of a terminal when it started the command, and the command
    /// stops itself (an editor's Ctrl-Z), the caller's process stops as well, for its shell to see.
    pub fn wait(&self) -> Exit {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let guardian = match &mut *end {
            End::Open(guardian) => guardian,
            End::Seen(exit) => return *exit,
        };
        let exit = loop {
            match channel::receive(&self.control) {
                Ok(Some((Report::Exited(code), _))) => break Exit::Code(code),
                Ok(Some((Report::Signalled(signal), _))) => break Exit::Signal(signal),
                Ok(Some((Report::Stopped, _))) => self.foreground.stop_with(&self.command),
                // The init was killed, and with it everything.
                _ => {
                    guardian.see_the_end();
                    break Exit::Signal(libc::SIGKILL);
                }
            }
        };
        // All but the init had ended before it told. That waits to be let go: of the keeper's when this is dropped,
        // of a child of ours now, as it has to be waited for.
        if guardian.is_ours() {
            self.kill();
        }
        guardian.reap();
        self.foreground.restore();
        *end = End::Seen(exit);
        exit
    }

    /// Whether [`JailProcess::wait`] has seen the end, so that all there is left to do is to take the jail down.
    pub fn has_ended(&self) -> bool {
        self.end.try_lock().is_ok_and(|end| matches!(*end, End::Seen(_)))
    }

    /// Sends a signal to every process in the jail.
    pub fn signal_all(&self, signal: i32) {
        channel::order_signal(&self.control, signal);
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
/// The command inherits standard input, output and error, the session, the process group and with
/// it the terminal. It is running when this returns; its connections wait until they are accepted.
pub fn spawn(plan: &Plan) -> Result<Jailed, JailError> {
    let foreground = Foreground::remember();
    let ground = Ground::new(Purpose::Run, plan, ways_out_of_caller());
    let standing = Standing::make(&ground, Origin::Caller)?;
    standing.hand(plan, None).map_err(JailError::Start)?;
    standing.begin(plan, foreground)
}

/// The standard streams of a command that has no part in the caller's own.
#[derive(Debug)]
pub struct Streams {
    /// Read by the command.
    pub input: OwnedFd,
    /// Written by it.
    pub output: OwnedFd,
    /// Written by it.
    pub errors: OwnedFd,
}

/// Whether a jail can be made here, by making one and taking it down.
pub fn check() -> Result<(), JailError> {
    Standing::probe(&Ground::new(Purpose::Probe, &Plan::default(), ways_out_of_caller()))
}

/// The sockets that the caller's own variables name, wherever they are.
pub(crate) fn ways_out_of_caller() -> Vec<OsString> {
    ESCAPE_VARIABLES
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .flat_map(|value| paths_named(&value))
        .map(OsString::from)
        .collect()
}
