//! Takes the disguise off a text: look-alike letters, invisible characters, odd spaces.

use std::borrow::Cow;

use keyless_rewrite::is_ignorable;
use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

/// What a shell takes for more than a letter. What only looks like one of these is none to it, and stays.
const SIGNS: &[char] = &[
    '\'', '"', '\\', '`', '$', '#', ';', '&', '|', '<', '>', '(', ')', '{', '}', '[', ']', '*',
    '?', '!', '~', '=', '\n',
];

/// NFKC, without ignorable characters, with letters that look like ASCII as ASCII (UTS #39).
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, sign)) = rest.char_indices().find(|(_, c)| becomes_sign(*c)) {
        push_folded(&rest[..at], &mut folded);
        folded.push(sign);
        rest = &rest[at + sign.len_utf8()..];
    }
    push_folded(rest, &mut folded);
    Cow::Owned(folded)
}

fn becomes_sign(c: char) -> bool {
    !c.is_ascii() && std::iter::once(c).nfkc().any(|c| SIGNS.contains(&c))
}

fn push_folded(text: &str, folded: &mut String) {
    let visible = text.chars().filter(|c| !is_ignorable(*c));
    for c in visible.nfkc().filter(|c| !is_ignorable(*c)) {
        if c.is_ascii() {
            folded.push(c);
        } else if c.is_whitespace() {
            folded.push(' ');
        } else {
            push_look_alike(c, folded);
        }
    }
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
