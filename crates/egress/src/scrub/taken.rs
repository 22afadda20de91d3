//! What was taken out of the answers to one request or the messages of one tunnel, for the log.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use keyless_rewrite::Tally;
use parking_lot::Mutex;

use super::values::{Known, Slot};
use crate::ports::Redacted;

/// What to look for, and where to tell of what was found.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) slot: Arc<Slot>,
    pub(super) taken: Arc<Taken>,
}

/// Shared by all that comes back for one request: heads, bodies, trailers and messages.
#[derive(Default)]
pub(crate) struct Taken {
    counts: Mutex<Counts>,
    /// So that what is asked for each frame costs nothing as a rule.
    has_news: AtomicBool,
}

#[derive(Default)]
struct Counts {
    all: Vec<Redacted>,
    /// How many of them, from the first, were told already.
    told: usize,
}

impl Taken {
    /// Takes over what was counted of these values.
    pub(super) fn note(&self, known: &Known, tally: &mut Tally) {
        if tally.is_empty() {
            return;
        }
        let all = &mut self.counts.lock().all;
        for (value, form, count) in std::mem::take(tally).iter() {
            let (secret, encoding) = (known.path(value), form.into());
            let is_it = |one: &&mut Redacted| one.secret == *secret && one.encoding == encoding;
            if let Some(one) = all.iter_mut().find(is_it) {
                one.count += count;
            } else {
                all.push(Redacted { secret: secret.clone(), encoding, count });
                self.has_news.store(true, Ordering::Relaxed);
            }
        }
    }

    /// What nobody was told yet: each value in each encoding once, with how often it was found until now.
    pub(crate) fn news(&self) -> Vec<Redacted> {
        if !self.has_news.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut counts = self.counts.lock();
        let news = counts.all[counts.told..].to_vec();
        counts.told = counts.all.len();
        news
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<Redacted> {
        self.counts.lock().all.clone()
    }
}
