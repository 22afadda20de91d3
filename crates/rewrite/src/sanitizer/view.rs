//! A text seen in another way, with the way back to where each byte came from.

use std::{borrow::Cow, ops::Range, rc::Rc};

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
    Thinned { text: &'a [u8], thinning: Thinning, marks: Rc<[Mark]> },
}

/// A place in the text, and how many bytes had stayed before it in each of the two.
#[derive(Clone, Copy)]
struct Mark {
    there: usize,
    bare: usize,
    folded: usize,
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

/// How far apart the marks are, in bytes of the text.
const STRIDE: usize = 64;
/// The longest parameters of a control sequence that is left out: a colour of 24 bits has as many bytes.
const MAX_PARAMETERS: usize = 16;

/// A way of leaving bytes out of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thinning {
    /// White space, NUL, terminal sequences and characters of no width go.
    Bare,
    /// So does what stands between hex digits; letters are lower case.
    Folded,
}

/// The byte stays in the bare text.
const IN_BARE: u8 = 1;
/// It stays in the folded one.
const IN_FOLDED: u8 = 2;
/// It depends on its neighbours.
const DEPENDS: u8 = 4;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [IN_BARE | IN_FOLDED; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let byte = at as u8;
        classes[at] = match byte {
            0x1b | 0xc2 | 0xe2 | 0xef | b'x' | b'X' => DEPENDS,
            0..=b' ' => 0,
            b':' | b'-' | b',' | b'|' => IN_BARE,
            _ => IN_BARE | IN_FOLDED,
        };
        at += 1;
    }
    classes
}

/// The text without white space, NUL, terminal sequences and characters of no width; and the same in lower
/// case and without what stands between hex digits. In one pass, since every output takes it.
pub(super) fn thinned(text: &[u8]) -> (View<'_>, View<'_>) {
    let (mut bare, mut folded) = (vec![0; text.len()], vec![0; text.len()]);
    let mut marks = Vec::with_capacity(text.len() / STRIDE + 1);
    let mut mark = Mark { there: 0, bare: 0, folded: 0 };
    // What was left out ends here; nothing of it can be taken back.
    let mut seen_from = 0;
    while mark.there < text.len() {
        // Not behind what an `x` may take back.
        if mark.there == 0 || !is_x(text[mark.there]) {
            marks.push(mark);
        }
        let end = text.len().min(mark.there + STRIDE);
        while mark.there < end {
            let byte = text[mark.there];
            let class = CLASSES[usize::from(byte)];
            // Without a branch: white space comes too irregularly to be foreseen.
            bare[mark.bare] = byte;
            folded[mark.folded] = byte.to_ascii_lowercase();
            if class & DEPENDS == 0 {
                mark.bare += usize::from(class & IN_BARE);
                mark.folded += usize::from(class >> 1);
                mark.there += 1;
            } else if is_x(byte) {
                let taken_back = mark.there > seen_from && escapes(text[mark.there - 1]);
                mark.bare += 1;
                mark.folded = if taken_back { mark.folded - 1 } else { mark.folded + 1 };
                mark.there += 1;
            } else {
                let unseen = unseen(&text[mark.there..]);
                mark.bare += usize::from(unseen == 0);
                mark.folded += usize::from(unseen == 0);
                mark.there += unseen.max(1);
                seen_from = if unseen > 0 { mark.there } else { seen_from };
            }
        }
    }
    bare.truncate(mark.bare);
    folded.truncate(mark.folded);
    let marks: Rc<[Mark]> = marks.into();
    let view = |bytes: Vec<u8>, thinning| View {
        bytes: Cow::Owned(bytes),
        way_back: WayBack::Thinned { text, thinning, marks: Rc::clone(&marks) },
    };
    (view(bare, Thinning::Bare), view(folded, Thinning::Folded))
}

/// `0x` and `\x` stand before hex digits, so neither is in the folded text.
fn is_x(byte: u8) -> bool {
    matches!(byte, b'x' | b'X')
}

fn escapes(byte: u8) -> bool {
    matches!(byte, b'0' | b'\\')
}

impl Thinning {
    /// How many bytes are left out at the beginning of this; 0 when its first byte stays.
    fn left_out(self, rest: &[u8]) -> usize {
        match (CLASSES[usize::from(rest[0])], rest) {
            (_, [first, second, ..])
                if self == Self::Folded && escapes(*first) && is_x(*second) =>
            {
                2
            }
            (DEPENDS, [first, ..]) if !is_x(*first) => unseen(rest),
            (class, _) => usize::from(class != DEPENDS && !self.stays(class)),
        }
    }

    fn before(self, mark: &Mark) -> usize {
        match self {
            Self::Bare => mark.bare,
            Self::Folded => mark.folded,
        }
    }

    fn stays(self, class: u8) -> bool {
        match self {
            Self::Bare => class & IN_BARE != 0,
            Self::Folded => class & IN_FOLDED != 0,
        }
    }

    /// Where the byte that stands at `here` in the view is in the text.
    fn place_of(self, text: &[u8], marks: &[Mark], here: usize) -> usize {
        let after = marks.partition_point(|mark| self.before(mark) <= here);
        let Some(mark) = marks.get(after.saturating_sub(1)) else { return 0 };
        let (mut at, mut left) = (mark.there, here - self.before(mark));
        while at < text.len() {
            let length = self.left_out(&text[at..]);
            if length == 0 && left == 0 {
                return at;
            }
            left -= usize::from(length == 0);
            at += length.max(1);
        }
        text.len().saturating_sub(1)
    }
}

/// Whether a terminal would take something in this for a title, a link or another string.
pub(super) fn has_strings(text: &[u8]) -> bool {
    memchr::memchr_iter(0x1b, text).any(|at| text.get(at + 1).is_some_and(|byte| is_string(*byte)))
}

/// Without the strings that a terminal keeps to itself: between them a value may be cut.
pub(super) fn without_strings(text: &[u8]) -> View<'static> {
    replaced(
        text,
        |byte| byte == 0x1b,
        |rest| match rest {
            [0x1b, introducer, string @ ..] if is_string(*introducer) => {
                let end = memchr::memchr2(0x07, 0x1b, string)?;
                // Another sequence ends it too, and is one of its own.
                let closing = match &string[end..] {
                    [0x07, ..] => 1,
                    [0x1b, b'\\', ..] => 2,
                    _ => 0,
                };
                Some((2 + end + closing, Vec::new()))
            }
            _ => None,
        },
    )
}

/// What follows ESC before an operating system command and its like.
fn is_string(introducer: u8) -> bool {
    matches!(introducer, b']' | b'P' | b'X' | b'^' | b'_')
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
