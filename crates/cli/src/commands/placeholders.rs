//! `keyless placeholders`: what an orchestrator puts into a guest's environment.

use std::{collections::BTreeMap, process::ExitCode};

use keyless_core::Error;

use crate::args::{PlaceholderFormat, PlaceholdersArgs};

pub(super) fn run(args: &PlaceholdersArgs) -> Result<ExitCode, Error> {
    let variables =
        keyless_daemon::fleet_placeholders(&args.catalog, &args.key_file, &args.session)?;
    match args.format {
        PlaceholderFormat::Env => {
            for variable in variables {
                println!("{}={}", variable.name, variable.placeholder);
            }
        }
        PlaceholderFormat::Json => {
            let map: BTreeMap<_, _> =
                variables.into_iter().map(|v| (v.name, v.placeholder)).collect();
            println!("{}", serde_json::json!(map));
        }
    }
    Ok(ExitCode::SUCCESS)
}
