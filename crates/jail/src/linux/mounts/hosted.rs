//! What of the host's surroundings leads out of a jail: sockets that have a path, and further mounts
//! of kernel file systems.
//!
//! A network namespace keeps out what is abstract or on the network; a socket with a path is reached
//! through the file system. All that are bound now are found here. One bound later in a shared
//! directory such as `/tmp` is not, but for the gathering places: directories known to hold such
//! sockets, which the jail gets of its own.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::linux::orders::Ground;

/// Each socket that is covered is a mount, of which there can't be any number: whoever left thousands would keep every jail
/// from being made.
const MOST_IN_FOLDER: usize = 256;

/// Read by the init, before it changes what it sees of the host's files.
pub(crate) struct Surroundings {
    /// To be covered like hidden paths.
    pub(crate) ways_out: Vec<PathBuf>,
    /// To be replaced by directories of the jail's own, with these modes.
    pub(crate) gathering_places: Vec<(PathBuf, u32)>,
    /// The kernel's list of mounts.
    pub(crate) mounts: String,
}

/// The kernel's list of the sockets of this network namespace, and where those are that stand in it by relative paths.
/// Looked up before the init has namespaces of its own, from which neither is to be seen.
pub(crate) struct SocketList {
    listed: String,
    relative: Vec<PathBuf>,
}

impl SocketList {
    pub(crate) fn open() -> Self {
        let listed = File::open("/proc/net/unix").map(kernel_list).unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let relative = relative_sockets(&listed);
        Self { listed, relative }
    }
}

impl Surroundings {
    pub(crate) fn read(ground: &Ground, sockets: SocketList) -> Self {
        let mounts = mount_list();
        let mut ways_out = bound_sockets(&sockets.listed);
        ways_out.extend(sockets.relative);
        // A name may be one of another mount namespace, and something else in ours.
        ways_out.retain(|path| path.metadata().is_ok_and(|file| file.file_type().is_socket()));
        ways_out.extend(kernel_mounts(&mounts));
        ways_out.extend(mounted_sockets(&mounts));
        let home = ground.home.as_ref().map(|home| (Path::new(home), 1));
        for (folder, depth) in [("/tmp", 2), ("/var/tmp", 1)]
            .map(|(folder, depth)| (Path::new(folder), depth))
            .into_iter()
            .chain(home)
            .filter(|(folder, _)| !is_replaced(ground, folder))
        {
            find_sockets(folder, depth, &mut ways_out);
        }
        // Usually a link to /run, which is replaced.
        ways_out.push("/var/run".into());
        let mut gathering_places = gathering_places();
        let own = ground.own_directories.iter();
        gathering_places.extend(own.map(|(path, mode)| (PathBuf::from(path), *mode)));
        Self { ways_out, gathering_places, mounts }
    }
}

/// The kernel's list of mounts, as this process sees them. Empty where it can't be read.
pub(super) fn mount_list() -> String {
    let list = File::open("/proc/self/mountinfo").map(kernel_list).unwrap_or_default();
    String::from_utf8_lossy(&list).into_owned()
}

/// Reads a list that has no length, a page at a time: without room for it, it would be made anew for every few lines.
/// Empty where it can't be read.
fn kernel_list(mut file: File) -> Vec<u8> {
    let mut list = Vec::with_capacity(64 << 10);
    if file.read_to_end(&mut list).is_err() {
        list.clear();
    }
    list
}

/// Whether the jail has a folder of its own there, so that it is no matter what the host has in it: a `/tmp` may hold
/// thousands of folders.
fn is_replaced(ground: &Ground, folder: &Path) -> bool {
    ground.show.is_empty()
        && ground.own_directories.iter().any(|(path, _)| folder.starts_with(Path::new(path)))
}

/// Made in advance where only the user's own program would: what is created later would be shared.
fn gathering_places() -> Vec<(PathBuf, u32)> {
    let tmux = PathBuf::from(format!("/tmp/tmux-{}", getuid().as_raw()));
    let _ = fs::DirBuilder::new().mode(0o700).create(&tmux);
    let shared = ["/tmp/.ICE-unix", "/tmp/.X11-unix", "/tmp/.XIM-unix", "/tmp/screens"];
    shared.into_iter().map(|path| (path.into(), 0o1777)).chain([(tmux, 0o700)]).collect()
}

/// The absolute paths in `/proc/net/unix`: every socket bound in this network namespace.
fn bound_sockets(listed: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        socket_names(listed).filter(|name| name.starts_with('/')).map(PathBuf::from).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Sockets that were bound by a relative path. It began at the working directory of a process, which is likely to be
/// there still; those of other users' processes can't be seen.
fn relative_sockets(listed: &str) -> Vec<PathBuf> {
    let mut names: Vec<&str> =
        socket_names(listed).filter(|name| !name.starts_with(['/', '@'])).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).collect();
    folders.sort();
    folders.dedup();
    let places = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    places.filter(|path| path.metadata().is_ok_and(|file| file.file_type().is_socket())).collect()
}

/// What stands behind seven columns, which may be aligned.
fn socket_names(listed: &str) -> impl Iterator<Item = &str> {
    let name = |line: &'_ str| -> Option<usize> {
        let mut rest = line;
        for _ in 0..7 {
            rest = rest.trim_start_matches(' ').split_once(' ')?.1;
        }
        Some(line.len() - rest.len())
    };
    listed.lines().skip(1).filter_map(move |line| Some(&line[name(line)?..]))
}

/// Sockets that are mounted by themselves, as containers get that of their host: they are bound in another network namespace,
/// whose list is not ours.
fn mounted_sockets(mountinfo: &str) -> impl Iterator<Item = PathBuf> {
    mount_points(mountinfo)
        .filter(|path| path.metadata().is_ok_and(|file| file.file_type().is_socket()))
}

/// Mounts of kernel file systems elsewhere than where the jail replaces them (in a chroot, say): the
/// host's processes and devices would show there.
fn kernel_mounts(mountinfo: &str) -> Vec<PathBuf> {
    const KINDS: &[&str] = &["devpts", "devtmpfs", "proc", "sysfs"];
    const REPLACED: &[&str] = &["/dev", "/proc", "/sys"];
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let path = mount_point(mount)?;
            let is_kernels = KINDS.contains(&kind.split(' ').next()?);
            let elsewhere = !REPLACED.iter().any(|replaced| path.starts_with(replaced));
            (is_kernels && elsewhere).then_some(path)
        })
        .collect()
}

/// Where something is mounted, by the kernel's list.
pub(super) fn mount_points(mountinfo: &str) -> impl Iterator<Item = PathBuf> {
    mountinfo.lines().filter_map(mount_point)
}

fn mount_point(line: &str) -> Option<PathBuf> {
    Some(unescape(line.split(' ').nth(4)?).into())
}

/// Blanks stand as octal numbers in `mountinfo`.
pub(super) fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Finds the sockets in a folder, and as deep below it. A folder below that is full of them counts as one.
fn find_sockets(folder: &Path, depth: u8, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_socket() {
            found.push(entry.path());
        } else if kind.is_dir() && depth > 1 {
            let before = found.len();
            find_sockets(&entry.path(), depth - 1, found);
            if found.len() - before > MOST_IN_FOLDER {
                found.truncate(before);
                found.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_mounted_by_itself_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("docker.sock"), folder.path().join("hosts"));
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::write(&file, "").unwrap();
        let line = |at: &Path| format!("30 22 0:25 /x {} rw - tmpfs tmpfs rw\n", at.display());
        let mounts = [line(&socket), line(&file), line(Path::new("/gone"))].concat();
        assert_eq!(mounted_sockets(&mounts).collect::<Vec<_>>(), [socket]);
    }

    #[test]
    fn a_folder_full_of_sockets_counts_as_one() {
        let top = tempfile::tempdir().unwrap();
        let full = top.path().join("full");
        fs::create_dir(&full).unwrap();
        for number in 0..=MOST_IN_FOLDER {
            std::os::unix::net::UnixListener::bind(full.join(number.to_string())).unwrap();
        }
        let one = top.path().join("one");
        std::os::unix::net::UnixListener::bind(&one).unwrap();
        let mut found = Vec::new();
        find_sockets(top.path(), 2, &mut found);
        found.sort();
        assert_eq!(found, [full, one]);
    }

    #[test]
    fn sockets_are_read_from_the_kernels_list() {
        let listed = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 18273 /tmp/a b/agent.1\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 18274\n\
            0000000000000000: 00000002 00000000 00010000 0001 01   275 run/a /b.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 18275 @/tmp/.X11-unix/X0\n";
        assert_eq!(bound_sockets(listed), [PathBuf::from("/tmp/a b/agent.1")]);
        let names: Vec<_> = socket_names(listed).collect();
        assert_eq!(names, ["/tmp/a b/agent.1", "run/a /b.sock", "@/tmp/.X11-unix/X0"]);
    }

    #[test]
    fn a_proc_of_a_chroot_is_found_and_ours_is_not() {
        let mounts = "22 27 0:21 / /proc rw,relatime shared:1 - proc proc rw\n\
            99 27 0:21 / /srv/my\\040root/proc rw - proc proc rw\n\
            23 27 0:6 / /dev/pts rw - devpts devpts rw\n";
        assert_eq!(kernel_mounts(mounts), [PathBuf::from("/srv/my root/proc")]);
    }
}
