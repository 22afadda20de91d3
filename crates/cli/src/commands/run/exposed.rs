//! Variables of the caller's environment that look like credentials and that Keyless does not keep: the command would
//! hold them. Whoever runs it is told so; a jail without secrets is for what is not trusted, and leaves them out.

use std::collections::BTreeSet;

use keyless_daemon::{Inherited, SessionHandle, inherited, setup::Proposer, vault::Providers};

use crate::{args::RunArgs, commands::pack::looks_secret, ui::Ui};

/// How many names a line has; the others are counted.
const MOST_NAMED: usize = 6;

/// What is left out of the command's environment for this, after a word about it.
pub(super) fn settle(ui: &Ui, args: &RunArgs, session: &SessionHandle) -> Vec<String> {
    let settled: BTreeSet<&str> = session.settled_variables().collect();
    let mut exposed = credentials(&inherited());
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

/// The names among these that hold a credential, in order.
fn credentials(variables: &[Inherited]) -> Vec<String> {
    let (providers, looks) = (Providers::bundled(), looks_secret());
    let proposer = Proposer::new(&providers, "environment", &looks);
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
