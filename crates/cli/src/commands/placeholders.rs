//! `keyless placeholders`: what an orchestrator puts into a guest's environment.

use std::{collections::BTreeMap, process::ExitCode};

use keyless_core::Error;

use crate::{
    args::{PlaceholderFormat, PlaceholdersArgs},
    ui::Ui,
};

pub(super) fn run(args: &PlaceholdersArgs) -> Result<ExitCode, Error> {
    let variables =
        keyless_daemon::fleet_placeholders(&args.catalog, &args.key_file, &args.session)?;
    match args.format {
        PlaceholderFormat::Env => {
            let lines = variables.iter().map(|v| format!("{}={}", v.name, v.placeholder));
            Ui::verbatim(&lines.collect::<Vec<_>>().join("\n"));
        }
        PlaceholderFormat::Json => {
            let map: BTreeMap<_, _> =
                variables.into_iter().map(|v| (v.name, v.placeholder)).collect();
            Ui::verbatim(&serde_json::json!(map).to_string());
        }
    }
    Ok(ExitCode::SUCCESS)
}
