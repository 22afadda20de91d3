//! The project that the folder lies in: its manifest, and what of it is there.

use std::path::Path;

use keyless_vault::{IndexFile, Inventory, Manifest, Secret};

use super::Check;
use crate::{ci, operator::counted, places::Places};

pub(super) fn look(places: &Places, folder: &Path, known: &[Secret]) -> Vec<Check> {
    let Some(project) = Manifest::project_of(folder) else {
        let remedy = "keyless setup looks for the variables of a project, and writes one";
        return vec![Check::note(
            "project.manifest",
            "no .keyless/secrets.toml here or above",
            remedy,
        )];
    };
    let place = project.join(".keyless/secrets.toml").display().to_string();
    let manifest = match Manifest::load(&project) {
        Ok(manifest) => manifest,
        Err(error) => {
            return vec![Check::fault("project.manifest", error.message(), "mend the file")];
        }
    };
    // A fault of the index is told of the index.
    let index = IndexFile::load(&places.index_file()).unwrap_or_default();
    let inventory = Inventory::merge(&manifest, &index, known);
    let fault = |fault: &keyless_vault::Fault| {
        Check::fault("project.manifest", format!("{place}: {fault}"), "mend that entry")
    };
    let mut checks: Vec<Check> = manifest.faults.iter().map(fault).collect();
    if checks.is_empty() {
        checks.push(Check::ok(
            "project.manifest",
            format!("{} in {place}", counted(inventory.rows.len(), "secret")),
        ));
    }
    if ci::is_on() {
        checks.push(by_environment(places, folder));
        return checks;
    }
    for (path, row) in inventory.rows.iter().filter(|(_, row)| !row.has_value()) {
        let remedy = format!("keyless setup, or keyless secret {} {path}", row.stored.verb());
        let found = format!("{path} is declared and has no value");
        checks.push(if row.required {
            Check::fault("project.secrets", found, remedy)
        } else {
            Check::note("project.secrets", found, remedy)
        });
    }
    checks
}

/// In env-only mode: whether the environment has what the project requires.
fn by_environment(places: &Places, folder: &Path) -> Check {
    match ci::report(places, folder) {
        Ok(count) => Check::ok("project.secrets", format!("the environment has {count} values")),
        Err(error) => {
            Check::fault("project.secrets", error.message(), "set the variables that are named")
        }
    }
}
