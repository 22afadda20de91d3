//! What was taken out of the answers to one request or the messages of one tunnel, for the log.

use std::sync::Arc;

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
pub(crate) struct Taken(Mutex<Vec<Redacted>>);

impl Taken {
    /// Takes over what was counted of these values.
    pub(super) fn note(&self, known: &Known, tally: &mut Tally) {
        if tally.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        for (value, form, count) in std::mem::take(tally).iter() {
            let (secret, encoding) = (known.path(value), form.into());
            match all.iter_mut().find(|one| one.secret == *secret && one.encoding == encoding) {
                Some(one) => one.count += count,
                None => all.push(Redacted { secret: secret.clone(), encoding, count }),
            }
        }
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<Redacted> {
        self.0.lock().clone()
    }
}
