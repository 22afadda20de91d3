//! Runs a command on Linux, unprivileged, where the only way out is the funnel.
//!
//! A jail is a set of fresh user, mount, PID, IPC, UTS and network namespaces. The network one has no
//! route: DNS and every TCP connection, to whatever address and port, arrive at listening sockets that
//! the caller (the broker, outside) holds, see [`FunnelSockets`]. The host's files stay, but for the
//! well-known plaintext credentials, the other processes, the devices and every socket that leads out.
//! What to do with a connection is not decided here; nor does this crate ever see a secret.
//!
//! What a jail is not: the command works on the user's files and may leave something in them that
//! runs later, outside (`~/.bashrc`); for a jail made by root that is the whole system. And where the caller has no
//! terminal, the command is in the caller's process group and can kill that.
//!
//! Source: design.md section 4, reference/egress.md (c) and (g).
//!
//! ```text
//!   broker ── spawn ──► first stage ── clone ──► PID 1 of the jail ── fork ──► command
//!      ▲              waits for PID 1       maps, network, mounts, reaps     waits for the job
//!      ├────────── control socket: listening sockets, set-up errors, exit status ──┤
//!      └─ Reserve: jails that stand already, made by the keeper ── clone ──► PID 1 …
//! ```
//!
//! The program that calls [`spawn`] must call [`init_if_asked`] first thing in `main`: the jail's init
//! is the same executable, started again, so that no thread of the broker is ever forked. For [`Reserve`] it is
//! started once, as the keeper, which forks the init of each jail.
//!
//! Elsewhere than on Linux the same functions say that there is no jail ([`JailError::NotLinux`]), and nothing runs.

// What a caller says, and what it gets.
mod hidden;
mod outcome;
mod plan;
mod trust;

// How it is done: on Linux, and not at all elsewhere.
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

/// The table of plaintext credential files that a jail covers unless told otherwise.
pub use hidden::{default_hidden, own_logins};
/// A jail's network and trust for a machine that is its own jail: a microVM guest.
#[cfg(target_os = "linux")]
pub use linux::{
    DNS_PORT, EverythingDevice, FUNNEL_PORT, MachineNetwork, make_everything_local,
    redirect_everything, route_everything_to_device, trust_on_this_machine,
};
/// What comes of it.
pub use outcome::{Exit, FunnelSockets, JailError, Jailed, Streams};
/// What to run and what to hide.
pub use plan::{Bounds, ESCAPE_VARIABLES, Front, OwnFile, Plan, TOOLS_SOCKET, Variable};
/// The home directory that the system has for this account.
pub use system::account_home;
/// A process of its own memory for what others may not read.
pub use system::go_on_afresh;
/// Must be the first call of `main`.
pub use system::init_if_asked;
/// Whether the caller is in a jail itself.
pub use system::is_inside;
/// The bound on open files that a command begins with.
pub use system::jail_with_open_files;
/// Where a connection wanted to go.
pub use system::original_destination;
/// Making a jail, its process, and jails that stand before they are needed.
pub use system::{JailProcess, Outlook, Reserve, check, spawn};
/// What the kernel says of its clock, and what it does to descriptors, which have no safe wrapper either.
pub use system::{clock_in_step, close_on_exec_above_stderr};
/// The signals that a command would ignore if nothing stood between it and its caller.
pub use system::{hear_of_children, ignored_by_caller, start_ignoring};
/// Where the session's certificate authority stands inside, and the variables that name it.
pub use trust::{BUNDLE_IN_JAIL, CA_IN_JAIL, system_bundle, trust_environment};
