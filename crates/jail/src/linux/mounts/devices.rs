//! The jail's own `/dev`: the harmless devices, and new pseudo-terminals.
//!
//! The host's is not enough covered by permissions: a disk that belongs to root is open to a jail
//! whose user is root, and the user's other terminals are open to anyone of the same user. As in
//! other sandboxes a terminal that the command shares with its caller, which does not control the caller's session, stands at
//! `/dev/console`, where `ttyname` finds it. Any other it has from here.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use rustix::termios::isatty;

use super::area::mount_tmpfs;
use super::{attach, clone_tree};
use crate::{
    linux::{bounds, console::Fitting},
    plan::Bounds,
};

const NODES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// Copies of the host's nodes, taken while they can be reached.
pub(super) struct Devices {
    nodes: Vec<(PathBuf, OwnedFd)>,
}

impl Devices {
    /// Takes them from the host's `/dev`; its `/proc` must still be mounted.
    pub(super) fn take(terminal: Option<Fitting>) -> io::Result<Self> {
        let mut nodes = Vec::new();
        for name in NODES {
            let path = Path::new("/dev").join(name);
            if path.exists() {
                nodes.push((path.clone(), clone_tree(&path)?));
            }
        }
        if let (None, Some(terminal)) = (terminal, shared_terminal()) {
            nodes.push(("/dev/console".into(), clone_tree(&terminal)?));
        }
        Ok(Self { nodes })
    }

    /// Mounts the new `/dev`.
    pub(super) fn mount(&self, bounds: Option<Bounds>) -> io::Result<()> {
        mount_tmpfs("/dev", &bounds::of_devices("0755", bounds))?;
        for (path, tree) in &self.nodes {
            File::create(path)?;
            attach(tree, path)?;
        }
        for (name, target) in LINKS {
            symlink(target, Path::new("/dev").join(name))?;
        }
        fs::create_dir("/dev/pts")?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("devpts", "/dev/pts", "devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")?;
        fs::create_dir("/dev/shm")?;
        mount_tmpfs("/dev/shm", &bounds::of_shared_memory("1777", bounds))
    }
}

/// The path of the terminal that is standard input, output or error.
fn shared_terminal() -> Option<PathBuf> {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let number = standard.iter().position(isatty)?;
    let path = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    let open = rustix::fs::fstat(standard[number].as_fd()).ok()?;
    let named = rustix::fs::stat(&path).ok()?;
    // The name may be of another mount namespace, or of a terminal that is gone.
    (open.st_rdev == named.st_rdev).then_some(path)
}
