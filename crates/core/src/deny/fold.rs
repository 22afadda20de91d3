//! Takes the disguise off a text: look-alike letters, invisible characters, odd spaces.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

use crate::invisible::is_ignorable;

/// NFKC, without ignorable characters, with letters that look like ASCII as ASCII (UTS #39).
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter(|c| !is_ignorable(*c));
    let mut folded = String::with_capacity(text.len());
    for c in visible.nfkc().filter(|c| !is_ignorable(*c)) {
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
