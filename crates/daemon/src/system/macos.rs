//! macOS.

mod sys;

use std::{env, io, os::unix::net::SocketAddr, path::PathBuf};

pub(crate) use self::sys::{hide_memory, parent};

/// How long the path of a socket may be: what its address holds, without the final zero (`sys/un.h`).
pub(crate) const LONGEST_SOCKET: Option<usize> = Some(103);

/// Those of `signals` that this process was not started with as ignored.
pub(crate) fn heeded(signals: &[i32]) -> Vec<i32> {
    signals.iter().copied().filter(|signal| !sys::is_ignored(*signal)).collect()
}

/// Nobody: a debugger that has hold of this process is left by `hide_memory`.
pub(crate) fn tracer() -> Option<u32> {
    None
}

/// Where a service manager listens: a path.
pub(crate) fn notify_address(place: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(String::from_utf8_lossy(place).as_ref())
}

/// This program, to be started again.
pub fn this_program() -> io::Result<PathBuf> {
    env::current_exe()
}
