//! The grammar of `.env` files, as dotenv for Node, Python and Ruby, and docker compose, agree on it.
//!
//! `NAME=value`, `export NAME=value`, comments, values in single quotes or backticks (literal) and in double quotes
//! (with escapes), over several lines too. Nothing is expanded. Where each value stands is kept, so that it
//! can be replaced and everything round it stays. A line that is none of this is told, never guessed at, and so is a value
//! that shells or docker compose make something else of.

use std::ops::Range;

use zeroize::Zeroizing;

/// One `NAME=value`.
pub struct Assignment {
    /// Its name.
    pub name: String,
    /// What it stands for, without quotes and escapes.
    pub value: Zeroizing<String>,
    /// Counted from one.
    pub line: usize,
    /// The value's bytes as they are written, quotes included.
    pub place: Range<usize>,
    /// Whether what stands here is no value to those who expand: it has `${…}`, `$(…)` or a command in backticks, is a
    /// shell's `$'…'`, goes on behind a backslash at its line's end, or has outside of quotes what ends it for a shell.
    pub is_composed: bool,
}

/// What stands for a byte that is no UTF-8: as long as it, and in no name.
const SUBSTITUTE: char = '\u{1a}';
/// What a file in UTF-16 begins with, in either order.
const UTF16_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

const BLANKS: [char; 2] = [' ', '\t'];

/// What a file holds.
#[derive(Default)]
pub struct Dotenv {
    /// In the file's order; of one name the last counts.
    pub assignments: Vec<Assignment>,
    /// Lines that can't be read, counted from one.
    pub unread: Vec<usize>,
}

/// A file's text where not all of it need be UTF-8: everything else stands where it stood.
pub struct DotenvText {
    text: Zeroizing<String>,
    /// The bytes that are none.
    strange: Vec<usize>,
}

/// Whether a file says that it is in UTF-16.
pub fn is_utf16(bytes: &[u8]) -> bool {
    UTF16_MARKS.iter().any(|mark| bytes.starts_with(mark))
}

impl DotenvText {
    /// The text in these bytes; `None` where they say that they are UTF-16.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if is_utf16(bytes) {
            return None;
        }
        // As long as it will be, so that growing leaves no copies behind.
        let mut text = Zeroizing::new(String::with_capacity(bytes.len()));
        let mut strange = Vec::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for _ in chunk.invalid() {
                strange.push(text.len());
                text.push(SUBSTITUTE);
            }
        }
        Some(Self { text, strange })
    }

    /// Reads it; a value with such bytes is one that can't be read. In a comment they hide nothing.
    pub fn read(&self) -> Dotenv {
        let mut found = read(&self.text);
        let is_strange = |one: &Assignment| self.strange.iter().any(|at| one.place.contains(at));
        let strange: Vec<usize> =
            found.assignments.iter().filter(|one| is_strange(one)).map(|one| one.line).collect();
        found.assignments.retain(|one| !is_strange(one));
        found.unread.extend(strange);
        found.unread.sort_unstable();
        found.unread.dedup();
        found
    }
}

/// Reads a file's text.
pub fn read(text: &str) -> Dotenv {
    let mut found = Dotenv::default();
    let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut line = 1;
    while at < text.len() {
        let end = line_end(text, at);
        let (next, read) = assignment(text, at, line);
        match read {
            Read::Assignments(assignments) => found.assignments.extend(assignments),
            Read::Nothing => {}
            Read::Unread => found.unread.push(line),
        }
        let next = next.max(end);
        line += text[at..next].matches('\n').count();
        at = next;
    }
    found
}

enum Read {
    Assignments(Vec<Assignment>),
    Nothing,
    Unread,
}

/// Reads what begins at `at`; gives where the next line begins.
fn assignment(text: &str, at: usize, line: usize) -> (usize, Read) {
    let end = line_end(text, at);
    let content = text[at..end].trim_start();
    if content.trim_end().is_empty() || content.starts_with('#') {
        return (end, Read::Nothing);
    }
    let exported = content.strip_prefix("export").filter(|rest| rest.starts_with(BLANKS));
    let content = exported.map_or(content, str::trim_start);
    let Some((name, rest)) = content.split_once('=') else { return (end, Read::Unread) };
    let name = name.trim_end();
    if !is_name(name) {
        return (end, Read::Unread);
    }
    let from = end - rest.len() + (rest.len() - rest.trim_start_matches(BLANKS).len());
    let Some((value, place)) = value(text, from, end) else { return (end, Read::Unread) };
    let next = line_end(text, place.end);
    let (written, name) = (&text[place.clone()], name.to_owned());
    if written.starts_with(['"', '\'', '`']) {
        let is_composed = is_composed(written);
        return (
            next,
            Read::Assignments(vec![Assignment { name, value, line, place, is_composed }]),
        );
    }
    let mut several = match exported {
        Some(_) => behind(text, place.clone(), line),
        // Most that read such a line take all of it for the one value.
        None => Vec::new(),
    };
    let first = if several.is_empty() {
        let is_composed = is_composed(written) || is_cut(written, exported.is_some());
        Assignment { name, value, line, place, is_composed }
    } else {
        // Only a shell reads such a line.
        let place = words(text, place).next().unwrap_or(from..from);
        let value = Zeroizing::new(text[place.clone()].to_owned());
        Assignment { name, value, line, place, is_composed: true }
    };
    several.insert(0, first);
    (next, Read::Assignments(several))
}

/// What else is set in a line in which an unquoted value stands at `place`: `export A=b C=d`, `export A=b; export C=d`.
fn behind(text: &str, place: Range<usize>, line: usize) -> Vec<Assignment> {
    let set = |place: Range<usize>| {
        let (name, value) = text[place.clone()].split_once('=')?;
        let (name, start) = (name.to_owned(), place.end - value.len());
        let is_variable =
            name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let value = Zeroizing::new(value.to_owned());
        (is_name(&name) && is_variable).then(|| Assignment {
            name,
            value,
            line,
            place: start..place.end,
            is_composed: true,
        })
    };
    words(text, place).skip(1).filter_map(set).collect()
}

/// The words of a part of a text, as a shell reads it.
fn words(text: &str, place: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let start = text.as_ptr().addr();
    let all = text[place].split(|c| BLANKS.contains(&c) || c == ';');
    all.filter(|word| !word.is_empty()).map(move |word| {
        let from = word.as_ptr().addr() - start;
        from..from + word.len()
    })
}

/// Whether a shell ends an unquoted value before its end. What a line that no shell reads has of `&` and `;` is an address's.
fn is_cut(written: &str, exported: bool) -> bool {
    written.contains(|c| BLANKS.contains(&c) || exported && "&();<>|".contains(c))
}

/// The value that begins at `from`, in a line that ends at `end`, and where it stands.
fn value(text: &str, from: usize, end: usize) -> Option<(Zeroizing<String>, Range<usize>)> {
    let quote = text[from..end].chars().next().filter(|first| matches!(first, '"' | '\'' | '`'));
    let Some(quote) = quote else {
        let written = unquoted(&text[from..end]);
        return Some((Zeroizing::new(written.to_owned()), from..from + written.len()));
    };
    let inner = &text[from + 1..];
    let length = closing(inner, quote)?;
    let after = from + 1 + length + 1;
    let rest = text[after..line_end(text, after)].trim();
    let written = &inner[..length];
    let value = if quote == '"' { unescaped(written) } else { written.to_owned() };
    (rest.is_empty() || rest.starts_with('#')).then(|| (Zeroizing::new(value), from..after))
}

/// Up to a comment, which a blank precedes, or to the line's end.
fn unquoted(rest: &str) -> &str {
    if rest.starts_with('#') {
        return "";
    }
    let comment = rest.match_indices('#').map(|(at, _)| at);
    let mut comment = comment.filter(|&at| rest[..at].ends_with([' ', '\t']));
    rest[..comment.next().unwrap_or(rest.len())].trim_end()
}

fn closing(inner: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    inner.char_indices().find_map(|(at, c)| {
        let closes = c == quote && !escaped;
        escaped = quote == '"' && c == '\\' && !escaped;
        closes.then_some(at)
    })
}

fn unescaped(written: &str) -> String {
    // As long as it was, so that growing leaves no copies behind.
    let mut value = String::with_capacity(written.len());
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, false) => value.push(c),
            (_, true) => match rest.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some(plain @ ('"' | '\\' | '$' | '`' | '\'')) => value.push(plain),
                Some(other) => value.extend(['\\', other]),
                None => value.push('\\'),
            },
        }
    }
    value
}

fn is_composed(written: &str) -> bool {
    if written.starts_with(['\'', '`']) {
        return false;
    }
    let mut rest = written.chars().peekable();
    let mut is_first = true;
    while let Some(c) = rest.next() {
        let next = rest.peek();
        let found = match c {
            '\\' => matches!(rest.next(), None | Some('\n' | '\r')),
            '`' => true,
            '$' => matches!(next, Some('{' | '(')) || is_first && matches!(next, Some('\'' | '"')),
            _ => false,
        };
        if found {
            return true;
        }
        is_first = false;
    }
    false
}

/// The first byte after the line in which `at` lies.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let found = read(text);
        assert!(found.unread.is_empty(), "{text:?}: {:?}", found.unread);
        let pair = |one: &Assignment| (one.name.clone(), one.value.to_string());
        found.assignments.iter().map(pair).collect()
    }

    #[test]
    fn every_form_of_a_value_reads() {
        let rows = [
            ("A=b", "b"),
            ("export A=b", "b"),
            ("  A = b  ", "b"),
            ("A=", ""),
            ("A=b # comment", "b"),
            ("A=b#c", "b#c"),
            ("A=# comment", ""),
            ("A='b # c' # d", "b # c"),
            ("A=\"b\\n\\\"c\\\" \\d\"", "b\n\"c\" \\d"),
            ("A='b\\n$C'", "b\\n$C"),
            ("A=`b'\"c`", "b'\"c"),
            ("A=\"one\ntwo\"", "one\ntwo"),
            ("A=b=c==", "b=c=="),
            ("A=b c", "b c"),
            ("\u{feff}A=b\r\n", "b"),
            ("export=b", "b"),
        ];
        for (text, value) in rows {
            let name = if text.starts_with("export=") { "export" } else { "A" };
            assert_eq!(values(text), [(name.to_owned(), value.to_owned())], "{text:?}");
        }
    }

    /// One byte of another encoding hides no other line.
    #[test]
    fn what_is_no_utf8_costs_its_own_line() {
        let bytes = b"# clef d\xe9v\nA=b # \xe9\nC=d\xe9\nE='f\n\xff'\nG=h\n\xe9=i\n";
        let found = DotenvText::of(bytes).unwrap().read();
        let rows: Vec<_> = found
            .assignments
            .iter()
            .map(|a| (a.name.as_str(), a.line, &bytes[a.place.clone()]))
            .collect();
        assert_eq!(rows, [("A", 2, &b"b"[..]), ("G", 6, &b"h"[..])]);
        assert_eq!(found.unread, [3, 4, 7]);
        for mark in UTF16_MARKS {
            assert!(DotenvText::of(&[&mark[..], b"A\0=\0b\0"].concat()).is_none());
        }
    }

    #[test]
    fn lines_and_places_are_those_of_the_file() {
        let text = "# head\nA='x\ny'  # why\n\nB=z\nwhat is this\nC=\"open\nD=1\n";
        let found = read(text);
        let rows: Vec<_> =
            found.assignments.iter().map(|a| (a.line, &text[a.place.clone()])).collect();
        assert_eq!(rows, [(2, "'x\ny'"), (5, "z"), (8, "1")]);
        assert_eq!(found.unread, [6, 7]);
    }

    #[test]
    fn what_others_make_something_else_of_is_told() {
        for (written, is_composed) in [
            ("pre${B}post", true),
            ("\"pre${B}post\"", true),
            ("pre$(cat b)post", true),
            ("pre`cat b`post", true),
            ("\"`cat b`\"", true),
            ("$'b\\n'", true),
            ("$\"b\"", true),
            ("b\\", true),
            ("b\\\nC=d", true),
            ("\"b\\\nc\"", true),
            ("'pre${B}post'", false),
            ("`b`", false),
            ("pre\\${B}post", false),
            ("\"pre\\`b\\`\"", false),
            ("b\\\\", false),
            ("b c", true),
            ("'b c'", false),
            ("b;c&d|e", false),
            ("$2b$10$abc", false),
            ("b$'c", false),
            ("b$", false),
            ("", false),
        ] {
            let found = read(&format!("A={written}\n"));
            assert_eq!(found.assignments[0].is_composed, is_composed, "{written}");
        }
    }

    /// Two secrets on one line of an `.envrc` are never one value.
    #[test]
    fn a_line_that_sets_several_is_a_shells() {
        let rows = [
            ("export A=b C=d", vec![("A", "b"), ("C", "d")]),
            ("export A=b;  export C=d # why", vec![("A", "b"), ("C", "d")]),
            ("export A=b;C=d", vec![("A", "b"), ("C", "d")]),
            ("export A=b C_2=d=e", vec![("A", "b"), ("C_2", "d=e")]),
            ("A=host=db PASSWORD=c", vec![("A", "host=db PASSWORD=c")]),
            ("A=b some-program --flag", vec![("A", "b some-program --flag")]),
            ("export A=b&c", vec![("A", "b&c")]),
            ("A=host=db user=app", vec![("A", "host=db user=app")]),
        ];
        for (text, expected) in rows {
            let found = read(text);
            let pairs: Vec<_> = found
                .assignments
                .iter()
                .map(|one| (one.name.as_str(), one.value.as_str()))
                .collect();
            assert_eq!(pairs, expected, "{text:?}");
            for one in &found.assignments {
                assert!(one.is_composed, "{text:?}");
                assert_eq!(text[one.place.clone()], **one.value, "{text:?}");
            }
        }
        for text in ["A=Server=db;User=sa;PWD=x", "A=https://db.test/?B=c&D=e"] {
            let found = read(text);
            let [one] = &found.assignments[..] else { panic!("{text:?}") };
            assert!(!one.is_composed && text.ends_with(one.value.as_str()), "{text:?}");
        }
    }

    #[test]
    fn what_cant_be_read_is_told() {
        for text in ["A", "A B", "1A=b", "=b", "A='b", "A='b'c", "A:b", "A=\"b\\\""] {
            assert_eq!(read(text).unread, [1], "{text:?}");
        }
        assert!(read("").assignments.is_empty() && read("\n\r\n #\n").unread.is_empty());
    }
}
