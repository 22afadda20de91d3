//! macOS' word for it: `O_NOFOLLOW_ANY` (macOS 11).

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags, fcntl_fullfsync, openat, sync as write_everything},
    io::Errno,
};

/// A folder that other calls start at.
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens what stands at `path` below `root`; `ELOOP` at the first link on the way. Nothing else leads out:
/// a [`RelPath`](crate::paths::RelPath) has no `..`.
pub(super) fn open(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(root, path, flags | OFlags::NOFOLLOW_ANY, Mode::empty())
}

/// Puts everything that was written on the file system of `root` onto the disk: what is in memory is sent to the
/// drive, and the drive told to empty its cache. There is no call for one file system alone.
pub(super) fn sync(root: &OwnedFd) -> Result<(), Errno> {
    write_everything();
    fcntl_fullfsync(root)
}
