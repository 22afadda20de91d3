//! Unix sockets that only this user can reach.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
};

use keyless_core::{Code, Error, SafeText};
use tokio::net::{UnixListener, UnixStream};

/// Whether somebody listens at `path`.
pub(crate) async fn is_live(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

/// Binds a socket of mode 0600; a dead one is replaced, a live one or another file is not.
pub(crate) async fn bind_private(path: &Path) -> Result<UnixListener, Error> {
    let place = || SafeText::default().as_they_wrote(&path.to_string_lossy());
    if is_live(path).await {
        let detail = place().and(" is in use by another process");
        return Err(Error::with(Code::PathUnusable, detail));
    }
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        let _ = fs::remove_file(path);
    }
    let bound = UnixListener::bind(path).and_then(|listener| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map(|()| listener)
    });
    bound.map_err(|error| Error::with(Code::PathUnusable, place().and(": ").and(error.kind())))
}
