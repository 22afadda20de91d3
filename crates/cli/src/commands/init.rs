//! `keyless init`: a new store, and the recovery phrase once.

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::{
    Places,
    vault::{Passphrase, Vault},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{check_private, write_private};
use crate::{
    args::InitArgs,
    prompt,
    ui::{Ui, in_rows},
};

/// Where the phrase goes without being shown.
const OTHER_WAY: &str = "--recovery-file FILE";

pub(super) async fn run(ui: &Ui, args: InitArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    keyless_daemon::refuse_existing_store(&places).await?;
    check_private(args.recovery_file.as_deref())?;
    let passphrase = prompt::new_passphrase(&args.factor)?;
    let store = keyless_daemon::create_store(&places).await?;
    keyless_daemon::note_home(&places);
    let (_vault, phrase) = Vault::create(store, Passphrase::new(passphrase)).await?;
    let words = phrase.expose_to_operator();
    let store_path = keyless_daemon::store_place(&places)?.to_string();
    if let Some(path) = &args.recovery_file {
        let line = Zeroizing::new(format!("{}\n", *words));
        write_private(path, line.as_bytes())?;
        // It opens the store as a passphrase does.
        keyless_daemon::remember_passphrase_file(&places, path);
        let text = format!(
            "Made the store {store_path}.\nThe recovery phrase is in {}. Move it off this machine at once: it opens the store.\n",
            path.display()
        );
        let data = json!({ "store": store_path, "recovery_file": path.to_string_lossy() });
        ui.answer("init", &data, &text);
        return Ok(ExitCode::SUCCESS);
    }
    let told = format!(
        "Made the store {store_path}.\n\n\
         Recovery phrase, shown this once. Write it down: it opens the store when the passphrase is lost.\n\n\
         {}\n\n",
        in_rows(&words)
    );
    let next = "Next: keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN\n";
    // Who gave the passphrase in a file may be a script that has a terminal.
    let is_attended = prompt::factor_file(&args.factor).is_none();
    if ui.is_json() || !is_attended || prompt::need_terminal(OTHER_WAY).is_err() {
        let data = json!({ "store": store_path, "recovery_phrase": *words });
        ui.answer("init", &data, &format!("{told}{next}"));
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(told.trim_end_matches('\n'));
    if !prompt::acknowledged("Is it written down?", OTHER_WAY)? {
        Ui::fault(
            "The store is made, and nobody has its recovery phrase.",
            Some("keyless vault envelope change recovery shows another"),
        );
        return Ok(ExitCode::from(2));
    }
    ui.line(next.trim_end_matches('\n'));
    Ok(ExitCode::SUCCESS)
}
