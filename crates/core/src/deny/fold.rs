//! Takes the disguise off a text: look-alike letters, invisible characters, odd spaces.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

/// Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties 16.0), and the directional marks.
const IGNORED: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];

/// NFKC, without ignorable characters, with letters that look like ASCII as ASCII (UTS #39).
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter(|c| !is_ignored(*c));
    let mut folded = String::with_capacity(text.len());
    for c in visible.nfkc().filter(|c| !is_ignored(*c)) {
        if c.is_ascii() {
            folded.push(c);
        } else if c.is_whitespace() {
            folded.push(' ');
        } else {
            push_look_alike(c, &mut folded);
        }
    }
    Cow::Owned(folded)
}

/// Signs stay as they are: a curly quote is no quote to a shell.
fn push_look_alike(c: char, folded: &mut String) {
    let mut buffer = [0; 4];
    let looks: String = skeleton(c.encode_utf8(&mut buffer)).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if !looks.is_empty() && looks.chars().all(is_name) {
        folded.push_str(&looks);
    } else {
        folded.push(c);
    }
}

fn is_ignored(c: char) -> bool {
    let code = u32::from(c);
    IGNORED.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Runs of white space as one space, none at the ends.
pub(super) fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_ascii_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
