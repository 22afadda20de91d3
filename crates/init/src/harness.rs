//! The one command of a guest: started, given every signal, waited for; orphans are collected on the
//! way, since the first process inherits them.

use std::{ffi::OsString, fmt, io, process::ExitCode};

use keyless_sockets::raise_open_files;
use rustix::{
    process::{Pid, Resource, Signal, WaitOptions, getpgrp, getrlimit, kill_process, wait},
    termios::tcgetpgrp,
};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::{Fault, environment::Variable};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Passed on to the command; each ends a process that does not care.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Open files that are no connection's.
const FILES_BESIDE: usize = 64;

/// Runs the command to its end; without one, waits for SIGTERM or SIGINT.
pub(crate) async fn run(command: &[OsString], variables: &[Variable]) -> Result<Ended, Fault> {
    let listening = Fault::step("signals can't be handled");
    let mut signals = Signals::listen().map_err(listening)?;
    let Some((program, arguments)) = command.split_first() else {
        raise_open_files();
        return Ok(signals.until_ended().await);
    };
    let mut child = std::process::Command::new(program);
    child.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KEYLESS_") {
            child.env_remove(name);
        }
    }
    let child = child.spawn().map_err(Fault::step(program.display().to_string()))?;
    // Only now: programs that use `select` count on the usual bound.
    raise_open_files();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.expect("a started process has a positive id");
    signals.until_gone(pid).await.map_err(Fault::step("waiting for the command"))
}

/// Connections that the bound on this process's open files has room for, once it is raised.
pub(crate) fn room_for_connections(most: usize) -> usize {
    let files = getrlimit(Resource::Nofile)
        .maximum
        .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // Two each; listeners, DNS and the rest have the others.
    (files.saturating_sub(FILES_BESIDE) / 2).clamp(1, most)
}

struct Signals {
    children: Listener,
    passed_on: Vec<(Signal, Listener)>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let listen = |number: Signal| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?));
        let passed_on = PASSED_ON.into_iter().map(listen).collect::<io::Result<_>>()?;
        Ok(Self { children: signal(SignalKind::child())?, passed_on })
    }

    async fn until_ended(&mut self) -> Ended {
        loop {
            match self.next().await {
                Some(ended @ (Signal::TERM | Signal::INT)) => return Ended::Signal(ended.as_raw()),
                Some(_) => {}
                None => drop(collect(None)),
            }
        }
    }

    async fn until_gone(&mut self, command: Pid) -> io::Result<Ended> {
        loop {
            // Looked at before the first wait: it may have ended before anybody listened.
            if let Some(ended) = collect(Some(command))? {
                return Ok(ended);
            }
            if let Some(signal) = self.next().await {
                if of_terminal(signal) {
                    continue;
                }
                // It may have ended meanwhile; then there is nobody to tell.
                let _ = kill_process(command, signal);
            }
        }
    }

    /// The next signal to pass on, or `None` when a child has changed.
    async fn next(&mut self) -> Option<Signal> {
        let mut passed_on: Vec<_> = self
            .passed_on
            .iter_mut()
            .map(|(number, listener)| {
                Box::pin(async move {
                    listener.recv().await;
                    *number
                })
            })
            .collect();
        tokio::select! {
            _ = self.children.recv() => None,
            signal = first(&mut passed_on) => Some(signal),
        }
    }
}

/// Whether a terminal sent it, by one key, to the command as well: both are in its foreground.
fn of_terminal(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT)
        && tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == getpgrp())
}

async fn first<F: Future + Unpin>(futures: &mut [F]) -> F::Output {
    std::future::poll_fn(|context| {
        let ready = futures.iter_mut().map(|future| std::pin::Pin::new(future).poll(context));
        ready.into_iter().find(std::task::Poll::is_ready).unwrap_or(std::task::Poll::Pending)
    })
    .await
}

/// Collects every child that has ended. Gives the command's end.
fn collect(command: Option<Pid>) -> io::Result<Option<Ended>> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let end = status.exit_status().map(Ended::Code);
                let end = end.or_else(|| status.terminating_signal().map(Ended::Signal));
                if Some(pid) == command && end.is_some() {
                    ended = end;
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl From<Ended> for ExitCode {
    /// As a shell tells it.
    fn from(ended: Ended) -> Self {
        let code = match ended {
            Ended::Code(code) => code,
            Ended::Signal(signal) => 128 + signal,
        };
        Self::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "has ended with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}
