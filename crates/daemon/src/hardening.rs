//! Keeps other processes of the same user, and core files, away from this one's memory.

use std::{io, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_jail::{Exit, Front, go_on_afresh};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;

use crate::system::{heeded, hide_memory, tracer};

/// Has a write beyond a limit on files' size fail and say so, in place of ending this process, and the ends of children
/// heard of, whatever the caller ignores. A command begins with what the caller has: a handler does not go through exec,
/// and what is ignored already needs none.
pub fn settle_signals() {
    for signal in heeded(&[SIGXFSZ]) {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    keyless_jail::hear_of_children();
}

/// Makes this process one that others can't look into. Best effort, since a kernel without it is no worse than before.
pub fn harden() {
    let _ = hide_memory();
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// As [`harden`], and goes on in a process of new memory, for one that holds values for long: nothing that somebody has
/// opened of this one's is of use. Returns in the new process alone. Must come before any thread, and before any secret.
pub fn harden_afresh(front: Front) -> Result<(), Error> {
    harden();
    let detail = SafeText::words("no process with memory of its own is to be had: ");
    match go_on_afresh(front) {
        Ok(None) => Ok(()),
        Ok(Some(Exit::Code(code))) => std::process::exit(code),
        Ok(Some(Exit::Signal(signal))) => die_by_signal(signal),
        Err(error) => Err(Error::with(Code::Internal, detail.and(error.kind()))),
    }
}

/// Refuses to go on where another process traces this one: it reads all memory, closed or not.
pub fn refuse_traced() -> Result<(), Error> {
    tracer().map_or(Ok(()), |process| {
        let words = SafeText::words("it is traced by process ").and(u64::from(process));
        Err(Error::with(Code::Traced, words))
    })
}

/// Lets this process have as many open files as it may at all: each connection takes two or three. What it starts has
/// the bound that this had, which is there for programs that use `select`.
pub(crate) fn raise_open_files() {
    let own = getrlimit(Resource::Nofile);
    keyless_jail::jail_with_open_files(own);
    keyless_vault::run_programs_with_open_files(own);
    keyless_sockets::raise_open_files();
}

/// Ends this process by `signal`, as the command that it ran did, so that a shell sees the same.
pub fn die_by_signal(signal: i32) -> ! {
    let _ = io::Write::flush(&mut io::stdout());
    // The default action of the signal; what remains after it is one that does not kill.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal);
}
