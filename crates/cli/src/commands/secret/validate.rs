//! `keyless secret validate`: what the project needs, and what of it is there.

use std::{collections::BTreeMap, env, path::PathBuf, process::ExitCode};

use jiff::Zoned;
use keyless_core::{Code, Error, Exit, SafeText, SecretPath};
use keyless_daemon::{
    Operator,
    vault::{Freshness, Inventory, Manifest, Origin, Row},
};
use serde_json::{Value, json};

use super::super::{open_store, unlock_vault};
use crate::{
    args::ValidateArgs,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, args: ValidateArgs) -> Result<ExitCode, Error> {
    let project = project(args.project.clone())?;
    let (places, store) = open_store().await?;
    let inventory = keyless_daemon::project_inventory(&places, &store, &project).await?;
    let values = if args.values { Some(values(&args, &inventory).await?) } else { None };
    for warning in &inventory.warnings {
        ui.warn(warning.to_string());
    }
    let today = Zoned::now().date();
    let judged: Vec<Judged<'_>> = inventory
        .rows
        .iter()
        .map(|(path, row)| Judged::of(path, row, today, values.as_ref()))
        .collect();
    let bad = judged.iter().filter(|judged| judged.is_bad()).count() + inventory.faults.len();
    let faults: Vec<String> = inventory.faults.iter().map(ToString::to_string).collect();
    let data = json!({
        "project": project,
        "secrets": judged.iter().map(Judged::data).collect::<Vec<_>>(),
        "faults": faults,
    });
    let rows: Vec<Vec<String>> = judged.iter().map(Judged::cells).collect();
    let mut words = table(&["PATH", "NEEDED", "STATE", "EXPIRES", "ASKS"], &rows);
    for fault in &faults {
        words.push_str("fault: ");
        words.push_str(fault);
        words.push('\n');
    }
    let outcome = if bad == 0 { Ok(()) } else { Err(Exit::Failure) };
    Ok(ui.conclude("secret validate", outcome, &data, &words))
}

fn project(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(folder) = named {
        return Ok(folder);
    }
    let here = env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })?;
    Manifest::project_of(&here).ok_or_else(|| {
        let words = "no .keyless/secrets.toml here or above, up to the repository's root";
        Error::with(Code::ManifestMissing, SafeText::words(words))
    })
}

/// Whether each stored secret's value can be had now.
async fn values(
    args: &ValidateArgs,
    inventory: &Inventory,
) -> Result<BTreeMap<SecretPath, Option<String>>, Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let stored = inventory.rows.iter().filter(|(_, row)| row.has_value());
    let paths: Vec<SecretPath> = stored.map(|(path, _)| path.clone()).collect();
    let found = Operator::new(vault).look_over(&paths, "secret validate").await?;
    let faults = found.into_iter().map(|found| found.err().map(|error| error.message()));
    Ok(paths.into_iter().zip(faults).collect())
}

/// One row and what is said of it.
struct Judged<'a> {
    path: &'a SecretPath,
    row: &'a Row,
    freshness: Freshness,
    fault: Option<String>,
}

impl<'a> Judged<'a> {
    fn of(
        path: &'a SecretPath,
        row: &'a Row,
        today: jiff::civil::Date,
        values: Option<&BTreeMap<SecretPath, Option<String>>>,
    ) -> Self {
        let fault = values.and_then(|values| values.get(path).cloned().flatten());
        Self { path, row, freshness: row.upkeep.freshness(today), fault }
    }

    fn state(&self) -> &str {
        match (&self.fault, self.row.origin, self.row.has_value()) {
            (Some(_), _, _) => "unavailable",
            (None, Origin::Bare, _) => "unknown",
            (None, _, false) => "missing",
            (None, _, true) => self.freshness.as_str(),
        }
    }

    /// A needed secret that can't be used as things are.
    fn is_bad(&self) -> bool {
        let there = self.row.has_value() && self.fault.is_none();
        self.row.required && (!there || self.freshness == Freshness::Expired)
    }

    fn data(&self) -> Value {
        json!({
            "path": self.path,
            "required": self.row.required,
            "origin": self.row.origin,
            "state": self.state(),
            "expires_at": self.row.upkeep.expires_at,
            "approve_on_use": self.row.approve_on_use,
            "fault": self.fault,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.path.to_string(),
            if self.row.required { "required" } else { "optional" }.to_owned(),
            self.state().to_owned(),
            self.row.upkeep.expires_at.map(|day| day.to_string()).unwrap_or_default(),
            self.row.approve_on_use.to_string(),
        ]
    }
}
