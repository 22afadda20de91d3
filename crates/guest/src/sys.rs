//! Watching a descriptor that neither std nor tokio has a type for.
#![expect(unsafe_code, reason = "tokio wants to be told that a descriptor stays open")]

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Lets tokio say when `socket` is ready.
pub(crate) fn watch(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the only owner of its descriptor, which stays the same and open until
    // the `AsyncFd` that takes it has let go of it.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}
