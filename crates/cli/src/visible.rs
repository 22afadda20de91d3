//! What others wrote, as a terminal may show it: nothing in it hides, moves or paints over anything.
//!
//! Names of files, texts of modules and words of other programs come to the terminal among ours, so
//! all of it passes here. Only the few styles of ours, tabs and line ends are left as they are.

use std::{borrow::Cow, fmt::Write as _};

use keyless_core::is_invisible;

/// What our own styles begin and end with (`anstyle`): bold, red, green, yellow, cyan, and none.
const STYLES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// `text` with everything that can't be seen written as `\u{…}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(is_unseen) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(style) = STYLES.iter().find(|style| rest.starts_with(**style)) {
            shown.push_str(style);
            rest = &rest[style.len()..];
        } else {
            let mut characters = rest.chars();
            shown.extend(characters.next().into_iter().flat_map(char::escape_default));
            rest = characters.as_str();
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// A line of JSON with what can't be seen as `\uXXXX`: it stands only within strings, where that means the same.
pub(crate) fn visible_json(line: &str) -> Cow<'_, str> {
    if !line.contains(is_unseen) {
        return Cow::Borrowed(line);
    }
    let mut shown = String::with_capacity(line.len() + 16);
    for character in line.chars() {
        if is_unseen(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// `text` on one line and without any style, what can't be seen escaped: for a name in a list, which adds no lines to it.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |character: char| character == '\n' || is_unseen(character);
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if breaks(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Control characters but for line ends and tabs, and what leaves no ink or changes how others look.
fn is_unseen(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        other => other.is_control() || is_invisible(other),
    }
}

#[cfg(test)]
mod tests {
    use anstyle::{AnsiColor, Style};

    use super::*;

    #[test]
    fn a_line_of_json_stays_json_and_says_the_same() {
        for text in ["a\u{200b}b", "\u{7f}\u{9b}31m", "tag\u{e0041}", "\x1b[31m\n\t\\u{200b}", "ä"]
        {
            let line = serde_json::json!({ "said": text }).to_string();
            let shown = visible_json(&line);
            assert!(!shown.contains(is_unseen), "{shown}");
            assert_eq!(visible(&shown), shown);
            let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(read["said"], text);
        }
    }

    #[test]
    fn what_hides_is_seen() {
        let text = "a\x1b[8mb\x1b]0;t\x07\rc\u{202e}d\u{200b}\u{e0041}\u{9b}2J\n\te é ❤\u{fe0f}";
        let shown = "a\\u{1b}[8mb\\u{1b}]0;t\\u{7}\\rc\\u{202e}d\\u{200b}\\u{e0041}\\u{9b}2J\n\te é ❤\u{fe0f}";
        assert_eq!(visible(text), shown);
        assert_eq!(one_line("a\nb\x1b[1mc"), "a\\nb\\u{1b}[1mc");
        assert_eq!(visible("a\u{2800}b\u{fe00}c\u{34f}"), "a\\u{2800}b\\u{fe00}c\\u{34f}");
        assert!(matches!(visible("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn our_own_styles_stay() {
        let colours = [AnsiColor::Red, AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Cyan];
        let plain = colours.map(AnsiColor::on_default);
        let bold = colours.map(|colour| colour.on_default().bold());
        for style in plain.into_iter().chain(bold).chain([Style::new().bold(), Style::new()]) {
            let text = format!("{style}x{style:#}\n");
            assert_eq!(visible(&text), text);
        }
    }
}
