//! The few system calls that have no safe wrapper. The only file of this crate with `unsafe`.
//!
//! Nothing here decides anything: each function is one fact about the kernel.
#![expect(unsafe_code, reason = "system calls that rustix and std do not wrap")]

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use rustix::path::Arg;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::UnshareFlags;

/// The home that the system has on record for the user of this process; `HOME` may say another.
pub fn account_home() -> Option<PathBuf> {
    // Far more than a line of passwd takes; one that is longer is not found.
    let mut text = vec![0_u8; 16 << 10];
    let mut entry = MaybeUninit::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: all buffers outlive the call, and the length is that of `text`.
    let failed = unsafe {
        libc::getpwuid_r(
            libc::getuid(),
            entry.as_mut_ptr(),
            text.as_mut_ptr().cast(),
            text.len(),
            &raw mut found,
        )
    };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: `found` points to `entry`, which is filled now, and the home is a C string in `text`.
    let home = unsafe { CStr::from_ptr((*found).pw_dir) };
    let home = PathBuf::from(OsStr::from_bytes(home.to_bytes()));
    home.is_absolute().then_some(home)
}

/// Which side of a [`fork`] we are.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, with the child's process id.
    Parent(Pid),
}

/// Forks. Only who has a single thread calls it: the jail's init and the keeper, which never have another, and a broker
/// before it starts any.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the process has a single thread (see above), so the child may do everything that the parent could.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(Pid::from_raw(pid).expect("fork gives a positive process id"))),
    }
}

/// As [`fork`], with the child in new namespaces, each a `CLONE_NEW*`; in that of processes it is the first.
pub(crate) fn fork_into(namespaces: UnshareFlags) -> io::Result<Fork> {
    const SHARED: UnshareFlags = UnshareFlags::FILES.union(UnshareFlags::FS);
    debug_assert!(!namespaces.intersects(SHARED));
    let flags =
        libc::c_ulong::from(namespaces.bits()) | libc::c_ulong::from(libc::SIGCHLD.unsigned_abs());
    // SAFETY: as for `fork`: there is a single thread, and memory and descriptors are the child's own copies. With
    // neither a stack nor addresses to write to, the order of the other arguments does not matter.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            Ok(Fork::Parent(pid.expect("clone gives a process id")))
        }
    }
}

/// Takes over a descriptor that this process was started with.
pub(crate) fn adopt(fd: RawFd) -> Option<OwnedFd> {
    if fd <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: fcntl on a number is harmless; it fails when nothing is open there.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return None;
    }
    // SAFETY: the descriptor is open (above) and ours alone: spawn() left it open for this process,
    // said its number in the arguments, and nothing else in this program knows of it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The bound on open files with which jails begin, where it is not that of this process.
static OPEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Has jails begin with this bound on open files, whatever that of this process becomes. The first word holds.
pub fn jail_with_open_files(limit: Rlimit) {
    let _ = OPEN_FILES.set(limit);
}

/// Leaves `fds` open in the process that `command` starts. They must live until it is started.
pub(crate) fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let open_files = OPEN_FILES.get().copied();
    // SAFETY: between fork and exec the closure makes one system call per descriptor, one for the bound, and allocates
    // nothing; the numbers stay open as the caller owns them until after the start.
    unsafe {
        command.pre_exec(move || {
            if let Some(limit) = open_files {
                rustix::process::setrlimit(Resource::Nofile, limit)?;
            }
            for number in &numbers {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*number), FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

/// Marks every descriptor but the standard three to be closed on exec (Linux 5.11).
pub fn close_on_exec_above_stderr() -> io::Result<()> {
    // SAFETY: only flags of descriptors change; none is closed under its owner.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            libc::STDERR_FILENO + 1,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    outcome(done)
}

/// Takes that mark from `fds` again.
pub(crate) fn keep_on_exec(fds: &[RawFd]) -> io::Result<()> {
    for fd in fds {
        // SAFETY: fcntl on a number is harmless; only a flag changes, and nothing is closed.
        outcome(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) }.into())?;
    }
    Ok(())
}

/// The signals that a thread did not take.
pub(crate) struct SignalMask(libc::sigset_t);

/// Blocks every signal that can be blocked, and gives what was blocked before.
pub(crate) fn block_signals() -> io::Result<SignalMask> {
    let mut before = MaybeUninit::uninit();
    let mut all = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises `all`; pthread_sigmask fills `before` unless it fails.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        zero_or_number(libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()))?;
        Ok(SignalMask(before.assume_init()))
    }
}

/// Blocks `signals`, and gives what was blocked before.
pub(crate) fn block(signals: &[i32]) -> io::Result<SignalMask> {
    let set = set_of(signals);
    let mut before = MaybeUninit::uninit();
    // SAFETY: `set` is initialised; pthread_sigmask fills `before` unless it fails.
    unsafe {
        zero_or_number(libc::pthread_sigmask(
            libc::SIG_BLOCK,
            &raw const set,
            before.as_mut_ptr(),
        ))?;
        Ok(SignalMask(before.assume_init()))
    }
}

/// A signal that came.
pub(crate) struct Heard {
    pub(crate) signal: i32,
    /// Whether another process sent it; else the kernel did: for a terminal, say, and then to the whole process group.
    pub(crate) is_sent: bool,
}

/// Waits for the next of `signals`, which must be blocked.
pub(crate) fn next_signal(signals: &[i32]) -> io::Result<Heard> {
    let set = set_of(signals);
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: `set` is initialised; sigwaitinfo fills `info` unless it fails.
    let (signal, info) = unsafe {
        match libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) {
            -1 => return Err(io::Error::last_os_error()),
            signal => (signal, info.assume_init()),
        }
    };
    // Codes of the kernel's own are above zero (sigaction(2)).
    Ok(Heard { signal, is_sent: info.si_code <= 0 })
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises `set`; a number that is no signal is not added.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Goes back to an earlier mask.
pub(crate) fn restore_signals(mask: &SignalMask) -> io::Result<()> {
    // SAFETY: the mask is one that the kernel gave; the current one is not asked for.
    zero_or_number(unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut())
    })
}

/// Whether whoever started this process had it ignore SIGPIPE, and SIGCHLD.
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILDREN_IGNORED: AtomicBool = AtomicBool::new(false);

/// Run before Rust's own start, which ignores SIGPIPE in every program.
#[used]
// SAFETY: the loader calls what stands in this section with nothing that matters here, once, on the only thread.
#[unsafe(link_section = ".init_array")]
static NOTE_PIPES: extern "C" fn() = note_pipes;

extern "C" fn note_pipes() {
    PIPES_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed; `action` is filled unless the call fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Has this process hear of its children's ends though its caller ignores SIGCHLD: without that the kernel reaps them,
/// and waiting for one fails.
pub fn hear_of_children() {
    if is_ignored(libc::SIGCHLD) {
        CHILDREN_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// The signals that the caller of this process ignores and that this process itself does not any more, or for reasons
/// of its own: what a command would ignore without Keyless in between. All others it inherits.
pub fn ignored_by_caller() -> Vec<i32> {
    let known = [(&PIPES_IGNORED, libc::SIGPIPE), (&CHILDREN_IGNORED, libc::SIGCHLD)];
    let ignored = known.into_iter().filter(|(is_ignored, _)| is_ignored.load(Ordering::Relaxed));
    ignored.map(|(_, signal)| signal).collect()
}

/// Has the process that `command` becomes or starts ignore `signals`.
pub fn start_ignoring(command: &mut Command, signals: Vec<i32>) {
    if signals.is_empty() {
        return;
    }
    // SAFETY: between fork and exec the closure makes one system call per signal and allocates nothing. It comes
    // after std, which gives SIGPIPE its default back.
    unsafe {
        command.pre_exec(move || {
            for signal in &signals {
                libc::signal(*signal, libc::SIG_IGN);
            }
            Ok(())
        });
    }
}

/// Runs `work` while this thread does not take `signal`.
pub(crate) fn with_signal_blocked<T>(signal: Signal, work: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises `set`; pthread_sigmask fills `before`.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: `before` was filled above; pthread_sigmask can only fail for an unknown first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// A descriptor that is readable when a child has changed state. SIGCHLD must be blocked.
pub(crate) fn child_events() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises `set`, signalfd reads it and gives a new descriptor or -1.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a signal does to this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heeding {
    Default,
    Ignored,
}

/// Runs `work` while `signal` does that.
pub(crate) fn while_heeding<T>(signal: Signal, heeding: Heeding, work: impl FnOnce() -> T) -> T {
    // SAFETY: zeros are a `sigaction` that asks for the default action, with an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = match heeding {
        Heeding::Default => libc::SIG_DFL,
        Heeding::Ignored => libc::SIG_IGN,
    };
    let mut before = MaybeUninit::uninit();
    // SAFETY: `action` is initialised; `before` is filled unless the call fails.
    let set = unsafe { libc::sigaction(signal.as_raw(), &raw const action, before.as_mut_ptr()) };
    let result = work();
    if set == 0 {
        // SAFETY: `before` was filled above with what stood there before, whose handler lives as long as the process.
        unsafe { libc::sigaction(signal.as_raw(), before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

/// Whether this is the terminal that controls the session of this process.
pub(crate) fn is_own_terminal(fd: impl AsFd) -> bool {
    // SAFETY: a number. 0 stands for a group that this process's namespace does not know.
    unsafe { libc::tcgetpgrp(fd.as_fd().as_raw_fd()) != -1 }
}

/// Whether this process's group is in the foreground of that terminal.
pub(crate) fn is_foreground(fd: impl AsFd) -> bool {
    // SAFETY: numbers.
    unsafe { libc::tcgetpgrp(fd.as_fd().as_raw_fd()) == libc::getpgrp() }
}

/// Sends a signal by number, real-time ones too, to the process behind a pidfd.
pub(crate) fn signal_pidfd(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    // SAFETY: numbers and a null pointer (no siginfo).
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    outcome(done)
}

/// Sends a signal to every process of this PID namespace but its first, which is the one that calls.
pub(crate) fn signal_everything(signal: i32) {
    debug_assert!(std::process::id() == 1, "elsewhere -1 means everything of the user");
    if std::process::id() == 1 {
        // SAFETY: numbers.
        unsafe { libc::kill(-1, signal) };
    }
}

/// Starts `command` in a session of its own, without a terminal.
pub(crate) fn detach(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

/// Makes a freshly opened `/dev/net/tun` the device with this name: bare IP packets, no header before
/// them.
pub(crate) fn name_tun_device(device: &impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = byte.cast_signed();
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI;
    request.ifr_ifru.ifru_flags = flags.try_into().expect("both flags are below 2^15");
    let fd = device.as_fd().as_raw_fd();
    // SAFETY: the request lives through the call, which reads it and writes the name into it.
    let done = unsafe { libc::ioctl(fd, libc::TUNSETIFF, &raw mut request) };
    outcome(done.into())
}

/// Whether a change of mount attributes stops at the mount or takes those below it as well.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// This mount.
    One,
    /// This mount and everything mounted below.
    Tree,
}

/// `mount_setattr` (Linux 5.12): sets and clears `MOUNT_ATTR_*` bits.
pub(crate) fn mount_attributes(path: &Path, reach: Reach, set: u64, clear: u64) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let flags = match reach {
        Reach::One => 0,
        Reach::Tree => libc::AT_RECURSIVE,
    };
    let done = path.into_with_c_str(|path| {
        // SAFETY: `path` is a C string and `attributes` a mount_attr of the stated size; both outlive the call.
        Ok(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        })
    })?;
    outcome(done)
}

fn outcome(done: libc::c_long) -> io::Result<()> {
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn zero_or_number(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}

/// Whether the kernel says that something keeps its clock in step (`adjtimex(2)` in its mode that only reads); nothing where it
/// does not tell.
pub fn clock_in_step() -> Option<bool> {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` is plain numbers, for which zeros are fine; with `modes` 0 the kernel only writes into it.
    let answer = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    (answer >= 0).then_some(answer != libc::TIME_ERROR)
}
