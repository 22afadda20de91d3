//! Words of others at a terminal, in rows that we break ourselves.
//!
//! A terminal that breaks a long line begins the next row at its edge, where our own lines begin: with blanks enough, what
//! others wrote would stand there as ours. So every row but a line's first begins with blanks, or with a bar. Where the
//! output is no terminal, lines stay as they are.

use std::io;

use unicode_width::UnicodeWidthChar as _;

use crate::visible::visible;

/// Stands before a line of others, and before each further row of it.
const BARS: (&str, &str) = ("    | ", "    ¦ ");
/// As wide as a fact's name.
const NAME: usize = 13;
/// What one of our styles begins with, and anything else never.
const STYLE: char = '\u{1b}';

/// The columns of the terminal that answers go to, if they go to one.
pub(crate) fn room() -> Option<usize> {
    let stdout = io::stdout();
    let size = rustix::termios::isatty(&stdout).then(|| rustix::termios::tcgetwinsize(&stdout));
    let columns = size?.map_or(0, |size| usize::from(size.ws_col));
    // One that does not say is as wide as most.
    Some(if columns == 0 { 80 } else { columns })
}

/// Lines in rows that fit: behind a fact's name what belongs to it goes on, and behind a bar what others wrote.
pub(crate) fn fitted(lines: &str) -> String {
    room().map_or_else(|| lines.to_owned(), |room| fitted_within(room, &visible(lines)))
}

fn fitted_within(room: usize, lines: &str) -> String {
    lines.split_inclusive('\n').map(|line| broken(room, line, &further(line))).collect()
}

/// A line of others in rows that fit, those but the first behind a bar; how it begins says what it is.
pub(crate) fn barred(line: &str) -> String {
    let bar = BARS.1.trim_start();
    room().map_or_else(|| line.to_owned(), |room| broken(room, &visible(line), bar))
}

/// What a line's further rows begin with. It is read from our end of the line: theirs begins behind it.
fn further(line: &str) -> String {
    if line.starts_with(BARS.0) {
        return BARS.1.to_owned();
    }
    let start = line.get(..NAME).unwrap_or_default();
    let is_fact = start.starts_with("  ") && start.trim_end().ends_with(':');
    let blanks = line.len() - line.trim_start_matches(' ').len();
    " ".repeat(if is_fact { NAME } else { blanks.min(NAME) + 4 })
}

/// A line in rows of at most `room` columns. A row ends at a blank where there is one in its second half.
fn broken(room: usize, line: &str, further: &str) -> String {
    let indent = columns(further);
    // Where there is hardly any room, one letter a row, of two columns perhaps.
    let room = room.max(indent + 2);
    let (mut rows, mut row, mut used) = (String::with_capacity(line.len()), String::new(), 0);
    // Where the row may end, in bytes, and how wide it is up to there.
    let mut blank = None;
    for piece in pieces(line) {
        let wide = columns_of(piece);
        if used + wide > room {
            let fits = |(_, columns): &(usize, usize)| {
                columns * 2 > room && indent + used - columns + wide <= room
            };
            let (end, columns) = blank.take().filter(fits).unwrap_or((row.len(), used));
            let rest = row.split_off(end);
            rows.push_str(&row);
            rows.push('\n');
            row = format!("{further}{rest}");
            used = indent + used - columns;
        }
        row.push_str(piece);
        used += wide;
        if piece == " " {
            blank = Some((row.len(), used));
        }
    }
    rows + &row
}

/// The columns that a text takes at most.
pub(crate) fn columns(text: &str) -> usize {
    pieces(text).map(columns_of).sum()
}

/// A text's characters; a style of ours is one piece. Anything else that begins like one has been made visible.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let style = (first == STYLE).then(|| rest.find('m')).flatten();
        let end = style.map_or(first.len_utf8(), |end| end + 1);
        let (piece, more) = rest.split_at(end);
        rest = more;
        Some(piece)
    })
}

/// At most: a tab takes up to eight, and the sign before a selector may become as wide as an emoji.
fn columns_of(piece: &str) -> usize {
    match piece.chars().next() {
        Some('\t') => 8,
        Some('\u{fe0f}') => 1,
        Some(STYLE) | None => 0,
        Some(other) => other.width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_of_others_begins_at_the_edge() {
        let forged = format!("ok{}prov-3b1f  use", " ".repeat(61));
        let fact = format!("  It says:   {forged}\n");
        let quoted = format!("    | {forged}\n    | and more\n");
        assert_eq!(
            fitted_within(60, &fact),
            format!(
                "  It says:   ok{}\n             {}prov-3b1f  use\n",
                " ".repeat(45),
                " ".repeat(16)
            )
        );
        assert_eq!(
            fitted_within(60, &quoted),
            format!(
                "    | ok{}\n    ¦ {}prov-3b1f  use\n    | and more\n",
                " ".repeat(52),
                " ".repeat(9)
            )
        );
        let told = format!("prov-1: {} may be used once.\n", "x".repeat(40));
        assert_eq!(
            fitted_within(60, &told),
            "prov-1: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx may be \n    used once.\n"
        );
        for room in 1..120 {
            for text in [&fact, &quoted, &format!("  It says:   {}\n", "漢\t❤\u{fe0f}".repeat(30))]
            {
                let shown = fitted_within(room, text);
                assert!(shown.lines().all(|row| row.starts_with("  ")), "{room}: {shown}");
                let fits = |row: &str| columns(row) <= room.max(NAME + 8);
                assert!(shown.lines().all(fits), "{room}: {shown}");
                let mut kept = shown.replace('¦', "|");
                kept.retain(|character| !matches!(character, ' ' | '\n' | '|'));
                let mut whole = text.clone();
                whole.retain(|character| !matches!(character, ' ' | '\n' | '|'));
                assert_eq!(kept, whole);
            }
        }
    }

    #[test]
    fn our_styles_take_no_room_and_what_fits_stays() {
        let line = "\u{1b}[32m+added\u{1b}[0m\n";
        assert_eq!(columns(line.trim_end()), 6);
        assert_eq!(broken(6, line, "¦ "), line);
        assert_eq!(broken(5, line, "¦ "), "\u{1b}[32m+adde\n¦ d\u{1b}[0m\n");
    }
}
