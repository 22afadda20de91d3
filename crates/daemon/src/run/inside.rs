//! `keyless run` inside a session: its command joins the session that is there.
//!
//! A client of MCP that was started by `keyless run` starts servers by `keyless run -- SERVER` (docs/pack.md). Jail and
//! session are there; what is left to do is to put the session's placeholders in the place of aliases.

use std::{
    convert::Infallible, ffi::OsString, os::unix::process::CommandExt as _, process::Command,
};

use keyless_core::{Code, Error, SafeText, SecretPath};

use super::proxied::not_started;
use crate::{
    aliases::aliases, broker::Wanted, environment::inherited, places::session_socket,
    service::agent_call,
};

/// Becomes the command, which finds the session's placeholders where its environment has aliases. The secrets that are
/// `named` have to be the session's, too. Returns where that can't be: [`Code::SessionUnfit`] for a secret that the
/// session was not given.
pub async fn run_inside(command: &[OsString], named: &[SecretPath]) -> Result<Infallible, Error> {
    let aliased = aliases(&inherited(), &Wanted::All)?;
    let paths = aliased.iter().map(|alias| &alias.path).chain(named);
    let placeholders = placeholders(paths.cloned().collect()).await?;
    let (program, arguments) = command.split_first().ok_or(Code::Usage)?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.envs(aliased.iter().map(|alias| &alias.variable).zip(placeholders));
    keyless_jail::start_ignoring(&mut command, keyless_jail::ignored_by_caller());
    Err(not_started(program, &command.exec()))
}

async fn placeholders(of: Vec<SecretPath>) -> Result<Vec<String>, Error> {
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let Some(socket) = session_socket() else {
        let words = "this session began with --no-secrets or --ci, and has nobody to ask what an alias stands for";
        return Err(Error::with(Code::SessionUnfit, SafeText::words(words)));
    };
    agent_call::placeholders(&socket, of).await
}
