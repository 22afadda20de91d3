//! Starts a jail and keeps hold of it, from outside.
//!
//! The caller's threads are never forked: the same executable is started again under another name
//! and becomes the jail's init, see [`crate::init_if_asked`].

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::net::Shutdown;

use crate::channel::{self, Failure, Orders, Purpose, READY_DESCRIPTORS, Report, Step};
use crate::diagnosis;
use crate::network::funnel::FunnelSockets;
use crate::plan::{ESCAPE_VARIABLES, Plan, paths_named};
use crate::terminal::Foreground;
use crate::{init, sys};

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

/// The command in a jail. Dropping it kills everything in the jail.
#[derive(Debug)]
pub struct JailProcess {
    control: OwnedFd,
    command: OwnedFd,
    foreground: Foreground,
    end: Mutex<End>,
}

#[derive(Debug)]
struct End {
    init: Child,
    exit: Option<Exit>,
}

impl JailProcess {
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
        if let Some(exit) = end.exit {
            return exit;
        }
        let exit = loop {
            match channel::receive(&self.control) {
                Ok(Some((Report::Exited(code), _))) => break Exit::Code(code),
                Ok(Some((Report::Signalled(signal), _))) => break Exit::Signal(signal),
                Ok(Some((Report::Stopped, _))) => self.foreground.stop_with(&self.command),
                // The init was killed, and with it everything.
                _ => break Exit::Signal(libc::SIGKILL),
            }
        };
        self.finish(&mut end, exit);
        exit
    }

    /// Sends a signal to every process in the jail.
    pub fn signal_all(&self, signal: i32) {
        channel::order_signal(&self.control, signal);
    }

    /// Kills everything in the jail; [`JailProcess::wait`] then says `Signal(9)`.
    pub fn kill(&self) {
        let _ = rustix::net::shutdown(&self.control, Shutdown::Both);
    }

    fn finish(&self, end: &mut End, exit: Exit) {
        let _ = end.init.wait();
        self.foreground.restore();
        end.exit = Some(exit);
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
    make(plan, None, Foreground::remember())
}

fn make(
    plan: &Plan,
    streams: Option<Streams>,
    foreground: Foreground,
) -> Result<Jailed, JailError> {
    let (control, init, fds) = start(Purpose::Run, plan, streams)?;
    let end = Mutex::new(End { init, exit: None });
    let Ok([tcp, dns_udp, dns_tcp, command]) = <[OwnedFd; READY_DESCRIPTORS]>::try_from(fds) else {
        return Err(JailError::Lost);
    };
    let sockets = FunnelSockets {
        tcp: TcpListener::from(tcp),
        dns_udp: UdpSocket::from(dns_udp),
        dns_tcp: TcpListener::from(dns_tcp),
    };
    Ok(Jailed { sockets, process: JailProcess { control, command, foreground, end } })
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

/// As [`spawn`], but the command has these streams, a session of its own and no terminal.
pub fn spawn_detached(plan: &Plan, streams: Streams) -> Result<Jailed, JailError> {
    make(plan, Some(streams), Foreground::none())
}

/// Whether a jail can be made here, by making one and taking it down.
pub fn check() -> Result<(), JailError> {
    let (_, mut init, _) = start(Purpose::Probe, &Plan::default(), None)?;
    let _ = init.wait();
    Ok(())
}

/// Starts the init and waits for its first report.
fn start(
    purpose: Purpose,
    plan: &Plan,
    streams: Option<Streams>,
) -> Result<(OwnedFd, Child, Vec<OwnedFd>), JailError> {
    let orders = Orders::new(purpose, plan, ways_out_of_caller());
    let written = orders.write().map_err(JailError::Start)?;
    let (ours, theirs) = channel::pair().map_err(JailError::Start)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(init::MARKER).args(descriptor_numbers(&theirs, &written)).env_clear();
    sys::inherit(&mut command, &[theirs.as_fd(), written.as_fd()]);
    if let Some(Streams { input, output, errors }) = streams {
        command.stdin(input).stdout(output).stderr(errors);
        sys::detach(&mut command);
    }
    let mut init = command.spawn().map_err(JailError::Start)?;
    // It holds its own copies of the streams.
    drop(command);
    drop((theirs, written));
    match channel::receive(&ours) {
        Ok(Some((Report::Ready, fds))) => Ok((ours, init, fds)),
        other => {
            drop(ours);
            let _ = init.wait();
            Err(match other {
                Ok(Some((Report::Failed(failure), _))) => explain(failure, &orders),
                _ => JailError::Lost,
            })
        }
    }
}

fn descriptor_numbers(control: &impl AsFd, orders: &impl AsFd) -> [String; 2] {
    use std::os::fd::AsRawFd;
    [control.as_fd(), orders.as_fd()].map(|fd| fd.as_raw_fd().to_string())
}

/// The sockets that the caller's own variables name, wherever they are.
fn ways_out_of_caller() -> Vec<OsString> {
    ESCAPE_VARIABLES
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .flat_map(|value| paths_named(&value))
        .map(OsString::from)
        .collect()
}

/// Turns the init's report into what a caller can act on.
fn explain(failure: Failure, orders: &Orders) -> JailError {
    let source = match failure.errno {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(failure.words.clone()),
    };
    match failure.step {
        Step::Command => {
            let command = orders.command.first().cloned().unwrap_or_default();
            match source.kind() {
                io::ErrorKind::NotFound => JailError::CommandNotFound { command },
                _ => JailError::CommandNotExecutable { command, source },
            }
        }
        Step::WorkingDirectory => {
            JailError::WorkingDirectory { path: orders.working_directory.clone(), source }
        }
        step => match diagnosis::diagnose(step, &source, &diagnosis::Machine::read()) {
            Some((cause, remedy)) => JailError::Unavailable { cause, remedy, source },
            None => JailError::SetUp { doing: failure.doing, source },
        },
    }
}
