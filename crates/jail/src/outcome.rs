//! What comes of a plan: a command in its jail and the way out of it, or why there is none.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use crate::system::JailProcess;

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
    /// This is no Linux.
    #[error(
        "a jail is made of Linux's namespaces, which this system does not have; --no-jail runs without one"
    )]
    NotLinux,
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

impl JailError {
    /// What makes a jail possible here, where a setting of the machine is in the way: a command or a sentence.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Unavailable { remedy, .. } => Some(remedy),
            _ => None,
        }
    }
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

/// Listening sockets of the jail's network namespace, non-blocking. Their own addresses are IPv6
/// wildcards that take IPv4 as well (mapped peers), or IPv4 ones on a host without IPv6.
#[derive(Debug)]
pub struct FunnelSockets {
    /// Any TCP connection but to 127.0.0.0/16 and ::1; ask [`crate::original_destination`].
    pub tcp: TcpListener,
    /// DNS queries to any address, as datagrams. Answer from this socket to the sender.
    pub dns_udp: UdpSocket,
    /// DNS queries to any address, over TCP.
    pub dns_tcp: TcpListener,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
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
