//! What the jail's init is told, in two parts: the ground on which a jail is built, and the job that is done in it.
//!
//! Each is JSON in a memory file whose descriptor is handed over. The ground holds no value, so that a jail may
//! stand before anybody knows what it will be for; the job comes when it stands.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
};

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use zeroize::Zeroizing;

use crate::{
    linux::{channel, console::Fitting, pipes::Pipe},
    plan::{Bounds, OwnFile, Plan, Variable},
};

/// What to do once the jail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Take it down again: the question was whether it can be made.
    Probe,
    /// Run the command in it.
    Run,
}

/// The part of a [`Plan`] by which a jail is built, in a form that any path survives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ground {
    pub(crate) purpose: Purpose,
    /// The command's `HOME`.
    pub(crate) home: Option<OsString>,
    pub(crate) hide: Vec<OsString>,
    pub(crate) show: Vec<OsString>,
    pub(crate) tools_socket: Option<OsString>,
    pub(crate) uts_name: Option<OsString>,
    pub(crate) own_directories: Vec<(OsString, u32)>,
    pub(crate) read_only: bool,
    pub(crate) bounds: Option<Bounds>,
    /// Whether its job is likely to bring a CA: what a jail can do for one beforehand, it then does while it waits.
    pub(crate) expects_ca: bool,
    /// The terminal of its own that the command gets.
    pub(crate) terminal: Option<Fitting>,
}

/// The part of a [`Plan`] that is one command's alone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: Vec<Variable>,
    pub(crate) working_directory: OsString,
    pub(crate) ca_pem: String,
    pub(crate) own_files: Vec<OwnFile>,
    pub(crate) ignored_signals: Vec<i32>,
    /// The caller's pipes that the command shares, by the numbers that both know them by.
    pub(crate) pipes: Vec<Pipe>,
}

/// A job as it is handed over, and the command's streams.
pub(crate) struct HandedJob {
    text: File,
    streams: Vec<OwnedFd>,
}

impl Ground {
    /// The plan's, and the paths that the caller's own surroundings add to what is hidden.
    pub(crate) fn new(purpose: Purpose, plan: &Plan, hide_too: Vec<OsString>) -> Self {
        let mut hide: Vec<OsString> = plan.hide.iter().map(OsString::from).collect();
        hide.extend(hide_too);
        let own = plan.own_directories.iter();
        Self {
            purpose,
            home: variable(&plan.environment, "HOME").cloned(),
            hide,
            show: plan.show.iter().map(OsString::from).collect(),
            tools_socket: plan.tools_socket.as_ref().map(OsString::from),
            uts_name: plan.uts_name.clone(),
            own_directories: own.map(|(path, mode)| (path.into(), *mode)).collect(),
            read_only: plan.read_only,
            bounds: plan.bounds,
            expects_ca: !plan.ca_pem.is_empty(),
            terminal: None,
        }
    }

    /// Whether a jail on it is what one on `other` would be, whatever they expect.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        Self { expects_ca: other.expects_ca, ..self.clone() } == *other
    }

    /// Whether a jail on it serves any command: nothing of the host's can be changed in it, and nothing is shown
    /// to one command that another would not see.
    pub(crate) fn is_alike_for_all(&self) -> bool {
        self.read_only && self.show.is_empty() && self.tools_socket.is_none()
    }

    /// Hands the ground over to an init.
    pub(crate) fn send(&self, channel: impl AsFd) -> io::Result<()> {
        channel::hand_over(channel, &[written(self)?.as_fd()])
    }

    /// Takes it, in the init.
    pub(crate) fn receive(channel: impl AsFd) -> io::Result<Self> {
        match channel::take_over(channel)?.map(<[OwnedFd; 1]>::try_from) {
            Some(Ok([file])) => read(&File::from(file)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Job {
    pub(crate) fn new(plan: &Plan, pipes: Vec<Pipe>) -> Self {
        Self {
            command: plan.command.clone(),
            environment: plan.environment.clone(),
            working_directory: plan.working_directory.clone().into(),
            ca_pem: plan.ca_pem.clone(),
            own_files: plan.own_files.clone(),
            ignored_signals: plan.ignored_signals.clone(),
            pipes,
        }
    }

    /// Hands the job over to an init whose jail stands, with the command's streams unless it shares the init's.
    pub(crate) fn send(&self, channel: impl AsFd, streams: &[&OwnedFd]) -> io::Result<()> {
        let file = written(self)?;
        let fds: Vec<_> =
            [file.as_fd()].into_iter().chain(streams.iter().map(|one| one.as_fd())).collect();
        channel::hand_over(channel, &fds)
    }

    /// Takes it over, unread; `None` when whoever gives it is gone.
    pub(crate) fn take_over(channel: impl AsFd) -> io::Result<Option<HandedJob>> {
        let Some(mut fds) = channel::take_over(channel)? else { return Ok(None) };
        if fds.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(HandedJob { text: File::from(fds.remove(0)), streams: fds }))
    }

    /// A variable of the command's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsString> {
        variable(&self.environment, name)
    }
}

impl HandedJob {
    /// Reads it; nothing is lost by that for whoever it is passed on to.
    pub(crate) fn read(&self) -> io::Result<Job> {
        read(&self.text)
    }

    /// Hands the same over to another process.
    pub(crate) fn pass_on(&self, channel: impl AsFd) -> io::Result<()> {
        let streams = self.streams.iter().map(AsFd::as_fd);
        let fds: Vec<_> = [self.text.as_fd()].into_iter().chain(streams).collect();
        channel::hand_over(channel, &fds)
    }

    /// None where the command shares those of its caller.
    pub(crate) fn streams(&self) -> &[OwnedFd] {
        &self.streams
    }
}

fn variable<'a>(environment: &'a [Variable], name: &str) -> Option<&'a OsString> {
    environment.iter().find(|one| one.name == name).map(|one| &one.value)
}

fn written(orders: &impl Serialize) -> io::Result<File> {
    // Measured first, for the same reason as in `read`.
    let mut length = Length(0);
    serde_json::to_writer(&mut length, orders)?;
    let mut text = Zeroizing::new(Vec::with_capacity(length.0));
    serde_json::to_writer(&mut *text, orders)?;
    let mut file = File::from(rustix::fs::memfd_create("keyless-jail", MemfdFlags::CLOEXEC)?);
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file)
}

/// Counts what is written to it.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read<T: DeserializeOwned>(mut file: &File) -> io::Result<T> {
    // Whoever has read it before has moved the place that all copies of the descriptor share.
    file.rewind()?;
    // In one allocation, so that no part of a value stays behind in an outgrown one.
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut text = Zeroizing::new(Vec::with_capacity(length + 1));
    file.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn orders_keep_names_that_are_not_text() {
        let odd = OsString::from_vec(vec![b'/', 0xff, b'a']);
        let plan =
            Plan { command: vec![odd.clone()], hide: vec![odd.clone().into()], ..Plan::default() };
        let (here, there) = channel::pair().expect("pair");
        let ground = Ground::new(Purpose::Run, &plan, vec![]);
        ground.send(&here).expect("sent");
        assert_eq!(Ground::receive(&there).expect("received"), ground);
        Job::new(&plan, vec![]).send(&here, &[]).expect("sent");
        let handed = Job::take_over(&there).expect("received").expect("a job");
        assert_eq!((handed.read().expect("read").command, handed.streams().len()), (vec![odd], 0));
        // As often as it is handed on.
        handed.pass_on(&here).expect("sent");
        let again = Job::take_over(&there).expect("received").expect("a job");
        assert_eq!(again.read().expect("read").command, plan.command);
        drop(here);
        assert!(Job::take_over(&there).expect("the end").is_none());
    }
}
