//! What of the machine a jail may use up, so that a command which runs away takes no more of it.
//!
//! Processes are counted by the kernel for each user in each user namespace, so for each jail (`RLIMIT_NPROC`, since
//! Linux 5.14). Root is exempt from that, in a user namespace too; there the numbers run out, which a PID namespace has of
//! its own since Linux 6.14. A control group would serve both, but an unprivileged process can rarely make one.

use std::{ffi::CString, fs};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::{
    linux::channel::{During, Failure, Step},
    plan::Bounds,
};

/// Files may take up as much memory in what the kernel keeps of each as in bytes.
const BYTES_OF_FILE: u64 = 4096;
/// Of the bytes in the jail's folders, so much once more in `/dev/shm`.
const SHARED_MEMORY: u64 = 4;
/// All that is ever needed in `/dev` are devices.
const DEVICES: u64 = 64 << 10;

/// Whose count of processes is this jail's alone.
#[derive(Clone, Copy)]
enum Counter {
    /// A user in a user namespace.
    User,
    /// A PID namespace.
    Numbers,
}

impl Counter {
    fn is_here(self) -> bool {
        let since = match self {
            Self::User => (5, 14),
            Self::Numbers => (6, 14),
        };
        let system = rustix::system::uname();
        system.release().to_str().ok().and_then(version).is_some_and(|version| version >= since)
    }
}

/// `6.14.0-29-generic` is (6, 14).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Bounds the processes of the jail that this is PID 1 of, where the kernel can. `/proc/sys` must still be writable.
pub(super) fn of_processes(bounds: Option<Bounds>) -> Result<(), Failure> {
    let Some(Bounds { processes, .. }) = bounds else { return Ok(()) };
    // On an older kernel the number is the machine's, and root could change that from here.
    if Counter::Numbers.is_here() {
        // Not where /proc/sys can't be written, as in some containers.
        let _ = fs::write("/proc/sys/kernel/pid_max", processes.to_string());
    }
    if Counter::User.is_here() {
        let most = Some(processes);
        setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })
            .during(Step::Supervision, || "limit the processes".into())?;
    }
    Ok(())
}

/// The options of a file system in memory where the jail's folders are: mode, and what it may hold.
pub(super) fn of_folders(mode: &str, bounds: Option<Bounds>) -> CString {
    options(mode, bounds.map(|bounds| bounds.bytes))
}

/// The options of the file system in memory at `/dev/shm`: mode, and what it may hold.
pub(super) fn of_shared_memory(mode: &str, bounds: Option<Bounds>) -> CString {
    options(mode, bounds.map(|bounds| bounds.bytes / SHARED_MEMORY))
}

/// The options of the file system in memory at `/dev`: mode, and what it may hold.
pub(super) fn of_devices(mode: &str, bounds: Option<Bounds>) -> CString {
    options(mode, bounds.map(|_| DEVICES))
}

fn options(mode: &str, bytes: Option<u64>) -> CString {
    let text = match bytes {
        Some(bytes) => {
            // On a small machine less: without a word of ours the kernel lets it be half of the memory.
            let bytes = bytes.min(memory() / 4);
            let files = (bytes / BYTES_OF_FILE).max(64);
            format!("mode={mode},size={bytes},nr_inodes={files}")
        }
        None => format!("mode={mode}"),
    };
    CString::new(text).expect("modes and numbers have no NUL")
}

/// The machine's, in bytes.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(u64::from(system.mem_unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_version_is_what_its_release_begins_with() {
        let check = |release: &str, expected| assert_eq!(version(release), expected, "{release}");
        check("6.14.0-29-generic", Some((6, 14)));
        check("5.14-rc1", Some((5, 14)));
        check("6.6.87.2-microsoft-standard-WSL2", Some((6, 6)));
        check("7", None);
        check("next", None);
    }
}
