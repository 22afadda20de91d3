//! All the ways in which a command line is looked at: as it is, and as each command that would run.

use std::{collections::BTreeMap, ops::Range};

use super::{
    fold::collapsed,
    prose::{meant, unjudged},
    unwrap::{Inner, inner},
};
use crate::shell::{self, Script, SimpleCommand, Word};

/// As many looks as one text may need; one that needs more can't be judged.
const MAX_VIEWS: usize = 20_000;
/// As many bytes as all looks together may have.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How deep commands may stand in arguments of commands.
const MAX_NESTING: usize = 8;

/// One look at a text.
#[derive(Debug)]
pub(super) struct View {
    pub(super) text: String,
    pub(super) kind: Kind,
    /// Whether the program's name was written with quotes or escapes.
    pub(super) is_disguised: bool,
}

/// What is looked at, and who does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A simple command from its program on.
    Command,
    /// The same without what it only says: our rules' look, where it differs.
    Meant,
    /// A command line without what it only says: our rules' look.
    Script,
    /// What is no command line.
    Text,
    /// The whole command line: an organization's rules' look.
    Whole,
    /// A simple command with what it only says: an organization's rules' look.
    Written,
}

/// All looks; nothing when there are too many, or when no shell could read the text: what could be read of it
/// differently is not guessed.
pub(super) fn views(text: &str, is_command: bool) -> Option<Vec<View>> {
    let mut looks = Looks { views: Vec::new(), bytes: text.len(), variables: BTreeMap::new() };
    let kind = if is_command { Kind::Whole } else { Kind::Text };
    looks.views.push(View { text: collapsed(text), kind, is_disguised: false });
    if is_command {
        looks.script(text, 0)?;
    }
    Some(looks.views)
}

struct Looks {
    views: Vec<View>,
    bytes: usize,
    variables: BTreeMap<String, String>,
}

impl Looks {
    fn script(&mut self, text: &str, nesting: usize) -> Option<()> {
        if nesting > MAX_NESTING {
            return None;
        }
        let script = shell::lex(text).ok()?;
        self.push(collapsed(&done(text, &script)), Kind::Script, false)?;
        for (index, command) in script.commands.iter().enumerate() {
            self.remember(command);
            let disguised = command.words.first().is_some_and(is_disguised);
            let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
            self.command(words.clone(), command, disguised, nesting)?;
            let expanded = self.all_expanded(&words)?;
            if expanded != words {
                let split = expanded.iter().flat_map(|word| word.split_whitespace());
                self.command(split.map(str::to_owned).collect(), command, true, nesting)?;
            }
            self.input(text, &script.commands, index, nesting)?;
        }
        Some(())
    }

    fn command(
        &mut self,
        mut words: Vec<String>,
        command: &SimpleCommand,
        mut disguised: bool,
        nesting: usize,
    ) -> Option<()> {
        loop {
            self.charge(words.iter().map(|word| word.len() + 1).sum())?;
            if let Some(name) = words.first().and_then(|word| word.rsplit('/').next()) {
                let name = name.to_owned();
                if !words[0].starts_with('$') {
                    words[0] = name;
                }
            }
            let inner = inner(&words);
            if !matches!(inner, Inner::Instead(_)) && !is_only_settings(&words) {
                self.push_command(&words, command, disguised)?;
            }
            match inner {
                Inner::Also(rest) | Inner::Instead(rest) => words = rest,
                Inner::Script(text) => return self.script(&text, nesting + 1),
                Inner::None => return Some(()),
            }
            disguised = false;
        }
    }

    /// The command with its redirections, once with their signs and once as arguments.
    fn push_command(
        &mut self,
        words: &[String],
        command: &SimpleCommand,
        disguised: bool,
    ) -> Option<()> {
        self.charge(words.iter().map(|word| word.len() + 1).sum())?;
        let (written, meant) = (words.join(" "), meant(words).join(" "));
        self.push_both(&written, &meant, disguised)?;
        if command.redirections.is_empty() {
            return Some(());
        }
        let (mut signs, mut arguments) = (written.clone(), written);
        let (mut meant_signs, mut meant_arguments) = (meant.clone(), meant);
        for to in &command.redirections {
            signs.extend([" ", to.operator, &to.target.text]);
            arguments.extend([" ", &to.target.text]);
            // What a command writes it does not read, and a here-document's delimiter is no file.
            let is_input = matches!(to.operator, "<" | "<>");
            let is_said = to.operator.starts_with('>') || to.operator.starts_with('&');
            let target = if is_said { "_" } else { &to.target.text };
            meant_signs.extend([" ", to.operator, target]);
            if is_input {
                meant_arguments.extend([" ", target]);
            }
        }
        self.push_both(&signs, &meant_signs, disguised)?;
        self.push_both(&arguments, &meant_arguments, disguised)
    }

    fn push_both(&mut self, written: &str, meant: &str, disguised: bool) -> Option<()> {
        if written == meant {
            return self.push(collapsed(written), Kind::Command, disguised);
        }
        self.push(collapsed(written), Kind::Written, disguised)?;
        self.push(collapsed(meant), Kind::Meant, disguised)
    }

    /// What a shell gets on its standard input.
    fn input(
        &mut self,
        text: &str,
        commands: &[SimpleCommand],
        index: usize,
        nesting: usize,
    ) -> Option<()> {
        let command = &commands[index];
        if !command.program().is_some_and(is_shell) {
            return Some(());
        }
        for to in &command.redirections {
            match (&to.body, to.operator) {
                (Some(body), _) => self.script(&text[body.clone()], nesting + 1)?,
                (None, "<<<") => self.script(&to.target.text, nesting + 1)?,
                _ => {}
            }
        }
        let before = index.checked_sub(1).map(|before| &commands[before]);
        match before {
            Some(before)
                if before.pipes_into_next
                    && matches!(before.program(), Some("echo" | "printf" | "cat")) =>
            {
                let said: Vec<&str> = before.words[1..].iter().map(|w| w.text.as_str()).collect();
                self.script(&said.join(" "), nesting + 1)
            }
            _ => Some(()),
        }
    }

    fn push(&mut self, text: String, kind: Kind, is_disguised: bool) -> Option<()> {
        self.charge(text.len())?;
        if self.views.len() >= MAX_VIEWS {
            return None;
        }
        self.views.push(View { text, kind, is_disguised });
        Some(())
    }

    fn charge(&mut self, bytes: usize) -> Option<()> {
        self.bytes += bytes;
        (self.bytes <= MAX_BYTES).then_some(())
    }

    /// `cmd=vault; $cmd get`: assignments are followed as far as they are plain.
    fn remember(&mut self, command: &SimpleCommand) {
        for word in &command.assignments {
            if let Some((name, value)) = word.text.split_once('=')
                && !value.contains(['$', '`'])
                && value.len() <= 1024
            {
                self.variables.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// The words with the variables that are known; nothing when they are too long to be looked at.
    fn all_expanded(&self, words: &[String]) -> Option<Vec<String>> {
        let mut left = MAX_BYTES;
        let expanded = words.iter().map(|word| {
            let expanded = self.expanded(word, left)?;
            left = left.checked_sub(expanded.len())?;
            Some(expanded)
        });
        expanded.collect()
    }

    fn expanded(&self, word: &str, most: usize) -> Option<String> {
        if !word.contains('$') || self.variables.is_empty() {
            return Some(word.to_owned());
        }
        let mut out = String::with_capacity(word.len());
        let mut rest = word;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (name, length) = variable_name(after);
            match self.variables.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&rest[at..=at + length]),
            }
            if out.len() > most {
                return None;
            }
            rest = &after[length..];
        }
        Some(out + rest)
    }
}

/// The text without what its commands only say and without documents, unless commands stand in these.
fn done(text: &str, script: &Script) -> String {
    let mut said: Vec<Range<usize>> = Vec::new();
    for command in &script.commands {
        let bodies = command.redirections.iter().filter_map(|to| to.body.clone());
        said.extend(bodies);
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        said.extend(unjudged(&words).into_iter().map(|index| command.words[index].span.clone()));
    }
    let has_commands = |range: &Range<usize>| {
        let first = script.commands.partition_point(|command| command.span.start < range.start);
        script.commands.get(first).is_some_and(|command| command.span.start < range.end)
    };
    said.retain(|range| !has_commands(range));
    said.sort_by_key(|range| range.start);
    let (mut left, mut at) = (String::with_capacity(text.len()), 0);
    for range in said.iter().filter(|range| !range.is_empty()) {
        if range.start >= at {
            left.push_str(&text[at..range.start]);
            left.push_str(" _ ");
            at = range.end;
        }
    }
    left + &text[at..]
}

/// The name after a dollar sign, and the bytes that it takes with its braces.
fn variable_name(after: &str) -> (&str, usize) {
    let (inner, braces) = match after.strip_prefix('{') {
        Some(inner) => (inner, 2),
        None => (after, 0),
    };
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    if braces == 2 && !inner[end..].starts_with('}') {
        return ("", 0);
    }
    (&inner[..end], end + braces)
}

/// `set` with options or words changes the shell and shows nothing.
fn is_only_settings(words: &[String]) -> bool {
    words.len() > 1 && words[0] == "set"
}

fn is_disguised(word: &Word) -> bool {
    !word.is_plain && !word.text.contains(['$', '`'])
}

pub(super) fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "mksh")
}
