//! What actions need of the broker: values under permits, and jails. Object-safe.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Destination, EgressRule, Error, Handle, Permit, SecretPath, SecretValue, Uptime,
    grant::PermissionRef,
};
use tokio::io::{AsyncRead, AsyncWrite};
use zeroize::Zeroizing;

/// A secret that an action may use, and how.
#[derive(Clone, Debug)]
pub struct Entrusted {
    /// As the action names it.
    pub handle: Handle,
    /// The secret whose value is meant.
    pub path: SecretPath,
    /// The older value that is asked for; none means the one in force.
    pub version: Option<u32>,
    /// The form in which it enters the action's process.
    pub entry: Entry,
    /// Where its value may go on the wire, if it names that.
    pub rule: Option<EgressRule>,
    /// Whether its owner lets the value out of hand although it names that (`unsafe_expose`).
    pub is_exposed: bool,
    /// Which value is meant, on which terms.
    pub edition: Edition,
}

/// A value of a secret and the terms on which it is had; when either changes, it is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition {
    /// The value's version; none when it is kept elsewhere.
    pub version: Option<u32>,
    /// When the terms were set.
    pub set_at: Timestamp,
}

impl Entrusted {
    pub(crate) fn exchanged(&self) -> Exchanged {
        Exchanged { path: self.path.clone(), version: self.version }
    }
}

/// The form in which a secret enters a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A placeholder, which the way out exchanges toward the secret's destinations (rule 1).
    Placeholder,
    /// The value, into a jail that reaches what the grant names (rule 2).
    Value,
}

/// Whether what earlier actions rendered may still be used.
pub trait Standing: Send + Sync {
    /// Whether a permission still holds.
    fn is_permitted<'a>(&'a self, at: &'a PermissionRef) -> BoxFuture<'a, bool>;

    /// The value of a secret and its terms as they are now; nothing once it is gone.
    fn edition<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Option<Edition>>;
}

/// One action's way to values.
pub trait Release: Standing + 'static {
    /// What stands for a secret that names its destinations.
    fn placeholder(&self, path: &SecretPath) -> Result<String, Error>;

    /// The value of a secret, once its use is durable in the log.
    fn release<'a>(&'a self, secret: &'a Entrusted) -> BoxFuture<'a, Result<Released, Error>>;
}

/// A value and the permit that opens it.
pub struct Released {
    value: SecretValue,
    permit: Permit,
    clock: fn() -> Uptime,
}

impl Released {
    /// Joins a value with its permit, and with the clock that this is measured by.
    pub fn new(value: SecretValue, permit: Permit, clock: fn() -> Uptime) -> Self {
        Self { value, permit, clock }
    }

    /// The value's bytes, while the permit lasts.
    pub fn open(&self) -> Result<&[u8], Error> {
        self.value.open_with_permit(&self.permit, (self.clock)())
    }
}

/// A value that an action of this agent has had, and what it was called.
#[derive(Clone)]
pub struct Known {
    /// As the agent wrote it.
    pub name: String,
    /// The value.
    pub value: Zeroizing<Vec<u8>>,
}

/// A place for one command, which may be prepared before the command is known.
pub trait Berth: Send {
    /// Starts a shell with a script in a new jail.
    fn start(self: Box<Self>, command: Command) -> BoxFuture<'static, Result<Running, Error>>;
}

/// What runs in a jail.
pub struct Command {
    /// What `/bin/sh -c` gets.
    pub script: String,
    /// Variables beside the harmless ones of the broker's own environment.
    pub environment: Vec<(String, Zeroizing<Vec<u8>>)>,
    /// Files in the jail's own memory.
    pub files: Vec<File>,
    /// The way out.
    pub reach: Reach,
    /// Where it starts, when a person says so; then it also works on the files there, unless a value enters.
    pub working_directory: Option<PathBuf>,
    /// Whether a value is among what enters.
    pub holds_value: bool,
}

/// A file that one jail has.
#[derive(Clone)]
pub struct File {
    /// Where the file is.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// What is in it.
    pub content: Zeroizing<Vec<u8>>,
}

/// The way out of a jail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The placeholders that are exchanged on it; one for each secret.
    pub placeholders: Vec<Exchanged>,
    /// The only hosts that are reached; `None` is what policy lets everybody reach.
    pub only: Option<Vec<Destination>>,
}

/// A secret whose placeholder is exchanged on the way out, and for which of its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchanged {
    /// The secret.
    pub path: SecretPath,
    /// The older value that is asked for; none means the one in force.
    pub version: Option<u32>,
}

/// A command that runs.
pub struct Running {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error.
    pub errors: Box<dyn AsyncRead + Send + Unpin>,
    /// The process and its jail; dropping it ends everything in it.
    pub process: Box<dyn Process>,
}

/// A process and everything that it has started.
pub trait Process: Send + Sync {
    /// Asks all of them to end (SIGTERM).
    fn terminate(&self);

    /// Ends all of them.
    fn kill(&self);

    /// Waits for the end of the process; the others have ended by then.
    fn wait(&self) -> BoxFuture<'_, Exit>;

    /// The values that have gone out in place of placeholders so far: what was sent to one host may come back from
    /// another, or in another form than its own host is known to send.
    fn went_out(&self) -> Vec<WentOut>;
}

/// A value that has gone out in place of a placeholder.
#[derive(Clone)]
pub struct WentOut {
    /// The secret whose value it is.
    pub path: SecretPath,
    /// The value.
    pub value: Zeroizing<Vec<u8>>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// As a shell tells it: 128 and the signal's number.
    pub fn status(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}
