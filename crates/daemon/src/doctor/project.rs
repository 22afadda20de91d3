//! The project that the folder lies in: its manifest, and what of it is there.

use std::path::Path;

use keyless_core::Code;
use keyless_vault::{EnvName, IndexFile, Inventory, Manifest, Secret};

use super::{Check, CheckState};
use crate::{
    ci,
    operator::counted,
    places::Places,
    setup::{signer_of, uncarried},
};

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
    checks.extend(without_hosts(&inventory, known));
    checks
}

/// What the project declares and no session of `keyless run` can use: a warning where the project requires it and requests
/// carry it, else a note, since `keyless exec` can and it may be meant.
fn without_hosts(inventory: &Inventory, known: &[Secret]) -> Option<Check> {
    let is_declared = |secret: &&Secret| inventory.rows.contains_key(&secret.path);
    let idle: Vec<&Secret> = known
        .iter()
        .filter(is_declared)
        .filter(|secret| secret.metadata.egress.is_none())
        .collect();
    let paths: Vec<&str> = idle.iter().map(|secret| secret.path.as_str()).collect();
    let many = paths.len() > 1;
    if paths.is_empty() {
        return None;
    }
    // A host helps none of what a program uses by itself, or a protocol that carries no placeholder.
    let is_carried = |secret: &&&Secret| {
        let name = secret.metadata.env.as_ref().map_or("", EnvName::as_str);
        uncarried(name, None).is_none()
    };
    let carried: Vec<&str> =
        idle.iter().filter(is_carried).map(|secret| secret.path.as_str()).collect();
    let names = if many {
        "name no host, so keyless run can't use them"
    } else {
        "names no host, so keyless run can't use it"
    };
    let found =
        format!("{} of this project {names}: {}", counted(paths.len(), "secret"), paths.join(", "));
    let exec = "keyless exec gives such a value to one command (docs/setup.md)";
    let is_required =
        |secret: &&Secret| inventory.rows.get(&secret.path).is_some_and(|row| row.required);
    let lacks = idle.iter().filter(is_carried).any(is_required);
    let state = if lacks { CheckState::Warning } else { CheckState::Note };
    let remedy = match carried.as_slice() {
        [] => exec.to_owned(),
        [path] if !many => {
            format!("keyless secret set {path} --to HOST{}", signing(&idle, known))
        }
        paths if paths.len() == idle.len() => {
            format!("keyless secret set PATH --to HOST{}", signing(&idle, known))
        }
        paths => {
            let paths = paths.join(", ");
            let signing = signing(&idle, known);
            format!("keyless secret set PATH --to HOST for {paths}{signing}; {exec}")
        }
    };
    Some(Check::other("project.hosts", state, found, remedy))
}

/// What those of them need as well that are never sent but sign.
fn signing(idle: &[&Secret], known: &[Secret]) -> String {
    let one = |secret: &&Secret| {
        let signer = signer_of(&secret.path, &secret.metadata, known)?;
        let of = if idle.len() > 1 { format!(" for {}", secret.path) } else { String::new() };
        Some(format!(", with --sign {signer}{of}"))
    };
    idle.iter().filter_map(one).collect()
}

/// In env-only mode: whether the environment has what the project requires.
fn by_environment(places: &Places, folder: &Path) -> Check {
    match ci::report(places, folder) {
        Ok(count) => Check::ok("project.secrets", format!("the environment has {count} values")),
        Err(error) if error.code() == Code::VariableMissing => {
            Check::fault("project.secrets", error.message(), "set the variables that are named")
        }
        Err(error) => Check::fault("project.secrets", error.message(), ci::next_step(error.code())),
    }
}
