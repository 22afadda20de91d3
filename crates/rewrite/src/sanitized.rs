//! Takes values out of a text or a stream in every form that the sanitizer knows, and puts their markers there.
//!
//! A stream is looked at together with what of it has passed before, so that a form that lies across chunks is found as
//! soon as it is there. As under any cover (`cover.rs`), the last bytes of a chunk wait if they could be part of a value, and
//! nothing waits behind a line end or a blank. So a form that has such within it and lies across chunks may have left in
//! part; the rest of it does not.

use std::{borrow::Cow, ops::Range, sync::Arc};

use zeroize::Zeroizing;

use crate::{
    cover::Cover,
    patterns::PatternSet,
    sanitizer::{Finding, MAX_IN_TEXT, Sanitizer},
    tally::Tally,
};

/// What has passed and is looked at again with what comes, at least.
const MIN_CONTEXT: usize = 4 << 10;
/// What pads a marker.
const PADDING: u8 = b'*';

/// What markers may do to a text's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// They are written whole.
    Free,
    /// They are cut, or padded with `*`, to the length of what they replace.
    Kept,
}

/// A sanitizer with a marker for each of its values: built once for a set of them.
pub struct Marking {
    sanitizer: Sanitizer,
    markers: Vec<String>,
    /// The markers as they stand in texts, whole and cut: what is in one is no value.
    written: PatternSet,
    cover: Cover,
}

impl Marking {
    /// Takes values with what stands for each.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a [u8], &'a str)>) -> Self {
        let (values, markers): (Vec<_>, Vec<_>) = secrets.into_iter().unzip();
        let cut = values.iter().zip(&markers).map(|(value, marker)| {
            let cut = marker.as_bytes().get(..value.len()).unwrap_or_default();
            // A shorter one is no marker by itself.
            if cut.len() * 2 > marker.len() { cut } else { &[] }
        });
        let whole = markers.iter().map(|marker| marker.as_bytes());
        let written = PatternSet::new(whole.chain(cut).collect::<Vec<_>>());
        let cover = Cover::over(values.iter().copied());
        let markers = markers.into_iter().map(str::to_owned).collect();
        Self { sanitizer: Sanitizer::of_wholes(values), markers, written, cover }
    }

    /// Puts markers into a whole text, and counts them; borrowed if there was nothing to replace.
    pub fn rewrite<'t>(
        &self,
        text: &'t [u8],
        lengths: Lengths,
        tally: &mut Tally,
    ) -> Cow<'t, [u8]> {
        let findings = self.find(text);
        if findings.is_empty() {
            return Cow::Borrowed(text);
        }
        for finding in &findings {
            tally.note(finding);
        }
        Cow::Owned(self.replace(text, &findings, lengths))
    }

    /// The text with markers in the place of findings, which are in order and without overlap.
    pub fn replace(&self, text: &[u8], findings: &[Finding], lengths: Lengths) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        for finding in findings {
            out.extend_from_slice(&text[at..finding.range.start]);
            self.mark(finding, finding.range.len(), lengths, &mut out);
            at = finding.range.end;
        }
        out.extend_from_slice(&text[at..]);
        out
    }

    /// Every place where a value stands, in order, none overlapping another, and none of them within a marker.
    pub fn find(&self, text: &[u8]) -> Vec<Finding> {
        self.but_markers(text, self.sanitizer.find(text))
    }

    fn but_markers(&self, text: &[u8], mut findings: Vec<Finding>) -> Vec<Finding> {
        findings.retain(|finding| !self.is_marker(text, &finding.range));
        findings
    }

    fn is_marker(&self, text: &[u8], range: &Range<usize>) -> bool {
        let reach = self.written.longest();
        let start = range.start.saturating_sub(reach);
        let near = &text[start..text.len().min(range.end + reach)];
        let mut from = 0;
        while let Some((marker, _)) = self.written.find(near, from) {
            if marker.start + start <= range.start && range.end <= marker.end + start {
                return true;
            }
            from = marker.end;
        }
        false
    }

    /// Writes a finding's marker, in the place of so many bytes.
    fn mark(&self, finding: &Finding, length: usize, lengths: Lengths, out: &mut Vec<u8>) {
        let marker = self.markers[finding.value].as_bytes();
        match lengths {
            Lengths::Free => out.extend_from_slice(marker),
            Lengths::Kept => {
                let end = out.len() + length;
                out.extend_from_slice(&marker[..marker.len().min(length)]);
                out.resize(end, PADDING);
            }
        }
    }
}

/// One stream on its way through a [`Marking`].
pub struct SanitizedStream {
    marking: Arc<Marking>,
    lengths: Lengths,
    /// What has passed, as far as it is looked at again, and what waits: as they came.
    text: Zeroizing<Vec<u8>>,
    /// How much of it has passed.
    passed: usize,
    /// How much of that is marked, or stands before what is.
    marked: usize,
    /// What may still be read and unpacked of what is packed, however often it is looked at.
    left: usize,
}

impl SanitizedStream {
    /// At the start of a stream.
    pub fn new(marking: Arc<Marking>, lengths: Lengths) -> Self {
        let (text, left) = (Zeroizing::default(), MAX_IN_TEXT);
        Self { marking, lengths, text, passed: 0, marked: 0, left }
    }

    /// Looks for more values from here on; those before keep their numbers.
    pub fn turn_to(&mut self, marking: Arc<Marking>) {
        self.marking = marking;
    }

    /// Takes the next chunk and appends to `out` all that may pass now. Where that is the beginning of the chunk as it
    /// is, it gives its length and appends nothing, so that the caller can pass it on without a copy.
    pub fn feed_or_slice(
        &mut self,
        chunk: &[u8],
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Option<usize> {
        let held = self.held();
        self.take(chunk);
        self.left = self.left.saturating_add(Sanitizer::unpacking(chunk.len()));
        let marking = Arc::clone(&self.marking);
        let waiting = &self.text[self.passed..];
        let decided = self.passed + marking.cover.begins(&[], waiting, marking.sanitizer.reach());
        let findings = self.due(decided);
        if held == 0 && findings.is_empty() {
            let plain = decided - self.passed;
            self.pass(decided);
            return Some(plain);
        }
        self.write(&findings, decided, out, tally);
        None
    }

    /// Gives all that waits, at the end of a message or of the stream. What passed is not looked at again: between messages
    /// stand lengths, which are nothing to write over.
    pub fn settle(&mut self, out: &mut Vec<u8>, tally: &mut Tally) {
        if self.held() > 0 {
            let end = self.text.len();
            let findings = self.due(end);
            self.write(&findings, end, out, tally);
        }
        self.text.clear();
        (self.passed, self.marked) = (0, 0);
    }

    /// Number of bytes that wait.
    pub fn held(&self) -> usize {
        self.text.len() - self.passed
    }

    /// What begins before `decided` and ends in what has not passed.
    fn due(&mut self, decided: usize) -> Vec<Finding> {
        let findings = self.marking.sanitizer.find_within(&self.text, &mut self.left);
        let mut findings = self.marking.but_markers(&self.text, findings);
        let is_due = |range: &Range<usize>| range.end > self.passed && range.start < decided;
        findings.retain(|finding| is_due(&finding.range));
        findings
    }

    fn write(
        &mut self,
        findings: &[Finding],
        decided: usize,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) {
        let mut at = self.passed;
        for finding in findings {
            let Range { start, end } = finding.range;
            out.extend_from_slice(&self.text[at..start.max(at)]);
            let length = end - start.max(at);
            if start < self.marked {
                // Its marker stands already, before this.
                let rest = if self.lengths == Lengths::Kept { length } else { 0 };
                out.resize(out.len() + rest, PADDING);
            } else {
                self.marking.mark(finding, length, self.lengths, out);
                tally.note(finding);
            }
            (at, self.marked) = (end, end);
        }
        let decided = decided.max(at);
        out.extend_from_slice(&self.text[at..decided]);
        self.pass(decided);
    }

    /// Takes a chunk in, without leaving a copy of anything behind.
    fn take(&mut self, chunk: &[u8]) {
        let length = self.text.len() + chunk.len();
        if self.text.capacity() < length {
            let mut room = Zeroizing::new(Vec::with_capacity(length.next_power_of_two()));
            room.extend_from_slice(&self.text);
            self.text = room;
        }
        self.text.extend_from_slice(chunk);
    }

    /// Lets everything before this pass, and forgets what is too far back.
    fn pass(&mut self, decided: usize) {
        self.passed = decided;
        let context = MIN_CONTEXT.max(self.marking.sanitizer.overlap());
        let gone = decided.saturating_sub(context);
        if gone > 0 {
            self.text.drain(..gone);
            self.passed -= gone;
            self.marked = self.marked.saturating_sub(gone);
        }
    }
}

#[cfg(test)]
mod tests;
