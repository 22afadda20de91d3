//! The tools, one row each, in the order of the spec. Their input schemas are the spec's, letter by letter.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Advertised, ToolAnnotations};
use serde_json::{Value, json};

use super::Tool;

/// One tool.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    pub(super) tool: Tool,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    /// The JSON Schema of its arguments.
    input: &'static str,
    /// The envelope's `command`; more than one where an argument chooses.
    commands: &'static [&'static str],
    /// What is in `data` when all went well.
    data: &'static [&'static str],
}

/// What a call does to the world.
#[derive(Clone, Copy)]
enum Effect {
    /// Adds what was not there, and replaces nothing.
    Adds,
    /// A token is remembered; nothing else changes.
    Issues,
    /// Nothing; a git source that is not here yet may be fetched into the cache.
    Reads,
    /// Nothing, and nobody else is asked.
    ReadsHere,
    /// Files of agents are written over and removed; a snapshot is kept.
    Replaces,
}

const CHANGES: &[&str] = &["profile", "targets", "changes", "summary"];

/// Every tool of the toolset `pack`.
pub(crate) const TOOLS: &[Row] = &[
    Row {
        name: "plan",
        tool: Tool::Plan,
        title: "Plan a deploy",
        description: "Tells what a deploy would create, update and delete in the directories of coding agents. \
                      Writes nothing.",
        effect: Effect::Reads,
        input: include_str!("schemas/plan.json"),
        commands: &["plan"],
        data: CHANGES,
    },
    Row {
        name: "diff",
        tool: Tool::Diff,
        title: "Diff",
        description: "The same as plan, named as the command diff. For the lines that differ, call preview with diff.",
        effect: Effect::Reads,
        input: include_str!("schemas/plan.json"),
        commands: &["diff"],
        data: CHANGES,
    },
    Row {
        name: "preview",
        tool: Tool::Preview,
        title: "Preview a deploy",
        description: "The plan, and with diff=true a unified diff of each file. Writes nothing.",
        effect: Effect::Reads,
        input: include_str!("schemas/preview.json"),
        commands: &["preview"],
        data: &["profile", "targets", "plan", "diff"],
    },
    Row {
        name: "status",
        tool: Tool::Status,
        title: "Drift",
        description: "Compares what is on disk with what the config repo wants: modified, missing and extra files, \
                      and what to do next. Writes nothing.",
        effect: Effect::Reads,
        input: include_str!("schemas/status.json"),
        commands: &["status"],
        data: &["profile", "targets", "drift", "summary", "summary_by_root"],
    },
    Row {
        name: "doctor",
        tool: Tool::Doctor,
        title: "Check the environment",
        description: "Tells whether the targets' directories exist and can be written, and what else is not in order. \
                      Writes nothing.",
        effect: Effect::ReadsHere,
        input: include_str!("schemas/doctor.json"),
        commands: &["doctor"],
        data: &["machine_id", "roots", "gitignore_fixes"],
    },
    Row {
        name: "deploy",
        tool: Tool::Deploy,
        title: "Plan a deploy for review",
        description: "Plans, and gives a confirm_token for exactly this plan, good for ten minutes and one apply. Show \
                      the plan to the person, then call deploy_apply with the same arguments and the token.",
        effect: Effect::Issues,
        input: include_str!("schemas/plan.json"),
        commands: &["deploy"],
        data: &[
            "applied",
            "profile",
            "targets",
            "changes",
            "summary",
            "confirm_token",
            "confirm_plan_hash",
        ],
    },
    Row {
        name: "deploy_apply",
        tool: Tool::DeployApply,
        title: "Apply the reviewed deploy",
        description: "Writes the plan that the confirm_token is for, whole or not at all, and keeps a snapshot. Needs \
                      yes=true. Files that nobody deployed are overwritten only with adopt=true.",
        effect: Effect::Replaces,
        input: include_str!("schemas/deploy_apply.json"),
        commands: &["deploy"],
        data: &["applied", "profile", "targets", "changes", "summary"],
    },
    Row {
        name: "rollback",
        tool: Tool::Rollback,
        title: "Roll back",
        description: "Brings the targets back to how a deploy left them (to: its snapshot_id) or found them (to: \
                      before:ID). Needs yes=true.",
        effect: Effect::Replaces,
        input: include_str!("schemas/rollback.json"),
        commands: &["rollback"],
        data: &["rolled_back_to", "event_snapshot_id"],
    },
    Row {
        name: "evolve_propose",
        tool: Tool::EvolvePropose,
        title: "Propose edits as overlays",
        description: "Takes edits of deployed files over into the config repo, as overlays on a new branch. Needs \
                      yes=true, unless dry_run.",
        effect: Effect::Adds,
        input: include_str!("schemas/evolve_propose.json"),
        commands: &["evolve.propose"],
        data: &["created"],
    },
    Row {
        name: "evolve_restore",
        tool: Tool::EvolveRestore,
        title: "Put missing files back",
        description: "Writes deployed files that are missing; touches none that is there. Needs yes=true, unless \
                      dry_run.",
        effect: Effect::Adds,
        input: include_str!("schemas/evolve_restore.json"),
        commands: &["evolve.restore"],
        data: &["restored", "summary", "reason"],
    },
    Row {
        name: "explain",
        tool: Tool::Explain,
        title: "Explain",
        description: "Tells from which module and which overlay each planned change or drifted file comes.",
        effect: Effect::Reads,
        input: include_str!("schemas/explain.json"),
        commands: &["explain.plan", "explain.status", "explain"],
        data: &["profile", "targets"],
    },
];

impl Row {
    /// The tool as it is advertised.
    pub(crate) fn advertised(&self) -> Advertised {
        let (read_only, destructive, idempotent, open_world) = match self.effect {
            Effect::Adds => (false, false, false, false),
            Effect::Issues => (false, false, false, true),
            Effect::Reads => (true, false, true, true),
            Effect::ReadsHere => (true, false, true, false),
            Effect::Replaces => (false, true, false, true),
        };
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world);
        Advertised::new(self.name, self.description, self.input())
            .with_title(self.title)
            .with_raw_output_schema(self.output())
            .with_annotations(annotations)
    }

    fn input(&self) -> Arc<JsonObject> {
        serde_json::from_str(self.input).expect("the spec's schemas are JSON objects")
    }

    /// The envelope, as successes and failures have it: on a failure `data` is empty.
    fn output(&self) -> Arc<JsonObject> {
        let fields = self.data.join(", ");
        let error = json!({
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string", "description": "Stable, such as E_CONFIRM_REQUIRED." },
                "message": { "type": "string" },
                "details": { "type": "object", "description": "With reason_code, next_actions, and often a hint." }
            }
        });
        let strings = json!({ "type": "array", "items": { "type": "string" } });
        let schema = json!({
            "type": "object",
            "required": [
                "schema_version", "ok", "command", "command_id", "command_path", "version", "data", "warnings", "errors"
            ],
            "properties": {
                "schema_version": { "const": 1 },
                "ok": { "type": "boolean" },
                "command": { "enum": self.commands },
                "command_id": { "type": "string" },
                "command_path": strings,
                "version": { "type": "string" },
                "data": { "type": "object", "description": format!("Empty on a failure, else with {fields}.") },
                "warnings": strings,
                "errors": { "type": "array", "items": error }
            }
        });
        let Value::Object(schema) = schema else { unreachable!("an object was just written") };
        Arc::new(schema)
    }
}
