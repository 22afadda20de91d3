//! `keyless web`: a link to the page where a person answers what agents ask.

use std::{
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, SafeText};
use serde_json::json;

use super::open_store;
use crate::{args::WebArgs, ui::Ui};

/// What opens a page in the person's browser.
const OPENER: &str = "xdg-open";
/// For how long it is waited for that to say that there is no browser, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);

pub(super) async fn run(ui: &Ui, args: WebArgs) -> Result<ExitCode, Error> {
    let (places, _) = open_store().await?;
    let (url, seconds) = keyless_daemon::page_link(&places.operator_socket()).await?;
    let opened = args.open && open(&url)?;
    if args.open && !opened {
        ui.warn("no browser took the link; follow it by hand");
    }
    let data = json!({ "url": url, "good_for_seconds": seconds, "opened": opened });
    let minutes = seconds / 60;
    let words =
        format!("{url}\nGood for one visit, within {minutes} minutes. Give it to nobody.\n");
    ui.answer("web", &data, &words);
    Ok(ExitCode::SUCCESS)
}

/// Whether a browser took it, as far as that shows: the opener says within moments that there is none, and stays as long
/// as some browsers do.
fn open(url: &str) -> Result<bool, Error> {
    let quiet = || Stdio::null();
    let started =
        Command::new(OPENER).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    let mut opener = started.map_err(|error| {
        let words =
            SafeText::words("xdg-open: ").and(error.kind()).and("; follow the link by hand");
        Error::with(Code::CommandNotFound, words)
    })?;
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        if let Ok(Some(status)) = opener.try_wait() {
            return Ok(status.success());
        }
        sleep(STEP);
    }
    Ok(true)
}
