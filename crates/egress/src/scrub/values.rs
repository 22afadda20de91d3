//! The values that one session has sent out so far, and the rewriters that find them.
//!
//! One set for all hosts of the session: what one host was sent, another may be told to show. A
//! value that was replaced (a rotation) stays known: the upstream may still echo it.

use std::sync::{Arc, OnceLock};

use http::HeaderName;
use keyless_core::Placeholder;
use keyless_rewrite::{Echo, PatternSet, Piece, Rewriter, Scanner, echoes, scrubber};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use crate::limits::TOKEN_OVERHEAD;

/// What was sent out.
#[derive(Clone, Default)]
pub(crate) struct ReleasedValues(Arc<Slot>);

/// What was sent out, as a response holds on to it.
pub(crate) struct Slot(RwLock<Arc<Known>>);

/// The values at one moment.
pub(crate) struct Known {
    values: Vec<(Placeholder, Zeroizing<Vec<u8>>)>,
    free: Rewriter,
    kept: OnceLock<Rewriter>,
    /// Every form of the values in lower case, as it would stand in the name of a field.
    names: PatternSet,
    /// The length of the shortest of these, in bytes.
    shortest: usize,
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
        self.0.remember(placeholder, value);
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

    fn remember(&self, placeholder: &Placeholder, value: &[u8]) {
        if self.known().holds(placeholder, value) {
            return;
        }
        let mut known = self.0.write();
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
        let forms = values.iter().flat_map(|(_, value)| echoes(value));
        let lower = |form: Echo| Zeroizing::new(form.pattern().to_ascii_lowercase());
        let names: Vec<_> = forms.map(lower).collect();
        let shortest = names.iter().map(|name| name.len()).min().unwrap_or(usize::MAX);
        let names = PatternSet::new(names.iter().map(|name| name.as_slice()));
        Self { free: scrubber(pairs), kept: OnceLock::new(), names, shortest, values }
    }

    /// Whether a field's name contains a form of a value; names are lower case here.
    pub(crate) fn is_in_name(&self, name: &HeaderName) -> bool {
        if name.as_str().len() < self.shortest {
            return false;
        }
        let mut found = false;
        let mut scanner = Scanner::new(&self.names);
        let mut look = |piece: Piece<'_>| found |= matches!(piece, Piece::Match(_));
        scanner.feed(name.as_str().as_bytes(), &mut look);
        scanner.finish(&mut look);
        found
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
        self.values.iter().any(|(other, known)| other == placeholder && **known == *value)
    }
}

fn weight(value: &[u8]) -> usize {
    value.len() + TOKEN_OVERHEAD
}

fn length_keeping(values: &[(Placeholder, Zeroizing<Vec<u8>>)]) -> Rewriter {
    let pairs = values.iter().flat_map(|(placeholder, value)| {
        echoes(value).into_iter().map(|echo| {
            let mut marker = echo.replacement(placeholder.as_str());
            marker.resize(echo.pattern().len(), b'*');
            (echo.pattern().to_vec(), marker)
        })
    });
    Rewriter::new(pairs).covered()
}
