//! `keyless web`: a link to the page where a person answers what agents ask.

use std::process::{Command, ExitCode, Stdio};

use keyless_core::{Code, Error, SafeText};
use serde_json::json;

use super::open_store;
use crate::{args::WebArgs, ui::Ui};

/// What opens a page in the person's browser.
const OPENER: &str = "xdg-open";

pub(super) async fn run(ui: &Ui, args: WebArgs) -> Result<ExitCode, Error> {
    let (places, _) = open_store().await?;
    let (url, seconds) = keyless_daemon::page_link(&places.operator_socket()).await?;
    if args.open {
        open(&url)?;
    }
    let data = json!({ "url": url, "good_for_seconds": seconds, "opened": args.open });
    let minutes = seconds / 60;
    let words =
        format!("{url}\nGood for one visit, within {minutes} minutes. Give it to nobody.\n");
    ui.answer("web", &data, &words);
    Ok(ExitCode::SUCCESS)
}

fn open(url: &str) -> Result<(), Error> {
    let quiet = || Stdio::null();
    let started =
        Command::new(OPENER).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    started.map(drop).map_err(|error| {
        let words =
            SafeText::words("xdg-open: ").and(error.kind()).and("; follow the link by hand");
        Error::with(Code::CommandNotFound, words)
    })
}
