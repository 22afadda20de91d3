//! Linux' word for it: `openat2` (5.6).

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2, syncfs},
    io::Errno,
};

/// A folder that other calls start at, and that is not read itself.
pub(super) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens what stands at `path` below `root`; `ELOOP` at the first link on the way.
pub(super) fn open(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat2(root, path, flags, Mode::empty(), RESOLVE)
}

/// Puts everything that was written on the file system of `root` onto the disk.
pub(super) fn sync(root: &OwnedFd) -> Result<(), Errno> {
    syncfs(root)
}
