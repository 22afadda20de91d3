//! Reads a command line as a POSIX shell would, without running it: words, quoting, simple commands.
//!
//! Two readers share it: actions, which must know in what quotes a placeholder stands before they put a variable
//! there, and the guard, which looks at each simple command and not only at the text. It knows bash's
//! additions that agents use (`$'…'`, `<( )`, `[[ ]]`, `((`, here-strings, arrays). Nothing is expanded.
//! Source: POSIX.1-2024, Shell Command Language, 2.2 to 2.10; reference/nl.md, section 13.1.

mod arithmetic;
mod compound;
mod expansion;
mod here_document;
mod lexer;
mod redirection;
mod scope;

use std::ops::Range;

use self::lexer::Lexer;
pub use self::scope::{Scope, ScopeKind};

/// How deep substitutions may nest; a text that goes deeper is refused, not followed.
pub const MAX_DEPTH: usize = 64;

/// A text, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, those inside substitutions included, in the order in which they begin.
    pub commands: Vec<SimpleCommand>,
    /// Whether [`Dialect::Posix`] may find other commands in the text.
    pub is_ambiguous: bool,
    /// The parts whose variables are not those of what follows, by where they begin, those around others first.
    pub scopes: Vec<Scope>,
    contexts: Vec<(Range<usize>, Context)>,
    /// The names that are assigned to, with their subscripts; whatever stands in one is a part of it.
    names: Vec<Range<usize>>,
}

/// One simple command: assignments, words and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// `NAME=value` before the first word.
    pub assignments: Vec<Word>,
    /// The program and its arguments; may be empty.
    pub words: Vec<Word>,
    /// Where its streams go.
    pub redirections: Vec<Redirection>,
    /// Its bytes in the text. Inside escaped backquotes: those of the whole substitution.
    pub span: Range<usize>,
    /// Whether its output is the next command's input.
    pub pipes_into_next: bool,
    /// The bytes of a group, such as `{ … }`, `( … )` or `if … fi`, whose output this command reads; whose streams these
    /// redirections are, if there are no words.
    pub group: Option<Range<usize>>,
    /// Which command has the innermost group as its `group` in which this one stands.
    pub after_group: Option<usize>,
    /// How many substitutions it stands in.
    pub depth: usize,
}

/// A word of the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// The word without its quotes; expansions stay as they were written.
    pub text: String,
    /// Whether nothing in it was quoted, escaped or expanded.
    pub is_plain: bool,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// The number before the operator, if there is one.
    pub descriptor: Option<u32>,
    /// The operator without a descriptor: `<`, `>`, `>>`, `<<`, `<<-`, `<<<`, `<&`, `>&`, `<>`, `>|`, `&>`, `&>>`.
    pub operator: &'static str,
    /// The file, the descriptor or the delimiter.
    pub target: Word,
    /// The here-document's lines in the text.
    pub body: Option<Range<usize>>,
}

/// In what a byte of the text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// `$(( ))` or `(( ))`.
    Arithmetic,
    /// Backquotes whose content has escapes, so that its bytes are not what the shell reads.
    Backquoted,
    /// From `#` to the end of the line.
    Comment,
    /// Where a descriptor is named: after `<&` or `>&`, and right before a redirection of `exec` itself.
    Descriptor,
    /// `$'…'`.
    DollarSingle,
    /// `"…"`.
    DoubleQuoted,
    /// A here-document in which the shell expands.
    HereDoc,
    /// The word after `<<`.
    HereDocDelimiter,
    /// `${…}`, from the dollar sign to the brace.
    ParameterExpansion,
    /// A here-document whose delimiter is quoted: nothing is expanded.
    QuotedHereDoc,
    /// `'…'`.
    SingleQuoted,
    /// Nothing special.
    Unquoted,
    /// The variable of a `for` or `select`, and the name in an assignment.
    VariableName,
}

/// Why a text can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {kind}")]
pub struct ShellError {
    /// Where the construct begins.
    pub at: usize,
    /// What is wrong with it.
    pub kind: ShellErrorKind,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellErrorKind {
    /// More than [`MAX_DEPTH`] substitutions in each other.
    #[error("substitutions nest too deep")]
    TooDeep,
    /// A quote without its end.
    #[error("a quote has no end")]
    UnterminatedQuote,
    /// A substitution without its end.
    #[error("a substitution has no end")]
    UnterminatedSubstitution,
}

/// The shell whose grammar a text is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// With `(( ))`, `[[ ]]` and `$'…'`, as bash and zsh have them.
    Bash,
    /// Without them, as dash reads a text: `((` begins two groups, and `[[` is a program's name.
    Posix,
}

/// Reads a text as bash does. Linear in its length, times [`MAX_DEPTH`] at worst.
pub fn lex(text: &str) -> Result<Script, ShellError> {
    lex_as(text, Dialect::Bash)
}

/// Reads a text as shells of this grammar do.
pub fn lex_as(text: &str, dialect: Dialect) -> Result<Script, ShellError> {
    Lexer::new(text, 0, dialect).script()
}

impl Script {
    /// In what the byte at `at` stands; the innermost construct counts, but for quotes right inside `${…}` or arithmetic:
    /// shells are not of one mind about them.
    pub fn context_at(&self, at: usize) -> Context {
        if self.names.iter().any(|name| name.contains(&at)) {
            return Context::VariableName;
        }
        // Inner ranges are noted before those around them.
        let mut around = self.contexts.iter().filter(|(range, _)| range.contains(&at));
        let innermost = around.next().map_or(Context::Unquoted, |(_, context)| *context);
        let is_quote = matches!(
            innermost,
            Context::DollarSingle | Context::DoubleQuoted | Context::SingleQuoted
        );
        match around.next().filter(|_| is_quote) {
            Some((_, outer @ (Context::Arithmetic | Context::ParameterExpansion))) => *outer,
            _ => innermost,
        }
    }

    /// Of each command, which one has the innermost group around it. Groups end before those commands begin.
    fn find_ends_of_groups(&mut self) {
        let mut open: Vec<(Range<usize>, usize)> = Vec::new();
        for (index, command) in self.commands.iter_mut().enumerate().rev() {
            while open.last().is_some_and(|(group, _)| group.start > command.span.start) {
                open.pop();
            }
            let around = open.last().filter(|(group, _)| group.contains(&command.span.start));
            command.after_group = around.map(|(_, index)| *index);
            open.extend(command.group.clone().map(|group| (group, index)));
        }
    }
}

impl SimpleCommand {
    /// The program's name as it was written, without quotes.
    pub fn program(&self) -> Option<&str> {
        self.words.first().map(|word| word.text.as_str())
    }

    /// The redirection that its standard input comes from; the last one holds.
    pub fn input(&self) -> Option<&Redirection> {
        let is_input = |to: &&Redirection| {
            let is_read = matches!(to.operator, "<" | "<>" | "<<" | "<<-" | "<<<");
            is_read && to.descriptor.is_none_or(|number| number == 0)
        };
        self.redirections.iter().rev().find(is_input)
    }

    /// Gives up its own places, which are not those of the text.
    fn stand_at(&mut self, span: &Range<usize>) {
        (self.span, self.group, self.after_group) = (span.clone(), None, None);
        let targets = self.redirections.iter_mut().map(|to| (&mut to.target, to.body.take()).0);
        let words = self.assignments.iter_mut().chain(&mut self.words).chain(targets);
        words.for_each(|word| word.span = span.clone());
    }

    fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.words.is_empty() && self.redirections.is_empty()
    }
}

#[cfg(test)]
mod tests;
