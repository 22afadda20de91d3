//! A text seen in another way, with the way back to where each byte came from.

use std::{borrow::Cow, ops::Range};

use zeroize::Zeroize;

/// A text derived from another. Zeroized, since it may hold a value that the original only hints at.
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    way_back: WayBack<'a>,
}

/// Where the bytes of a view came from.
enum WayBack<'a> {
    /// Stretches, in order.
    Runs(Vec<Run>),
    /// A text with bytes left out, walked again from the nearest mark.
    Thinned { text: &'a [u8], thinning: &'static Thinning, marks: Vec<Mark> },
}

/// A place in the text, and how many bytes had stayed before it.
#[derive(Clone, Copy)]
struct Mark {
    there: usize,
    here: usize,
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
        let runs = vec![Run { here: 0, there: 0, decoded: 0 }];
        Self { bytes: Cow::Borrowed(text), way_back: WayBack::Runs(runs) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the original that a range of this stands for.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        match &self.way_back {
            WayBack::Runs(runs) => runs_back(runs, range),
            WayBack::Thinned { text, thinning, marks } => {
                let at = |here| thinning.place_of(text, marks, here);
                at(range.start)..at(range.end - 1) + 1
            }
        }
    }

    /// This view of `below`, as a view of what `below` is a view of.
    pub(super) fn over(self, below: &View<'_>) -> View<'static> {
        // Every byte by itself: two views of one text are rare and short.
        let runs = (0..self.bytes.len()).map(|here| {
            let there = below.original(self.original(here..here + 1));
            Run { here, there: there.start, decoded: there.len().max(1) }
        });
        let way_back = WayBack::Runs(runs.collect());
        View { way_back, bytes: Cow::Owned(self.bytes.to_vec()) }
    }
}

fn runs_back(runs: &[Run], range: Range<usize>) -> Range<usize> {
    let run_at = |here: usize| {
        let after = runs.partition_point(|run| run.here <= here);
        runs[after.saturating_sub(1)]
    };
    let (start, last) = (run_at(range.start), run_at(range.end - 1));
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
        View { bytes: Cow::Owned(self.bytes), way_back: WayBack::Runs(self.runs) }
    }
}

/// Without white space, NUL, terminal sequences and characters of no width.
pub(super) fn bare(text: &[u8]) -> View<'_> {
    BARE.view(text)
}

/// The same, in lower case and without what stands between hex digits.
pub(super) fn folded(text: &[u8]) -> View<'_> {
    FOLDED.view(text)
}

/// How far apart the marks are, in bytes of the text.
const STRIDE: usize = 64;
/// The longest parameters of a control sequence that is left out: a colour of 24 bits has as many bytes.
const MAX_PARAMETERS: usize = 16;

static BARE: Thinning = Thinning::new(false);
static FOLDED: Thinning = Thinning::new(true);

/// What is left out of a text, byte by byte.
struct Thinning {
    fates: [Fate; 256],
    /// What a byte that stays becomes.
    becomes: [u8; 256],
    is_folding: bool,
}

/// What happens to a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    Stays,
    /// It depends on what follows.
    Depends,
}

impl Thinning {
    const fn new(is_folding: bool) -> Self {
        let mut fates = [Fate::Stays; 256];
        let mut becomes = [0; 256];
        let mut at = 0;
        while at < 256 {
            #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
            let byte = at as u8;
            becomes[at] = if is_folding { byte.to_ascii_lowercase() } else { byte };
            fates[at] = match byte {
                0x1b | 0xc2 | 0xe2 | 0xef => Fate::Depends,
                0..=b' ' => Fate::Goes,
                b'0' | b'\\' if is_folding => Fate::Depends,
                b':' | b'-' | b',' | b'|' if is_folding => Fate::Goes,
                _ => Fate::Stays,
            };
            at += 1;
        }
        Self { fates, becomes, is_folding }
    }

    fn view<'a>(&'static self, text: &'a [u8]) -> View<'a> {
        let mut bytes = vec![0; text.len()];
        let mut marks = Vec::with_capacity(text.len() / STRIDE + 1);
        let (mut there, mut here) = (0, 0);
        while there < text.len() {
            marks.push(Mark { there, here });
            let end = text.len().min(there + STRIDE);
            while there < end {
                let byte = text[there];
                let fate = self.fates[usize::from(byte)];
                // Without a branch: white space comes too irregularly to be foreseen.
                bytes[here] = self.becomes[usize::from(byte)];
                if fate == Fate::Depends {
                    let length = self.left_out(&text[there..]);
                    here += usize::from(length == 0);
                    there += length.max(1);
                } else {
                    here += usize::from(fate == Fate::Stays);
                    there += 1;
                }
            }
        }
        bytes.truncate(here);
        View {
            bytes: Cow::Owned(bytes),
            way_back: WayBack::Thinned { text, thinning: self, marks },
        }
    }

    /// How many bytes are left out at the beginning of this, which depends on its first.
    fn left_out(&self, rest: &[u8]) -> usize {
        match rest {
            [b'\\' | b'0', b'x' | b'X', ..] if self.is_folding => 2,
            _ => unseen(rest),
        }
    }

    /// Where the byte that stands at `here` in the view is in the text.
    fn place_of(&self, text: &[u8], marks: &[Mark], here: usize) -> usize {
        let after = marks.partition_point(|mark| mark.here <= here);
        let Some(mark) = marks.get(after.saturating_sub(1)) else { return 0 };
        let (mut at, mut left) = (mark.there, here - mark.here);
        while at < text.len() {
            let length = match self.fates[usize::from(text[at])] {
                Fate::Goes => 1,
                Fate::Stays => 0,
                Fate::Depends => self.left_out(&text[at..]),
            };
            if length == 0 && left == 0 {
                return at;
            }
            left -= usize::from(length == 0);
            at += length.max(1);
        }
        text.len().saturating_sub(1)
    }
}

/// The length of what can't be seen at the beginning of a text.
fn unseen(text: &[u8]) -> usize {
    match text {
        [0x1b, b'[', rest @ ..] => 2 + control_sequence(rest),
        // Of a title, a link and other strings the introducer alone: a value may be in them.
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

/// The length of what follows the introducer of a control sequence and is a colour or a movement; 0
/// when it may be more than that.
fn control_sequence(rest: &[u8]) -> usize {
    let parameters = rest.iter().take(MAX_PARAMETERS + 1).position(|byte| !is_parameter(*byte));
    match parameters {
        Some(at) if (0x40..=0x7e).contains(&rest[at]) => at + 1,
        _ => 0,
    }
}

fn is_parameter(byte: u8) -> bool {
    (0x20..=0x3f).contains(&byte)
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
