//! Here-documents: read when the line that announced them is over.

use std::borrow::Cow;

use super::{Context, ShellError, Word, lexer::Lexer};

/// A here-document that was announced and not yet read.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) delimiter: String,
    pub(super) is_quoted: bool,
    pub(super) strips_tabs: bool,
    /// Which command it belongs to, once that is over.
    pub(super) command: Option<usize>,
    pub(super) redirection: usize,
}

impl Lexer<'_> {
    /// Reads the bodies that wait. One without its delimiter goes to the end, as in every shell.
    pub(super) fn here_documents(&mut self) -> Result<(), ShellError> {
        for waiting in std::mem::take(&mut self.waiting) {
            let body = self.body_of(&waiting);
            let after = self.at;
            if !waiting.is_quoted {
                self.expansions_in(body.clone())?;
            }
            self.at = after;
            let context = if waiting.is_quoted { Context::QuotedHereDoc } else { Context::HereDoc };
            self.note(body.clone(), context);
            let command = waiting.command.and_then(|index| self.script.commands.get_mut(index));
            let redirection =
                command.and_then(|command| command.redirections.get_mut(waiting.redirection));
            if let Some(redirection) = redirection {
                redirection.body = Some(body);
            }
        }
        Ok(())
    }

    fn body_of(&mut self, waiting: &Waiting) -> std::ops::Range<usize> {
        let began = self.at;
        while self.at < self.end {
            let line_began = self.at;
            let line = self.document_line(waiting.is_quoted);
            let line = if waiting.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == waiting.delimiter {
                return began..line_began;
            }
        }
        began..self.end
    }

    /// One line, without its end. Where the shell expands, lines that end with a backslash go on, also the delimiter's.
    fn document_line(&mut self, is_quoted: bool) -> Cow<'_, str> {
        let mut joined = String::new();
        loop {
            let line = self.rest().split('\n').next().unwrap_or_default();
            self.at = self.end.min(self.at + line.len() + 1);
            let backslashes = line.len() - line.trim_end_matches('\\').len();
            if is_quoted || backslashes.is_multiple_of(2) || self.at == self.end {
                return if joined.is_empty() {
                    Cow::Borrowed(line)
                } else {
                    joined.push_str(line);
                    Cow::Owned(joined)
                };
            }
            joined.push_str(&line[..line.len() - 1]);
        }
    }

    /// Follows the substitutions inside a body.
    fn expansions_in(&mut self, body: std::ops::Range<usize>) -> Result<(), ShellError> {
        let end = std::mem::replace(&mut self.end, body.end);
        self.at = body.start;
        let mut ignored = Word::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => {
                    self.at += 1;
                    self.take_char(&mut ignored);
                }
                b'$' => self.dollar(&mut ignored, true)?,
                b'`' => self.backquotes(&mut ignored, true)?,
                _ => self.take_char(&mut ignored),
            }
        }
        self.end = end;
        Ok(())
    }
}
