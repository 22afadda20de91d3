//! What waits for the writer.
//!
//! The writer is woken when it has to do something, not for every entry: most arrive while a group
//! is gathering, and a wake-up per request costs more than the entry itself.

use std::time::Duration;

use keyless_core::{
    Error,
    audit::{Outline, Recorded},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};

use super::unavailable;

/// How long an entry that nobody waits for may stay in memory.
const SOON: Duration = Duration::from_millis(20);
/// The most entries of one group.
pub(super) const GROUP: usize = 2048;
/// Entries that nobody waits for; beyond that none is taken.
const MOST: usize = 8192;

/// An entry that is not yet written.
pub(super) struct Waiting {
    pub(super) outline: Outline,
    pub(super) reply: Option<oneshot::Sender<Result<Recorded, Error>>>,
}

/// The way to tell one caller when all is written.
pub(super) type Flush = oneshot::Sender<Result<(), Error>>;

/// What waits for the writer.
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    flushes: Vec<Flush>,
    /// Somebody waits for one of the entries.
    urgent: bool,
    /// When the entries that nobody waits for are due.
    due: Option<Instant>,
    /// Why the last write failed, where entries that were taken have to be tried again.
    failing: Option<Error>,
    life: Life,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Life {
    /// Entries may come.
    #[default]
    Open,
    /// No more entries will come; the writer has a last group to take.
    Left,
    /// The writer has taken its last group, or has gone.
    Closed,
}

/// What the writer has to do.
pub(super) struct Group {
    pub(super) waiting: Vec<Waiting>,
    pub(super) flushes: Vec<Flush>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), wake: Notify::new() }
    }

    /// Takes an entry that somebody waits for.
    pub(super) fn push(&self, waiting: Waiting) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.life == Life::Closed {
            return Err(unavailable());
        }
        state.urgent = true;
        state.waiting.push(waiting);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Takes an entry that nobody waits for, unless writing fails or too many wait.
    pub(super) fn push_soon(&self, outline: Outline) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.takes_more()?;
        let is_notable = state.add(outline);
        drop(state);
        if is_notable {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Takes an entry about what is over, also while writing fails and however many wait. Once the writer has gone there
    /// is nobody to write it.
    pub(super) fn push_owed(&self, outline: Outline) {
        let mut state = self.state.lock();
        let is_notable = state.life != Life::Closed && state.add(outline);
        drop(state);
        if is_notable {
            self.wake.notify_one();
        }
    }

    /// Whether an entry that nobody waits for would be taken.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state.lock().takes_more()
    }

    /// Has everything written.
    pub(super) fn flush(&self, flush: Flush) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.life == Life::Closed {
            return Err(unavailable());
        }
        state.flushes.push(flush);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// No more entries will come.
    pub(super) fn leave(&self) {
        self.state.lock().life = Life::Left;
        self.wake.notify_one();
    }

    /// The writer goes: whoever waits is told so by the end of their channel.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        *state = State { life: Life::Closed, ..State::default() };
    }

    /// Waits for the next group; nothing when the last has been given.
    pub(super) async fn next(&self) -> Option<Group> {
        loop {
            let due = {
                let mut state = self.state.lock();
                if state.is_due(Instant::now()) {
                    return Some(state.take());
                }
                match state.life {
                    Life::Open => {}
                    Life::Left => {
                        state.life = Life::Closed;
                        return Some(state.take());
                    }
                    Life::Closed => return None,
                }
                state.due
            };
            match due {
                None => self.wake.notified().await,
                Some(due) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// Says what of the last group has to be tried again, and why: it goes before all that has come since, and is
    /// due after `delay`. A failure that left nothing to try says nothing of the next entry, which
    /// only that entry could find out.
    pub(super) fn settle(&self, again: Vec<Waiting>, why: Option<&Error>, delay: Duration) {
        let mut state = self.state.lock();
        state.failing = why.filter(|_| !again.is_empty()).cloned();
        // Once the last handle is gone, the last group was the last try.
        if again.is_empty() || state.life == Life::Closed {
            return;
        }
        state.waiting.splice(..0, again);
        state.due = Some(Instant::now() + delay);
    }
}

impl State {
    /// Takes an entry that is due soon. Whether the writer has to know.
    fn add(&mut self, outline: Outline) -> bool {
        self.waiting.push(Waiting { outline, reply: None });
        let begins = self.due.is_none();
        if begins {
            self.due = Some(Instant::now() + SOON);
        }
        begins || self.waiting.len() == GROUP
    }

    /// Whether an entry that nobody waits for is taken; while writing fails, why it does is told.
    fn takes_more(&self) -> Result<(), Error> {
        match &self.failing {
            Some(why) => Err(why.clone()),
            None if self.life == Life::Closed || self.waiting.len() >= MOST => Err(unavailable()),
            None => Ok(()),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.urgent
            || !self.flushes.is_empty()
            || (self.waiting.len() >= GROUP && self.failing.is_none())
            || self.due.is_some_and(|due| due <= now)
    }

    fn take(&mut self) -> Group {
        self.urgent = false;
        self.due = None;
        let room = Vec::with_capacity(self.waiting.len());
        let waiting = std::mem::replace(&mut self.waiting, room);
        Group { waiting, flushes: std::mem::take(&mut self.flushes) }
    }
}
