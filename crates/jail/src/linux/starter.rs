//! The process that becomes the command: forked, without capabilities and behind the filter while its jail waits for the
//! job, so that the job has to wait for none of this.
//!
//! It gets the job from PID 1, once that has prepared the jail for it and has given up its privileges too.

use std::{
    convert::Infallible,
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, exit},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::linux::{
    channel::{self, During, Failure, Report, Step},
    confine,
    orders::{HandedJob, Job},
    pipes,
    seccomp::Filter,
    sys::{self, Fork, SignalMask},
};

/// The starter, seen from PID 1.
pub(crate) struct Starter {
    orders: OwnedFd,
    pid: Pid,
    pidfd: OwnedFd,
}

impl Starter {
    /// Forks it, where new privileges are forbidden already. `signals` is what the command shall not take.
    pub(crate) fn fork(filter: &Filter, signals: &SignalMask) -> Result<Self, Failure> {
        let step = Step::Supervision;
        let (orders, theirs) = channel::pair().during(step, || "open a channel".into())?;
        match sys::fork().during(step, || "fork the command".into())? {
            Fork::Parent(pid) => {
                let pidfd =
                    pidfd_open(pid, PidfdFlags::empty()).during(step, || "open a pidfd".into())?;
                Ok(Self { orders, pid, pidfd })
            }
            Fork::Child => {
                drop(orders);
                let Err(failure) = become_command(&theirs, filter, signals);
                let _ = channel::send(&theirs, &Report::Failed(failure), &[]);
                exit(127)
            }
        }
    }

    /// Gives it its job; returns once the command has really been executed.
    pub(crate) fn start(&self, job: &HandedJob) -> Result<(), Failure> {
        let step = Step::Supervision;
        // If it has failed already, it has said why.
        let passed = job.pass_on(&self.orders);
        let said = channel::receive(&self.orders).during(step, || "hear of the command".into())?;
        match said {
            // Closed when the command was executed.
            None => passed.during(step, || "hand the job on".into()),
            Some((Report::Failed(failure), _)) => Err(failure),
            Some(_) => Err(io::Error::from(io::ErrorKind::InvalidData))
                .during(step, || "hear of the command".into()),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Waits for the job and executes its command in this process; returns only if that fails.
fn become_command(
    orders: &OwnedFd,
    filter: &Filter,
    signals: &SignalMask,
) -> Result<Infallible, Failure> {
    confine::drop_capabilities()?;
    filter.install()?;
    let read = || "read the job".into();
    // Without PID 1, which alone gives jobs, there is no process in the jail; this one neither.
    let Some(handed) = Job::take_over(orders).during(Step::Orders, read)? else { exit(1) };
    let job = handed.read().during(Step::Orders, read)?;
    take_streams(handed.streams()).during(Step::Supervision, || "connect the streams".into())?;
    sys::close_on_exec_above_stderr()
        .and_then(|()| sys::keep_on_exec(&pipes::here(&job.pipes)))
        .during(Step::Supervision, || "close descriptors on exec".into())?;
    rustix::process::chdir(job.working_directory.as_os_str())
        .during(Step::WorkingDirectory, || format!("enter {}", job.working_directory.display()))?;
    sys::restore_signals(signals).during(Step::Supervision, || "unblock signals".into())?;
    let nothing = OsString::new();
    let (program, arguments) = job.command.split_first().unwrap_or((&nothing, &[]));
    // Looks PATH up in the given environment, and gives SIGPIPE its default back.
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(job.environment.iter().map(|one| (&one.name, &one.value)));
    sys::start_ignoring(&mut command, job.ignored_signals.clone());
    let error = command.exec();
    Err(error).during(Step::Command, || format!("execute {}", program.display()))
}

/// Input, output and errors; without any the command has those of its caller.
fn take_streams(streams: &[OwnedFd]) -> io::Result<()> {
    if let [input, output, errors] = streams {
        rustix::stdio::dup2_stdin(input)?;
        rustix::stdio::dup2_stdout(output)?;
        rustix::stdio::dup2_stderr(errors)?;
    }
    Ok(())
}
