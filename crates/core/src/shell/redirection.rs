//! `<`, `>` and their kin.

use super::{
    Context, Redirection, ShellError, Word,
    compound::begin_at,
    here_document::Waiting,
    lexer::{Lexer, List},
};

/// Longest first.
const OPERATORS: &[&str] =
    &["&>>", "<<<", "<<-", "&>", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"];

impl Lexer<'_> {
    /// Where a word begins that is a descriptor, and so belongs to the redirection after it.
    pub(super) fn descriptor(&self, word: &Word) -> Option<usize> {
        let follows = matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) != Some(b'(');
        let is_number = !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit());
        (follows && word.is_plain && is_number).then_some(word.span.start)
    }

    /// `exec WORD>file`, where a number would be the descriptor that is opened, and `{WORD}>file`, where the shell
    /// gives a variable one.
    pub(super) fn note_descriptor(&mut self, list: &List, word: &Word) {
        let follows = matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) != Some(b'(');
        let is_variable = word.text.starts_with('{') && word.text.ends_with('}');
        let is_of_exec = matches!(list.command.words.as_slice(), [exec] if exec.text == "exec");
        if follows && word.is_plain && (is_of_exec || is_variable) {
            self.note(word.span.clone(), Context::Descriptor);
        }
    }

    /// An operator and its target. `began` is where a descriptor before it begins.
    pub(super) fn redirect(
        &mut self,
        list: &mut List,
        began: Option<usize>,
    ) -> Result<(), ShellError> {
        if list.command.is_empty() && list.closed.is_some() {
            list.piped = list.closed.take();
        }
        begin_at(list, began.unwrap_or(self.at));
        let descriptor = began.map(|began| self.text[began..self.at].parse().unwrap_or(u32::MAX));
        let rest = self.rest();
        let Some(operator) = OPERATORS.iter().copied().find(|known| rest.starts_with(known)) else {
            self.at += 1;
            return Ok(());
        };
        self.at += operator.len();
        self.skip_blanks();
        let target = self.word()?;
        list.command.span.end = self.at;
        if matches!(operator, "<&" | ">&") {
            self.note(target.span.clone(), Context::Descriptor);
        }
        if matches!(operator, "<<" | "<<-") {
            self.note(target.span.clone(), Context::HereDocDelimiter);
            self.waiting.push(Waiting {
                delimiter: target.text.clone(),
                is_quoted: !target.is_plain,
                strips_tabs: operator == "<<-",
                command: None,
                redirection: list.command.redirections.len(),
            });
        }
        list.command.redirections.push(Redirection { descriptor, operator, target, body: None });
        Ok(())
    }
}
