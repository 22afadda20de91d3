//! A part of the log that was closed: moved from the database into a file of its own (NL-5.11); also one that is not what was
//! written, once the operator has said that they have seen it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Chain, Entry};

/// What is kept in the database of the entries that left it. Its fields stand in the order of RFC 8785.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// That its entries are not what was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Break>,
    /// Which chain of the log; empty for the only one of a file.
    pub chain: String,
    /// When it was closed, UTC with milliseconds.
    pub closed_at: String,
    /// The file's name: `audit-keyless-FIRST-LAST-DATE.jsonl`, an entry a line, as they were stored.
    pub file: String,
    /// `sha256:` and the hash of the file in hex.
    pub file_hash: String,
    /// The number of its first entry.
    pub first_sequence: u64,
    /// The whole hash of its last entry.
    pub last_entry_hash: String,
    /// NL's hash of its last entry.
    pub last_hash: String,
    /// The number of its last entry, which says that the log was rotated.
    pub last_sequence: u64,
    /// The whole hash of the entry before its first.
    pub prev_entry_hash: String,
    /// NL's hash of the entry before its first.
    pub prev_hash: String,
    /// When the file was removed, since it had been kept for as long as the operator wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
}

/// A break that the operator has seen. Its fields stand in the order of RFC 8785.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// When they said so, UTC with milliseconds.
    pub accepted_at: String,
    /// Whether what comes next continues the hash of the file as it was then, since there is no last entry to continue.
    pub continued: bool,
    /// How many entries are in the file.
    pub entries: u64,
    /// What was found.
    pub found: String,
    /// The first number behind which the chain does not hold.
    pub from: u64,
    /// How many of the entries in the file have an HMAC that is right, and so are what was written.
    pub genuine: u64,
}

impl Segment {
    /// The entries of a chain behind `before` up to `end`, in a file of this hash.
    pub fn closed(
        chain: &str,
        (before, end): (&Chain, &Chain),
        file_hash: String,
        closed_at: Timestamp,
    ) -> Self {
        let (first, last) = (before.sequence() + 1, end.sequence());
        let (prev_hash, prev_entry_hash) = before.hashes();
        let (last_hash, last_entry_hash) = end.hashes();
        Self {
            broken: None,
            chain: chain.to_owned(),
            closed_at: format!("{closed_at:.3}"),
            file: format!("audit-keyless-{first}-{last}-{}.jsonl", closed_at.strftime("%Y%m%d")),
            file_hash,
            first_sequence: first,
            last_entry_hash: last_entry_hash.to_owned(),
            last_hash: last_hash.to_owned(),
            last_sequence: last,
            prev_entry_hash: prev_entry_hash.to_owned(),
            prev_hash: prev_hash.to_owned(),
            removed_at: None,
        }
    }

    /// What is in the place of the entries behind `before` up to the number `last`, in a file of this hash, which what
    /// comes next continues: so the chain holds what was found.
    pub fn broken(
        chain: &str,
        (before, last): (&Chain, u64),
        file_hash: String,
        (found, at): (Break, Timestamp),
    ) -> Self {
        let end = Chain::at(last, (&file_hash, &file_hash));
        let closed = Self::closed(chain, (before, &end), file_hash, at);
        Self { broken: Some(found), ..closed }
    }

    /// Whether what comes next continues the file itself, and not its last entry.
    pub fn ends_as_file(&self) -> bool {
        self.broken.as_ref().is_some_and(|seen| seen.continued)
    }

    /// Whether its file is called as files of its entries are.
    pub fn has_own_name(&self) -> bool {
        let start = format!("audit-keyless-{}-{}-", self.first_sequence, self.last_sequence);
        let date = self.file.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".jsonl"));
        date.is_some_and(|date| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Where the log ended before its first entry.
    pub fn before(&self) -> Chain {
        Chain::at(self.first_sequence.saturating_sub(1), (&self.prev_hash, &self.prev_entry_hash))
    }

    /// Where it ends.
    pub fn end(&self) -> Chain {
        Chain::at(self.last_sequence, (&self.last_hash, &self.last_entry_hash))
    }

    /// Whether it has the entry of this number.
    pub fn contains(&self, sequence: u64) -> bool {
        (self.first_sequence..=self.last_sequence).contains(&sequence)
    }

    /// Whether `entry` is its last one.
    pub fn ends_with(&self, entry: &Entry) -> bool {
        Chain::after(entry) == self.end()
    }

    /// What is stored and sealed.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a segment is plain data")
    }
}
