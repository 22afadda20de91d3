//! Variables of the caller's environment that look like credentials and that Keyless does not keep, and values of the run's
//! secrets in the project's `.env` files: the command would hold them. Whoever runs it is told so; a jail without secrets is
//! for what is not trusted, and leaves the variables out.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
};

use keyless_daemon::{
    Inherited, SessionHandle, ci, inherited,
    setup::{Proposer, values_at_hand},
    vault::Providers,
};

use crate::{
    args::RunArgs,
    commands::{doctor, pack::looks_secret},
    ui::Ui,
    visible::one_line,
};

/// How many names a line has; the others are counted.
const MOST_NAMED: usize = 6;

/// What is left out of the command's environment for this, after a word about it.
pub(super) fn settle(
    ui: &Ui,
    args: &RunArgs,
    session: &SessionHandle,
    hide: &[PathBuf],
) -> Vec<String> {
    let (providers, looks) = (Providers::bundled(), looks_secret());
    let proposer = Proposer::new(&providers, "environment", &looks);
    warn_of_files(ui, args, session, hide, &proposer);
    let settled: BTreeSet<&str> = session.settled_variables().collect();
    let mut exposed = credentials(&inherited(), &proposer);
    // What an agent of the protocol logs in with is Keyless's already; an untrusted command gets none of it.
    let is_login = |name: &str| name.starts_with("NL_AGENT_") && !args.no_secrets;
    exposed.retain(|name| {
        !settled.contains(name.as_str()) && !args.keep_env.contains(name) && !is_login(name)
    });
    if exposed.is_empty() {
        return exposed;
    }
    let named = named(&exposed);
    if args.no_secrets {
        ui.warn(format!(
            "left out of the command's environment, for it looks like a credential: {named} (--keep-env NAME leaves one in)"
        ));
        return exposed;
    }
    ui.warn(format!(
        "the command holds what is in your environment and looks like a credential: {named}. \
         keyless secret import --from-env keeps it and gives a placeholder, env -u NAME keyless run … leaves it out"
    ));
    Vec::new()
}

/// Warns of the files in which the command would read what its variables have placeholders for: `keyless doctor` tells of
/// them too, and of all others.
fn warn_of_files(
    ui: &Ui,
    args: &RunArgs,
    session: &SessionHandle,
    hide: &[PathBuf],
    proposer: &Proposer<'_>,
) {
    let own: BTreeSet<&str> =
        session.environment().variables.iter().map(|variable| variable.name.as_str()).collect();
    // In a job nobody takes them out.
    let Ok(here) = env::current_dir() else { return };
    if own.is_empty() || ci::is_on() {
        return;
    }
    let root = doctor::root_of(&here).unwrap_or_else(|| here.clone());
    let beside = Some(&here).filter(|here| **here != root);
    let mut told = Vec::new();
    let mut files = Vec::new();
    let folders = [&root].into_iter().chain(beside);
    for (file, proposals) in folders.flat_map(|at| values_at_hand(at, &own, proposer).secrets) {
        if !args.no_jail && hide.iter().any(|hidden| file.starts_with(hidden)) {
            continue;
        }
        let names: BTreeSet<&String> = proposals.iter().map(|one| &one.variable).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let file = one_line(&shown(&file, &here).to_string_lossy()).into_owned();
        told.push(format!("{file} ({})", named(&names)));
        files.push(file);
    }
    let Some(first) = files.first() else { return };
    let holds = if files.len() == 1 { "holds" } else { "hold" };
    let hiding = if args.no_jail {
        String::new()
    } else {
        format!(", --hide {first} covers it for one run")
    };
    ui.warn(format!(
        "{} {holds} raw values of this run's secrets, which the command can read there. keyless secret import {first} \
         --leave empty takes them out once they are stored{hiding}",
        told.join(" and ")
    ));
}

/// A file as somebody in the folder `here` names it.
fn shown<'f>(file: &'f Path, here: &Path) -> &'f Path {
    file.strip_prefix(here).unwrap_or(file)
}

/// The names among these that hold a credential, in order.
fn credentials(variables: &[Inherited], proposer: &Proposer<'_>) -> Vec<String> {
    let is_one = |one: &&Inherited| proposer.is_credential(&one.name, &one.value);
    let names: BTreeSet<&String> =
        variables.iter().filter(is_one).map(|variable| &variable.name).collect();
    names.into_iter().cloned().collect()
}

fn named(names: &[String]) -> String {
    let (shown, more) = names.split_at(names.len().min(MOST_NAMED));
    let shown = shown.join(", ");
    if more.is_empty() { shown } else { format!("{shown} and {} more", more.len()) }
}
