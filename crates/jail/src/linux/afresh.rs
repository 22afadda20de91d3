//! Goes on in a process whose memory nobody has open.
//!
//! A program is anybody's of its account to look into from its start until it says otherwise. Who opens
//! `/proc/PID/mem` in that moment keeps it: access is checked at opening alone, and what was opened is that memory,
//! whatever comes into it. A process that is forked afterwards has a memory of its own, closed from its first
//! instruction. (Linux's Yama, where it is set to 1 or more, leaves nothing to open.)
//!
//! The process that was started stands in front of the new one, for who knows it by its number: a shell, a service
//! manager. It passes signals on and ends as the new one does.

use std::{io, process::exit};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, wait,
};

use crate::{
    linux::sys::{self, Fork},
    outcome::Exit,
    plan::Front,
};

/// What is passed on.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Forks, where no thread was started yet, and returns in the new process without an exit. In the one that was started
/// it gives how the new one ended, or does not return at all.
///
/// Whoever calls it has forbidden before that others look into the process: that is inherited.
pub fn go_on_afresh(front: Front) -> io::Result<Option<Exit>> {
    let mut heeded: Vec<i32> = PASSED_ON.iter().map(|signal| signal.as_raw()).collect();
    heeded.push(Signal::CHILD.as_raw());
    let before = sys::block(&heeded)?;
    let started = getpid();
    match (sys::fork()?, front) {
        (Fork::Parent(_), Front::Leaves) => exit(0),
        (Fork::Parent(fresh), Front::Stays) => stand_before(fresh, &heeded).map(Some),
        (Fork::Child, front) => {
            if matches!(front, Front::Stays) {
                end_with(started)?;
            }
            sys::restore_signals(&before)?;
            Ok(None)
        }
    }
}

/// Has this process killed when `front` ends: somebody who kills the one in front means this one.
fn end_with(front: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that was said.
    if getppid() != Some(front) {
        exit(1);
    }
    Ok(())
}

/// Passes signals on to `fresh` until it has ended.
fn stand_before(fresh: Pid, heeded: &[i32]) -> io::Result<Exit> {
    loop {
        let heard = match sys::next_signal(heeded) {
            // Stopped, and continued.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            heard => heard?,
        };
        if let Some(end) = end_of(fresh)? {
            return Ok(end);
        }
        // What a terminal says, the new process has heard by itself: both are of one process group.
        let signal = Signal::from_named_raw(heard.signal).filter(|signal| *signal != Signal::CHILD);
        if let (Some(signal), true) = (signal, heard.is_sent) {
            let _ = kill_process(fresh, signal);
        }
    }
}

/// How `fresh` ended, if it has; takes leave of other children as well, which the first process of a container has.
fn end_of(fresh: Pid) -> io::Result<Option<Exit>> {
    while let Some((process, status)) = wait(WaitOptions::NOHANG)? {
        if process != fresh {
            continue;
        }
        if let Some(code) = status.exit_status() {
            return Ok(Some(Exit::Code(code)));
        }
        if let Some(signal) = status.terminating_signal() {
            return Ok(Some(Exit::Signal(signal)));
        }
    }
    Ok(None)
}
