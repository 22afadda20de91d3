//! The rules that are always there: NL's 69 and ours, from `data/`.

use serde::Deserialize;

use super::{
    blocked::words_of,
    output::Output,
    rule::{Category, Place, Rule, RuleFault, Severity},
};

const STANDARD: &str = include_str!("../../data/nl_deny_rules.json");
const IN_COMMANDS: &str = include_str!("../../data/nl_deny_commands.json");
const OURS: &str = include_str!("../../data/keyless_deny_rules.json");

/// Rules that NL lets be off until they are asked for: they are about how something runs, not about secrets.
const ASKED_FOR: &[&str] = &["NL-4-DENY-060", "NL-4-DENY-065", "NL-4-DENY-066"];

/// Patterns of the standard that do not say what their chapter means (C-21): too many backslashes, and `sh` as the
/// beginning of any word.
const CORRECTED: &[(&str, &str)] = &[
    ("NL-4-DENY-030", r"base64\s+(-d|--decode).*\|\s*(\S*/)?(sh|bash|zsh|dash)\b"),
    ("NL-4-DENY-031", r"echo\s+.*\|\s*base64\s+(-d|--decode)\s*\|\s*(\S*/)?(sh|bash)\b"),
    ("NL-4-DENY-034", r"printf\s+.*\\+x[0-9a-fA-F].*\|\s*(\S*/)?(sh|bash)\b"),
    ("NL-4-DENY-035", r"xxd\s+-r.*\|\s*(\S*/)?(sh|bash)\b"),
    ("NL-4-DENY-038", r"openssl\s+(enc|base64)\s+-d.*\|\s*(\S*/)?(sh|bash)\b"),
    ("NL-4-DENY-039", r"gzip\s+-d.*\|\s*(\S*/)?(sh|bash)\b"),
    ("NL-4-DENY-052", r"tr\s+.*\\+0.*</proc/.*/environ"),
    ("NL-4-DENY-066", r"(^|[;&|])\s*at\s+"),
];
/// What a pattern has that is about more than one simple command.
const OF_SEVERAL: &[&str] = &[r"\|", r"\$\(", "`", r"<\(", "</"];

/// What patterns of ours have in common, each under its name.
const PARTS: &[(&str, &str)] = &[
    // Programs that show, change or send what is in a file.
    (
        "<reader>",
        "(<shower>|jq|yq|dasel|(python|pypy)[0-9.]*|node|nodejs|php|lua|deno|bun|make|bc|dc)",
    ),
    // Those whose arguments are no expressions in which a file's name may be something else.
    (
        "<shower>",
        "(<pager>|[efzu]?grep|pcregrep|rg|ag|ack|[gmn]?awk|sed|cp|mv|ln|install|scp|sftp|rsync|curl|wget|http|https|dd|pv|nc\
         |ncat|socat|diff|sdiff|vimdiff|cmp|comm|join|paste|split|csplit|gzip|bzip2|xz|zstd|zcat|gunzip|m4|cpp|gcc|clang|iconv\
         |perl|ruby|tar|zip|7z|cpio|pax|ar|shar|glow|pygmentize|highlight|xargs|fd|mapfile|readarray|read|column|mount)",
    ),
    (
        "<pager>",
        "(cat|bat|batcat|ccat|less|more|most|head|tail|nl|tac|od|xxd|hd|hexdump|hexyl|strings|cut|sort|uniq|shuf|rev|pr\
         |base64|base32|basenc|uuencode|vim?|nvim|view|ex|ed|nano|pico|micro|mcedit|hx|joe|emacs|fold|fmt|expand|unexpand\
         |tsort|ul|look)",
    ),
    (
        "<dotenv>",
        concat!(
            r"\.env([._~-](local|prod|production|dev|development|staging|stage|test|uat|qa|ci|docker|secrets?",
            r"|private|bak|backup|old|live|keys|vault|swp|\d+)\d*(\.local)?|~)?",
        ),
    ),
    // A variable that is named like a credential; `\b` takes no `TOKEN_COUNT`.
    (
        "<variable>",
        concat!(
            r"\$\{?!?([A-Za-z0-9]+_)*(pass(wd|word|phrase)?|secret|token|api_?key",
            r"|(access|secret|private|signing|encryption)_key|cred(ential)?s?|auth)(_(value|secret|key))?\b",
        ),
    ),
    // Files that keep a login, by the ends of their paths.
    (
        "<login>",
        concat!(
            r"(\.aws/(credentials|config)|\.netrc|\.git-credentials|\.pgpass|\.pypirc|\.npmrc|\.vault-token",
            r"|\.ssh/id_\w+|\.docker/config\.json|\.kube/config|\.cargo/credentials(\.toml)?)",
        ),
    ),
    ("<end>", r#"($|[\s'";:])"#),
];

#[derive(Deserialize)]
struct StandardRule {
    rule_id: String,
    category: Category,
    pattern: String,
}

/// What a standard rule means in a simple command: its pattern looks through whole texts, where one program's name and
/// another one's argument make a third one's crime.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InCommand {
    rule_id: String,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRule {
    rule_id: String,
    category: Category,
    severity: Severity,
    place: Place,
    #[serde(default)]
    output: Option<Output>,
    pattern: String,
    description: String,
    #[serde(default)]
    applies_to: Vec<String>,
}

/// NL's rules in their order, then ours. `enable`: those of [`ASKED_FOR`] that are to hold.
pub(super) fn rules(enable: &[String]) -> Result<Vec<Rule>, RuleFault> {
    if let Some(unknown) = enable.iter().find(|id| !ASKED_FOR.contains(&id.as_str())) {
        let why = "it can't be enabled: it is always on, or there is none".to_owned();
        return Err(RuleFault { rule: unknown.clone(), why });
    }
    let standard: Vec<StandardRule> = read(STANDARD)?;
    let in_commands: Vec<InCommand> = read(IN_COMMANDS)?;
    let ours: Vec<OwnRule> = read(OURS)?;
    let is_on = |id: &str| !ASKED_FOR.contains(&id) || enable.iter().any(|asked| asked == id);
    let standard = standard.into_iter().filter(|rule| is_on(&rule.rule_id));
    let standard = standard.map(|rule| of_standard(rule, &in_commands));
    Ok(standard.chain(ours.into_iter().map(of_ours)).collect())
}

fn read<T: for<'de> Deserialize<'de>>(data: &str) -> Result<Vec<T>, RuleFault> {
    let fault =
        |error: serde_json::Error| RuleFault { rule: "bundled".to_owned(), why: error.to_string() };
    serde_json::from_str(data).map_err(fault)
}

fn of_standard(rule: StandardRule, in_commands: &[InCommand]) -> Rule {
    let corrected = CORRECTED.iter().find(|(id, _)| *id == rule.rule_id);
    let pattern = corrected.map_or(rule.pattern.as_str(), |(_, pattern)| *pattern).to_owned();
    let in_commands = in_commands.iter().find(|own| own.rule_id == rule.rule_id);
    let is_as_written = corrected.is_none() && in_commands.is_none();
    let words = words_of(rule.category);
    let place = if pattern.starts_with('^') {
        // Anchored at a program's name: true of commands, and never of a text that merely begins so.
        Place::Command
    } else if OF_SEVERAL.iter().any(|sign| pattern.contains(sign)) {
        Place::Any
    } else {
        Place::Each
    };
    Rule {
        id: rule.rule_id,
        category: rule.category,
        severity: words.severity,
        patterns: vec![pattern],
        place,
        output: None,
        in_commands: in_commands.map(|own| own.pattern.clone()),
        standard: (!is_as_written).then_some(rule.pattern),
        description: words.reason,
        safe_alternative: None,
        applies_to: Vec::new(),
        expires_at: None,
    }
}

fn of_ours(rule: OwnRule) -> Rule {
    let pattern = PARTS.iter().fold(rule.pattern, |all, (name, part)| all.replace(name, part));
    Rule {
        id: rule.rule_id,
        category: rule.category,
        severity: rule.severity,
        patterns: vec![pattern],
        place: rule.place,
        output: rule.output,
        in_commands: None,
        standard: None,
        description: rule.description,
        safe_alternative: None,
        applies_to: rule.applies_to,
        expires_at: None,
    }
}
