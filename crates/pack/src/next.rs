//! What to do next, as command lines that the caller can run as they are.

use serde::Serialize;

use crate::{
    operator,
    plan::Plan,
    site::Site,
    status::{DriftSummary, has_manifest, without_manifest},
};

/// A command and what kind of step it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextAction {
    /// A stable word.
    pub action: &'static str,
    /// The command line.
    pub command: String,
}

/// After `status`: deploy what is wanted, or keep what was edited, and give agents what they work this with, which is
/// warned about, too.
pub(crate) fn after_status(
    site: &Site,
    plan: &Plan,
    total: DriftSummary,
) -> (Vec<NextAction>, Vec<String>) {
    let (mut actions, mut warnings) = (Vec::new(), Vec::new());
    for lacking in operator::lacking(site, &plan.workspace.manifest, &plan.workspace.targets) {
        let command = site.bootstrap_command(lacking.target.as_str(), lacking.scope.as_str());
        warnings.extend(lacking.warnings(&command));
        let command = format!("{command} --yes --json");
        actions.push(NextAction { action: "bootstrap", command });
    }
    let mut add =
        |action, words: &str| actions.push(NextAction { action, command: site.command(words) });
    let drifted = total.modified + total.missing > 0;
    if drifted || total.extra > 0 {
        add("preview_diff", "preview --diff --json");
    }
    if drifted || !without_manifest(plan).is_empty() {
        add("deploy_apply", "deploy --apply --yes --json");
    }
    if drifted && has_manifest(plan) {
        add("evolve_propose", "evolve propose --yes --json");
    }
    (sorted(actions), warnings)
}

/// By kind, then by text; each once.
pub(crate) fn sorted(mut actions: Vec<NextAction>) -> Vec<NextAction> {
    actions.sort_by(|a, b| (priority(a.action), &a.command).cmp(&(priority(b.action), &b.command)));
    actions.dedup();
    actions
}

fn priority(action: &str) -> u8 {
    match action {
        "bootstrap" => 0,
        "doctor" => 10,
        "update" => 20,
        "preview" | "preview_diff" => 30,
        "diff" => 40,
        "plan" => 50,
        "deploy" | "deploy_apply" => 60,
        "status" => 70,
        "evolve_propose" => 80,
        "evolve" | "evolve_restore" => 81,
        "rollback" => 90,
        _ => 100,
    }
}
