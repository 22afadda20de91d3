//! Texts without what can't be seen, and without separators.

use std::rc::Rc;

use memchr::{memchr_iter, memchr2};
use zeroize::Zeroizing;

use super::{Replacing, Room, Symbol, View, WayBack, make_filled_room};

/// A text with bytes left out, walked again from the nearest mark.
pub(super) struct Thinned<'a> {
    text: &'a [u8],
    thinning: Thinning,
    marks: Rc<[Mark]>,
}

/// A place in the text, and how many bytes had stayed before it in each of the two.
#[derive(Clone, Copy)]
struct Mark {
    there: usize,
    bare: usize,
    folded: usize,
}

/// How far apart the marks are, in bytes of the text.
const STRIDE: usize = 64;
/// The longest parameters of a control sequence that is left out: two colours of 24 bits and a style have fewer bytes.
const MAX_PARAMETERS: usize = 48;

/// A way of leaving bytes out of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thinning {
    /// White space, controls, terminal sequences and characters of no width go.
    Bare,
    /// So does punctuation that is no part of a word; letters are lower case.
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
            0..=b' ' | 0x7f => 0,
            _ if is_separator(byte) => IN_BARE,
            _ => IN_BARE | IN_FOLDED,
        };
        at += 1;
    }
    classes
}

/// The text without white space, controls, terminal sequences and characters of no width; and the same in lower
/// case and without separators. In one pass, since who wants one wants the other.
pub(in crate::sanitizer) fn thinned<'a>(
    text: &'a [u8],
    [bare_room, folded_room]: &'a mut [Room; 2],
) -> [View<'a>; 2] {
    let bare = make_filled_room(bare_room, text.len());
    let folded = make_filled_room(folded_room, text.len());
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
                let before = (mark.there > seen_from).then(|| text[mark.there - 1]);
                mark.bare += 1;
                match before {
                    Some(b'0') => mark.folded -= 1,
                    // Not there by itself.
                    Some(b'\\') => {}
                    _ => mark.folded += 1,
                }
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
    let (bare, folded) = (&bare[..mark.bare], &folded[..mark.folded]);
    let marks: Rc<[Mark]> = marks.into();
    [(bare, Thinning::Bare), (folded, Thinning::Folded)].map(|(bytes, thinning)| {
        let way_back = Thinned { text, thinning, marks: Rc::clone(&marks) };
        View::new(bytes, WayBack::Thinned(way_back))
    })
}

/// What remains of a text in these two views.
pub(in crate::sanitizer) fn remains(text: &[u8]) -> [Zeroizing<Vec<u8>>; 2] {
    thinned(text, &mut Default::default()).map(|view| Zeroizing::new(view.bytes().to_vec()))
}

/// `0x` and `\x` stand before hex digits, so neither is in the folded text.
pub(in crate::sanitizer) fn is_x(byte: u8) -> bool {
    matches!(byte, b'x' | b'X')
}

fn escapes(byte: u8) -> bool {
    matches!(byte, b'0' | b'\\')
}

impl Thinned<'_> {
    /// Where the byte that stands at `here` in the view is in the text.
    pub(super) fn place_of(&self, here: usize) -> usize {
        let Self { text, thinning, marks } = self;
        let after = marks.partition_point(|mark| thinning.before(mark) <= here);
        let Some(mark) = marks.get(after.saturating_sub(1)) else { return 0 };
        let (mut at, mut left) = (mark.there, here - thinning.before(mark));
        while at < text.len() {
            let length = thinning.left_out(&text[at..]);
            if length == 0 && left == 0 {
                return at;
            }
            left -= usize::from(length == 0);
            at += length.max(1);
        }
        text.len().saturating_sub(1)
    }
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
}

/// Without the strings that a terminal keeps to itself: between them a value may be cut. Nothing when there are none.
pub(in crate::sanitizer) fn without_strings<'a>(
    text: &[u8],
    room: &'a mut Room,
) -> Option<View<'a>> {
    let mut view = Replacing::new(text, room);
    for at in memchr_iter(0x1b, text) {
        if at >= view.kept
            && let Some(length) = string(&text[at..])
        {
            view.replace(at, length, Symbol::NOTHING);
        }
    }
    view.finish()
}

/// The length of such a string at the beginning of this.
fn string(rest: &[u8]) -> Option<usize> {
    let [0x1b, introducer, string @ ..] = rest else { return None };
    if !is_string(*introducer) {
        return None;
    }
    let end = memchr2(0x07, 0x1b, string)?;
    // Another sequence ends it too, and is one of its own.
    let closing = match &string[end..] {
        [0x07, ..] => 1,
        [0x1b, b'\\', ..] => 2,
        _ => 0,
    };
    Some(2 + end + closing)
}

/// What follows ESC before an operating system command and its like.
pub(in crate::sanitizer) fn is_string(introducer: u8) -> bool {
    matches!(introducer, b']' | b'P' | b'X' | b'^' | b'_')
}

/// The length of what can't be seen at the beginning of a text.
pub(in crate::sanitizer) fn unseen(text: &[u8]) -> usize {
    match text {
        [0x1b, b'[', rest @ ..] => 2 + control_sequence(rest),
        // Of a character set and its like.
        [0x1b, first, 0x30..=0x7e, ..] if designates(*first) => 3,
        // Of a title, a link and other strings the introducer alone: a value may be in them.
        // Controls of one character, NO-BREAK SPACE, SOFT HYPHEN.
        [0x1b, _, ..] | [0xc2, 0x80..=0xa0 | 0xad, ..] => 2,
        [0..=b' ' | 0x7f, ..] => 1,
        // ZERO WIDTH SPACE to RIGHT-TO-LEFT MARK, embeddings, WORD JOINER and its neighbours;
        // ZERO WIDTH NO-BREAK SPACE, variation selectors.
        [0xe2, 0x80, 0x8b..=0x8f | 0xaa..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xaf, ..]
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..] => 3,
        _ => 0,
    }
}

/// Whether a sequence that begins here may go on behind the end of this.
pub(in crate::sanitizer) fn goes_on(sequence: &[u8]) -> bool {
    match sequence {
        [0x1b] => true,
        [0x1b, b'[', rest @ ..] => rest.iter().all(|byte| is_parameter(*byte)),
        [0x1b, first] => designates(*first),
        _ => false,
    }
}

/// The length of what follows the introducer of a control sequence and is a colour or a movement; 0
/// when it may be more than that.
pub(super) fn control_sequence(rest: &[u8]) -> usize {
    let parameters = rest.iter().take(MAX_PARAMETERS + 1).position(|byte| !is_parameter(*byte));
    match parameters {
        Some(at) if (0x40..=0x7e).contains(&rest[at]) => at + 1,
        _ => 0,
    }
}

/// Whether a character set or its like is named by what follows ESC and this; quotes, which are none, are what others put
/// something in the place of.
fn designates(byte: u8) -> bool {
    matches!(byte, b' ' | b'#' | b'%' | b'(' | b')' | b'*' | b'+' | b'-' | b'.' | b'/')
}

fn is_parameter(byte: u8) -> bool {
    (0x20..=0x3f).contains(&byte)
}

/// Punctuation that is no part of a word: what separates hex digits, quotes, joins strings, marks the lines of a quotation
/// or a patch.
pub(in crate::sanitizer) const fn is_separator(byte: u8) -> bool {
    byte.is_ascii_punctuation() && !matches!(byte, b'%' | b'&' | b'/' | b'_')
}
