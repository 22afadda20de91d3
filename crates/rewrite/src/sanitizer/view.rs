//! A text seen in another way, with the way back to where each byte came from.

use std::{borrow::Cow, ops::Range};

use zeroize::Zeroize;

/// A text derived from another. Zeroized, since it may hold a value that the original only hints at.
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    runs: Vec<Run>,
}

/// Bytes that came from one stretch of the original.
#[derive(Clone, Copy)]
struct Run {
    /// Where they begin here.
    here: usize,
    /// Where they began there.
    there: usize,
    /// How many bytes of the original they stand for when these were decoded; 0 when they are the same.
    decoded: usize,
}

impl<'a> View<'a> {
    /// The text as it is.
    pub(super) fn whole(text: &'a [u8]) -> Self {
        Self { bytes: Cow::Borrowed(text), runs: vec![Run { here: 0, there: 0, decoded: 0 }] }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the original that a range of this stands for.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let start = self.run_at(range.start);
        let last = self.run_at(range.end - 1);
        let from = match start.decoded {
            0 => start.there + (range.start - start.here),
            _ => start.there,
        };
        let to = match last.decoded {
            0 => last.there + (range.end - last.here),
            length => last.there + length,
        };
        from..to
    }

    /// This view of `below`, as a view of what `below` is a view of.
    pub(super) fn over(self, below: &View<'_>) -> View<'static> {
        // Every byte by itself: two views of one text are rare and short.
        let runs = (0..self.bytes.len()).map(|here| {
            let there = below.original(self.original(here..here + 1));
            Run { here, there: there.start, decoded: there.len().max(1) }
        });
        View { runs: runs.collect(), bytes: Cow::Owned(self.bytes.to_vec()) }
    }

    fn run_at(&self, here: usize) -> Run {
        let after = self.runs.partition_point(|run| run.here <= here);
        self.runs[after.saturating_sub(1)]
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if let Cow::Owned(bytes) = &mut self.bytes {
            bytes.zeroize();
        }
    }
}

/// Collects a view from left to right.
struct Builder {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

impl Builder {
    fn new(room: usize) -> Self {
        Self { bytes: Vec::with_capacity(room), runs: Vec::new() }
    }

    fn keep(&mut self, text: &[u8], range: Range<usize>) {
        if !range.is_empty() {
            self.runs.push(Run { here: self.bytes.len(), there: range.start, decoded: 0 });
            self.bytes.extend_from_slice(&text[range]);
        }
    }

    fn put(&mut self, decoded: &[u8], from: Range<usize>) {
        if !decoded.is_empty() {
            self.runs.push(Run { here: self.bytes.len(), there: from.start, decoded: from.len() });
            self.bytes.extend_from_slice(decoded);
        }
    }

    fn view(mut self) -> View<'static> {
        if self.runs.is_empty() {
            self.runs.push(Run { here: 0, there: 0, decoded: 0 });
        }
        View { bytes: Cow::Owned(self.bytes), runs: self.runs }
    }
}

/// Without white space, NUL, terminal sequences and characters of no width.
pub(super) fn ansi_free(text: &[u8]) -> View<'static> {
    without(text, |byte| byte <= b' ' || byte == 0xe2 || byte == 0xef || byte == 0xc2, |_| 0)
}

/// The same, in lower case and without what stands between hex digits.
pub(super) fn folded(text: &[u8]) -> View<'static> {
    let worth_a_look =
        |byte: u8| byte <= b' ' || byte >= 0xc2 || separates(byte) || byte == b'\\' || byte == b'0';
    let mut view = without(text, worth_a_look, |rest| match rest {
        [b'\\' | b'0', b'x' | b'X', ..] => 2,
        [byte, ..] if separates(*byte) => 1,
        _ => 0,
    });
    view.bytes.to_mut().make_ascii_lowercase();
    view
}

/// What tools put between hex digits.
pub(super) fn separates(byte: u8) -> bool {
    matches!(byte, b':' | b'-' | b',' | b'|')
}

/// Leaves out what can't be seen, and what `more` gives the length of.
fn without(
    text: &[u8],
    worth_a_look: impl Fn(u8) -> bool,
    more: impl Fn(&[u8]) -> usize,
) -> View<'static> {
    let mut builder = Builder::new(text.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text[at..].iter().position(|byte| worth_a_look(*byte)) {
        at += found;
        let rest = &text[at..];
        let length = match unseen(rest) {
            0 => more(rest),
            length => length,
        };
        if length == 0 {
            at += 1;
        } else {
            builder.keep(text, kept..at);
            at += length;
            kept = at;
        }
    }
    builder.keep(text, kept..text.len());
    builder.view()
}

/// The length of what can't be seen at the beginning of a text.
fn unseen(text: &[u8]) -> usize {
    match text {
        [0x1b, b'[', rest @ ..] => {
            2 + rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(0, |at| at + 1)
        }
        [0x1b, b']', rest @ ..] => {
            2 + rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b)).map_or(0, |at| at + 1)
        }
        // NO-BREAK SPACE, SOFT HYPHEN.
        [0x1b, _, ..] | [0xc2, 0xa0 | 0xad, ..] => 2,
        [0..=b' ', ..] => 1,
        // ZERO WIDTH SPACE to RIGHT-TO-LEFT MARK, embeddings, WORD JOINER and its neighbours;
        // ZERO WIDTH NO-BREAK SPACE, variation selectors.
        [0xe2, 0x80, 0x8b..=0x8f | 0xaa..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xaf, ..]
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..] => 3,
        _ => 0,
    }
}

/// With percent escapes undone, and `+` for blanks left as it is.
pub(super) fn percent_decoded(text: &[u8]) -> View<'static> {
    replaced(
        text,
        |byte| byte == b'%',
        |rest| match rest {
            [b'%', high, low, ..] => Some((3, vec![nibble(*high)? << 4 | nibble(*low)?])),
            _ => None,
        },
    )
}

/// With the escapes of JSON, C, shells and HTML undone.
pub(super) fn decoded(text: &[u8]) -> View<'static> {
    replaced(
        text,
        |byte| matches!(byte, b'\\' | b'&'),
        |rest| match rest {
            [b'\\', rest @ ..] => backslash(rest).map(|(length, bytes)| (length + 1, bytes)),
            [b'&', rest @ ..] => entity(rest).map(|(length, bytes)| (length + 1, bytes)),
            _ => None,
        },
    )
}

fn replaced(
    text: &[u8],
    begins: impl Fn(u8) -> bool,
    decode: impl Fn(&[u8]) -> Option<(usize, Vec<u8>)>,
) -> View<'static> {
    let mut builder = Builder::new(text.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text[at..].iter().position(|byte| begins(*byte)) {
        at += found;
        match decode(&text[at..]) {
            Some((length, bytes)) => {
                builder.keep(text, kept..at);
                builder.put(&bytes, at..at + length);
                at += length;
                kept = at;
            }
            None => at += 1,
        }
    }
    builder.keep(text, kept..text.len());
    builder.view()
}

/// What a backslash and this stand for, and how much of this.
fn backslash(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    let character = |code: u32| char::from_u32(code).map(|c| c.to_string().into_bytes());
    match rest {
        [b'u', a, b, c, d, ..] => {
            let code = [a, b, c, d]
                .into_iter()
                .try_fold(0, |sum, digit| Some(sum << 4 | u32::from(nibble(*digit)?)))?;
            Some((5, character(code)?))
        }
        [b'x', high, low, ..] => Some((3, vec![nibble(*high)? << 4 | nibble(*low)?])),
        [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            Some((3, vec![(a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')]))
        }
        [b'n', ..] => Some((1, b"\n".to_vec())),
        [b'r', ..] => Some((1, b"\r".to_vec())),
        [b't', ..] => Some((1, b"\t".to_vec())),
        [b'\n', ..] => Some((1, Vec::new())),
        [other, ..] if other.is_ascii_punctuation() || *other == b' ' => Some((1, vec![*other])),
        _ => None,
    }
}

/// What an ampersand and this stand for, and how much of this.
fn entity(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    let end = rest.iter().take(10).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(&rest[..end]).ok()?;
    let code = match name {
        "amp" => 0x26,
        "lt" => 0x3c,
        "gt" => 0x3e,
        "quot" => 0x22,
        "apos" => 0x27,
        _ => match name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => name.strip_prefix('#')?.parse().ok()?,
        },
    };
    Some((end + 1, char::from_u32(code)?.to_string().into_bytes()))
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
