//! What to do next, as command lines that the caller can run as they are.

use serde::Serialize;

use crate::{
    operator,
    plan::Plan,
    site::Site,
    status::{DriftSummary, has_manifest},
};

/// A command and what kind of step it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextAction {
    /// A stable word.
    pub action: &'static str,
    /// The command line.
    pub command: String,
}

/// After `status`: deploy what is wanted, or keep what was edited, and give agents what they work this with.
pub(crate) fn after_status(site: &Site, plan: &Plan, total: DriftSummary) -> Vec<NextAction> {
    let lacking = operator::lacking(site, &plan.workspace.manifest, &plan.workspace.targets);
    let bootstraps = lacking.into_iter().map(|(target, scope)| {
        let words = format!("bootstrap --scope {} --yes --json", scope.as_str());
        let command = site.command_for(None, Some(target.as_str()), &words);
        NextAction { action: "bootstrap", command }
    });
    let mut actions: Vec<NextAction> = bootstraps.collect();
    let mut add =
        |action, words: &str| actions.push(NextAction { action, command: site.command(words) });
    let drifted = total.modified + total.missing > 0;
    if drifted || total.extra > 0 {
        add("preview_diff", "preview --diff --json");
    }
    if drifted || !plan.changes.is_empty() {
        add("deploy_apply", "deploy --apply --yes --json");
    }
    if drifted && has_manifest(plan) {
        add("evolve_propose", "evolve propose --yes --json");
    }
    sorted(actions)
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
