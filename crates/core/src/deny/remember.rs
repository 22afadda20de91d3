//! What one command of a text does to those behind it: variables, words, the folder.

use std::collections::HashSet;

use super::{
    feed::DECODERS,
    here::{Here, Quotes},
    patterns,
    unwrap::is_short,
    variables::MAX_VALUES,
    views::{Looks, MAX_PATTERNS},
};
use crate::shell::{Script, SimpleCommand, Word};

/// Folders in which a name alone says nothing.
const WATCHED: &[&str] = &[
    "/proc",
    ".aws",
    ".azure",
    ".cargo",
    ".claude",
    ".codex",
    ".config",
    ".docker",
    ".gnupg",
    ".kube",
    ".password-store",
    ".ssh",
    "/secrets",
    "keyless",
];
/// Variables whose value is a command to some program.
const RUN: &[&str] = &[
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH_COMMAND",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "SSH_ASKPASS",
    "VISUAL",
];

/// The longest word of a loop that is followed.
const MAX_WORD: usize = 4096;

impl Looks {
    /// `cmd=vault; $cmd get`: what gives variables a value is followed as far as it is plain.
    pub(super) fn remember(&mut self, here: &Here<'_>) -> Option<()> {
        let command = here.command();
        for word in &command.assignments {
            let Some((name, value)) = word.text.split_once('=') else { continue };
            let raw = &here.text[word.span.clone()];
            match raw.split_once("=(") {
                Some((_, list)) if value.is_empty() => self.set_list(name, list),
                _ => self.assign(name, value, here)?,
            }
        }
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        match words.as_slice() {
            ["for" | "select", name, "in", each @ ..] => {
                let mut values = Vec::new();
                for word in &command.words[command.words.len() - each.len()..] {
                    if values.len() >= MAX_VALUES {
                        break;
                    }
                    self.loops_over(word, here, &mut values)?;
                }
                self.variables.set(name, values);
            }
            ["set", "--", each @ ..] => {
                let each: Vec<String> = each.iter().map(|word| (*word).to_owned()).collect();
                self.variables.set_words(None, &each);
            }
            ["export" | "declare" | "local" | "typeset" | "readonly", each @ ..] => {
                let is_reference = words[0] != "export"
                    && each.iter().any(|word| is_short(word) && word.contains('n'));
                for (word, at) in each.iter().zip(&command.words[1..]) {
                    let raw = &here.text[at.span.clone()];
                    // With quotes in it the name is longer here, and it is no list.
                    let Some((name, value)) = word.split_once('=') else { continue };
                    let list = raw.get(name.len()..).and_then(|rest| rest.strip_prefix("=("));
                    match list {
                        Some(list) => self.set_list(name, list),
                        None if is_reference => self.variables.refer(name, value),
                        None => self.assign(name, value, here)?,
                    }
                }
            }
            ["alias", each @ ..] => {
                for (name, meant) in each.iter().filter_map(|word| word.split_once('=')) {
                    if meant.len() <= MAX_WORD {
                        self.aliases.insert(name.to_owned(), meant.to_owned());
                    }
                }
            }
            ["printf", "-v", name, ..] => {
                if let Some(said) = self.files.said_by(here, &self.variables) {
                    self.variables.set(name, vec![said]);
                }
            }
            ["read", .., name] => {
                if let Some(said) = self.files.input_of(here, &self.variables) {
                    self.variables.set(name, vec![said.trim_end().to_owned()]);
                }
            }
            ["cd" | "pushd", folder] => {
                let named = patterns::names(folder, false).into_iter().next();
                let folder = named.unwrap_or_else(|| (*folder).to_owned());
                let is_watched = folder.starts_with('/') && folder.trim_matches('/').is_empty()
                    || WATCHED.iter().any(|watched| folder.contains(watched));
                self.folder = is_watched.then(|| folder.trim_end_matches('/').into());
            }
            _ => {}
        }
        Some(())
    }

    /// The words of a list, without their quotes.
    fn set_list(&mut self, name: &str, raw: &str) {
        let words: String = raw.chars().filter(|c| !"\"'()".contains(*c)).collect();
        self.variables.set_list(name, &words);
    }

    /// What a loop's variable may be for one of its words.
    fn loops_over(&self, word: &Word, here: &Here<'_>, values: &mut Vec<String>) -> Option<()> {
        let quotes = here.quotes(word);
        if quotes == Quotes::Single {
            values.push(word.text.clone());
            return Some(());
        }
        let own = self.files.substituted(&word.text, &self.variables, here.nesting);
        let own = self.variables.expanded(&own, 0, MAX_WORD).unwrap_or(own);
        if quotes == Quotes::Double {
            values.push(own);
            return Some(());
        }
        // A search says its pattern, which it matches by itself.
        let is_search = word.text.contains("$(") || word.text.contains('`');
        for one in own.split_whitespace().take(MAX_PATTERNS) {
            for one in patterns::braces(one)? {
                if is_search || here.is_open(word) {
                    values.extend(patterns::names(&one, is_search));
                }
                values.push(one);
            }
        }
        Some(())
    }

    /// One assignment; values of some variables are run by others.
    fn assign(&mut self, name: &str, value: &str, here: &Here<'_>) -> Option<()> {
        let value = self.files.substituted(value, &self.variables, here.nesting);
        // What a program says is not known; that it was decoded is worth to be told where it is run.
        let is_said = value.contains("$(") || value.contains('`');
        if !is_said || DECODERS.iter().chain(&["rev"]).any(|decoder| value.contains(decoder)) {
            match name.split_once('[') {
                Some((list, index)) => {
                    self.variables.add(list, index.trim_end_matches([']', '+']), &value);
                }
                None => self.variables.assign(name, &value),
            }
        }
        if RUN.contains(&name) {
            self.script(&value, here.nesting + 1)?;
        }
        if matches!(name, "BASH_ENV" | "ENV") {
            self.push_command(&[".".to_owned(), value], &SimpleCommand::default(), false)?;
        }
        Some(())
    }

    /// The words with which functions of this text are called: `f() { "$@"; }; f env`.
    pub(super) fn remember_calls(&mut self, text: &str, script: &Script) {
        let is_sign = |c: char| c.is_whitespace() || ";&|(){}".contains(c);
        let before = text.split("()").map(|part| part.trim_end_matches([' ', '\t']));
        let before = before.filter_map(|part| part.rsplit(is_sign).next());
        let after = text
            .split("function ")
            .skip(1)
            .filter_map(|part| part.trim_start().split(is_sign).next());
        let names: HashSet<&str> = before.chain(after).filter(|name| !name.is_empty()).collect();
        let calls =
            script.commands.iter().filter(|c| c.program().is_some_and(|p| names.contains(p)));
        let calls: Vec<Vec<String>> = calls
            .filter(|call| call.words.len() > 1)
            .take(MAX_PATTERNS)
            .map(|call| call.words[1..].iter().map(|word| word.text.clone()).collect())
            .collect();
        if calls.is_empty() {
            return;
        }
        for all in ["@", "*"] {
            self.variables.set(all, calls.iter().map(|call| call.join(" ")).collect());
        }
        for index in 0..9 {
            let each = calls.iter().filter_map(|call| call.get(index).cloned());
            self.variables.set(&(index + 1).to_string(), each.collect());
        }
    }
}
