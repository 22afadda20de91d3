//! The few calls that have no safe wrapper. The only file of this crate with `unsafe`.
#![expect(unsafe_code, reason = "system calls that rustix and std do not wrap")]

use std::{io, mem::MaybeUninit, ptr};

/// No debugger may attach from now on, and one that has is left without this process (`PT_DENY_ATTACH`).
pub(crate) fn hide_memory() -> io::Result<()> {
    // SAFETY: this request takes no process, no address and no data.
    match unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, ptr::null_mut(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The id of the process that started `process`.
pub(crate) fn parent(process: u32) -> Option<u32> {
    let size = size_of::<libc::proc_bsdinfo>();
    let mut known = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the buffer has the size that is told, and outlives the call, which writes no more into it.
    let written = unsafe {
        libc::proc_pidinfo(
            libc::pid_t::try_from(process).ok()?,
            libc::PROC_PIDTBSDINFO,
            0,
            known.as_mut_ptr().cast(),
            libc::c_int::try_from(size).ok()?,
        )
    };
    if usize::try_from(written) != Ok(size) {
        return None;
    }
    // SAFETY: all of it was written, as the call said; and it is plain numbers, for which zeros are fine.
    Some(unsafe { known.assume_init() }.pbi_ppid)
}

/// Whether this process was started with the signal ignored.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one; it is plain data, for which zeros are fine.
    let (asked, action) = unsafe {
        (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()), action.assume_init())
    };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
