//! `keyless demo`: the whole story offline, with a random secret, real servers and real tools.
//!
//! Two TLS origins and a git server on loopback, a store in a scratch home, and an "agent" (a shell
//! script with curl, git and Python or Node) inside `keyless run`. Then every byte that the agent
//! side saw is searched for the value. Nothing here reaches into Keyless: the demo runs the same
//! binary as a user would. Where no jail can be made, as in most containers, it shows what does not
//! need one, and says so.

mod agent;
mod report;
mod scene;
mod steps;

use std::process::ExitCode;

use keyless_core::{Code, Error};

use self::{
    report::{Report, WithoutJail},
    scene::Scene,
};
use crate::ui::Ui;

/// Plays the story and tells it.
pub(crate) fn run(ui: &Ui) -> Result<ExitCode, Error> {
    if keyless_daemon::is_inside_session() {
        // It makes a store, which is an operator's to do.
        return Err(Code::InsideSession.into());
    }
    ui.line("Keyless demo: an agent uses a credential that it never holds. Offline, in seconds.\n");
    let report = tokio::task::block_in_place(play)?;
    report.tell(ui);
    Ok(match report.without_jail() {
        _ if !report.is_ok() => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
        Some(without) => ExitCode::from(without.why.code().exit() as u8),
    })
}

fn play() -> Result<Report, Error> {
    let scene = Scene::set()?;
    let mut steps = steps::all(&scene)?;
    let without_jail = keyless_daemon::check_jail().err().map(|why| {
        let left_out = steps.extract_if(.., |step| step.needs_jail).map(|step| step.name).collect();
        WithoutJail { why, left_out }
    });
    let seen = agent::run(&scene, &steps, without_jail.is_none())?;
    Ok(Report::judge(&scene, &steps, &seen, without_jail))
}
