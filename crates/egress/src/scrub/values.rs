//! The values that one session has sent out so far, by authority, and the rewriters that find them.
//!
//! A value that was replaced (a rotation) stays known: the upstream may still echo it.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use keyless_core::{Authority, Placeholder};
use keyless_rewrite::{Rewriter, echoes, scrubber};
use zeroize::Zeroizing;

/// What was sent where.
#[derive(Default)]
pub(crate) struct ReleasedValues(RwLock<HashMap<Authority, Arc<Slot>>>);

/// What was sent to one authority.
pub(crate) struct Slot {
    known: RwLock<Arc<Known>>,
    /// Requests under way that may still release something.
    upcoming: AtomicUsize,
}

/// The values at one moment.
pub(crate) struct Known {
    values: Vec<(Placeholder, Zeroizing<Vec<u8>>)>,
    free: Rewriter,
    kept: OnceLock<Rewriter>,
}

/// What a rewriter may do to a body's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Placeholders are written whole.
    Free,
    /// Placeholders are cut or padded with `*` to the length of what they replace.
    Kept,
}

/// A request whose body streams may release values after its response has begun; while this
/// lives, responses from there are ready to be scrubbed.
pub(crate) struct Upcoming(Arc<Slot>);

impl ReleasedValues {
    /// Keeps a value that is about to be sent to `authority`.
    pub(crate) fn remember(&self, authority: &Authority, placeholder: &Placeholder, value: &[u8]) {
        self.slot_or_new(authority).remember(placeholder, value);
    }

    /// What was sent to `authority`, if anything.
    pub(crate) fn slot(&self, authority: &Authority) -> Option<Arc<Slot>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(authority).cloned()
    }

    /// Announces that something may be sent to `authority` while responses come from there.
    pub(crate) fn expect_more(&self, authority: &Authority) -> Upcoming {
        let slot = self.slot_or_new(authority);
        slot.upcoming.fetch_add(1, Ordering::SeqCst);
        Upcoming(slot)
    }

    fn slot_or_new(&self, authority: &Authority) -> Arc<Slot> {
        if let Some(slot) = self.slot(authority) {
            return slot;
        }
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(authority.clone()).or_insert_with(|| Arc::new(Slot::new())))
    }
}

impl Slot {
    fn new() -> Self {
        let known = RwLock::new(Arc::new(Known::new(Vec::new())));
        Self { known, upcoming: AtomicUsize::new(0) }
    }

    /// Whether a response from here has to be looked through.
    pub(crate) fn is_active(&self) -> bool {
        self.upcoming.load(Ordering::SeqCst) > 0 || !self.known().values.is_empty()
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, placeholder: &Placeholder, value: &[u8]) {
        if self.known().holds(placeholder, value) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.holds(placeholder, value) {
            return;
        }
        let mut values = known.values.clone();
        values.push((placeholder.clone(), Zeroizing::new(value.to_vec())));
        *known = Arc::new(Known::new(values));
    }
}

impl Known {
    fn new(values: Vec<(Placeholder, Zeroizing<Vec<u8>>)>) -> Self {
        let pairs = values.iter().map(|(placeholder, value)| (&***value, placeholder.as_str()));
        Self { free: scrubber(pairs), kept: OnceLock::new(), values }
    }

    /// The rewriter from every form of every value.
    pub(crate) fn rewriter(&self, lengths: Lengths) -> &Rewriter {
        match lengths {
            Lengths::Free => &self.free,
            Lengths::Kept => self.kept.get_or_init(|| length_keeping(&self.values)),
        }
    }

    /// Number of values.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    fn holds(&self, placeholder: &Placeholder, value: &[u8]) -> bool {
        self.values.iter().any(|(other, known)| other == placeholder && **known == *value)
    }
}

impl Drop for Upcoming {
    fn drop(&mut self) {
        self.0.upcoming.fetch_sub(1, Ordering::SeqCst);
    }
}

fn length_keeping(values: &[(Placeholder, Zeroizing<Vec<u8>>)]) -> Rewriter {
    Rewriter::new(values.iter().flat_map(|(placeholder, value)| {
        echoes(value).into_iter().map(|echo| {
            let mut marker = echo.replacement(placeholder.as_str());
            marker.resize(echo.pattern().len(), b'*');
            (echo.pattern().to_vec(), marker)
        })
    }))
}
