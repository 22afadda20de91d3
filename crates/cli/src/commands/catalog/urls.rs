//! `keyless catalog add-url`, `status`, `refresh`, `pin`, `forget` and `remove`.

use std::process::ExitCode;

use keyless_core::{Error, Exit};
use keyless_daemon::{Config, Places, UrlCatalogs, UrlOutcome, UrlReport};
use serde_json::json;

use super::project;
use crate::{
    args::{
        CatalogAddUrlArgs, CatalogForgetArgs, CatalogPinArgs, CatalogRefreshArgs, CatalogUrlArgs,
    },
    prompt,
    ui::{Ui, table},
};

pub(super) async fn add(
    ui: &Ui,
    places: &Places,
    args: CatalogAddUrlArgs,
) -> Result<ExitCode, Error> {
    let mut catalogs = UrlCatalogs::load(places)?;
    let config = Config::load(&places.config_file())?;
    if args.enable && args.pin.is_none() && catalogs.names(&args.url) {
        catalogs.enable()?;
        let mut reports = catalogs.refresh(&config, false).await?;
        reports.retain(|report| report.url == args.url);
        return Ok(tell_of(ui, &catalogs, &reports));
    }
    catalogs.check_new(&args.url, args.pin.as_deref())?;
    let question = "A catalog says where freshly typed tokens may go. Trust this address?";
    if args.pin.is_none() && !args.yes && !prompt::confirm(question)? {
        ui.line("Nothing was added.");
        return Ok(ExitCode::SUCCESS);
    }
    let CatalogAddUrlArgs { url, pin, refresh_seconds, enable, .. } = args;
    let report = catalogs.add(&config, &url, pin, refresh_seconds, enable).await?;
    if !matches!(report.outcome, UrlOutcome::Loaded | UrlOutcome::LoadedFromCache) {
        ui.warn(format!(
            "the address is named all the same: keyless catalog refresh tries again, keyless catalog remove {url} takes it away"
        ));
    }
    Ok(tell_of(ui, &catalogs, &[report]))
}

/// Tells of one address.
fn tell_of(ui: &Ui, catalogs: &UrlCatalogs, reports: &[UrlReport]) -> ExitCode {
    if !catalogs.is_enabled() {
        ui.warn("catalogs from addresses don't count yet: --enable lets them");
    }
    tell(ui, "catalog add-url", reports)
}

pub(super) async fn refresh(
    ui: &Ui,
    places: &Places,
    args: &CatalogRefreshArgs,
) -> Result<ExitCode, Error> {
    let catalogs = UrlCatalogs::load(places)?;
    let config = Config::load(&places.config_file())?;
    let fetching = async {
        match &args.url {
            Some(url) => Ok(vec![catalogs.refresh_address(&config, url).await?]),
            None => catalogs.refresh(&config, args.all).await,
        }
    };
    let reports = ui.wait("Fetching catalogs", fetching).await?;
    Ok(tell(ui, "catalog refresh", &reports))
}

pub(super) fn status(ui: &Ui, places: &Places) -> Result<(), Error> {
    let catalogs = UrlCatalogs::load(places)?;
    let reports = catalogs.status();
    let files = project::files(places);
    let data = json!({
        "enabled": catalogs.is_enabled(),
        "addresses": reports,
        "files": files.iter().map(project::data).collect::<Vec<_>>(),
    });
    let mut words = words(&reports);
    if !files.is_empty() {
        let rows: Vec<Vec<String>> = files.iter().map(project::cells).collect();
        words.push('\n');
        words.push_str(&table(&["FILE", "PROVIDER", "TRUST", "NEXT"], &rows));
    }
    ui.answer("catalog status", &data, &words);
    Ok(())
}

pub(super) fn pin(ui: &Ui, places: &Places, args: CatalogPinArgs) -> Result<(), Error> {
    let pinned = UrlCatalogs::load(places)?.pin(&args.url, args.sha256)?;
    let data = json!({ "url": args.url, "sha256": pinned });
    ui.answer("catalog pin", &data, &format!("Pinned to {pinned}.\n"));
    Ok(())
}

pub(super) fn forget(ui: &Ui, places: &Places, args: &CatalogForgetArgs) -> Result<(), Error> {
    if !args.what.contains("://") {
        return project::forget(ui, places, &args.what);
    }
    let catalogs = UrlCatalogs::load(places)?;
    catalogs.forget(&args.what)?;
    let words = if catalogs.is_pinned(&args.what) {
        "Forgot what it brought first. Its pin stays: keyless catalog pin URL SHA256 gives it another.\n"
    } else {
        "Forgot what it brought first; keyless catalog refresh fetches it anew.\n"
    };
    ui.answer("catalog forget", &json!({ "url": args.what }), words);
    Ok(())
}

pub(super) fn remove(ui: &Ui, places: &Places, args: &CatalogUrlArgs) -> Result<(), Error> {
    UrlCatalogs::load(places)?.remove(&args.url)?;
    ui.answer("catalog remove", &json!({ "url": args.url }), "Taken away.\n");
    Ok(())
}

fn tell(ui: &Ui, command: &str, reports: &[UrlReport]) -> ExitCode {
    for report in reports.iter().filter(|report| report.speaks_for_ours()) {
        let provider = report.provider.as_deref().unwrap_or_default();
        ui.warn(format!(
            "what {} says of {provider} counts in place of what Keyless knows, also where its tokens may go, once somebody \
             who has the factor has agreed: keyless unlock shows it and asks",
            report.url
        ));
    }
    let good = |report: &UrlReport| {
        matches!(report.outcome, UrlOutcome::Loaded | UrlOutcome::LoadedFromCache)
    };
    let outcome = if reports.iter().all(good) { Ok(()) } else { Err(Exit::Failure) };
    ui.conclude(command, outcome, &json!({ "addresses": reports }), &words(reports))
}

fn words(reports: &[UrlReport]) -> String {
    let row = |report: &UrlReport| {
        let outcome = json!(report.outcome);
        vec![
            report.url.clone(),
            report.provider.clone().unwrap_or_default(),
            outcome.as_str().unwrap_or_default().to_owned(),
            report.sha256.clone().unwrap_or_default(),
            report.expected.clone().unwrap_or_default(),
            report.outcome.hint().unwrap_or_default().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    table(&["ADDRESS", "PROVIDER", "OUTCOME", "SHA-256", "HAS TO BE", "NEXT"], &rows)
}
