//! `keyless init`: a new store, and the recovery phrase once: shown to a person who says that it is written down, else in a
//! file of its own. A script's output ends up in the log of a job, or in what an agent reads.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use keyless_core::Error;
use keyless_daemon::{
    Places,
    vault::{Passphrase, Vault},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{check_private, warn_of_open_runs, write_opener};
use crate::{
    args::{FactorArgs, InitArgs},
    prompt,
    ui::{Ui, in_rows},
};

/// Where the phrase goes without being shown.
const OTHER_WAY: &str = "--recovery-file FILE";
const NEXT: &str = "Next: keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN\n";

pub(super) async fn run(ui: &Ui, args: InitArgs) -> Result<ExitCode, Error> {
    make(ui, args, NEXT).await
}

/// The same in the course of setting up, which knows what comes next.
pub(super) async fn for_setup(ui: &Ui, factor: FactorArgs) -> Result<ExitCode, Error> {
    make(ui, InitArgs { factor, recovery_file: None }, "").await
}

async fn make(ui: &Ui, args: InitArgs, next_step: &str) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    keyless_daemon::refuse_existing_store(&places).await?;
    warn_of_open_runs(ui, &places.store_file());
    let is_attended =
        !ui.is_json() && io::stdout().is_terminal() && prompt::need_terminal(OTHER_WAY).is_ok();
    check_private(args.recovery_file.as_deref())?;
    let own_file = if args.recovery_file.is_some() || is_attended {
        None
    } else {
        Some(keyless_daemon::unused_recovery_file(&places)?)
    };
    let passphrase = prompt::new_passphrase(&args.factor)?;
    let store = keyless_daemon::create_store(&places).await?;
    keyless_daemon::note_home(&places);
    let (_vault, phrase) = Vault::create(store, Passphrase::new(passphrase)).await?;
    let words = phrase.expose_to_operator();
    let store_path = keyless_daemon::store_place(&places)?.to_string();
    if let Some(file) = args.recovery_file.as_ref().or(own_file.as_ref()) {
        write_opener(ui, &places, file, &words)?;
        let place = file.display();
        let next = if own_file.is_some() {
            format!(
                "Nobody saw it: move it off this machine at once, and delete it here (keyless doctor reminds you).\n{next_step}"
            )
        } else {
            "Move it off this machine at once: it opens the store.\n".to_owned()
        };
        let text =
            format!("Made the store {store_path}.\nThe recovery phrase is in {place}. {next}");
        let data = json!({ "store": store_path, "recovery_file": file.to_string_lossy() });
        ui.answer("init", &data, &text);
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(&format!("Made the store {store_path}."));
    let shown = Zeroizing::new(format!(
        "Recovery phrase, shown this once. Write it down: it opens the store when the passphrase is lost.\n\n\
         {}",
        in_rows(&words).trim_end_matches('\n')
    ));
    if !prompt::written_down(&shown)? {
        Ui::fault(
            "The store is made, and nobody has its recovery phrase.",
            Some("keyless vault envelope change recovery shows another"),
        );
        return Ok(ExitCode::from(2));
    }
    if !next_step.is_empty() {
        ui.line(next_step.trim_end_matches('\n'));
    }
    Ok(ExitCode::SUCCESS)
}
