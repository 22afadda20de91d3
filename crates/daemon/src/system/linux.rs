//! Linux.

use std::{
    fs, io,
    os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr},
    path::{Path, PathBuf},
};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// How long the path of a socket may be; as long as any, since one is reached through its folder.
pub(crate) const LONGEST_SOCKET: Option<usize> = None;

/// No core files, no ptrace, no `/proc/PID/mem` or `environ` for other processes of the user.
pub(crate) fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The id of the process that started `process`.
pub(crate) fn parent(process: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The id of the process that traces this one.
pub(crate) fn tracer() -> Option<u32> {
    tracer_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Those of `signals` that this process was not started with as ignored.
pub(crate) fn heeded(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored_in(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    signals.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// Where a service manager listens: a path, or `@` and an abstract name.
pub(crate) fn notify_address(place: &[u8]) -> io::Result<SocketAddr> {
    match place.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(String::from_utf8_lossy(place).as_ref()),
    }
}

/// This program, to be started again: the very file that runs, even if another one has its place by now.
pub fn this_program() -> io::Result<PathBuf> {
    Ok(Path::new("/proc/self/exe").to_owned())
}

/// The fourth field of proc(5)'s `stat`; the second one, a name in brackets, may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// `TracerPid` of `/proc/self/status`, 0 for nobody.
fn tracer_in(status: &str) -> Option<u32> {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|process| *process != 0)
}

/// The mask of ignored signals from `/proc/self/status`: bit N - 1 for signal N.
fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_past_any_name() {
        assert_eq!(parent_in("12 (a) b) c (d)) S 34 12 0"), Some(34));
        assert_eq!(parent_in(""), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn a_tracer_is_known() {
        assert_eq!(tracer_in("Name:\tkeyless\nTracerPid:\t4711\nUid:\t0\n"), Some(4711));
        assert_eq!(tracer_in("TracerPid:\t0\n"), None);
        assert_eq!(tracer_in(""), None);
    }

    #[test]
    fn the_mask_reads() {
        assert_eq!(ignored_in("SigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored_in(""), 0);
    }
}
