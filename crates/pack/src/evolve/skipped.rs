//! Edits that can't be proposed: why, and what helps.

use serde::Serialize;

use super::At;
use crate::{
    desired::DesiredFile,
    paths::shown,
    site::{Site, shell_word},
    targets::TargetId,
};

/// An edit that can't be proposed.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// The target.
    pub target: TargetId,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// Why.
    pub reason: &'static str,
    /// The reason, as a stable code.
    pub reason_code: &'static str,
    /// The reason, in words.
    pub reason_message: &'static str,
    /// Commands that help.
    pub next_actions: Vec<String>,
    /// The module, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_id: Option<String>,
    /// The modules, where they are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub module_ids: Vec<String>,
    /// What helps, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
}

/// Something that helps.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// What to do.
    pub action: String,
    /// Why.
    pub reason: &'static str,
}

/// Why an edit with a credential in it is left out.
pub(super) const HOLDS_A_CREDENTIAL: &str = "secret_in_module";

pub(super) fn skip(site: &Site, at: At<'_>, file: &DesiredFile, reason: &'static str) -> Skipped {
    let (target, path) = at;
    let (message, commands, suggestions): (_, &[&str], &[(&str, &'static str)]) = match reason {
        "missing" => (
            "the file is not there any more; evolve restore or deploy puts it back",
            &["evolve restore --yes --json", "deploy --apply --yes --json"],
            &[
                ("agentpack evolve restore", "puts missing files back and touches no other"),
                ("agentpack deploy --apply", "deploys everything and writes the manifests"),
            ],
        ),
        "read_error" => (
            "the file can't be read",
            &["doctor --json"],
            &[("agentpack doctor", "shows which directory can't be read")],
        ),
        HOLDS_A_CREDENTIAL => (
            "the edit holds what looks like a credential, which would go into git",
            &[],
            &[(
                "keyless pack adopt-secret --file FILE --path SCOPE/SERVICE/PURPOSE",
                "moves it into the vault and leaves an alias, which can be proposed",
            )],
        ),
        _ => (
            "the file is made of several modules, and can't be taken apart at its markers any more",
            &[],
            &[("edit the module itself", "the markers between modules were changed")],
        ),
    };
    let path = shown(path);
    let word = shell_word(&path);
    let suggestion = |(action, reason): &(&str, &'static str)| Suggestion {
        action: action.replace("FILE", &word),
        reason,
    };
    let single = file.modules.len() == 1;
    Skipped {
        target: *target,
        path_posix: path.clone(),
        path,
        reason,
        reason_code: reason,
        reason_message: message,
        next_actions: commands.iter().map(|words| site.command(&narrowed(words, file))).collect(),
        module_id: single.then(|| file.modules[0].clone()),
        module_ids: if single { Vec::new() } else { file.modules.clone() },
        suggestions: suggestions.iter().map(suggestion).collect(),
    }
}

/// A restore of one module's file is a restore of that module.
fn narrowed(words: &str, file: &DesiredFile) -> String {
    match (&file.modules[..], words.strip_prefix("evolve restore ")) {
        ([id], Some(rest)) => format!("evolve restore --module-id {} {rest}", shell_word(id)),
        _ => words.to_owned(),
    }
}
