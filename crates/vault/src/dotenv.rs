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
    /// shell's `$'…'`, or goes on behind a backslash at its line's end.
    pub is_composed: bool,
}

/// What a file holds.
#[derive(Default)]
pub struct Dotenv {
    /// In the file's order; of one name the last counts.
    pub assignments: Vec<Assignment>,
    /// Lines that can't be read, counted from one.
    pub unread: Vec<usize>,
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
            Read::Assignment(assignment) => found.assignments.push(assignment),
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
    Assignment(Assignment),
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
    let content = match content.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => content,
    };
    let Some((name, rest)) = content.split_once('=') else { return (end, Read::Unread) };
    let name = name.trim_end();
    if !is_name(name) {
        return (end, Read::Unread);
    }
    let from = end - rest.len() + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
    let Some((value, place)) = value(text, from, end) else { return (end, Read::Unread) };
    let next = line_end(text, place.end);
    let (name, is_composed) = (name.to_owned(), is_composed(&text[place.clone()]));
    (next, Read::Assignment(Assignment { name, value, line, place, is_composed }))
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
            ("$2b$10$abc", false),
            ("b$'c", false),
            ("b$", false),
            ("", false),
        ] {
            let found = read(&format!("A={written}\n"));
            assert_eq!(found.assignments[0].is_composed, is_composed, "{written}");
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
