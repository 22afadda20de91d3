//! What the operating systems have each in a way of their own.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

/// This program, to be started again.
#[cfg(target_os = "linux")]
pub use self::linux::this_program;
#[cfg(target_os = "linux")]
pub(crate) use self::linux::{LONGEST_SOCKET, heeded, hide_memory, notify_address, parent, tracer};
#[cfg(target_os = "macos")]
pub use self::macos::this_program;
#[cfg(target_os = "macos")]
pub(crate) use self::macos::{LONGEST_SOCKET, heeded, hide_memory, notify_address, parent, tracer};
