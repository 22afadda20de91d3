//! Walks through a text: operators end commands, everything else becomes words.

use std::{collections::HashMap, ops::Range};

use super::{Context, Dialect, Script, ShellError, ShellErrorKind, SimpleCommand, Word};
use crate::shell::{
    MAX_DEPTH,
    compound::begins_plainly,
    here_document::Waiting,
    scope::{Level, ScopeKind, Sign},
};

/// Where a list of commands ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// With the text, or the part of it that is looked at.
    End,
    /// With its own `)`.
    Paren,
}

/// What a list of commands is in the middle of.
#[derive(Default)]
pub(super) struct List {
    pub(super) command: SimpleCommand,
    pub(super) open_parens: usize,
    pub(super) cases: usize,
    /// Where it begins.
    pub(super) began: usize,
    /// Where the groups begin that are open.
    pub(super) groups: Vec<usize>,
    /// The group that has just ended.
    pub(super) closed: Option<Range<usize>>,
    /// The group that goes into the next command.
    pub(super) piped: Option<Range<usize>>,
    /// How far it and its open groups have come.
    pub(super) levels: Vec<Level>,
    /// Whether the next group is the body of a function.
    pub(super) is_function: bool,
}

impl List {
    /// Ends the innermost group at `at`.
    pub(super) fn close_group(&mut self, at: usize) {
        self.closed = Some(self.groups.pop().unwrap_or(self.began)..at);
    }
}

/// A walk through a text.
pub(super) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) depth: usize,
    pub(super) dialect: Dialect,
    pub(super) script: Script,
    pub(super) waiting: Vec<Waiting>,
    /// Where the `))` of each `((` is, once somebody has asked.
    pub(super) arithmetic_ends: Option<HashMap<usize, usize>>,
    /// How many bytes were looked at to find out whether such an end is quoted.
    pub(super) looked_along: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, depth: usize, dialect: Dialect) -> Self {
        Self {
            text,
            at: 0,
            end: text.len(),
            depth,
            dialect,
            script: Script::default(),
            waiting: Vec::new(),
            arithmetic_ends: None,
            looked_along: 0,
        }
    }

    pub(super) fn script(mut self) -> Result<Script, ShellError> {
        self.list(Until::End)?;
        self.script.commands.sort_by_key(|command| command.span.start);
        self.script.find_ends_of_groups();
        self.script.sort_scopes();
        Ok(self.script)
    }

    /// Commands up to `until`, whose `)` is taken.
    pub(super) fn list(&mut self, until: Until) -> Result<(), ShellError> {
        let began = self.at;
        if self.depth > MAX_DEPTH {
            return Err(ShellError { at: began, kind: ShellErrorKind::TooDeep });
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut list = List { began, levels: vec![Level::at(began)], ..List::default() };
        loop {
            self.skip_blanks();
            let Some(byte) = self.peek() else {
                self.finish(&mut list, false);
                self.end_part(&mut list, Sign::End);
                if until == Until::Paren {
                    let kind = ShellErrorKind::UnterminatedSubstitution;
                    return Err(ShellError { at: began, kind });
                }
                break;
            };
            match byte {
                b'\n' => self.newline(&mut list)?,
                b'#' => self.comment(),
                b';' => self.semicolon(&mut list)?,
                b'&' if self.peek_at(1) != Some(b'>') => {
                    let is_and = self.peek_at(1) == Some(b'&');
                    let sign = if is_and { Sign::And } else { Sign::Background };
                    self.end_part(&mut list, sign);
                    self.at += if is_and { 2 } else { 1 };
                    self.finish(&mut list, false);
                }
                b'|' => self.bar(&mut list),
                b'(' => self.open(&mut list)?,
                b')' => {
                    self.finish(&mut list, false);
                    if let Some(left) = list.open_parens.checked_sub(1) {
                        self.close_level(&mut list);
                        self.at += 1;
                        list.open_parens = left;
                        list.close_group(self.at);
                        let group = list.closed.clone().unwrap_or_default();
                        self.note_scope(group, ScopeKind::Own);
                    } else {
                        self.end_part(&mut list, Sign::End);
                        self.at += 1;
                        if until == Until::Paren {
                            break;
                        }
                    }
                }
                b'<' | b'>' if self.peek_at(1) != Some(b'(') => self.redirect(&mut list, None)?,
                b'&' => self.redirect(&mut list, None)?,
                _ => self.word_of(&mut list)?,
            }
        }
        self.waiting = waiting;
        Ok(())
    }

    /// One word: quotes go, expansions stay as written.
    pub(super) fn word(&mut self) -> Result<Word, ShellError> {
        let began = self.at;
        self.word_from(Word { span: began..began, text: String::new(), is_plain: true })
    }

    /// The rest of a word.
    pub(super) fn word_from(&mut self, mut word: Word) -> Result<Word, ShellError> {
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.at += 2;
                    self.substitution(&mut word, 2)?;
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' => self.escape(&mut word),
                b'\'' => self.single_quotes(&mut word)?,
                b'"' => self.double_quotes(&mut word)?,
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backquotes(&mut word, false)?,
                _ => self.take_char(&mut word),
            }
        }
        word.span.end = self.at;
        Ok(word)
    }

    /// Ends the command that is under way.
    pub(super) fn finish(&mut self, list: &mut List, pipes_into_next: bool) {
        list.closed = None;
        let mut command = std::mem::take(&mut list.command);
        if command.is_empty() {
            return;
        }
        (command.pipes_into_next, command.depth) = (pipes_into_next, self.depth);
        let index = self.script.commands.len();
        // Those of commands before it stand in front.
        let of_this = self.waiting.iter_mut().rev().take_while(|waiting| waiting.command.is_none());
        of_this.for_each(|waiting| waiting.command = Some(index));
        self.script.commands.push(command);
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        let at = self.at + ahead;
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..self.end]
    }

    pub(super) fn note(&mut self, range: Range<usize>, context: Context) {
        self.script.contexts.push((range, context));
    }

    pub(super) fn take_char(&mut self, word: &mut Word) {
        if let Some(next) = self.rest().chars().next() {
            word.text.push(next);
            self.at += next.len_utf8();
        }
    }

    /// Spaces, tabs and continued lines.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match (self.peek(), self.peek_at(1)) {
                (Some(b' ' | b'\t' | b'\r'), _) => self.at += 1,
                (Some(b'\\'), Some(b'\n')) => self.at += 2,
                _ => return,
            }
        }
    }

    fn escape(&mut self, word: &mut Word) {
        word.is_plain = false;
        self.at += 1;
        match self.peek() {
            Some(b'\n') => self.at += 1,
            Some(_) => self.take_char(word),
            None => word.text.push('\\'),
        }
    }

    pub(super) fn comment(&mut self) {
        let began = self.at;
        self.at += self.rest().find('\n').unwrap_or(self.end - self.at);
        self.note(began..self.at, Context::Comment);
    }

    fn newline(&mut self, list: &mut List) -> Result<(), ShellError> {
        // `case WORD`, and `in` on the next line.
        let is_case = list.command.words.len() == 2
            && begins_plainly(&list.command)
            && list.command.words[0].text == "case";
        if !is_case {
            self.finish(list, false);
            self.end_part(list, Sign::End);
        }
        self.at += 1;
        self.here_documents()
    }

    fn bar(&mut self, list: &mut List) {
        let (length, pipes) = match self.peek_at(1) {
            Some(b'|') => (2, false),
            Some(b'&') => (2, true),
            _ => (1, true),
        };
        self.end_part(list, if pipes { Sign::Pipe } else { Sign::Or });
        self.at += length;
        if pipes && list.command.is_empty() {
            list.piped = list.closed.take();
        }
        self.finish(list, pipes);
    }
}
