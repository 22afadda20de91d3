//! What is read on the screen, as pieces that are laid out for any width.
//!
//! What somebody else wrote stands behind a bar on every row that it takes, wrapped ones too, so that none of it can be
//! taken for ours; and every character in it that can't be seen is made visible before it comes here.

use ratatui::text::{Line, Span};

use super::{
    super::approve::visible_line,
    theme::{Mood, Theme},
};

/// Columns of a fact's name.
const NAME: usize = 12;
/// What stands before another's words.
const BAR: &str = "│ ";

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Blank,
    /// A line of a diff, somebody else's.
    Diff(String),
    /// A name, and what is so.
    Fact(&'static str, String, Mood),
    Heading(String),
    /// A sentence of ours.
    Ours(String, Mood),
    /// A step of a list, by its number.
    Step(usize, String),
    /// A line of somebody else's.
    Theirs(String),
}

impl Piece {
    pub(super) fn fact(name: &'static str, words: impl Into<String>) -> Self {
        Self::Fact(name, words.into(), Mood::Plain)
    }

    pub(super) fn ours(words: impl Into<String>) -> Self {
        Self::Ours(words.into(), Mood::Plain)
    }

    pub(super) fn heading(words: impl Into<String>) -> Self {
        Self::Heading(words.into())
    }

    /// Somebody else's words, line by line.
    pub(super) fn theirs(words: &str) -> impl Iterator<Item = Self> {
        words.split('\n').map(|line| Self::Theirs(visible_line(line)))
    }

    /// A unified diff, line by line. The names of both sides begin with signs, too, and are no change.
    pub(super) fn diff(words: &str) -> impl Iterator<Item = Self> {
        let words = words.strip_suffix('\n').unwrap_or(words);
        let mut is_head = true;
        words.split('\n').map(move |line| {
            is_head = is_head && !line.starts_with('@');
            if is_head { Self::Theirs(visible_line(line)) } else { Self::Diff(visible_line(line)) }
        })
    }

    fn lay_out(&self, width: usize, theme: Theme) -> Vec<Line<'static>> {
        match self {
            Self::Blank => vec![Line::default()],
            Self::Diff(text) => behind_bar(text, width, theme, sign_of(text)),
            Self::Fact(name, words, mood) => {
                let rows = wrapped(words, width.saturating_sub(NAME));
                let rows = rows.into_iter().enumerate().map(|(index, row)| {
                    let name = if index == 0 { *name } else { "" };
                    let name = Span::styled(format!("{name:<NAME$}"), Theme::dim());
                    Line::from(vec![name, Span::styled(row, theme.of(*mood))])
                });
                rows.collect()
            }
            Self::Heading(words) => styled(wrapped(words, width), Theme::bold()),
            Self::Ours(words, mood) => styled(wrapped(words, width), theme.of(*mood)),
            Self::Step(number, words) => {
                let rows = wrapped(words, width.saturating_sub(4));
                let rows = rows.into_iter().enumerate().map(|(index, row)| {
                    let before = if index == 0 { format!("{number:>2}. ") } else { " ".repeat(4) };
                    Line::from(format!("{before}{row}"))
                });
                rows.collect()
            }
            Self::Theirs(text) => behind_bar(text, width, theme, Mood::Theirs),
        }
    }
}

/// All of it, in rows of at most `width` columns.
pub(super) fn lay_out(pieces: &[Piece], width: u16, theme: Theme) -> Vec<Line<'static>> {
    pieces.iter().flat_map(|piece| piece.lay_out(usize::from(width), theme)).collect()
}

fn styled(rows: Vec<String>, style: ratatui::style::Style) -> Vec<Line<'static>> {
    rows.into_iter().map(|row| Line::styled(row, style)).collect()
}

fn behind_bar(text: &str, width: usize, theme: Theme, mood: Mood) -> Vec<Line<'static>> {
    let rows = wrapped(text, width.saturating_sub(BAR.chars().count()));
    let row = |row: String| {
        Line::from(vec![
            Span::styled(BAR, theme.of(Mood::Theirs)),
            Span::styled(row, theme.of(mood)),
        ])
    };
    rows.into_iter().map(row).collect()
}

fn sign_of(line: &str) -> Mood {
    match line.as_bytes().first() {
        Some(b'+') => Mood::Good,
        Some(b'-') => Mood::Bad,
        Some(b'@') => Mood::Warn,
        _ => Mood::Plain,
    }
}

/// A text in rows: broken at spaces, and inside a word that is longer than a row. At least one row, maybe an empty one.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        let columns = columns_of(word.trim_end_matches(' '));
        if used > 0 && used + columns > width {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        for character in word.chars() {
            let columns = columns_of(character.encode_utf8(&mut [0; 4]));
            if used + columns > width {
                // The space at a row's end is seen as the end.
                if character == ' ' {
                    continue;
                }
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(character);
            used += columns;
        }
    }
    rows.push(row);
    rows
}

/// A text in `width` columns at most; that there is more of it is shown.
pub(super) fn clipped(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for character in text.chars() {
        used += columns_of(character.encode_utf8(&mut [0; 4]));
        if used >= width {
            break;
        }
        kept.push(character);
    }
    kept + "…"
}

/// A path in `width` columns at most: two that begin alike differ at their ends, so the beginning goes.
pub(super) fn clipped_path(path: &str, width: u16) -> String {
    let width = usize::from(width);
    if columns_of(path) <= width {
        return path.to_owned();
    }
    // Paths are ASCII, and what is not is clipped as any text is.
    let from = path.len().saturating_sub(width.saturating_sub(1));
    match path.get(from..) {
        Some(end) if path.is_ascii() => format!("…{end}"),
        _ => clipped(path, u16::try_from(width).unwrap_or(u16::MAX)),
    }
}

fn columns_of(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pieces: &[Piece], width: u16) -> Vec<String> {
        lay_out(pieces, width, Theme::plain()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn no_row_of_somebody_else_is_without_its_bar() {
        let words =
            format!("ok{}Secret:     team/other/path\nnext\u{202e}\u{1b}[2J", " ".repeat(9));
        let pieces: Vec<Piece> = Piece::theirs(&words).collect();
        for width in [3, 7, 10, 40] {
            let rows = rows(&pieces, width);
            assert!(rows.iter().all(|row| row.starts_with(BAR)), "{rows:?}");
            assert!(rows.iter().all(|row| columns_of(row) <= usize::from(width)), "{rows:?}");
            let text: String = rows.iter().map(|row| &row[BAR.len()..]).collect();
            assert!(text.contains("\\u{202e}\\u{1b}[2J"), "{text}");
        }
    }

    #[test]
    fn facts_hang_below_their_own_words() {
        let fact = Piece::fact("Goes to", "api.one.test, api.two.test, api.three.test");
        assert_eq!(
            rows(&[fact], 30),
            [
                "Goes to     api.one.test, ",
                "            api.two.test, ",
                "            api.three.test"
            ]
        );
    }

    #[test]
    fn long_words_and_wide_letters_are_broken_in_place() {
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("日本語日本", 5), ["日本", "語日", "本"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(clipped("abcd", 4), "abcd");
        assert_eq!(clipped("abcde", 4), "abc…");
        assert_eq!(clipped("日本語", 5), "日本…");
        assert_eq!(clipped("日本語", 4), "日…");
        assert_eq!(clipped_path("personal/acme-b/key", 19), "personal/acme-b/key");
        assert_eq!(clipped_path("personal/acme-b/key", 10), "…cme-b/key");
    }
}
