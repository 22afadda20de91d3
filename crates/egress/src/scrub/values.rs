//! The values that one session has sent out so far, and the rewriters that find them.
//!
//! One set for all hosts of the session: what one host was sent, another may be told to show. A
//! value that was replaced (a rotation) stays known: the upstream may still echo it.

use std::sync::{Arc, OnceLock};

use http::HeaderName;
use keyless_core::{Placeholder, SecretPath};
pub(crate) use keyless_rewrite::Lengths;
use keyless_rewrite::{Marking, PatternSet, Rewriter, echoes, length_keeping_scrubber, scrubber};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use crate::limits::{MAX_DISGUISED_VALUES, TOKEN_OVERHEAD};

/// Values, with whose they are and what stands for each.
type Values = Vec<Value>;

#[derive(Clone)]
struct Value {
    path: SecretPath,
    placeholder: Placeholder,
    bytes: Zeroizing<Vec<u8>>,
    origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// An answer has minted it.
    Minted,
    /// It is a secret of the session.
    Session,
}

/// A value that is about to be sent: whose it is, and what stands for it.
pub(crate) type Sent<'a> = (&'a SecretPath, &'a Placeholder, &'a [u8]);

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
    names: OnceLock<Names>,
    /// Every form that a value can be given, for the first answer.
    marking: OnceLock<Arc<Marking>>,
}

struct Names {
    patterns: PatternSet,
    /// Whose form each of them is.
    values: Vec<usize>,
}

impl ReleasedValues {
    /// Keeps a value that is about to be sent.
    pub(crate) fn remember(&self, path: &SecretPath, placeholder: &Placeholder, value: &[u8]) {
        self.0.remember(Origin::Session, &[(path, placeholder, value)]);
    }

    /// Keeps tokens that an answer has minted, several at once: what finds them is made anew for each call, in some
    /// milliseconds for every long token known.
    pub(crate) fn remember_minted(&self, values: &[Sent<'_>]) {
        self.0.remember(Origin::Minted, values);
    }

    /// Whether these may be remembered too, if all values together may take so many bytes.
    pub(crate) fn has_room<'v>(
        &self,
        values: impl Iterator<Item = &'v [u8]>,
        bytes: usize,
    ) -> bool {
        let known = self.0.known();
        let new = values.filter(|new| !known.values.iter().any(|value| *value.bytes == **new));
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

    fn remember(&self, origin: Origin, given: &[Sent<'_>]) {
        let is_new = |known: &Known| given.iter().any(|sent| !holds(&known.values, sent));
        if !is_new(&self.known()) {
            return;
        }
        let mut known = self.0.write();
        let mut values = known.values.clone();
        for sent in given {
            if !holds(&values, sent) {
                let (path, placeholder, bytes) = *sent;
                let (path, placeholder) = (path.clone(), placeholder.clone());
                let bytes = Zeroizing::new(bytes.to_vec());
                values.push(Value { path, placeholder, bytes, origin });
            }
        }
        if values.len() > known.values.len() {
            *known = Arc::new(Known::new(values));
        }
    }
}

impl Known {
    fn new(values: Values) -> Self {
        let (kept, names, marking) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { free: scrubber(pairs(&values)), kept, names, marking, values }
    }

    /// Whose form a field's name contains, if it does; names are lower case here.
    pub(crate) fn in_name(&self, name: &HeaderName) -> Option<usize> {
        let name = name.as_str().as_bytes();
        // Tokens are longer than names, nearly always: then their forms are not written down once more.
        if name.len() < self.free.patterns().shortest() {
            return None;
        }
        let names = self.names.get_or_init(|| in_names(&self.values));
        names.patterns.find(name, 0).map(|(_, form)| names.values[form.index()])
    }

    /// The rewriter from every form of every value.
    pub(crate) fn rewriter(&self, lengths: Lengths) -> &Rewriter {
        match lengths {
            Lengths::Free => &self.free,
            Lengths::Kept => self.kept.get_or_init(|| length_keeping_scrubber(pairs(&self.values))),
        }
    }

    /// What finds every form that a value can be given.
    pub(crate) fn marking(&self) -> &Arc<Marking> {
        self.marking.get_or_init(|| Arc::new(Marking::new(disguisable(&self.values))))
    }

    /// Whose a value is, by the number that rewriter and marking have for it.
    pub(crate) fn path(&self, value: usize) -> &SecretPath {
        &self.values[value].path
    }

    fn weight(&self) -> usize {
        self.values.iter().map(|value| weight(&value.bytes)).sum()
    }

    /// Number of values.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }
}

fn holds(values: &Values, (_, placeholder, bytes): &Sent<'_>) -> bool {
    values.iter().any(|known| known.placeholder == **placeholder && *known.bytes == **bytes)
}

fn weight(value: &[u8]) -> usize {
    value.len() + TOKEN_OVERHEAD
}

fn pairs(values: &Values) -> impl Iterator<Item = (&[u8], &str)> {
    values.iter().map(|value| (value.bytes.as_slice(), value.placeholder.as_str()))
}

/// The same, with nothing in the place of those for which there is no room: they keep their numbers, and are not looked for.
/// The session's own come first, and of these and of minted tokens the youngest.
fn disguisable(values: &Values) -> Vec<(&[u8], &str)> {
    let mut all: Vec<_> = pairs(values).collect();
    let mut taken = 0;
    for origin in [Origin::Session, Origin::Minted] {
        for (value, (bytes, _)) in values.iter().zip(&mut all).rev() {
            if value.origin == origin {
                if taken + bytes.len() > MAX_DISGUISED_VALUES {
                    *bytes = b"";
                }
                taken += bytes.len();
            }
        }
    }
    all
}

fn in_names(values: &Values) -> Names {
    let (mut forms, mut whose) = (Vec::new(), Vec::new());
    for (number, value) in values.iter().enumerate() {
        for form in echoes(&value.bytes) {
            forms.push(Zeroizing::new(form.pattern().to_ascii_lowercase()));
            whose.push(number);
        }
    }
    let patterns = PatternSet::new(forms.iter().map(|form| form.as_slice()));
    Names { patterns, values: whose }
}
