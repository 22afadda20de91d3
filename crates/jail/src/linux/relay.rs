//! Passes on between the operator's terminal and the command's own, while it is the caller's turn.
//!
//! ```text
//!   operator's terminal ── typed, in the foreground only ──► master │ the jail's terminal ──► command
//!           ▲                                                  │
//!           └────────────── what is said, always ──────────────┘
//! ```
//!
//! What is typed goes as it is, from a raw terminal: keys that stand for signals are such at the command's terminal. Where
//! that stops the command, the caller gives the terminal back and stops its own process group, as a shell
//! expects of a job; continued, it goes on where it is then. In the background nothing is read: a command that wants to
//! read there stops, and the caller with it.
//!
//! Where only one of input and output is the terminal, as in a pipeline, somebody else may be meant to read the keys. The command
//! begins in the background of its terminal then, and gets what is typed from when it asks: by reading, or by setting modes.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, kill_current_process_group, kill_process_group},
    termios::{LocalModes, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp},
};
use signal_hook::{
    SigId,
    consts::{SIGCONT, SIGTSTP, SIGWINCH},
    flag,
    low_level::{pipe, unregister},
};

use crate::linux::{
    channel::{self, Order, Report},
    console::{Fitting, Place},
    sys::{self, Heeding},
    terminal::{Held, Outer, modes_of, state_of},
};

/// How often a command in the background is looked after: a shell that brings a running job to the foreground says so
/// to nobody.
const LOOKED_AFTER: Duration = Duration::from_millis(250);
/// A line that nobody else has read for so long is the command's.
const UNREAD: Duration = Duration::from_millis(300);
/// A group that is stopped at all is so within this.
const STOPS_WITHIN: Duration = Duration::from_millis(200);
/// What was sent to a process that was stopped is heard within this, once it goes on.
const HEARD_WITHIN: Duration = Duration::from_millis(400);
/// What a command said before it was stopped; what it goes on to say meanwhile does not hold the stop up.
const LAST_WORDS: usize = 256 << 10;

/// Both terminals.
#[derive(Debug)]
pub(crate) struct Terminals {
    outer: Outer,
    news: News,
    /// The end of the command's.
    master: OwnedFd,
    /// Whether the command has its terminal.
    is_in_front: AtomicBool,
    /// Whether the command was told to end, and nothing stops on its account any more.
    is_ending: AtomicBool,
}

impl Terminals {
    /// Joins the caller's with the end of the one that the command got, which was made to fit so. From here on what
    /// concerns them is heard.
    pub(crate) fn join(outer: Outer, master: OwnedFd, fitting: Fitting) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&master, true)?;
        outer.lend_size(&master);
        let is_in_front = fitting.place == Place::Foreground;
        if is_in_front {
            outer.lend_modes(&master);
        }
        let news = News::listen()?;
        let (is_in_front, is_ending) = (AtomicBool::new(is_in_front), AtomicBool::default());
        Ok(Self { outer, news, master, is_in_front, is_ending })
    }

    /// Passes on until the command has ended, and gives the report of it; `None` where the init is gone.
    pub(crate) fn relay(&self, control: &OwnedFd, command: &OwnedFd) -> Option<Report> {
        let is_new = !self.is_in_front.load(Ordering::Relaxed);
        let mut relay = Relay {
            terminals: self,
            new: is_new.then(|| tcgetattr(&self.master).ok()).flatten(),
            control,
            command,
            held: None,
            is_ours: false,
            was_asked: false,
            unread_since: None,
            last_key: None,
            typed: Passage::default(),
            said: Passage::default(),
            is_hung_up: false,
            has_ended: false,
        };
        let report = relay.run();
        relay.pass_the_rest(usize::MAX);
        relay.let_go();
        if let Some(Report::Signalled(signal)) = report {
            relay.tell_group(signal);
        }
        report
    }

    /// The command was sent a signal.
    pub(crate) fn note(&self, signal: i32) {
        if [libc::SIGHUP, libc::SIGTERM].contains(&signal) {
            self.is_ending.store(true, Ordering::Relaxed);
        }
    }

    /// What the terminal said to the caller's process group it would have said to the command's.
    pub(crate) fn pass_on(&self, signal: Signal, command: &OwnedFd) {
        let is_in_front = self.is_in_front.load(Ordering::Relaxed);
        let front = is_in_front.then(|| tcgetpgrp(&self.master).ok()).flatten();
        if let Some(group) = front.or_else(|| Some(state_of(command)?.group)) {
            let _ = kill_process_group(group, signal);
        }
    }
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about one of two ends"
)]
struct Relay<'a> {
    terminals: &'a Terminals,
    control: &'a OwnedFd,
    command: &'a OwnedFd,
    /// The modes of a new terminal, where the operator's had those that somebody else set, a shell's prompt or a pager.
    new: Option<Termios>,
    /// The operator's terminal while the command gets what is typed.
    held: Option<Held>,
    /// Whether the operator's terminal was the caller's at the last look.
    is_ours: bool,
    /// Whether the command wants to read, where it does not from the start.
    was_asked: bool,
    /// Since when a line waits there that nobody has read.
    unread_since: Option<Instant>,
    /// The signal that the last key stood for, if it stood for one.
    last_key: Option<Signal>,
    typed: Passage,
    said: Passage,
    /// Whether the operator's terminal is gone.
    is_hung_up: bool,
    /// Whether the command's is.
    has_ended: bool,
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Relay<'_> {
    fn run(&mut self) -> Option<Report> {
        loop {
            self.settle();
            let [jail, news, inner, outer] = self.wait().ok()?;
            if !news.is_empty() {
                self.hear();
            }
            if outer.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                self.hang_up();
            }
            self.pass_on(inner, outer);
            if !jail.is_empty() {
                match channel::receive(self.control) {
                    Ok(Some((Report::Stopped(signal), _))) => self.stop_with_it(signal),
                    Ok(Some((report @ (Report::Exited(_) | Report::Signalled(_)), _))) => {
                        return Some(report);
                    }
                    _ => return None,
                }
            }
        }
    }

    fn outer(&self) -> &Outer {
        &self.terminals.outer
    }

    fn news(&self) -> &News {
        &self.terminals.news
    }

    /// Whether the command is to have what is typed, if it is typed to the caller.
    fn wants_input(&self) -> bool {
        self.was_asked || self.outer().is_whole()
    }

    /// Takes the operator's terminal, or leaves it, as it is the caller's now or not.
    fn settle(&mut self) {
        self.is_ours = !self.is_hung_up && self.outer().is_ours_now();
        if self.is_ours && self.held.is_none() && self.wants_input() {
            self.take_it();
            self.send(Place::Foreground, Order::Move);
        } else if !self.is_ours && self.held.take().is_some() {
            // Whoever has it now has set it as they want it.
            self.was_asked = false;
            self.send(Place::Background, Order::Move);
        }
        if !self.lurks() {
            self.unread_since = None;
        }
    }

    /// Whether what is typed may be the command's, or another program's.
    fn lurks(&self) -> bool {
        self.is_ours && self.held.is_none() && self.outer().is_input_alone()
    }

    fn take_it(&mut self) {
        let master = &self.terminals.master;
        let is_still =
            |new: Termios| tcgetattr(master).is_ok_and(|now| modes_of(&now) == modes_of(&new));
        if self.new.take().is_some_and(is_still) && self.outer().is_in_lines() {
            self.outer().lend_modes(master);
        }
        let last = self.held.take();
        self.held = self.outer().hold(last);
        self.outer().lend_size(&self.terminals.master);
        self.unread_since = None;
    }

    fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.outer().let_go(&held);
        }
    }

    fn send(&self, place: Place, order: fn(Place) -> Order) {
        channel::order(self.control, order(place));
        self.terminals.is_in_front.store(place == Place::Foreground, Ordering::Relaxed);
    }

    /// Waits until there is something to do. What happened: at the jail's init, by signals, at the command's terminal
    /// and at the operator's.
    fn wait(&mut self) -> io::Result<[PollFlags; 4]> {
        let mut inner = PollFlags::empty();
        inner.set(PollFlags::IN, self.said.is_empty());
        inner.set(PollFlags::OUT, !self.typed.is_empty());
        let is_lurking = self.lurks();
        let mut outer = PollFlags::empty();
        let reads = self.held.is_some() && self.typed.is_empty();
        outer.set(PollFlags::IN, reads || is_lurking && self.unread_since.is_none());
        outer.set(PollFlags::OUT, !self.said.is_empty());
        let patience = match self.unread_since {
            Some(since) => Some(UNREAD.saturating_sub(since.elapsed())),
            None => (!self.is_hung_up && self.held.is_none() && self.outer().is_whole())
                .then_some(LOOKED_AFTER),
        };
        let master = &self.terminals.master;
        let mut events = vec![
            PollFd::new(self.control, PollFlags::IN),
            PollFd::new(&self.news().wakes, PollFlags::IN),
        ];
        if !self.has_ended {
            events.push(PollFd::new(master, inner));
        }
        if !self.is_hung_up {
            events.push(PollFd::new(self.outer(), outer));
        }
        match poll(&mut events, timeout(patience).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([PollFlags::empty(); 4]),
            Err(error) => return Err(error.into()),
        }
        let mut said = events.iter().map(PollFd::revents);
        let mut next =
            |is_there: bool| is_there.then(|| said.next()).flatten().unwrap_or(PollFlags::empty());
        let told = [next(true), next(true), next(!self.has_ended), next(!self.is_hung_up)];
        drop(events);
        if is_lurking {
            self.lurk(told[3]);
        }
        Ok(told)
    }

    /// In a pipeline: a whole line that none of its programs has read is meant for the command.
    fn lurk(&mut self, outer: PollFlags) {
        match self.unread_since {
            None if outer.contains(PollFlags::IN) => self.unread_since = Some(Instant::now()),
            Some(since) if since.elapsed() >= UNREAD => {
                self.unread_since = None;
                self.was_asked = self.outer().is_in_lines() && is_readable(self.outer());
            }
            _ => {}
        }
    }

    fn pass_on(&mut self, inner: PollFlags, outer: PollFlags) {
        let terminals = self.terminals;
        if inner.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && self.said.is_empty()
        {
            self.listen();
        }
        self.stop_as_writer();
        if self.is_hung_up {
            self.said.clear();
        }
        self.said.empty(|bytes| terminals.outer.write(bytes));
        if self.held.is_some() && outer.contains(PollFlags::IN) && self.typed.is_empty() {
            // An end, or a failure, is one that the next look tells more of.
            let _ = self.typed.fill(|bytes| terminals.outer.read(bytes));
            self.note_key();
        }
        self.typed.empty(|bytes| rustix::io::write(&terminals.master, bytes));
    }

    /// Stops as any program that writes in the background, where the terminal wants it; goes on once it may write.
    fn stop_as_writer(&mut self) {
        let is_let = |relay: &Self| {
            relay.is_hung_up
                || relay.terminals.is_ending.load(Ordering::Relaxed)
                || !relay.outer().stops_writers()
        };
        while !self.said.is_empty() && !is_let(self) {
            if !self.news().stop_group(Signal::TTOU) {
                // Nobody would continue it: what it says is lost, as the kernel would have it.
                self.said.clear();
            }
            // A signal that came meanwhile is another thread's to hear.
            let end = Instant::now() + HEARD_WITHIN;
            while !is_let(self) && Instant::now() < end {
                thread::sleep(HEARD_WITHIN / 20);
            }
            self.come_back();
        }
    }

    fn note_key(&mut self) {
        let Ok(modes) = tcgetattr(&self.terminals.master) else { return };
        if !modes.local_modes.contains(LocalModes::ISIG) {
            return;
        }
        let keys =
            [(SpecialCodeIndex::VINTR, Signal::INT), (SpecialCodeIndex::VQUIT, Signal::QUIT)];
        for byte in self.typed.waiting() {
            let meant = keys.iter().find(|(key, _)| modes.special_codes[*key] == *byte);
            self.last_key = meant.map(|(_, signal)| *signal);
        }
    }

    /// What a key ended: it is for the whole job, of which the command's terminal knows nothing. A script goes on behind a
    /// command that was interrupted, unless it hears of that itself.
    fn tell_group(&self, signal: i32) {
        let Some(key) = self.last_key.filter(|key| key.as_raw() == signal && self.is_ours) else {
            return;
        };
        sys::while_heeding(key, Heeding::Ignored, || kill_current_process_group(key).ok());
    }

    /// Reads what the command said.
    fn listen(&mut self) {
        let terminals = self.terminals;
        self.has_ended = !self.said.fill(|bytes| rustix::io::read(&terminals.master, bytes));
        // The command's terminal has put a return before each line's end, and one that is not raw would do so again.
        let is_raw = self.held.is_some() && self.outer().is_whole();
        if !is_raw && self.outer().adds_returns() {
            self.said.drop_returns();
        }
    }

    /// Shows what has been said and not been shown yet, up to so much.
    fn pass_the_rest(&mut self, most: usize) {
        let terminals = self.terminals;
        let mut passed = 0;
        loop {
            self.stop_as_writer();
            while !self.said.is_empty() && !self.is_hung_up {
                if !self.said.empty(|bytes| terminals.outer.write(bytes)) {
                    let mut room = [PollFd::new(&terminals.outer, PollFlags::OUT)];
                    let _ = poll(&mut room, None);
                    self.is_hung_up = room[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
                }
            }
            self.said.clear();
            if passed >= most || self.has_ended {
                return;
            }
            self.listen();
            if self.said.is_empty() {
                return;
            }
            passed += self.said.waiting().len();
        }
    }

    /// Signals that came.
    fn hear(&mut self) {
        let Heard { continued, resized, told_to_stop } = self.news().take();
        if continued {
            self.come_back();
            if !self.outer().is_typed_to() {
                self.go_on();
            }
        }
        if resized {
            self.outer().lend_size(&self.terminals.master);
            if !self.terminals.is_in_front.load(Ordering::Relaxed) {
                self.terminals.pass_on(Signal::WINCH, self.command);
            }
        }
        if told_to_stop {
            self.terminals.pass_on(Signal::TSTP, self.command);
        }
    }

    /// After somebody else had the terminal, perhaps, and has set it.
    fn come_back(&mut self) {
        if self.held.is_some() && self.outer().is_ours_now() {
            self.take_it();
        }
        self.outer().lend_size(&self.terminals.master);
    }

    /// The command was stopped: by a key, by itself, or as it wants its terminal and does not have it.
    fn stop_with_it(&mut self, signal: i32) {
        if !state_of(self.command).is_some_and(|state| state.is_stopped) {
            return;
        }
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TSTP);
        if !self.outer().is_typed_to() && signal != Signal::TSTP {
            // Nobody but itself has done that, whatever the signal says it wants: it stays stopped by itself, as it would bare.
            return;
        }
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if wants_terminal && !self.is_hung_up && self.outer().is_ours_now() {
            self.was_asked = true;
            return self.go_on();
        }
        self.pass_the_rest(LAST_WORDS);
        self.let_go();
        // As the terminal's key would: whatever else is of this job stops as well.
        let heeds = if wants_terminal { signal } else { Signal::TSTP };
        if !self.news().stop_group(heeds) && wants_terminal {
            // Nobody could continue it, and it will not be let read.
            self.terminals.pass_on(Signal::HUP, self.command);
        }
        self.go_on();
    }

    /// Continues the command where the caller is now.
    fn go_on(&mut self) {
        self.is_ours = !self.is_hung_up && self.outer().is_ours_now();
        if self.is_ours && self.wants_input() {
            self.take_it();
            self.send(Place::Foreground, Order::Resume);
        } else {
            self.outer().lend_size(&self.terminals.master);
            self.was_asked = false;
            self.send(Place::Background, Order::Resume);
        }
    }

    /// The operator's terminal is gone: a window was closed. Who had it hears of that, as the kernel would say it.
    fn hang_up(&mut self) {
        self.is_hung_up = true;
        if self.held.take().is_some() {
            self.terminals.pass_on(Signal::HUP, self.command);
            self.terminals.pass_on(Signal::CONT, self.command);
        }
    }
}

fn is_readable(fd: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut events = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut events, Some(&now)).is_ok() && events[0].revents().contains(PollFlags::IN)
}

fn timeout(patience: Option<Duration>) -> Option<Timespec> {
    patience.and_then(|patience| Timespec::try_from(patience).ok())
}

/// What was read at one end and not written yet at the other.
#[derive(Default)]
struct Passage {
    bytes: Vec<u8>,
    gone: usize,
}

impl Passage {
    const ROOM: usize = 16 << 10;

    fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn waiting(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.gone = 0;
    }

    /// Reads once; whether there may be more to come.
    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>) -> bool {
        self.gone = 0;
        self.bytes.resize(Self::ROOM, 0);
        let read = read(&mut self.bytes);
        self.bytes.truncate(*read.as_ref().unwrap_or(&0));
        !matches!(read, Ok(0) | Err(Errno::IO))
    }

    /// Takes out every return right before a line's end.
    fn drop_returns(&mut self) {
        let mut kept = Vec::with_capacity(Self::ROOM);
        for (at, byte) in self.bytes.iter().enumerate() {
            if *byte != b'\r' || self.bytes.get(at + 1) != Some(&b'\n') {
                kept.push(*byte);
            }
        }
        self.bytes = kept;
    }

    /// Writes as much as goes; whether all has gone. What can't be written at all is lost, as it is to a program that
    /// writes to a terminal that is gone.
    fn empty(&mut self, mut write: impl FnMut(&[u8]) -> rustix::io::Result<usize>) -> bool {
        while !self.is_empty() {
            match write(self.waiting()) {
                Ok(length @ 1..) => self.gone += length,
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::AGAIN) => return false,
                Err(_) => self.clear(),
            }
        }
        true
    }
}

impl Drop for Passage {
    /// What was typed may have been a secret.
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.bytes);
    }
}

/// Signals about the terminal, and about this process's turn at it.
#[derive(Debug)]
struct News {
    continued: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    told_to_stop: Arc<AtomicBool>,
    /// Readable when one has come.
    wakes: UnixStream,
    registered: Vec<SigId>,
}

struct Heard {
    continued: bool,
    resized: bool,
    told_to_stop: bool,
}

impl News {
    fn listen() -> io::Result<Self> {
        let (wakes, sender) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let mut news = Self {
            continued: Arc::default(),
            resized: Arc::default(),
            told_to_stop: Arc::default(),
            wakes,
            registered: Vec::new(),
        };
        for (signal, heard) in
            [(SIGCONT, &news.continued), (SIGWINCH, &news.resized), (SIGTSTP, &news.told_to_stop)]
        {
            // What the caller ignores the command shall, too.
            if !sys::is_ignored(signal) {
                news.registered.push(flag::register(signal, Arc::clone(heard))?);
                news.registered.push(pipe::register(signal, sender.try_clone()?)?);
            }
        }
        Ok(news)
    }

    /// What has come since the last time.
    fn take(&self) -> Heard {
        while rustix::io::read(&self.wakes, &mut [0_u8; 64]).is_ok_and(|length| length > 0) {}
        Heard {
            continued: self.continued.swap(false, Ordering::Relaxed),
            resized: self.resized.swap(false, Ordering::Relaxed),
            told_to_stop: self.told_to_stop.swap(false, Ordering::Relaxed),
        }
    }

    /// Stops this process's group, this process with all its threads; returns once it is continued. Gives whether it was
    /// stopped: the kernel does not do that to a group that nobody would continue.
    fn stop_group(&self, signal: Signal) -> bool {
        sys::while_heeding(signal, Heeding::Default, || {
            self.take();
            let _ = kill_current_process_group(signal);
            // Another thread may have taken it, and this one go on for a moment.
            let end = Instant::now() + STOPS_WITHIN;
            loop {
                let was_continued = self.continued.swap(false, Ordering::Relaxed);
                let left = end.saturating_duration_since(Instant::now());
                if was_continued || left.is_zero() {
                    return was_continued;
                }
                let mut wakes = [PollFd::new(&self.wakes, PollFlags::IN)];
                let _ = poll(&mut wakes, timeout(Some(left)).as_ref());
                let _ = rustix::io::read(&self.wakes, &mut [0_u8; 64]);
            }
        })
    }
}

impl Drop for News {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_in_parts_and_nothing_twice() {
        let mut passage = Passage::default();
        let from = b"one\r\ntwo\r\r\n\rthree";
        assert!(passage.fill(|room| {
            room[..from.len()].copy_from_slice(from);
            Ok(from.len())
        }));
        passage.drop_returns();
        let mut written = Vec::new();
        let mut room = 5;
        let write = |bytes: &[u8]| {
            if room == 0 {
                return Err(Errno::AGAIN);
            }
            let length = bytes.len().min(room);
            room -= length;
            written.extend_from_slice(&bytes[..length]);
            Ok(length)
        };
        assert!(!passage.empty(write));
        assert!(passage.empty(|bytes| {
            written.extend_from_slice(bytes);
            Ok(bytes.len())
        }));
        assert_eq!(written, b"one\ntwo\r\n\rthree");
        // Nothing to be had for now, and an end.
        assert!(passage.fill(|_| Err(Errno::AGAIN)) && passage.is_empty());
        assert!(!passage.fill(|_| Err(Errno::IO)) && passage.is_empty());
    }
}
