//! What an agent may not run: the guard before every action (NL level 4).
//!
//! The 69 standard rules and ours are data (`data/`). A command is looked at as its whole text and as each
//! simple command that a shell would make of it, both as written and without look-alike letters. Expressions are
//! linear in time, so no text can hold the guard up; what it can't judge it blocks. Deliberately absent: the file with an
//! organization's rules (`daemon`). Source: reference/nl.md, sections 4, 13.3 and C-21.

mod allowlist;
mod blocked;
mod feed;
mod fold;
mod here;
mod output;
mod patterns;
mod prose;
mod remember;
mod rule;
mod source;
mod standard;
mod unwrap;
mod variables;
mod verbs;
mod views;

use jiff::Timestamp;

pub use self::{
    allowlist::{Allowlist, AllowlistEntry},
    blocked::{Blocked, SafeAlternative},
    rule::{Category, Place, Rule, RuleFault, RuleSpec, Severity},
};
use self::{rule::Compiled, views::views};
use crate::action::ActionType;

/// The longest text that is judged; a longer one is blocked.
pub const MAX_TEXT: usize = 1024 * 1024;
/// What the guard knows besides NL's types of action: calls of tools and of APIs, which are no command lines.
const OTHER_DEEDS: &[&str] = &["api_call", "tool_call"];

/// What an agent is about to do.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// NL's word: `exec`, `template`, `tool_call` and so on.
    pub action_type: &'a str,
    /// The command or content, with placeholders and without values.
    pub text: &'a str,
    /// What it gets beside the secrets that its text names.
    pub given: Given<'a>,
    /// When; rules may expire.
    pub now: Timestamp,
}

/// Secrets that a command gets at its standard input and in files. A list of what may run counts them with each command of
/// its text, since any may read them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// The reference of the one at its standard input, braces and all.
    pub input: Option<&'a str>,
    /// The references of those in its files, braces and all.
    pub references: &'a [&'a str],
    /// Placeholders of the text that are names of its files, and no references.
    pub files: &'a [&'a str],
    /// Paths of files with secrets in them that were rendered before.
    pub rendered: &'a [&'a str],
}

/// What the guard says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing against it.
    Allow,
    /// It may not run, and why.
    Block(Box<Blocked>),
}

/// An organization's own rules, as its file says them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// Further rules.
    pub rules: Vec<RuleSpec>,
    /// Standard rules that are off unless they are named here (`NL-4-DENY-060`, `065` and `066`).
    pub enable: Vec<String>,
    /// Only what is listed may run; the rules hold nevertheless.
    pub allowlist: Option<Allowlist>,
}

/// All rules, ready to be asked. Costs some milliseconds to make, so it is made once.
#[derive(Clone, Debug)]
pub struct Guard {
    bundled: Compiled,
    custom: Compiled,
    allowlist: Option<allowlist::Ready>,
}

impl Guard {
    /// The standard rules and ours.
    pub fn standard() -> Self {
        Self::with(&GuardConfig::default()).expect("the bundled rules are tested")
    }

    /// The standard rules, ours, and an organization's.
    pub fn with(config: &GuardConfig) -> Result<Self, RuleFault> {
        let bundled = Compiled::bundled(standard::rules(&config.enable)?)?;
        let custom: Vec<Rule> =
            config.rules.iter().map(RuleSpec::to_rule).collect::<Result<_, _>>()?;
        let allowlist = config.allowlist.as_ref().map(Allowlist::ready).transpose()?;
        Ok(Self { bundled, custom: Compiled::custom(custom)?, allowlist })
    }

    /// Every rule that is in force, standard ones first.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.bundled.rules().iter().chain(self.custom.rules())
    }

    /// Judges one attempt: standard rules, ours, the organization's, evasion, the allowlist.
    pub fn check(&self, attempt: &Attempt<'_>) -> Decision {
        let Attempt { action_type, text, given, now } = *attempt;
        let known = action_type.parse::<ActionType>().ok();
        let is_known = known.is_some() || OTHER_DEEDS.contains(&action_type);
        if !is_known {
            return Decision::Block(Box::new(Blocked::failure(text)));
        }
        if text.len() > MAX_TEXT {
            return unreadable(attempt);
        }
        let is_command = known.is_some_and(ActionType::is_command);
        // Both: what looks like a quote or a space to a reader is a letter to a shell, and the other way round.
        let folded = fold::folded(text);
        let Some(plain) = views(text, is_command, given) else { return unreadable(attempt) };
        let undisguised = if folded == text {
            Some(Vec::new())
        } else {
            views(&folded, is_command, given).map(|v| v.looks)
        };
        let Some(undisguised) = undisguised else { return unreadable(attempt) };
        for compiled in [&self.bundled, &self.custom] {
            for (looked_at, is_disguise) in [(&plain.looks, false), (&undisguised, true)] {
                if let Some(hit) = compiled.first_hit(looked_at, action_type, now) {
                    let evasion = hit.is_disguised || is_disguise;
                    return Decision::Block(Box::new(Blocked::by(hit.rule, text, evasion)));
                }
            }
        }
        // What only looks like a listed command is none, and what can't be read isn't either.
        let is_listed = |list: &allowlist::Ready| {
            let commands = plain.commands.as_ref().filter(|_| folded == text);
            commands.is_some_and(|commands| list.names_all(action_type, commands, given))
        };
        match &self.allowlist {
            Some(list) if !is_listed(list) => Decision::Block(Box::new(Blocked::unlisted(text))),
            _ => Decision::Allow,
        }
    }
}

fn unreadable(attempt: &Attempt<'_>) -> Decision {
    Decision::Block(Box::new(Blocked::unreadable(attempt.text)))
}

#[cfg(test)]
mod tests;
