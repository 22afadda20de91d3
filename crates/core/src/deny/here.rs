//! One command in its text, and in what quotes its words stand.

use super::output::takes_output;
use crate::shell::{Redirection, SimpleCommand, Word};

/// Programs that take a value in, to log in with it or to keep it.
const TAKERS: &[&str] = &[
    "argocd",
    "aws",
    "az",
    "bao",
    "buildah",
    "bw",
    "cargo",
    "cosign",
    "crane",
    "docker",
    "doppler",
    "firebase",
    "fly",
    "flyctl",
    "gcloud",
    "gh",
    "glab",
    "hcp",
    "helm",
    "heroku",
    "hub",
    "infisical",
    "keyless",
    "kubectl",
    "nerdctl",
    "netlify",
    "npm",
    "oc",
    "op",
    "oras",
    "podman",
    "pulumi",
    "railway",
    "regctl",
    "render",
    "sentry-cli",
    "skopeo",
    "stripe",
    "supabase",
    "trivy",
    "vault",
    "vercel",
    "wrangler",
];
/// How they are told so.
const HANDED: &[&str] =
    &["--password-stdin", "--with-token", "--value-stdin", "login", "secret", "secrets"];
/// What stands before a program.
const BEFORE: &[&str] = &["sudo", "command", "npx", "bunx", "pnpm", "yarn", "dlx", "exec"];
/// In how many commands the end of a group is looked for.
const MAX_GROUP: usize = 256;
/// Verbs with which such a program runs another one.
const RUN: &[&str] = &["compose", "console", "debug", "exec", "rsh", "run", "ssh"];
/// Programs that show what they read, as it is.
pub(super) const SHOWERS: &[&str] =
    &["bat", "batcat", "cat", "head", "less", "more", "nl", "sort", "tac", "tail", "uniq"];

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
        let is_taken = next.is_some_and(takes_value);
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

    /// The commands whose output this one reads: the one before it, or those of a group.
    pub(super) fn before(&self) -> impl Iterator<Item = Self> + use<'t> {
        let here = *self;
        let indexes = if let Some(group) = &self.command().group {
            let first = |at| self.commands.partition_point(|each| each.span.start < at);
            first(group.start)..first(group.end).min(self.index)
        } else {
            // Between them may stand what is substituted in the words of the one before.
            let is_outer = |each: &SimpleCommand| each.depth <= self.command().depth;
            match self.commands[..self.index].iter().rposition(is_outer) {
                Some(index) if self.commands[index].pipes_into_next => index..self.index,
                _ => 0..0,
            }
        };
        let is_in = move |index: &usize| here.commands[*index].depth == here.command().depth;
        indexes.filter(is_in).map(move |index| Self { index, ..here })
    }

    /// The redirection that its standard input comes from: its own or else, unless another command of the group is piped
    /// into it, that of the innermost group around it that has one.
    pub(super) fn reads_from(&self) -> Option<&'t Redirection> {
        let piped = self.before().next().map(|before| before.command().span.start);
        let mut here = *self;
        let mut found = here.command().input();
        while found.is_none() {
            here = here.after_group()?;
            let group = here.command().group.as_ref()?;
            if piped.is_some_and(|at| group.contains(&at)) {
                return None;
            }
            // With words it is a command that only reads what the group says.
            found = here.command().input().filter(|_| here.command().words.is_empty());
        }
        found
    }

    /// The command that ends the innermost group around it: that has its redirections, or reads its output.
    pub(super) fn after_group(&self) -> Option<Self> {
        self.command().after_group.map(|index| Self { index, ..*self })
    }

    /// Whether it stands in a group whose output goes where it is not seen.
    fn is_covered(&self) -> bool {
        let begins = self.command().span.start;
        self.commands[self.index + 1..].iter().take(MAX_GROUP).any(|each| {
            each.group.as_ref().is_some_and(|group| group.contains(&begins))
                && if each.words.is_empty() {
                    each.redirections.iter().any(takes_output)
                } else {
                    !shows(each)
                }
        })
    }

    /// The variables in a here-document that goes to the terminal.
    pub(super) fn shown(&self) -> Option<String> {
        let command = self.command();
        let document =
            command.redirections.iter().rev().find_map(|to| Some((to, to.body.clone()?)));
        // In a substitution it becomes a value.
        let (to, body) = document.filter(|(to, _)| to.target.is_plain && command.depth == 0)?;
        let mut each = self.commands[self.index..].iter();
        let last = each.find(|each| !each.pipes_into_next || !shows(each))?;
        if !shows(last) || !to.operator.starts_with("<<") {
            return None;
        }
        let body = self.text.get(body)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_{!".contains(c);
        let mut variables = String::new();
        for (at, _) in body.match_indices('$').filter(|(at, _)| !body[..*at].ends_with('\\')) {
            let after = &body[at + 1..];
            let length = after.find(|c| !is_name(c)).unwrap_or(after.len());
            variables.extend(["$", &after[..length], " "]);
        }
        (!variables.is_empty() && !self.is_covered()).then_some(variables)
    }
}

/// Whether a command's output is what it reads, and goes where it is seen or into the next command.
fn shows(command: &SimpleCommand) -> bool {
    let mut words = command.words.iter().map(|word| word.text.as_str());
    let program = words.find(|word| !BEFORE.contains(word));
    program.is_some_and(|program| SHOWERS.contains(&program))
        && !command.redirections.iter().any(takes_output)
}

/// Whether a program takes a value in that is piped into it.
fn takes_value(command: &SimpleCommand) -> bool {
    let words = command.words.iter().map(|word| word.text.as_str());
    let mut words = words.skip_while(|word| BEFORE.contains(word) || word.starts_with('-'));
    let program = words.next().and_then(|word| word.rsplit('/').next());
    let mut verbs = words.take_while(|word| !RUN.contains(word));
    program.is_some_and(|name| TAKERS.contains(&name)) && verbs.any(|word| HANDED.contains(&word))
}
