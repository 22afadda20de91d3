//! What passes between the caller and the jail's init: orders in, reports out.
//!
//! Orders are JSON in a memory file that the init inherits. Reports are JSON, one to a packet of a
//! `SOCK_SEQPACKET` pair, with descriptors beside them. Nothing of this is reachable by the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::plan::{OwnFile, Plan};

/// The most bytes of one report; a failure's words are far below it.
const REPORT_LIMIT: usize = 32 * 1024;
/// Listening sockets (three) and the command's pidfd.
pub(crate) const READY_DESCRIPTORS: usize = 4;

/// What to do once the jail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Take it down again: the question was whether it can be made.
    Probe,
    /// Run the command in it.
    Run,
}

/// A [`Plan`] in a form that any path survives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) purpose: Purpose,
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) working_directory: OsString,
    pub(crate) hide: Vec<OsString>,
    pub(crate) show: Vec<OsString>,
    pub(crate) ca_pem: String,
    pub(crate) uts_name: Option<OsString>,
    pub(crate) own_directories: Vec<(OsString, u32)>,
    pub(crate) own_files: Vec<OwnFile>,
    pub(crate) read_only: bool,
}

impl Orders {
    /// The plan, and the paths that the caller's own surroundings add to what is hidden.
    pub(crate) fn new(purpose: Purpose, plan: &Plan, hide_too: Vec<OsString>) -> Self {
        let mut hide: Vec<OsString> = plan.hide.iter().map(OsString::from).collect();
        hide.extend(hide_too);
        Self {
            purpose,
            command: plan.command.clone(),
            environment: plan.environment.clone(),
            working_directory: plan.working_directory.clone().into(),
            hide,
            show: plan.show.iter().map(OsString::from).collect(),
            ca_pem: plan.ca_pem.clone(),
            uts_name: plan.uts_name.clone(),
            own_directories: plan
                .own_directories
                .iter()
                .map(|(path, mode)| (path.into(), *mode))
                .collect(),
            own_files: plan.own_files.clone(),
            read_only: plan.read_only,
        }
    }

    /// Puts the orders into a memory file, to be inherited.
    pub(crate) fn write(&self) -> io::Result<File> {
        let mut file = File::from(rustix::fs::memfd_create("keyless-jail", MemfdFlags::CLOEXEC)?);
        file.write_all(&Zeroizing::new(serde_json::to_vec(self)?))?;
        file.rewind()?;
        Ok(file)
    }

    /// Reads them back, in the init.
    pub(crate) fn read(fd: OwnedFd) -> io::Result<Self> {
        let mut file = File::from(fd);
        // In one allocation, so that no part of a value stays behind in an outgrown one.
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut text = Zeroizing::new(Vec::with_capacity(length + 1));
        file.read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Forgets what the command has got: its environment and its files.
    pub(crate) fn wipe(&mut self) {
        self.own_files.clear();
        for (_, value) in self.environment.drain(..) {
            value.into_vec().zeroize();
        }
    }

    /// A variable of the command's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A step of setting the jail up, in order. An error names the step at which it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Orders,
    UserNamespace,
    Identity,
    Supervision,
    Network,
    PacketFilter,
    HostName,
    Mounts,
    Proc,
    Hide,
    Trust,
    Devices,
    Capabilities,
    SystemCalls,
    WorkingDirectory,
    Command,
}

/// Why the jail, or the command in it, could not be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    /// What was being done, a fragment: "mount a new /proc".
    pub(crate) doing: String,
    /// The system's error number, where there is one.
    pub(crate) errno: Option<i32>,
    /// The error in words.
    pub(crate) words: String,
}

/// Adds the step and the deed to an I/O error.
pub(crate) trait During<T> {
    /// `doing` completes "failed to ..".
    fn during(self, step: Step, doing: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, step: Step, doing: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            Failure { step, doing: doing(), errno: error.raw_os_error(), words: error.to_string() }
        })
    }
}

/// What the init tells the caller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command ended with this status.
    Exited(i32),
    /// Nothing runs.
    Failed(Failure),
    /// The command runs; the listening sockets and its pidfd come along ([`READY_DESCRIPTORS`]).
    /// For a probe: the jail stood, and no descriptor comes.
    Ready,
    /// The command was ended by this signal.
    Signalled(i32),
    /// The command was stopped, by itself or by the terminal; it may be going on by now.
    Stopped,
}

/// The two ends of a control channel, both closed on exec.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one report with descriptors, without a SIGPIPE if the caller is gone.
pub(crate) fn send(channel: impl AsFd, report: &Report, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(report)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(READY_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    rustix::net::sendmsg(channel, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Tells PID 1 to send a signal to every process of the jail.
pub(crate) fn order_signal(channel: impl AsFd, signal: i32) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::send(channel, &signal.to_ne_bytes(), flags);
}

/// The signal that the caller ordered; `None` when the caller is gone.
pub(crate) fn ordered_signal(channel: impl AsFd) -> Option<i32> {
    let mut number = [0_u8; 4];
    let (length, _) = rustix::net::recv(channel, &mut number, RecvFlags::DONTWAIT).ok()?;
    (length == number.len()).then(|| i32::from_ne_bytes(number))
}

/// Sends a report that may be lost: not if that would block.
pub(crate) fn mention(channel: impl AsFd, report: &Report) {
    if let Ok(text) = serde_json::to_vec(report) {
        let _ = rustix::net::send(channel, &text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// Waits for the next report; `None` when the init is gone.
pub(crate) fn receive(channel: impl AsFd) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
    let mut text = vec![0; REPORT_LIMIT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(READY_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut text)];
        rustix::net::recvmsg(channel.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if message.bytes == 0 {
        return Ok(None);
    }
    let fds = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(Some((serde_json::from_slice(&text[..message.bytes])?, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_keep_names_that_are_not_text() {
        let odd = OsString::from_vec(vec![b'/', 0xff, b'a']);
        let plan =
            Plan { command: vec![odd.clone()], hide: vec![odd.clone().into()], ..Plan::default() };
        let file = Orders::new(Purpose::Run, &plan, vec![]).write().expect("memory file");
        let back = Orders::read(file.into()).expect("orders");
        assert_eq!((&back.command, &back.hide), (&vec![odd.clone()], &vec![odd]));
    }

    #[test]
    fn reports_travel_with_their_descriptors_and_the_end_is_seen() {
        let (here, there) = pair().expect("pair");
        let (a, b) = pair().expect("pair");
        send(&there, &Report::Ready, &[a.as_fd(), b.as_fd()]).expect("sent");
        drop(there);
        let (report, fds) = receive(&here).expect("received").expect("a report");
        assert!(matches!(report, Report::Ready));
        assert_eq!(fds.len(), 2);
        assert!(receive(&here).expect("end").is_none());
    }
}
