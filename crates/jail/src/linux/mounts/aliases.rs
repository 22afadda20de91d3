//! Other names of a hidden path: one file system is often mounted at several places (a home by a bind
//! mount, the physical root of an ostree system), and what is covered at one shows at the others.
//!
//! Hard links, snapshots and copies are other files, and not found here.

use std::path::{Path, PathBuf};

use super::hosted::unescape;

/// The mounts of a kernel's list.
pub(super) struct Mounts(Vec<Mount>);

struct Mount {
    /// The device of the file system.
    device: String,
    /// The part of the file system that is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Mounts {
    /// Reads `/proc/self/mountinfo`.
    pub(super) fn parse(mountinfo: &str) -> Self {
        let mount = |line: &str| {
            let mut words = line.split(' ').skip(2);
            let device = words.next()?.to_owned();
            let (root, at) = (unescape(words.next()?), unescape(words.next()?));
            Some(Mount { device, root: root.into(), at: at.into() })
        };
        Self(mountinfo.lines().filter_map(mount).collect())
    }

    /// Where else `path`, or a part of what is below it, is mounted. Something may be mounted over that.
    pub(super) fn other_names(&self, path: &Path) -> Vec<PathBuf> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        // Of two at one place the later one is seen.
        let Some(own) = above.max_by_key(|mount| mount.at.as_os_str().len()) else {
            return Vec::new();
        };
        let Ok(below) = path.strip_prefix(&own.at) else { return Vec::new() };
        let within = own.root.join(below);
        let others = self.0.iter().filter(|mount| mount.device == own.device);
        let name = |mount: &Mount| match within.strip_prefix(&mount.root) {
            Ok(rest) if rest.as_os_str().is_empty() => Some(mount.at.clone()),
            Ok(rest) => Some(mount.at.join(rest)),
            Err(_) => mount.root.starts_with(&within).then(|| mount.at.clone()),
        };
        others.filter_map(name).filter(|other| other != path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_name_for_each_mount() {
        let mounts = Mounts::parse(
            "22 1 8:1 / / rw - ext4 /dev/sda rw\n\
             23 22 8:2 / /home rw - ext4 /dev/sdb rw\n\
             24 22 8:2 /me /mnt/my\\040home rw - ext4 /dev/sdb rw\n\
             25 22 8:2 /me/.aws/sso /srv/sso rw - ext4 /dev/sdb rw\n\
             26 22 8:1 /srv /sysroot/srv rw - ext4 /dev/sda rw\n\
             27 22 8:2 /you /mnt/you rw - ext4 /dev/sdb rw\n",
        );
        let names = |path: &str| mounts.other_names(Path::new(path));
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(names("/home/me/.aws"), paths(&["/mnt/my home/.aws", "/srv/sso"]));
        assert_eq!(names("/mnt/my home/.netrc"), paths(&["/home/me/.netrc"]));
        assert_eq!(names("/srv/token"), paths(&["/sysroot/srv/token"]));
        assert_eq!(names("/etc/shadow"), paths(&[]));
    }
}
