//! Which parts of a text have variables of their own: those that run in another shell, and those that may not run at all.

use std::{cmp::Reverse, ops::Range};

use super::{
    Script,
    lexer::{Lexer, List},
};

/// A part of a text after which its variables are not what they were in it, or not surely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// What becomes of its variables.
    pub kind: ScopeKind,
}

/// What becomes of variables behind the part of a text that sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// Nothing is left of them: `( … )`, substitutions, what is piped into another command, what goes on beside.
    Own,
    /// They may be set: behind `&&` and `||`, in a branch or a function, and at the end of a pipe, where shells differ.
    Perhaps,
}

/// How far a list of commands, or a group in one, has come.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// Where the commands begin that are under way, joined by signs other than `;`.
    began: usize,
    /// Whether one has begun since the last sign: else the end of a line is none of theirs.
    is_begun: bool,
    /// Where those of them begin that may not run: the ones behind `&&`, or behind the last `||`.
    conditional: Option<usize>,
    /// Where the member of a pipe begins, and whether something is piped into it.
    member: usize,
    is_piped: bool,
    /// Where the branch begins that is under way; the body of a function is one.
    branch: Option<usize>,
}

/// What ends a part of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// `&&`.
    And,
    /// `&`.
    Background,
    /// `;`, the end of a line or of the list.
    End,
    /// `||`.
    Or,
    /// `|`.
    Pipe,
}

impl Level {
    pub(super) fn at(began: usize) -> Self {
        Self { began, member: began, ..Self::default() }
    }
}

impl List {
    /// Takes in that a command begins.
    pub(super) fn begin_part(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.is_begun = true;
        }
    }

    /// Takes in that a group begins at `began`.
    pub(super) fn open_level(&mut self, began: usize) {
        self.begin_part();
        let branch = std::mem::take(&mut self.is_function).then_some(began);
        self.levels.push(Level { branch, ..Level::at(began) });
    }
}

impl Lexer<'_> {
    /// Ends the part that is under way before `sign`.
    pub(super) fn end_part(&mut self, list: &mut List, sign: Sign) {
        let at = self.at;
        let Some(level) = list.levels.last_mut() else { return };
        let is_end = matches!(sign, Sign::Background | Sign::End);
        if sign == Sign::End && !level.is_begun {
            return;
        }
        let (began, member) = (level.began, level.member);
        let is_piped = std::mem::replace(&mut level.is_piped, sign == Sign::Pipe);
        let ends = is_end || sign == Sign::Or;
        let conditional = level.conditional.take_if(|_| ends);
        if matches!(sign, Sign::And | Sign::Or) {
            level.conditional.get_or_insert(at);
        }
        (level.member, level.is_begun) = (at, false);
        if is_end {
            level.began = at;
        }
        if sign == Sign::Background {
            self.note_scope(began..at, ScopeKind::Own);
        }
        if let Some(conditional) = conditional {
            self.note_scope(conditional..at, ScopeKind::Perhaps);
        }
        match (sign, is_piped) {
            (Sign::Pipe, _) => self.note_scope(member..at, ScopeKind::Own),
            (_, true) => self.note_scope(member..at, ScopeKind::Perhaps),
            (_, false) => {}
        }
    }

    /// Begins another branch of the group here: behind `then`, `else`, `do` or a pattern of `case`.
    pub(super) fn begin_branch(&mut self, list: &mut List) {
        if list.levels.len() > 1 {
            self.end_branch(list);
            let at = self.at;
            if let Some(level) = list.levels.last_mut() {
                level.branch = Some(at);
            }
        }
    }

    /// Ends a group here.
    pub(super) fn close_level(&mut self, list: &mut List) {
        self.end_branch(list);
        if list.levels.len() > 1 {
            list.levels.pop();
        }
    }

    fn end_branch(&mut self, list: &mut List) {
        self.end_part(list, Sign::End);
        let branch = list.levels.last_mut().and_then(|level| level.branch.take());
        if let Some(began) = branch {
            self.note_scope(began..self.at, ScopeKind::Perhaps);
        }
    }

    pub(super) fn note_scope(&mut self, range: Range<usize>, kind: ScopeKind) {
        if !range.is_empty() {
            self.script.scopes.push(Scope { range, kind });
        }
    }
}

impl Script {
    /// Sorts them by where they begin, those around others first.
    pub(super) fn sort_scopes(&mut self) {
        self.scopes.sort_by_key(|scope| (scope.range.start, Reverse(scope.range.end)));
    }
}
