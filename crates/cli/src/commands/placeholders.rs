//! `keyless placeholders`: what an orchestrator puts into a guest's environment.

use std::{collections::BTreeMap, process::ExitCode};

use keyless_core::{Code, Error, SafeText};
use serde_json::json;

use crate::{
    args::{PlaceholderFormat, PlaceholdersArgs},
    ui::Ui,
};

pub(super) fn run(ui: &Ui, args: &PlaceholdersArgs) -> Result<ExitCode, Error> {
    if ui.is_json() && args.format.is_some() {
        let words = "--json has a form of its own, and --format another; say one of them";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let variables =
        keyless_daemon::fleet_placeholders(&args.catalog, &args.key_file, &args.session)?;
    let map: BTreeMap<_, _> = variables.iter().map(|v| (&v.name, &v.placeholder)).collect();
    match args.format {
        _ if ui.is_json() => ui.answer("placeholders", &json!({ "placeholders": map }), ""),
        None | Some(PlaceholderFormat::Env) => {
            let lines = variables.iter().map(|v| format!("{}={}", v.name, v.placeholder));
            Ui::verbatim(&lines.collect::<Vec<_>>().join("\n"));
        }
        Some(PlaceholderFormat::Json) => Ui::verbatim(&json!(map).to_string()),
    }
    Ok(ExitCode::SUCCESS)
}
