//! No credential in a deployed file: what looks like one stops the plan.
//!
//! A module ends up in plain files of an agent, in git, and in snapshots; a credential has no business
//! there. Known token formats, and those of the caller's catalog, are recognised by their prefix, alphabet and length,
//! anything else only where a name such as `api_key` says what it is and its value is as random as a real one, or has
//! the format that the catalog knows for the name.
//! Examples in documentation (`ghp_xxxx…`, `AKIA…EXAMPLE`, `${TOKEN}`) are not random, and pass.
//! The value itself goes into no message.

mod adopt;
mod configs;
mod forms;
mod named;
mod random;
mod utf16;

use std::{borrow::Cow, ops::Range};

use serde::Serialize;
use serde_json::json;

use self::random::is_random;
pub use self::{
    adopt::{AdoptData, Found, Where},
    forms::{TokenForm, TokenForms},
    utf16::utf16_text,
};
pub(crate) use self::{
    adopt::{find, replace},
    configs::in_agents_configs,
};
use crate::{
    error::{Code, PackError, Result},
    manifest::{FILE, Module},
    paths::shown,
    plain_file,
    site::{Site, shell_word},
    tree::Tree,
};

/// A line with this mark is not looked at: its author says that it is no credential.
pub const NOT_A_SECRET: &str = "keyless:not-a-secret";

/// Files larger than this are data, not configuration.
const MAX_SCANNED: usize = 4 * 1024 * 1024;
/// No token is shorter.
const LEAST: usize = 20;

/// Something that looks like a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, relative to its module or directory.
    pub file: String,
    /// Counted from one.
    pub line: usize,
    /// What it looks like.
    pub kind: Cow<'static, str>,
    /// The catalog's pattern, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The value's bytes in the file; absent where it goes over more than one line, or is in UTF-16.
    #[serde(skip)]
    pub(crate) range: Option<Range<usize>>,
}

/// Refuses a module with a credential in it; names file, line and kind of each.
pub(crate) fn check(module: &Module, tree: &Tree, forms: &TokenForms) -> Result<()> {
    let mut findings = Vec::new();
    for (path, file) in &tree.0 {
        findings.extend(scan(path.as_str(), file.content.bytes(), forms));
    }
    let Some(first) = findings.first() else { return Ok(()) };
    let message = format!(
        "module `{}`: {}:{} holds what looks like a credential ({})",
        module.id, first.file, first.line, first.kind
    );
    let adopt = format!("keyless pack adopt-secret {} --path PROJECT/CATEGORY/NAME", module.id);
    Err(PackError::new(Code::SecretInModule, message)
        .with("module_id", module.id.clone())
        .with("findings", json!(findings))
        .with("command", adopt.clone())
        .hint(&format!(
            "`{adopt}` moves it into the vault and leaves an alias here; a line that only looks like one may carry \
             the words {NOT_A_SECRET}"
        )))
}

/// Refuses a manifest with a credential in it: its servers are deployed.
pub(crate) fn check_manifest(site: &Site) -> Result<()> {
    let path = site.repo.join(FILE);
    let bytes = plain_file::read(&path).map_err(|error| PackError::io("read", &path, &error))?;
    let findings = scan(FILE, &bytes, &site.forms);
    let Some(first) = findings.first() else { return Ok(()) };
    let message =
        format!("{FILE}:{} holds what looks like a credential ({})", first.line, first.kind);
    let place = shell_word(&shown(&path));
    let adopt = format!("keyless pack adopt-secret --file {place} --path PROJECT/CATEGORY/NAME");
    Err(PackError::new(Code::SecretInModule, message)
        .with("path", shown(&path))
        .with("findings", json!(findings))
        .with("command", adopt.clone())
        .hint(&format!(
            "`{adopt}` moves it into the vault; the server is then started by `keyless run`"
        )))
}

/// Everything in a file that looks like a credential, at most one a line.
pub fn scan(file: &str, bytes: &[u8], forms: &TokenForms) -> Vec<Finding> {
    let bytes = &bytes[..bytes.len().min(MAX_SCANNED)];
    if let Some(text) = utf16_text(bytes) {
        let mut findings = scan_text(file, &text, forms);
        for finding in &mut findings {
            finding.range = None;
        }
        return findings;
    }
    if bytes[..bytes.len().min(8192)].contains(&0) {
        return Vec::new();
    }
    scan_text(file, &String::from_utf8_lossy(bytes), forms)
}

fn scan_text(file: &str, text: &str, forms: &TokenForms) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut start = 0;
    let mut before = (0, "");
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let key = header_of_a_key(line).and_then(|end| begins_a_key(&text[start + end..]));
        let seen = key.or_else(|| look(file, line, forms)).map(|seen| (index + 1, line, seen));
        let seen = seen.or_else(|| {
            let seen = named::in_two_lines(before.1, line, forms)?;
            let is_here = seen.value.is_some_and(|value| offset(text, value) >= start);
            Some(if is_here { (index + 1, line, seen) } else { (before.0, before.1, seen) })
        });
        if let Some((number, line, seen)) = seen
            && !line.contains(NOT_A_SECRET)
            && findings.last().is_none_or(|last| last.line != number)
        {
            findings.push(Finding {
                file: file.to_owned(),
                line: number,
                kind: seen.kind,
                pattern: seen.pattern,
                range: seen.value.map(|value| {
                    let from = offset(text, value);
                    from..from + value.len()
                }),
            });
        }
        start += line.len();
        before = (index + 1, line);
    }
    findings
}

/// A credential in a line.
struct Seen<'l> {
    kind: Cow<'static, str>,
    pattern: Option<String>,
    value: Option<&'l str>,
}

impl<'l> Seen<'l> {
    fn new(kind: &'static str, value: Option<&'l str>) -> Self {
        Self { kind: kind.into(), pattern: None, value }
    }
}

fn look<'l>(file: &str, line: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    if line.len() < LEAST {
        return named::in_login_file(file, line);
    }
    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.+/=~".contains(c)));
    words
        .find_map(|word| token(word, forms))
        .or_else(|| address(line, forms))
        .or_else(|| password_in_address(line))
        .or_else(|| password_of_curl(line))
        .or_else(|| named::named_value(line, forms))
        .or_else(|| named::in_login_file(file, line))
}

/// Where the header of a private key ends in a line, whatever a file of settings has around it.
fn header_of_a_key(line: &str) -> Option<usize> {
    const END: &str = "PRIVATE KEY-----";
    let begin = line.find("-----BEGIN ")?;
    let end = line[begin..].find(END)?;
    Some(begin + end + END.len())
}

/// What follows the header of a private key is its base64, perhaps after lines about its
/// encryption; documentation has the header alone, or dots below it. In JSON and `.env` files the lines may be one, with
/// `\n` between them.
fn begins_a_key<'l>(rest: &str) -> Option<Seen<'l>> {
    let is_body = |line: &str| {
        let line = line.trim_matches(|c: char| c.is_whitespace() || "\"'\\,".contains(c));
        line.len() >= 32 && line.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
    };
    let lines = rest.lines().flat_map(|line| line.split("\\n"));
    lines.take(5).any(is_body).then(|| Seen::new("private key", None))
}

fn token<'l>(word: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    if word.len() < LEAST {
        return None;
    }
    // `TOKEN=ghp_…` is one word here, and a sentence may end with it. A `=` may be part of the token as well.
    let word = word.trim_end_matches('.');
    let after = word.match_indices('=').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after).find_map(|begin| whole_token(&word[begin..], forms))
}

fn whole_token<'l>(word: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    if let Some(form) = forms.of(word) {
        let (kind, pattern) = (form.kind.clone().into(), Some(form.pattern.clone()));
        return Some(Seen { kind, pattern, value: Some(word) });
    }
    forms::known(word).map(|(kind, length)| Seen::new(kind, Some(&word[..length])))
}

/// Whether a word has a token of a known format.
pub(crate) fn is_token(word: &str) -> bool {
    token(word, &TokenForms::default()).is_some()
}

/// An address that is a credential by itself, such as a webhook's.
fn address<'l>(line: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    let at = line.find("https://")?;
    let rest = &line[at..];
    let end = rest.find(|c: char| c.is_whitespace() || "\"'`<>()[]{},;".contains(c));
    let word = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
    let form = forms.of(word)?;
    let last = word.rsplit('/').next().unwrap_or_default();
    is_random(last, 3.0).then(|| Seen {
        kind: form.kind.clone().into(),
        pattern: Some(form.pattern.clone()),
        value: Some(word),
    })
}

/// `postgres://user:PASSWORD@host`.
fn password_in_address(line: &str) -> Option<Seen<'_>> {
    line.match_indices("://").find_map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`<>".contains(c));
        let (login, _host) = rest[..end.unwrap_or(rest.len())].rsplit_once('@')?;
        let (_user, password) = login.split_once(':')?;
        is_made_up(password).then(|| Seen::new("password in an address", Some(password)))
    })
}

/// `curl -u user:PASSWORD`.
fn password_of_curl(line: &str) -> Option<Seen<'_>> {
    let (_, arguments) = line.split_once("curl ")?;
    let words = arguments.split_whitespace();
    let mut behind = words.clone().skip(1);
    words.into_iter().find_map(|word| {
        let next = behind.next();
        let login = match word.strip_prefix("--user").or_else(|| word.strip_prefix("-u"))? {
            "" => next?,
            glued => glued,
        };
        let login = login.trim_start_matches(['=', '"', '\'']);
        let end = login.find(|c: char| "\"'`<>\\".contains(c));
        let (_user, password) = login[..end.unwrap_or(login.len())].split_once(':')?;
        is_made_up(password).then(|| Seen::new("password of a request", Some(password)))
    })
}

fn is_made_up(password: &str) -> bool {
    password.len() >= 12 && random::is_woven(password) && is_random(password, 3.0)
}

/// Where a part of a text begins in it, in bytes.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests;
