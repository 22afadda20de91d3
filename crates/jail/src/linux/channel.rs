//! What passes between the caller and the jail's init: orders in, reports out.
//!
//! Each is a packet of a `SOCK_SEQPACKET` pair with descriptors beside it: reports are JSON, orders are all in the
//! descriptors ([`crate::linux::orders`]). Nothing of this is reachable by the command.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

use crate::linux::console::Place;

/// The most bytes of one report; a failure's words are far below it.
const REPORT_LIMIT: usize = 32 * 1024;
/// With a report: listening sockets (three), a pidfd and a terminal. With an order: a memory file and three streams.
const MOST_DESCRIPTORS: usize = 5;
/// All that an order says; the rest is in its descriptors.
const ORDER: &[u8] = b"order";

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
    /// The command runs; its pidfd comes along.
    Ready,
    /// The command was ended by this signal.
    Signalled(i32),
    /// The jail stands and waits for its job; the listening sockets and PID 1's pidfd come along, and the caller's end of
    /// the terminal if one was asked for.
    /// For a probe: it stood, and no descriptor comes.
    Standing,
    /// The command was stopped by this signal, its own or the terminal's; it may be going on by now.
    Stopped(i32),
}

/// The two ends of a control channel, both closed on exec.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one report with descriptors, without a SIGPIPE if the caller is gone.
pub(crate) fn send(channel: impl AsFd, report: &Report, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_packet(channel, &serde_json::to_vec(report)?, fds)
}

/// Hands descriptors over as an order, without a SIGPIPE if nobody takes it.
pub(crate) fn hand_over(channel: impl AsFd, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_packet(channel, ORDER, fds)
}

fn send_packet(channel: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    rustix::net::sendmsg(channel, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What PID 1 is told while the command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// To have the command go to this place of its terminal.
    Move(Place),
    /// The same, and to continue it there.
    Resume(Place),
    /// To send a signal to every process of the jail.
    Signal(i32),
}

/// Gives an order to PID 1, which may have gone.
pub(crate) fn order(channel: impl AsFd, order: Order) {
    mention(channel, &order);
}

/// What the caller ordered; `None` when the caller is gone.
pub(crate) fn ordered(channel: impl AsFd) -> Option<Order> {
    let mut text = [0_u8; 64];
    let (length, _) = rustix::net::recv(channel, &mut text, RecvFlags::DONTWAIT).ok()?;
    serde_json::from_slice(text.get(..length)?).ok()
}

/// Sends what may be lost: not if that would block.
pub(crate) fn mention(channel: impl AsFd, report: &impl Serialize) {
    if let Ok(text) = serde_json::to_vec(report) {
        let _ = rustix::net::send(channel, &text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// Waits for the next report; `None` when the init is gone.
pub(crate) fn receive(channel: impl AsFd) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
    let mut text = vec![0; REPORT_LIMIT];
    let (length, fds) = receive_packet(channel, &mut text)?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&text[..length])?, fds)))
}

/// Waits for an order and gives its descriptors; `None` when whoever gives orders is gone.
pub(crate) fn take_over(channel: impl AsFd) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut text = [0; ORDER.len()];
    match receive_packet(channel, &mut text)? {
        (0, _) => Ok(None),
        (length, fds) if &text[..length] == ORDER => Ok(Some(fds)),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

fn receive_packet(channel: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(channel.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fds = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((message.bytes, fds))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn orders_are_understood_until_who_gives_them_is_gone() {
        let (here, there) = pair().expect("pair");
        for one in
            [Order::Signal(64), Order::Move(Place::Foreground), Order::Resume(Place::Background)]
        {
            order(&here, one);
            assert_eq!(ordered(&there), Some(one));
        }
        drop(here);
        assert_eq!(ordered(&there), None);
    }
}
