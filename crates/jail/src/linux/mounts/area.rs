//! The jail's own `/run`, and in it `/run/keyless`: a read-only area with the files that are bound
//! over the host's.
//!
//! Nothing of the host's `/run` remains, as that is where the sockets live that lead out: Docker,
//! D-Bus, the agents of SSH and GPG, nscd, systemd. Only links into a store of packages are kept
//! (NixOS finds its programs through `/run/current-system`).

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountFlags, fsopen, mount, mount_bind};
use rustix::process::getuid;

use super::hosted::{mount_list, mount_points};
use super::{Kind, mount_point};
use crate::linux::channel::{During, Failure, Step};
use crate::linux::{
    bounds,
    sys::{self, Reach},
};
use crate::plan::Bounds;

const RUN: &str = "/run";
const AREA: &str = "/run/keyless";
/// Writable directories of the jail's own, in the place of shared ones.
const PRIVATE: &str = "/run/.keyless-private";
/// An empty directory, and an empty file, to cover others with. Read-only like the whole area.
pub(crate) const NOTHING: &str = "/run/keyless/nothing";
pub(crate) const EMPTY: &str = "/run/keyless/empty";

/// The area while it is filled, and what shall be bound where.
pub(crate) struct Area {
    binds: Vec<(PathBuf, PathBuf)>,
}

impl Area {
    /// Replaces `/run`, where directories of the jail's own are as well.
    pub(crate) fn mount(bounds: Option<Bounds>) -> io::Result<Self> {
        let kept = package_links();
        mount_tmpfs(RUN, &bounds::of_folders("0755", bounds))?;
        for (link, target) in kept {
            symlink(target, link)?;
        }
        fs::create_dir("/run/user")?;
        let own = format!("/run/user/{}", getuid().as_raw());
        fs::DirBuilder::new().mode(0o700).create(own)?;
        fs::create_dir("/run/lock")?;
        fs::set_permissions("/run/lock", fs::Permissions::from_mode(0o1777))?;
        fs::create_dir(PRIVATE)?;
        fs::create_dir(AREA)?;
        mount_tmpfs(AREA, c"mode=0755")?;
        let mut area = Self { binds: Vec::new() };
        area.directory("nothing")?;
        area.file("empty", b"")?;
        Ok(area)
    }

    /// Lets more be added to the area, and bound. What is bound from it already stays read-only.
    pub(crate) fn reopen() -> io::Result<Self> {
        sys::mount_attributes(Path::new(AREA), Reach::One, 0, libc::MOUNT_ATTR_RDONLY)?;
        Ok(Self { binds: Vec::new() })
    }

    /// Writes a file of the area; `name` may be its whole path.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn file(&mut self, name: impl AsRef<Path>, content: &[u8]) -> io::Result<PathBuf> {
        let path = Path::new(AREA).join(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Makes a link in the area; `name` may be its whole path.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn link(
        &mut self,
        name: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> io::Result<()> {
        symlink(target, Path::new(AREA).join(name))
    }

    /// Gives a file of the area, which nothing is bound from yet, another name, and adds to it.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn complete(
        &mut self,
        begun: impl AsRef<Path>,
        name: impl AsRef<Path>,
        rest: &[u8],
    ) -> io::Result<PathBuf> {
        let path = Path::new(AREA).join(name);
        fs::rename(Path::new(AREA).join(begun), &path)?;
        fs::OpenOptions::new().append(true).open(&path)?.write_all(rest)?;
        Ok(path)
    }

    /// Makes a directory of the area, to be filled by the caller.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn directory(&mut self, name: impl AsRef<Path>) -> io::Result<PathBuf> {
        let path = Path::new(AREA).join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Makes a writable directory that is the jail's own.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn private_directory(&mut self, mode: u32) -> io::Result<PathBuf> {
        let path = Path::new(PRIVATE).join(fs::read_dir(PRIVATE)?.count().to_string());
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Shows `upper`, of this area, and the host's directory `target` there as one, read-only; a name that both have
    /// is `upper`'s. For a short time: neither may change from here on (`overlayfs`, "Changes to underlying
    /// filesystems"). Fails, and does nothing, where the kernel can't (Linux 5.11). To be asked of [`Overlays`] first.
    #[expect(clippy::unused_self, reason = "to have an area is the proof that it is mounted")]
    pub(crate) fn layer(&mut self, upper: &Path, target: &Path) -> io::Result<()> {
        let layers = [upper, target].map(Path::to_str);
        let [Some(upper), Some(lower)] = layers else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // What separates layers and options.
        if [upper, lower].iter().any(|path| path.contains([':', ',', '\\', '"'])) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let options = CString::new(format!("lowerdir={upper}:{lower}"))?;
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        Ok(mount("overlay", target, "overlay", flags, options.as_c_str())?)
    }

    /// `source`, of this area, shall stand at `target`.
    pub(crate) fn cover(&mut self, source: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.binds.push((source.into(), target.into()));
    }

    /// Makes the area read-only and binds everything, in the order in which it was asked for.
    pub(crate) fn bind_all(self) -> Result<(), Failure> {
        sys::mount_attributes(Path::new(AREA), Reach::One, libc::MOUNT_ATTR_RDONLY, 0)
            .during(Step::Mounts, || format!("make {AREA} read-only"))?;
        for (source, target) in &self.binds {
            if target.starts_with(RUN) {
                mount_point(target, Kind::File)
                    .during(Step::Mounts, || format!("make {}", target.display()))?;
            }
            // Binds made from a read-only mount are read-only.
            bind(source, target).during(Step::Hide, || format!("cover {}", target.display()))?;
        }
        Ok(())
    }
}

/// Where a directory of ours can be laid over one of the host's.
pub(crate) struct Overlays {
    /// The kernel's list; empty where no directory can be laid over any.
    mounts: String,
}

impl Overlays {
    /// To be done when everything is covered that will be.
    pub(crate) fn look() -> Self {
        // A kernel without says so here, and most of what a mount costs is not spent.
        let are_known = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).is_ok();
        Self { mounts: if are_known { mount_list() } else { String::new() } }
    }

    /// Not where something is mounted below, such as a cover: what lies under it would show.
    pub(crate) fn are_possible_at(&self, target: &Path) -> bool {
        let covers = |point: PathBuf| point != target && point.starts_with(target);
        !self.mounts.is_empty() && !mount_points(&self.mounts).any(covers)
    }
}

/// A target that has gone since it was found needs no cover.
pub(crate) fn bind(source: &Path, target: &Path) -> rustix::io::Result<()> {
    match mount_bind(source, target) {
        Err(Errno::NOENT) if !target.exists() => Ok(()),
        other => other,
    }
}

/// Whether this process is in a jail, by what every jail has.
pub fn is_inside() -> bool {
    Path::new(NOTHING).is_dir()
}

pub(super) fn mount_tmpfs(path: &str, options: &CStr) -> io::Result<()> {
    Ok(mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?)
}

/// Links of `/run` that lead elsewhere, such as into `/nix/store`.
fn package_links() -> Vec<(PathBuf, PathBuf)> {
    let Ok(entries) = fs::read_dir(RUN) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
        .filter(|(_, target)| target.starts_with("/nix/store") || target.starts_with("/gnu/store"))
        .collect()
}
