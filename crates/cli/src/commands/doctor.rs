//! `keyless doctor`: whether everything is in order, and what helps.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anstyle::AnsiColor;
use keyless_core::{Code, Error, Exit, SafeText};
use keyless_daemon::vault::read_settings_text;
use keyless_daemon::{
    AgreedBy, Places, ci,
    doctor::{Check, CheckState, examine},
    setup::{Proposer, values_beside, values_held},
    vault::Manifest,
};
use serde_json::json;

use super::{
    hooks,
    pack::{self, looks_secret},
    secret::import,
};
use crate::{ui::Ui, visible::one_line};

pub(super) async fn run(ui: &Ui) -> Result<ExitCode, Error> {
    let here = env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })?;
    let checks = ui.wait("Examining", checks(&here)).await?;
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok);
    let words: String = checks.iter().map(words).collect();
    let outcome = if worst == CheckState::Fault { Err(Exit::Failure) } else { Ok(()) };
    Ok(ui.conclude("doctor", outcome, &json!({ "state": worst, "checks": checks }), &words))
}

/// Every check, for the project that `folder` lies in.
pub(super) async fn checks(folder: &Path) -> Result<Vec<Check>, Error> {
    let mut checks = examine(&Places::from_environment()?, folder).await;
    checks.extend(values(folder));
    checks.extend(clients(folder));
    checks.extend(own_logins());
    checks.extend(hook(folder));
    Ok(checks)
}

/// The check of files that nobody has seen.
pub(super) const UNREADABLE: &str = "project.unreadable";

/// Values in `.env` files that setting up would take in: who runs there sees them. Below the project's root, or the
/// repository's; elsewhere in this folder alone, since nothing says how far a project goes.
fn values(folder: &Path) -> Vec<Check> {
    let known = Places::from_environment()
        .and_then(|places| keyless_daemon::providers(&places, AgreedBy::File));
    // In a session and in a job nobody can take them in.
    let Ok(providers) = known else { return Vec::new() };
    if ci::is_on() || keyless_daemon::refuse_inside_session().is_err() {
        return Vec::new();
    }
    let looks = looks_secret();
    let project = root_of(folder);
    let root = project.as_deref().unwrap_or(folder);
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let proposer = Proposer::new(&providers, &name, &looks);
    let held = if project.is_some() {
        values_held(root, &proposer)
    } else {
        values_beside(root, &proposer)
    };
    let here = env::current_dir().unwrap_or_default();
    let unseen = unseen(&held.unreadable, &held.unread, &here);
    let uncarried = held.uncarried;
    let doubts = held.doubtful.into_iter().map(|(file, names)| {
        let staying = uncarried.get(&file);
        let file = file.strip_prefix(&here).unwrap_or(&file).display().to_string();
        let (found, remedy) = doubt(&file, &names, staying);
        Check::other("project.values", CheckState::Warning, found, remedy)
    });
    let raw = held.secrets.into_iter().flat_map(|(file, proposals)| {
        let stay = uncarried.get(&file);
        let stays = |name: &&str| stay.is_some_and(|names| names.contains(*name));
        let (staying, going): (Vec<&str>, Vec<&str>) =
            proposals.iter().map(|proposal| proposal.variable.as_str()).partition(stays);
        let file = file.strip_prefix(&here).unwrap_or(&file).display().to_string();
        [values_to_take_out(&file, &going, stay), values_that_stay(&file, &staying)]
    });
    let raw = raw.flatten();
    let overruled = held.overruled.into_iter().map(|(file, lines)| {
        let places: Vec<String> = lines
            .iter()
            .map(|(proposal, line)| format!("{} in line {line}", proposal.variable))
            .collect();
        let file = file.strip_prefix(&here).unwrap_or(&file).display();
        let found =
            format!("{file} holds raw values that later lines overrule ({})", places.join(", "));
        let remedy = format!("{}; no import does, as no vault has them", import::BY_HAND);
        Check::other("project.values", CheckState::Warning, found, remedy)
    });
    raw.chain(overruled).chain(doubts).chain(unseen).collect()
}

/// Files, folders and lines of which nobody knows whether they hold values.
pub(super) fn unseen(
    unreadable: &BTreeSet<PathBuf>,
    unread: &BTreeMap<PathBuf, Vec<usize>>,
    here: &Path,
) -> Vec<Check> {
    let shown = |place: &Path| {
        one_line(&place.strip_prefix(here).unwrap_or(place).to_string_lossy()).into_owned()
    };
    let place = |place: &PathBuf| {
        let (what, remedy) = if here.join(place).is_dir() {
            ("", "let yourself read it (chmod u+rX), if it is a part of the project")
        } else {
            (
                ", so nobody knows what it holds",
                "let yourself read it (chmod u+r), and make it UTF-8 text of at most 1 MiB",
            )
        };
        let found = format!("{} can't be read{what}", shown(place));
        Check::other(UNREADABLE, CheckState::Warning, found, remedy)
    };
    let lines = |(file, lines): (&PathBuf, &Vec<usize>)| {
        let (word, it) =
            if lines.len() == 1 { ("line", "it holds") } else { ("lines", "they hold") };
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let found = format!(
            "{word} {} of {} can't be read as NAME=value, so nobody knows what {it}",
            lines.join(", "),
            shown(file)
        );
        let remedy = "close its quotes and write it in UTF-8, or make it a comment";
        Check::other("project.values", CheckState::Warning, found, remedy)
    };
    unreadable.iter().map(place).chain(unread.iter().map(lines)).collect()
}

/// The project that a folder lies in, or else the repository.
pub(super) fn root_of(folder: &Path) -> Option<PathBuf> {
    let repository = || folder.ancestors().find(|above| above.join(".git").exists());
    Manifest::project_of(folder).or_else(|| repository().map(Path::to_owned))
}

/// Values that requests carry, which need not lie in a file beside those that `staying` names.
fn values_to_take_out(
    file: &str,
    names: &[&str],
    staying: Option<&BTreeSet<String>>,
) -> Option<Check> {
    let found = format!("{file} holds raw values, which keyless run shows ({})", names.join(", "));
    let skip = skipping(staying);
    let remedy = format!(
        "keyless secret import {file} --leave empty{skip} takes them out once they are stored; --leave aliases leaves \
         their paths"
    );
    (!names.is_empty()).then(|| Check::other("project.values", CheckState::Warning, found, remedy))
}

/// Values that a program in the jail finds in their file or nowhere.
fn values_that_stay(file: &str, names: &[&str]) -> Option<Check> {
    let found = format!(
        "no request carries what {file} holds in {}, and whoever reads the file in keyless run has it",
        names.join(", ")
    );
    let remedy = "docs/setup.md says what can be done: a value for development alone, keyless exec, or a service in its place";
    (!names.is_empty()).then(|| Check::other("project.values", CheckState::Warning, found, remedy))
}

/// Has an import leave these where they are, whether or not they are stored yet: their program finds them there or nowhere.
fn skipping(staying: Option<&BTreeSet<String>>) -> String {
    staying.into_iter().flatten().flat_map(|name| [" --skip ", name.as_str()]).collect()
}

/// What is said of variables that are left out by their names though their values look made up, and what to do; `staying`
/// are those of the file that no request carries.
pub(super) fn doubt(
    file: &str,
    names: &BTreeSet<String>,
    staying: Option<&BTreeSet<String>>,
) -> (String, String) {
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = format!(
        "{file} holds what looks like a credential under the name of a setting ({})",
        all.join(", ")
    );
    let also = all.join(" --also ");
    let skip = skipping(staying);
    let remedy =
        format!("keyless secret import {file} --also {also} --leave aliases{skip}, if it is one");
    (found, remedy)
}

/// Credentials in the plain files of agents and editors.
fn clients(folder: &Path) -> Vec<Check> {
    let Ok(tokens) = pack::plaintext_tokens(folder) else { return Vec::new() };
    let word = |token: &keyless_pack::PlaintextToken| {
        let found = format!("{}:{} holds a credential ({})", token.path, token.line, token.kind);
        Check::other("clients.tokens", CheckState::Warning, found, token.adopting())
    };
    if tokens.is_empty() {
        return vec![Check::ok(
            "clients.tokens",
            "no credential in the settings of agents and editors",
        )];
    }
    tokens.iter().map(word).collect()
}

/// What agents log in with themselves, which every jail shows them: said once for all.
fn own_logins() -> Option<Check> {
    let home = env::home_dir()?;
    let logins = keyless_daemon::own_logins(&home, |name| env::var_os(name));
    let there = logins.iter().filter(|login| login.is_file());
    let there: Vec<String> = there.map(|login| login.display().to_string()).collect();
    if there.is_empty() {
        return None;
    }
    let found = format!(
        "an agent in keyless run can read what it logs in with itself ({})",
        there.join(", ")
    );
    let remedy = "nothing, if it may; else keep its API key as a secret (--to api.anthropic.com --env ANTHROPIC_API_KEY, \
                  --to api.openai.com --env OPENAI_API_KEY) and cover the file: keyless run --hide FILE";
    Some(Check::other("clients.tokens", CheckState::Note, found, remedy))
}

/// Whether git asks before a commit and a push; nothing outside of a repository.
fn hook(folder: &Path) -> Option<Check> {
    // Git is asked here.
    let is_here = env::current_dir().is_ok_and(|here| root_of(&here) == root_of(folder));
    let there = hooks::hooks_here().filter(|_| is_here)?;
    let is_ours = |hook: &PathBuf| read_settings_text(hook).is_ok_and(|text| hooks::is_ours(&text));
    let first = there.first()?;
    let found = if there.iter().all(is_ours) {
        let found = format!("commits and pushes are checked ({})", first.display());
        return Some(Check::ok("git.hook", found));
    } else if is_ours(first) {
        "commits of this repository are checked for secrets, but not its merges, messages or pushes"
    } else {
        "commits of this repository are not checked for secrets"
    };
    Some(Check::other("git.hook", CheckState::Note, found, "keyless hooks install"))
}

fn words(check: &Check) -> String {
    let (mark, colour) = match check.state {
        CheckState::Ok => ("ok", AnsiColor::Green),
        CheckState::Note => ("note", AnsiColor::Cyan),
        CheckState::Warning => ("warning", AnsiColor::Yellow),
        CheckState::Fault => ("fault", AnsiColor::Red),
    };
    let style = colour.on_default().bold();
    let next = check.remedy.as_ref().map(|remedy| format!("{:<26} next: {remedy}\n", ""));
    let next = next.unwrap_or_default();
    format!("{style}{mark:<8}{style:#} {:<17} {}\n{next}", check.id, check.found)
}
