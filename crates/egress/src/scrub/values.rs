//! The values that one session has sent out so far, and the rewriters that find them.
//!
//! One set for all hosts of the session: what one host was sent, another may be told to show. A
//! value that was replaced (a rotation) stays known: the upstream may still echo it.

use std::sync::{Arc, OnceLock};

use http::HeaderName;
use keyless_core::Placeholder;
use keyless_rewrite::{PatternSet, Rewriter, echoes, length_keeping_scrubber, scrubber};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use crate::limits::TOKEN_OVERHEAD;

/// Values, with what stands for each.
type Values = Vec<(Placeholder, Zeroizing<Vec<u8>>)>;

/// What was sent out.
#[derive(Clone, Default)]
pub(crate) struct ReleasedValues(Arc<Slot>);

/// What was sent out, as a response holds on to it.
pub(crate) struct Slot(RwLock<Arc<Known>>);

/// The values at one moment.
pub(crate) struct Known {
    values: Values,
    free: Rewriter,
    kept: OnceLock<Rewriter>,
    /// Every form of the values in lower case, as it would stand in the name of a field; for the first name that is long
    /// enough to hold one.
    names: OnceLock<PatternSet>,
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
    /// Keeps a value that is about to be sent.
    pub(crate) fn remember(&self, placeholder: &Placeholder, value: &[u8]) {
        self.remember_all(&[(placeholder, value)]);
    }

    /// Keeps several at once: what finds them is made anew for each call, in some milliseconds for every long token known.
    pub(crate) fn remember_all(&self, values: &[(&Placeholder, &[u8])]) {
        self.0.remember(values);
    }

    /// Whether these may be remembered too, if all values together may take so many bytes.
    pub(crate) fn has_room<'v>(
        &self,
        values: impl Iterator<Item = &'v [u8]>,
        bytes: usize,
    ) -> bool {
        let known = self.0.known();
        let new = values.filter(|new| !known.values.iter().any(|(_, value)| **value == **new));
        let mut new = new.peekable();
        // Who brings nothing new is let through even where there is no room.
        new.peek().is_none() || known.weight() + new.map(weight).sum::<usize>() <= bytes
    }

    /// What was sent out, from now on.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        Arc::clone(&self.0)
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
        Arc::clone(&self.0.read())
    }

    fn remember(&self, given: &[(&Placeholder, &[u8])]) {
        let is_new = |known: &Known| given.iter().any(|(name, value)| !known.holds(name, value));
        if !is_new(&self.known()) {
            return;
        }
        let mut known = self.0.write();
        let mut values = known.values.clone();
        for (placeholder, value) in given {
            if !holds(&values, placeholder, value) {
                values.push(((*placeholder).clone(), Zeroizing::new(value.to_vec())));
            }
        }
        if values.len() > known.values.len() {
            *known = Arc::new(Known::new(values));
        }
    }
}

impl Known {
    fn new(values: Values) -> Self {
        let pairs = values.iter().map(|(placeholder, value)| (&***value, placeholder.as_str()));
        Self { free: scrubber(pairs), kept: OnceLock::new(), names: OnceLock::new(), values }
    }

    /// Whether a field's name contains a form of a value; names are lower case here.
    pub(crate) fn is_in_name(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        // Tokens are longer than names, nearly always: then their forms are not written down once more.
        name.len() >= self.free.patterns().shortest()
            && self.names.get_or_init(|| in_names(&self.values)).find(name, 0).is_some()
    }

    /// The rewriter from every form of every value.
    pub(crate) fn rewriter(&self, lengths: Lengths) -> &Rewriter {
        match lengths {
            Lengths::Free => &self.free,
            Lengths::Kept => self.kept.get_or_init(|| length_keeping(&self.values)),
        }
    }

    fn weight(&self) -> usize {
        self.values.iter().map(|(_, value)| weight(value)).sum()
    }

    /// Number of values.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    fn holds(&self, placeholder: &Placeholder, value: &[u8]) -> bool {
        holds(&self.values, placeholder, value)
    }
}

fn holds(values: &Values, placeholder: &Placeholder, value: &[u8]) -> bool {
    values.iter().any(|(other, known)| other == placeholder && **known == *value)
}

fn weight(value: &[u8]) -> usize {
    value.len() + TOKEN_OVERHEAD
}

fn in_names(values: &Values) -> PatternSet {
    let forms = values.iter().flat_map(|(_, value)| echoes(value));
    let forms = forms.map(|form| Zeroizing::new(form.pattern().to_ascii_lowercase()));
    let forms: Vec<_> = forms.collect();
    PatternSet::new(forms.iter().map(|form| form.as_slice()))
}

fn length_keeping(values: &Values) -> Rewriter {
    let pairs = values.iter().map(|(placeholder, value)| (&***value, placeholder.as_str()));
    length_keeping_scrubber(pairs)
}
