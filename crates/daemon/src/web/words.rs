//! Text for people: an agent's words with nothing hidden in them, and times.

use std::fmt::Write as _;

use keyless_core::{SecretPath, approval::Status, is_invisible};
use maud::{Markup, html};

use crate::operator::Shown;

/// How many marks in a row may stand on one letter; more of them paint over the lines around.
const MARKS: usize = 2;

/// A piece of an agent's words.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// What can be seen as it is.
    Seen(String),
    /// A character that can't, or that moves others.
    Unseen(char),
}

/// An agent's words, marked as such, with every character that can't be seen made visible.
pub(super) fn said(text: &str) -> Markup {
    html! {
        blockquote .said dir="ltr" {
            span .said-by { "The agent’s words" }
            p { (plain(text)) }
        }
    }
}

/// Text that somebody else wrote, in a line of ours.
pub(super) fn plain(text: &str) -> Markup {
    html! {
        bdi .theirs dir="ltr" {
            @for piece in pieces(text) {
                @match piece {
                    Piece::Seen(text) => { (text) },
                    Piece::Unseen(character) => {
                        span .unseen title=(name_of(character)) {
                            span .sr { "hidden character " }
                            (format!("U+{:04X}", u32::from(character)))
                        }
                    },
                }
            }
        }
    }
}

/// A path that is broken behind its slashes before it is within a word.
pub(super) fn in_steps(path: &SecretPath) -> Markup {
    html! {
        @for (index, step) in path.as_str().split('/').enumerate() {
            @if index > 0 { "/" wbr; }
            (step)
        }
    }
}

/// As [`plain`], where there can be no elements: in a label for those who hear it.
pub(super) fn spelled(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Seen(text) => spelled.push_str(&text),
            Piece::Unseen(character) => {
                let _ = write!(spelled, "U+{:04X}", u32::from(character));
            }
        }
    }
    spelled
}

/// Lines that somebody else wrote, each on its own: what follows a line's end is another line of theirs.
pub(super) fn lines(text: &str) -> Markup {
    marked(text.split('\n').map(|line| (line, "")))
}

/// The lines of a unified diff, coloured; each line's sign says it as well.
pub(super) fn diff(text: &str) -> Markup {
    let mut is_head = true;
    marked(text.split('\n').map(|line| {
        // The names of both sides begin with signs, too.
        is_head = is_head && !line.starts_with('@');
        let mark = match line.as_bytes().first() {
            _ if is_head => "is-place",
            Some(b'+') => "is-added",
            Some(b'-') => "is-removed",
            Some(b'@') => "is-place",
            _ => "",
        };
        (line, mark)
    }))
}

fn marked<'a>(lines: impl Iterator<Item = (&'a str, &'static str)>) -> Markup {
    html! {
        div .lines tabindex="0" role="group" aria-label="The text, line by line" {
            @for (line, mark) in lines { div .{ "line-of " (mark) } { (plain(line)) } }
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let (mut pieces, mut seen, mut marks) = (Vec::new(), String::new(), MARKS);
    let mut before = ' ';
    for character in text.chars() {
        let (is_mark, is_visible) = look_at(character);
        marks = if is_mark { marks + 1 } else { 0 };
        let is_lost = selects_nothing(before, character);
        before = character;
        if is_visible && !is_lost && marks <= MARKS {
            seen.push(character);
            continue;
        }
        if !seen.is_empty() {
            pieces.push(Piece::Seen(std::mem::take(&mut seen)));
        }
        pieces.push(Piece::Unseen(character));
    }
    if !seen.is_empty() {
        pieces.push(Piece::Seen(seen));
    }
    pieces
}

/// Whether a character stands on the one before it, and whether it can be seen at all.
fn look_at(character: char) -> (bool, bool) {
    if matches!(character, '\'' | '"' | '\\') {
        return (false, true);
    }
    if is_invisible(character) {
        return (false, false);
    }
    // The standard library's own tables: after a letter it leaves marks as they are.
    let after_a_letter = format!("a{character}");
    let is_visible = after_a_letter.escape_debug().eq(after_a_letter.chars());
    let is_mark = is_visible && !character.escape_debug().eq([character]);
    (is_mark, is_visible)
}

/// Whether this chooses the emoji, or the text, of what has neither: it changes nothing that one sees.
fn selects_nothing(before: char, character: char) -> bool {
    let is_selector = matches!(character, '\u{fe0e}' | '\u{fe0f}');
    is_selector && (before.is_ascii() || before.is_alphanumeric() || look_at(before).0)
}

fn name_of(character: char) -> &'static str {
    match character {
        '\n' => "line end",
        '\r' => "carriage return",
        '\t' => "tab",
        '\u{1b}' => "escape",
        '\u{ad}' => "soft hyphen",
        '\u{200b}' => "zero width space",
        '\u{200c}' => "zero width non-joiner",
        '\u{200d}' => "zero width joiner",
        '\u{200e}' | '\u{200f}' | '\u{61c}' => "direction mark",
        '\u{202a}'..='\u{202e}' => "changes the direction of what follows",
        '\u{2066}'..='\u{2069}' => "isolates the direction of what follows",
        '\u{feff}' => "byte order mark",
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => "a letter without a shape",
        '\u{2800}' => "a cell of Braille without a dot",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => "chooses between shapes of a letter",
        '\u{e0000}'..='\u{e007f}' => "tag: text that nobody sees",
        _ => "a character that can’t be seen",
    }
}

/// What became of a request, as a sentence.
pub(super) fn outcome(request: &Shown) -> String {
    let (title, done) = (request.title(), request.asked.participle());
    match request.status {
        Status::Cancelled => format!("{title}: nothing was changed."),
        Status::Denied if !request.asked.is_permission() => {
            format!("{title}: nothing was changed, and nobody is asked the same again for a while.")
        }
        Status::Denied => {
            format!("{title} may not be {done}, and nobody is asked again for a while.")
        }
        Status::Expired => format!("{title}: the time was over."),
        Status::Failed { code } => format!("{title}: {}", code.remediation().user_message),
        Status::Ok => format!("{title}: done."),
        Status::Once => format!("{title} may be {done} once."),
        Status::Pending => format!("{title} still waits."),
        Status::Session => format!("{title} may be {done} until the session ends."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_shown() {
        let seen = |text: &str| Piece::Seen(text.to_owned());
        let pieces = pieces("ok\u{202e}live\u{200b}\nнет é 日本 שלום");
        let rest = seen("нет é 日本 שלום");
        let expected = [
            seen("ok"),
            Piece::Unseen('\u{202e}'),
            seen("live"),
            Piece::Unseen('\u{200b}'),
            Piece::Unseen('\n'),
            rest,
        ];
        assert_eq!(pieces, expected);
    }

    /// Letters, signs and marks that have no shape are drawn as nothing.
    #[test]
    fn what_has_no_shape_is_shown() {
        for unseen in [
            '\u{34f}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{ffa0}',
            '\u{fffc}',
            '\u{16fe4}',
            '\u{1d159}',
            '\u{e0100}',
        ] {
            let text = format!("a{unseen}b");
            assert!(pieces(&text).contains(&Piece::Unseen(unseen)), "U+{:04X}", u32::from(unseen));
        }
        let emoji = "❤\u{fe0f} ☀\u{fe0e}";
        assert_eq!(pieces(emoji), [Piece::Seen(emoji.to_owned())]);
        assert_eq!(pieces("❤\u{fe0f}\u{fe0f}").len(), 2);
    }

    #[test]
    fn only_what_changes_is_coloured() {
        let text = diff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+new").into_string();
        let count = |mark: &str| text.matches(mark).count();
        assert_eq!(
            [count("is-place"), count("is-removed"), count("is-added")],
            [3, 1, 1],
            "{text}"
        );
        assert!(!lines("-x\n+y").into_string().contains("is-"));
    }

    #[test]
    fn marks_stay_on_their_letter() {
        let fine = "e\u{301} a\u{302}\u{323}";
        assert_eq!(pieces(fine), [Piece::Seen(fine.to_owned())]);
        let piled = format!("e{}", "\u{301}".repeat(9));
        assert_eq!(pieces(&piled).len(), 1 + 9 - MARKS);
        assert_eq!(pieces("\u{301}").len(), 1);
        assert_eq!(
            pieces("\u{e0041}tag"),
            [Piece::Unseen('\u{e0041}'), Piece::Seen("tag".to_owned())]
        );
    }

    #[test]
    fn nothing_of_it_becomes_an_element() {
        let text = said("<img src=x onerror=alert(1)>\"'&").into_string();
        assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;&quot;'&amp;"), "{text}");
    }
}
