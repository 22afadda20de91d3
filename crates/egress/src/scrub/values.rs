//! The values that one session has sent out so far, by authority, and the rewriters that find them.
//!
//! A value that was replaced (a rotation) stays known: the upstream may still echo it.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use keyless_core::{Authority, Placeholder};
use keyless_rewrite::{Rewriter, echoes, scrubber};
use zeroize::Zeroizing;

/// From this many authorities on, those that were never sent anything are forgotten.
const MAX_IDLE: usize = 1024;

/// What was sent where.
#[derive(Default)]
pub(crate) struct ReleasedValues(RwLock<HashMap<Authority, Arc<Slot>>>);

/// What was sent to one authority.
pub(crate) struct Slot(RwLock<Arc<Known>>);

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

impl ReleasedValues {
    /// Keeps a value that is about to be sent to `authority`.
    pub(crate) fn remember(&self, authority: &Authority, placeholder: &Placeholder, value: &[u8]) {
        self.slot(authority).remember(placeholder, value);
    }

    /// What was sent to `authority`, from now on.
    pub(crate) fn slot(&self, authority: &Authority) -> Arc<Slot> {
        let slots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(authority) {
            return Arc::clone(slot);
        }
        drop(slots);
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_IDLE {
            // Nobody can tell an empty slot that is in no one's hands from a new one.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.known().count() > 0);
        }
        Arc::clone(slots.entry(authority.clone()).or_default())
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self(RwLock::new(Arc::new(Known::new(Vec::new()))))
    }
}

impl Slot {
    /// The values of this moment.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, placeholder: &Placeholder, value: &[u8]) {
        if self.known().holds(placeholder, value) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
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

fn length_keeping(values: &[(Placeholder, Zeroizing<Vec<u8>>)]) -> Rewriter {
    Rewriter::new(values.iter().flat_map(|(placeholder, value)| {
        echoes(value).into_iter().map(|echo| {
            let mut marker = echo.replacement(placeholder.as_str());
            marker.resize(echo.pattern().len(), b'*');
            (echo.pattern().to_vec(), marker)
        })
    }))
}
