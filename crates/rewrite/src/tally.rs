//! How often each value was taken out, and how it was written there.

use std::collections::BTreeMap;

use crate::sanitizer::{Finding, FoundAs};

/// Counts what was taken out, by value and form. Values are numbered as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(usize, FoundAs), u64>);

impl Tally {
    /// Counts one more.
    pub fn note(&mut self, finding: &Finding) {
        self.note_as(finding.value, finding.form);
    }

    /// Counts one more of a value.
    pub fn note_as(&mut self, value: usize, form: FoundAs) {
        *self.0.entry((value, form)).or_default() += 1;
    }

    /// Takes all of `other` over.
    pub fn append(&mut self, other: &mut Self) {
        for (key, count) in std::mem::take(&mut other.0) {
            *self.0.entry(key).or_default() += count;
        }
    }

    /// Whether nothing was taken out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which value, in which form, how often.
    pub fn iter(&self) -> impl Iterator<Item = (usize, FoundAs, u64)> {
        self.0.iter().map(|(&(value, form), &count)| (value, form, count))
    }
}
