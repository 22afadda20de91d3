//! Unix sockets that only this user can reach.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
};

use keyless_core::{Code, Error, SafeText};
use keyless_guest::{bind_unix, connect_unix};
use tokio::net::{UnixListener, UnixStream};

use crate::places::unusable;

/// Only this user's processes; the directory's mode says so already.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// The error that the other end told of.
pub(crate) fn told_error(code: &str, detail: &str) -> Error {
    let known = Code::ALL.iter().copied().find(|known| known.as_str() == code);
    let detail = SafeText::default().as_they_wrote_in_full(detail);
    Error::with(known.unwrap_or(Code::Internal), detail)
}

/// Whether somebody listens at `path`.
pub(crate) async fn is_live(path: &Path) -> bool {
    connect_unix(path).await.is_ok()
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
