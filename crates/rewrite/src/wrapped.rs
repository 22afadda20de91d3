//! Base64 that is broken into lines: as MIME and `base64` write it, and in strings of JSON, where a line end is `\n`, or
//! `\\n` in a string of a string.
//!
//! Only what a line end cuts is found and replaced here, its line ends kept where they are; what stands within a line is
//! the scanner's. A line counts as broken off only if it has as many symbols as the narrowest usual width, so that ends
//! of other lines don't wait for what follows.

use core::ops::Range;
use std::sync::Arc;

use memchr::memchr2;
use zeroize::Zeroizing;

use crate::patterns::{PatternId, PatternSet};

/// Symbols of a line that goes on in the next: Ruby and GitHub have 60, PEM 64, MIME 76.
const LINE: usize = 60;

/// Line ends, as they are, as strings of JSON have them, also by number, and as strings within such strings have them.
const BREAKS: [&[u8]; 8] =
    [b"\n", b"\r\n", b"\\n", b"\\r\\n", b"\\\\n", b"\\\\r\\\\n", b"\\u000a", b"\\u000A"];
/// Bytes of the longest.
const LONGEST: usize = 6;

/// What is looked for, without its line ends, and what takes its place.
pub(crate) struct Wrapped {
    patterns: PatternSet,
    markers: Vec<Zeroizing<Vec<u8>>>,
}

/// What is known of a stream before the text at hand.
#[derive(Clone, Copy, Default)]
struct Before {
    /// Symbols of the same line, as many as matter.
    symbols: usize,
    /// Whether a backslash stands last.
    escaped: bool,
}

/// A part of the text that is decided.
enum Part {
    Plain(Range<usize>),
    Match(PatternId, Range<usize>),
}

/// A part of the stream that is decided.
pub(crate) enum Passed<'a> {
    /// This range of the chunk just fed.
    Chunk(Range<usize>),
    Other(&'a [u8]),
    /// What took the place of a value.
    Marker(PatternId, &'a [u8]),
}

impl Wrapped {
    /// Takes base64 without line ends, and for each what replaces it, no shorter; `None` where there is nothing.
    pub(crate) fn new(
        texts: &[Zeroizing<Vec<u8>>],
        markers: Vec<Zeroizing<Vec<u8>>>,
    ) -> Option<Arc<Self>> {
        let patterns = PatternSet::new(texts.iter().map(|text| text.as_slice()));
        (!patterns.is_empty()).then(|| Arc::new(Self { patterns, markers }))
    }

    /// The whole text with markers, if there was something to replace; `noted` is told of each.
    pub(crate) fn rewrite(
        &self,
        whole: &[u8],
        mut noted: impl FnMut(PatternId),
    ) -> Option<Zeroizing<Vec<u8>>> {
        // What stands before the first is copied only once there is one, which is seldom.
        let mut out: Option<Zeroizing<Vec<u8>>> = None;
        self.read(whole, Before::default(), false, |part| match part {
            Part::Plain(range) => {
                if let Some(out) = &mut out {
                    out.extend_from_slice(&whole[range]);
                }
            }
            Part::Match(id, range) => {
                noted(id);
                let out = out.get_or_insert_with(|| {
                    let mut begun = Zeroizing::new(Vec::with_capacity(whole.len()));
                    begun.extend_from_slice(&whole[..range.start]);
                    begun
                });
                out.extend_from_slice(&self.marker(id, &whole[range]));
            }
        });
        out
    }

    /// What replaces `text`, with its line ends.
    fn marker(&self, id: PatternId, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut symbols = self.markers[id.index()].iter();
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() + symbols.len()));
        let mut at = 0;
        while at < text.len() {
            if let Next::Break(end) = next(&text[at..]) {
                out.extend_from_slice(&text[at..at + end]);
                at += end;
            } else {
                out.extend(symbols.next());
                at += 1;
            }
        }
        out.extend(symbols);
        out
    }

    /// Gives `sink` what is decided, in order, and the place from which on the text is not. Where it is not `open`,
    /// nothing follows it.
    fn read(&self, text: &[u8], before: Before, open: bool, mut sink: impl FnMut(Part)) -> usize {
        let reach = self.patterns.longest() - 1;
        let (mut done, mut at) = (0, 0);
        while let Some(end) = next_break(text, at) {
            at = end.end;
            let line = self.line(text, end.start, before);
            if line < LINE {
                continue;
            }
            let start = end.start - line.min(reach).min(end.start);
            let lines = Lines::read(text, start.max(done)..end.start, end.end, open);
            let length = lines.symbols.len();
            let decided = if lines.goes_on { length.saturating_sub(reach) } else { length };
            let mut from = 0;
            while let Some((found, id)) = self.patterns.find(&lines.symbols, from) {
                if found.start >= decided {
                    break;
                }
                let place = lines.place(found.start)..lines.place(found.end - 1) + 1;
                if place.len() == found.len() {
                    from = found.start + 1;
                    continue;
                }
                from = found.end;
                sink(Part::Plain(done..place.start));
                done = place.end;
                sink(Part::Match(id, place));
            }
            if lines.goes_on {
                let waits = lines.place(decided).max(done);
                sink(Part::Plain(done..waits));
                return waits;
            }
            at = lines.end;
        }
        let waits = if open { self.tail(text, before).max(done) } else { text.len() };
        sink(Part::Plain(done..waits));
        waits
    }

    /// Where the last symbols begin that a line end may yet cut.
    fn tail(&self, text: &[u8], before: Before) -> usize {
        let reach = self.patterns.longest() - 1;
        let is_begun = |start: &usize| matches!(next(&text[*start..]), Next::Begun);
        for end in (text.len().saturating_sub(LONGEST - 1)..text.len()).filter(is_begun) {
            let line = self.line(text, end, before);
            if line >= LINE {
                return end - line.min(reach).min(end);
            }
        }
        let line = self.line(text, text.len(), before);
        text.len() - line.min(reach).min(text.len())
    }

    /// Number of symbols that end at `end`, as many as matter. A letter behind a backslash is none.
    fn line(&self, text: &[u8], end: usize, before: Before) -> usize {
        let most = LINE.max(self.patterns.longest());
        let count =
            text[..end].iter().rev().take(most).take_while(|byte| is_symbol(**byte)).count();
        if count == most {
            return most;
        }
        let escaped = match (end - count).checked_sub(1) {
            Some(stop) => text[stop] == b'\\',
            None if before.escaped => true,
            None => return (count + before.symbols).min(most),
        };
        count.saturating_sub(usize::from(escaped))
    }

    fn before(&self, text: &[u8], end: usize, before: Before) -> Before {
        match end.checked_sub(1) {
            None => before,
            Some(last) => {
                Before { symbols: self.line(text, end, before), escaped: text[last] == b'\\' }
            }
        }
    }
}

/// Lines of base64 that follow each other, without their ends.
struct Lines {
    symbols: Zeroizing<Vec<u8>>,
    /// For each line where it begins in `symbols`, and in the text.
    starts: Vec<(usize, usize)>,
    /// Where the last one ends in the text.
    end: usize,
    /// Whether more of them may follow the text.
    goes_on: bool,
}

impl Lines {
    /// From `first`, behind whose end `at` is.
    fn read(text: &[u8], first: Range<usize>, mut at: usize, open: bool) -> Self {
        let mut lines = Self {
            symbols: Zeroizing::new(Vec::with_capacity(text.len() - first.start)),
            starts: vec![(0, first.start)],
            end: at,
            goes_on: false,
        };
        lines.symbols.extend_from_slice(&text[first]);
        loop {
            let length = text[at..].iter().take_while(|byte| is_symbol(**byte)).count();
            lines.starts.push((lines.symbols.len(), at));
            lines.symbols.extend_from_slice(&text[at..at + length]);
            lines.end = at + length;
            match next(&text[lines.end..]) {
                Next::Break(end) if length >= LINE => at = lines.end + end,
                Next::Begun => {
                    // Where nothing has come yet, or a line may be cut here.
                    let is_last = lines.end == text.len();
                    lines.goes_on = open && (is_last || length >= LINE);
                    return lines;
                }
                _ => return lines,
            }
        }
    }

    /// Where this symbol stands in the text; behind the last one, the end of all.
    fn place(&self, symbol: usize) -> usize {
        let line = self.starts.partition_point(|(start, _)| *start <= symbol) - 1;
        let (start, place) = self.starts[line];
        place + symbol - start
    }
}

/// What a text begins with.
enum Next {
    /// A line end of so many bytes.
    Break(usize),
    /// What may become one.
    Begun,
    Other,
}

fn next(text: &[u8]) -> Next {
    // Most backslashes stand before quotes.
    if let [b'\\', second, ..] = text
        && !b"nru\\".contains(second)
    {
        return Next::Other;
    }
    let is_here = |end: &&&[u8]| text.starts_with(end);
    match BREAKS.iter().find(is_here) {
        Some(end) => Next::Break(end.len()),
        None if BREAKS.iter().any(|end| end.starts_with(text)) => Next::Begun,
        None => Next::Other,
    }
}

/// The first line end from here on.
fn next_break(text: &[u8], mut from: usize) -> Option<Range<usize>> {
    loop {
        let at = from + memchr2(b'\n', b'\\', &text[from..])?;
        if let Next::Break(length) = next(&text[at..]) {
            let has_return = text[at] == b'\n' && at > 0 && text[at - 1] == b'\r';
            return Some(at - usize::from(has_return)..at + length);
        }
        from = at + 1;
    }
}

fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// One pass over one stream.
pub(crate) struct Unwrapping {
    wrapped: Arc<Wrapped>,
    held: Zeroizing<Vec<u8>>,
    before: Before,
}

impl Unwrapping {
    pub(crate) fn new(wrapped: &Arc<Wrapped>) -> Self {
        let (wrapped, before) = (Arc::clone(wrapped), Before::default());
        Self { wrapped, held: Zeroizing::new(Vec::new()), before }
    }

    /// Takes the next chunk and gives `sink` every part that is now decided.
    pub(crate) fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(Passed<'_>)) {
        if chunk.is_empty() {
            return;
        }
        self.let_go(chunk, &mut sink);
        if !self.held.is_empty() {
            let joined = Zeroizing::new([self.held.as_slice(), chunk].concat());
            return self.pass(&joined, true, sink);
        }
        let wrapped = Arc::clone(&self.wrapped);
        let decided = wrapped.read(chunk, self.before, true, |part| match part {
            Part::Plain(range) if range.is_empty() => {}
            Part::Plain(range) => sink(Passed::Chunk(range)),
            Part::Match(id, range) => sink(Passed::Marker(id, &wrapped.marker(id, &chunk[range]))),
        });
        self.keep(chunk, decided);
    }

    /// Takes the end of the stream. Another may then begin.
    pub(crate) fn finish(&mut self, sink: impl FnMut(Passed<'_>)) {
        let held = core::mem::take(&mut self.held);
        self.pass(&held, false, sink);
        self.before = Before::default();
    }

    /// Number of bytes held back now.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Gives what is held, if it is of a line that `chunk` shows not to be cut: nearly always, and without a copy.
    fn let_go(&mut self, chunk: &[u8], sink: &mut impl FnMut(Passed<'_>)) {
        let reach = self.wrapped.patterns.longest();
        let near = &chunk[..chunk.len().min(reach)];
        let is_cut = match near.iter().position(|byte| !is_symbol(*byte)) {
            Some(end) => {
                let line = self.before.symbols + self.held.len() + end;
                line >= LINE && !matches!(next(&chunk[end..]), Next::Other)
            }
            // What begins in it ends on the same line.
            None => near.len() < reach,
        };
        if self.held.is_empty() || is_cut || !self.held.iter().all(|byte| is_symbol(*byte)) {
            return;
        }
        self.before = self.wrapped.before(&self.held, self.held.len(), self.before);
        sink(Passed::Other(&self.held));
        self.held.clear();
    }

    fn pass(&mut self, text: &[u8], open: bool, mut sink: impl FnMut(Passed<'_>)) {
        let wrapped = Arc::clone(&self.wrapped);
        let decided = wrapped.read(text, self.before, open, |part| match part {
            Part::Plain(range) if range.is_empty() => {}
            Part::Plain(range) => sink(Passed::Other(&text[range])),
            Part::Match(id, range) => sink(Passed::Marker(id, &wrapped.marker(id, &text[range]))),
        });
        self.keep(text, decided);
    }

    fn keep(&mut self, text: &[u8], decided: usize) {
        self.before = self.wrapped.before(text, decided, self.before);
        self.held = Zeroizing::new(text[decided..].to_vec());
    }
}
