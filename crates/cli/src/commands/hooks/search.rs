//! Looks through the whole of a file for raw secrets, however long it is and whatever else is in it.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    io::{self, Read},
};

use keyless_pack::{TokenForms, scan, utf16_text};

/// What is scanned at a time; the scanner looks no further than 4 MiB.
const PIECE: usize = 2 * 1024 * 1024;
/// What a piece has of the one before: a secret may lie across its end, and a private key's body follows its first line.
const OVERLAP: usize = 64 * 1024;

/// The most of a file that comes bit by bit that is held at a time, in bytes.
pub(super) const HELD: usize = 32 * 1024 * 1024;

/// The lines with what looks like a credential, and what it looks like.
pub(super) fn search(
    name: &str,
    bytes: &[u8],
    forms: &TokenForms,
) -> BTreeSet<(usize, Cow<'static, str>)> {
    let mut found = BTreeSet::new();
    if let Some(text) = utf16_text(bytes) {
        look_through(name, text.as_bytes(), forms, &mut found);
    }
    look_through(name, bytes, forms, &mut found);
    found
}

/// As [`search`], of a file that is too long to be held: it is looked through as it comes, `most` bytes at a time.
pub(super) fn search_long(
    name: &str,
    mut bytes: impl Read,
    forms: &TokenForms,
    most: usize,
) -> io::Result<BTreeSet<(usize, Cow<'static, str>)>> {
    let (mut found, mut held, mut lines_before) = (BTreeSet::new(), Vec::new(), 0);
    loop {
        let kept = held.len();
        bytes.by_ref().take((most - kept) as u64).read_to_end(&mut held)?;
        let lines = search(name, &held, forms).into_iter();
        found.extend(lines.map(|(line, kind)| (lines_before + line, kind)));
        if held.len() < most {
            return Ok(found);
        }
        // An even number, so that text of two bytes a letter stays such.
        let next = most - OVERLAP;
        lines_before += held[..next].split(|byte| *byte == b'\n').count() - 1;
        held.drain(..next);
    }
}

fn look_through(
    name: &str,
    bytes: &[u8],
    forms: &TokenForms,
    found: &mut BTreeSet<(usize, Cow<'static, str>)>,
) {
    let (mut from, mut lines_before) = (0, 0);
    loop {
        let end = bytes.len().min(from + PIECE);
        let piece = &bytes[from..end];
        for finding in scan(name, &as_text(piece), forms) {
            found.insert((lines_before + line_in(piece, finding.line), finding.kind));
        }
        if end == bytes.len() {
            return;
        }
        let back = end - OVERLAP;
        let at_line = bytes[back..end].iter().position(|byte| ends_text(*byte));
        let next = at_line.map_or(back, |at| back + at + 1);
        lines_before += bytes[from..next].split(|byte| *byte == b'\n').count() - 1;
        from = next;
    }
}

/// The bytes as the scanner takes them for text: the strings of a binary file are lines of their own.
fn as_text(piece: &[u8]) -> Cow<'_, [u8]> {
    // What looks like the mark of UTF-16 would have the rest read as that.
    let marked = matches!(piece, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    if !marked && !piece.contains(&0) {
        return Cow::Borrowed(piece);
    }
    let mut text: Vec<u8> =
        piece.iter().map(|byte| if *byte == 0 { b'\n' } else { *byte }).collect();
    if marked {
        text[0] = b' ';
    }
    Cow::Owned(text)
}

/// The line of the file that a line of [`as_text`] is in, counted from one.
fn line_in(piece: &[u8], line: usize) -> usize {
    let ends = piece.iter().filter(|byte| ends_text(**byte)).take(line - 1);
    1 + ends.filter(|byte| **byte == b'\n').count()
}

fn ends_text(byte: u8) -> bool {
    matches!(byte, 0 | b'\n')
}

#[cfg(test)]
mod tests {
    use super::{super::super::pack::token_forms, *};

    /// A word that a machine made up, in the form of a service's token, from pieces.
    fn token() -> String {
        format!("ghp_{}", "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR")
    }

    fn lines(bytes: &[u8]) -> Vec<usize> {
        search("a", bytes, &token_forms()).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_binary_file_is_searched() {
        let token = token();
        assert_eq!(lines(format!("a\nb\0{token}\0c\n").as_bytes()), [2]);
        let wide: Vec<u8> =
            format!("a\nkey: {token}\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(lines(&wide), [2]);
        // Text of that kind at first, then other: neither hides the other.
        assert_eq!(lines(&[&wide[..], token.as_bytes()].concat()), [2, 3]);
        assert_eq!(lines(&[b"\xff\xfe", token.as_bytes()].concat()), [1]);
        assert!(lines(&[0; 4096]).is_empty());
    }

    #[test]
    fn a_long_file_is_searched_to_its_end() {
        let token = token();
        let line = "nothing but words in this line of text\n";
        let much = line.repeat(5 * PIECE / 2 / line.len());
        let at = much.lines().count() + 1;
        assert_eq!(lines(format!("{much}key: {token}\n").as_bytes()), [at]);
        // Across the end of a piece, in a file that is one line.
        let filled = " ".repeat(PIECE - 20);
        assert_eq!(lines(format!("{filled}{token} {filled}").as_bytes()), [1]);
    }

    #[test]
    fn a_file_that_is_never_held_whole_is_searched_to_its_end() {
        const MOST: usize = PIECE;
        let token = token();
        let line = "nothing but words in this line of text\n";
        let much = line.repeat(MOST / line.len() + 1);
        let at = much.lines().count() + 1;
        // The key lies across the end of what is held, and behind it.
        let across = MOST - 20;
        let text = format!("{}\n{token} {}\n{token}\n", &much[..across - 1], &much[across..]);
        let seen = search_long("a", text.as_bytes(), &token_forms(), MOST).unwrap();
        let seen: BTreeSet<usize> = seen.into_iter().map(|(line, _)| line).collect();
        let lines = |text: &str| text.matches('\n').count();
        let first = lines(&much[..across - 1]) + 2;
        assert!(first < at);
        assert_eq!(seen, BTreeSet::from([first, lines(&text)]));
    }
}
