//! Unix sockets that only this user can reach, and who comes to those and others.

use std::{
    fs,
    future::Future,
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
    time::Duration,
};

use keyless_core::{Code, Error, SafeText};
use keyless_guest::{bind_unix, connect_unix};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::{places::unusable, seats::Process};

/// How long nothing is accepted once it has failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection of this user's processes.
pub(crate) async fn next_own(listener: &UnixListener) -> UnixStream {
    loop {
        let (stream, _) = next(|| listener.accept()).await;
        if is_ours(&stream) {
            return stream;
        }
    }
}

/// The next connection, and where it comes from.
pub(crate) async fn next_tcp(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    next(|| listener.accept()).await
}

async fn next<T, F: Future<Output = io::Result<T>>>(mut accept: impl FnMut() -> F) -> T {
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            // Out of descriptors, say; the next accept may do.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The directory's mode says so already.
fn is_ours(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// The process that connected.
pub(crate) fn process_of(stream: &UnixStream) -> Option<Process> {
    stream.peer_cred().ok()?.pid()
}

/// The error that the other end told of, by its code's name and its detail.
pub fn told_error(code: &str, detail: &str) -> Error {
    let known = Code::ALL.iter().copied().find(|known| known.as_str() == code);
    let detail = SafeText::default().as_they_wrote_in_full(detail);
    Error::with(known.unwrap_or(Code::Internal), detail)
}

/// Whether somebody listens at `path`.
pub(crate) async fn is_live(path: &Path) -> bool {
    match connect_unix(path).await {
        Ok(_) => true,
        // More wait to be accepted than have room.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Binds a socket of mode 0600; a dead one is replaced, a live one or another file is not.
pub(crate) async fn bind_private(path: &Path) -> Result<UnixListener, Error> {
    if is_live(path).await {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        return Err(Error::with(Code::PathUnusable, place.and(" is in use by another process")));
    }
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        let _ = fs::remove_file(path);
    }
    let bound = bind_unix(path).and_then(|listener| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map(|()| listener)
    });
    bound.map_err(|error| unusable(path, &error))
}
