//! The jail's view of the host's files.
//!
//! The host's tree stays as it is, read-write where it was, but for: `/proc`, `/dev` and `/run`, which
//! are the jail's own; `/sys`, read-only; the resolver files and, once the job is known, the trust stores,
//! replaced; and what is hidden, covered. All mounts are locked once the capabilities are gone: nothing inside can undo them.
//!
//! The order matters: everything is read and cloned from the host's tree first, then `/run` is replaced
//! and filled with the read-only area, and only then is anything bound.

mod aliases;
pub(crate) mod area;
mod canonical;
mod covers;
mod devices;
pub(crate) mod hosted;
mod kernel;
mod links;
mod resolver;
pub(crate) mod sight;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};

use crate::linux::bounds;
use crate::linux::channel::{During, Failure, Step};
use crate::linux::orders::{Ground, Job};
use crate::linux::sys::{self, Reach};
use crate::linux::trust::roots::Roots;
use crate::linux::trust::stores::{Stock, TrustStores, Way};
use crate::plan::TOOLS_SOCKET;
use area::Area;
use covers::Covers;
use devices::Devices;
use hosted::Surroundings;

/// Rearranges the mount namespace that this process is in. Needs CAP_SYS_ADMIN over it, and to be in
/// the PID namespace that `/proc` shall show.
pub(crate) fn build(ground: &Ground, surroundings: &Surroundings) -> Result<(), Failure> {
    let covers = Covers::resolve(ground, surroundings)?;
    let devices = Devices::take(ground.terminal)
        .during(Step::Devices, || "take the devices to keep".into())?;
    let resolver = resolver::files(ground);

    detach_from_host(ground)?;
    kernel::mount_proc().during(Step::Proc, || "mount a new /proc".into())?;
    bounds::of_processes(ground.bounds)?;
    let mut area = Area::mount(ground.bounds).during(Step::Mounts, || "mount a new /run".into())?;
    for (name, target, text) in &resolver {
        let source =
            area.file(name, text.as_bytes()).during(Step::Mounts, || format!("write {name}"))?;
        area.cover(source, target);
    }
    if let Some(socket) = &ground.tools_socket {
        area.link(TOOLS_SOCKET, socket).during(Step::Mounts, || format!("make {TOOLS_SOCKET}"))?;
    }
    let covered = covers.place(&mut area).during(Step::Hide, || "prepare the covers".into())?;
    area.bind_all()?;
    devices.mount(ground.bounds).during(Step::Devices, || "mount a new /dev".into())?;
    covered.apply()?;
    kernel::restrict().during(Step::Proc, || "restrict /proc and /sys".into())
}

/// Prepares for a CA that may come, in a jail that stands. `roots` are read where they aren't known.
pub(crate) fn stock_trust(ground: &Ground, roots: Option<&Roots>) -> Result<Stock, Failure> {
    // A jail that people work in sees the host's files change.
    let way = if ground.read_only { Way::Layered } else { Way::Copied };
    let mut area = reopen()?;
    let stock = match roots {
        Some(roots) => Stock::take(&mut area, way, roots),
        None => Stock::take(&mut area, way, &Roots::read()),
    };
    let stock = stock.during(Step::Trust, || "copy the trust stores".into())?;
    area.bind_all()?;
    Ok(stock)
}

/// Puts the job's CA into every trust store that is seen in the jail, which stands.
pub(crate) fn trust(job: &Job, stock: Stock) -> Result<(), Failure> {
    let mut area = reopen()?;
    let databases = TrustStores::read(job, stock)
        .place(&mut area)
        .during(Step::Trust, || "prepare the trust stores".into())?;
    area.bind_all()?;
    databases.bind()
}

fn reopen() -> Result<Area, Failure> {
    Area::reopen().during(Step::Trust, || "open the jail's own files".into())
}

/// No mount of ours shows on the host or the other way; no device node works but those taken before.
fn detach_from_host(ground: &Ground) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).during(Step::Mounts, || "make the mounts private".into())?;
    let mut forbidden = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;
    if ground.read_only {
        forbidden |= libc::MOUNT_ATTR_RDONLY;
    }
    sys::mount_attributes(Path::new("/"), Reach::Tree, forbidden, 0).during(Step::Mounts, || {
        "forbid devices and set-id files (mount_setattr, Linux 5.12)".into()
    })
}

/// A copy of the mounts at and below `path`, attached nowhere yet.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Mounts what is at `path` on itself, a link as well: it can't be renamed or removed then.
fn pin(path: &Path) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    attach(&open_tree(CWD, path, flags)?, path)
}

/// Attaches a copy.
fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Makes an empty file or directory to mount on, with the directories above it.
fn mount_point(path: &Path, kind: Kind) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    match kind {
        Kind::Directory => std::fs::create_dir_all(path),
        Kind::File => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::File::create(path).map(drop)
        }
    }
}

/// What a mount point must be: only a directory can be mounted on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    /// A file, a socket, a device.
    File,
}

impl Kind {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(if path.metadata()?.is_dir() { Self::Directory } else { Self::File })
    }
}
