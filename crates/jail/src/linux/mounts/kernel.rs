//! `/proc` of the jail's own processes, and kernel files that must not be written or read.
//!
//! A process may write `/proc/sys` with the rights of its real user, so a jail started by root could
//! set the host's `core_pattern`; read-only mounts hold for root too. The lists are those of the OCI
//! runtimes, longer by what the same file shows under another name.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind};

use super::area::{EMPTY, NOTHING};
use crate::linux::sys::{self, Reach};

const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/sys", "/proc/sysrq-trigger"];
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];

/// Mounts a `/proc` of this process's PID namespace over the host's.
pub(super) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, None)?)
}

/// Makes `/sys` and parts of `/proc` read-only, and covers others. The area must be in place.
pub(super) fn restrict() -> io::Result<()> {
    match sys::mount_attributes(Path::new("/sys"), Reach::Tree, libc::MOUNT_ATTR_RDONLY, 0) {
        // Not a mount: a container without sysfs.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        other => other?,
    }
    for path in READ_ONLY.iter().map(Path::new).filter(|path| path.exists()) {
        mount_bind(path, path)?;
        sys::mount_attributes(path, Reach::One, libc::MOUNT_ATTR_RDONLY, 0)?;
    }
    for path in MASKED.iter().map(Path::new) {
        let Ok(metadata) = path.metadata() else { continue };
        match mount_bind(if metadata.is_dir() { NOTHING } else { EMPTY }, path) {
            // Covered or made invisible by the host already.
            Ok(()) | Err(Errno::NOENT | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
