//! One command in its text, and in what quotes its words stand.

use crate::shell::{SimpleCommand, Word};

/// One command in its text.
#[derive(Clone, Copy)]
pub(super) struct Here<'t> {
    pub(super) text: &'t str,
    pub(super) commands: &'t [SimpleCommand],
    pub(super) index: usize,
    pub(super) nesting: usize,
}

/// In what a word's expansions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// `"…"`: they make no further words.
    Double,
    /// None, or not all of them.
    None,
    /// `'…'`.
    Single,
}

impl<'t> Here<'t> {
    pub(super) fn command(&self) -> &'t SimpleCommand {
        &self.commands[self.index]
    }

    /// Whether a word's braces and patterns are the shell's: those in quotes are not.
    pub(super) fn is_open(&self, word: &Word) -> bool {
        let raw = self.text.get(word.span.clone()).unwrap_or_default();
        let sign = raw.find(['{', '*', '?', '[']).unwrap_or(raw.len());
        let quotes = |quote: char| raw[..sign].matches(quote).count();
        word.is_plain || (quotes('\'') % 2 == 0 && quotes('"') % 2 == 0)
    }

    /// In what quotes a word's expansions stand. Lists in quotes are words nevertheless.
    pub(super) fn quotes(&self, word: &Word) -> Quotes {
        let raw = self.text.get(word.span.clone()).unwrap_or_default();
        if raw.starts_with('\'') && raw[1..].find('\'') == raw.len().checked_sub(2) {
            return Quotes::Single;
        }
        let (mut quote, mut is_escaped, mut is_open) = (None, false, false);
        for c in raw.chars() {
            match (c, quote) {
                _ if is_escaped => is_escaped = false,
                ('\\', None | Some('"')) => is_escaped = true,
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                ('$' | '`', None) => is_open = true,
                _ => {}
            }
        }
        if is_open || raw.contains('@') || !raw.contains(['\'', '"']) {
            Quotes::None
        } else {
            Quotes::Double
        }
    }

    /// The words of a program that only says them, without dollar signs that mean nothing to the shell, or whose
    /// variable another program takes in.
    pub(super) fn literal(&self, words: &[String]) -> Vec<String> {
        if !words.first().is_some_and(|word| matches!(word.as_str(), "echo" | "printf" | "print")) {
            return words.to_vec();
        }
        let next = self.commands.get(self.index + 1).filter(|_| self.command().pipes_into_next);
        let takes = |word: &Word| {
            let handed =
                ["--password-stdin", "--with-token", "--value-stdin", "login", "secret", "secrets"];
            handed.contains(&word.text.as_str())
        };
        let is_taken = next.is_some_and(|next| next.words.iter().any(takes));
        let each = words.iter().zip(&self.command().words).map(|(text, word)| {
            if !text.contains('$') {
                return text.clone();
            }
            let raw = self.text.get(word.span.clone()).unwrap_or_default();
            let is_single = self.quotes(word) == Quotes::Single;
            let is_escaped = raw.matches('$').count() == raw.matches("\\$").count();
            if is_taken || is_single || is_escaped { text.replace('$', "_") } else { text.clone() }
        });
        each.collect()
    }

    pub(super) fn before(&self) -> Option<Self> {
        let index = self.index.checked_sub(1)?;
        self.commands[index].pipes_into_next.then_some(Self { index, ..*self })
    }
}
