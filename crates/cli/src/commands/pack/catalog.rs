//! The command line and the JSON output, described for machines: `help --json` and `schema --json`.
//!
//! Made from the parser itself, so that it can't fall behind.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use keyless_pack::{Code, TargetId, commands::MUTATING};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::AgentpackCli;

/// Variants of commands that a flag makes.
const VARIANTS: &[(&str, &str)] =
    &[("deploy", "--apply"), ("doctor", "--fix"), ("import", "--apply")];

/// The payload of `help`.
#[derive(Debug, Serialize)]
pub(super) struct Catalog {
    global_args: Vec<ArgRow>,
    commands: Vec<CommandRow>,
    mutating_commands: Vec<&'static str>,
    targets: Vec<TargetId>,
    notes: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct CommandRow {
    id: String,
    path: Vec<String>,
    mutating: bool,
    supports_json: bool,
    args: Vec<ArgRow>,
    #[serde(skip)]
    about: String,
}

#[derive(Debug, Serialize)]
struct ArgRow {
    id: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    long: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    short: Option<String>,
    required: bool,
}

/// The whole command line.
pub(super) fn catalog() -> Catalog {
    let root = AgentpackCli::command();
    let mut commands = Vec::new();
    collect(&root, &mut Vec::new(), &mut commands);
    commands.sort_by(|a, b| a.id.cmp(&b.id));
    Catalog {
        global_args: sorted(root.get_arguments(), |row: &ArgRow| row.id.clone()),
        commands,
        mutating_commands: MUTATING.to_vec(),
        targets: TargetId::LISTED.to_vec(),
        notes: vec![
            "in this order: doctor, update, preview, deploy --apply; after edits: status, evolve propose, deploy --apply",
            "commands in mutating_commands need --yes together with --json",
            "deploy without --apply, and everything with --dry-run, only plans",
        ],
    }
}

fn collect(command: &clap::Command, path: &mut Vec<String>, rows: &mut Vec<CommandRow>) {
    for sub in command.get_subcommands() {
        path.push(sub.get_name().to_owned());
        if sub.has_subcommands() {
            collect(sub, path, rows);
        } else {
            let id = path.join(" ");
            for (_, flag) in VARIANTS.iter().filter(|(name, _)| id == *name) {
                push(sub, path, format!("{id} {flag}"), rows);
            }
            push(sub, path, id, rows);
        }
        path.pop();
    }
}

fn push(command: &clap::Command, path: &[String], id: String, rows: &mut Vec<CommandRow>) {
    rows.push(CommandRow {
        mutating: MUTATING.contains(&id.as_str()),
        supports_json: id != "completions" && id != "mcp serve",
        args: sorted(command.get_arguments().filter(|arg| !arg.is_global_set()), |row: &ArgRow| {
            (row.kind == "flag", row.id.clone())
        }),
        about: command.get_about().map(ToString::to_string).unwrap_or_default(),
        path: path.to_vec(),
        id,
    });
}

/// Arguments in agentpack's order.
fn sorted<'a, K: Ord>(
    arguments: impl Iterator<Item = &'a clap::Arg>,
    order: impl Fn(&ArgRow) -> K,
) -> Vec<ArgRow> {
    let mut rows: Vec<ArgRow> = arguments.map(row).collect();
    rows.sort_by_key(order);
    rows
}

fn row(arg: &clap::Arg) -> ArgRow {
    let takes_value = arg.get_action().takes_values();
    ArgRow {
        id: arg.get_id().to_string(),
        kind: match (arg.is_positional(), takes_value) {
            (true, _) => "positional",
            (false, true) => "option",
            (false, false) => "flag",
        },
        long: arg.get_long().map(str::to_owned),
        short: arg.get_short().map(String::from),
        required: arg.is_required_set(),
    }
}

impl Catalog {
    pub(super) fn words(&self) -> String {
        let width = self.commands.iter().map(|row| row.id.len()).max().unwrap_or(0);
        let line = |row: &CommandRow| format!("{:<width$}  {}\n", row.id, row.about);
        self.commands.iter().map(line).collect::<Vec<_>>().concat()
    }

    pub(super) fn markdown(&self) -> String {
        let mut text =
            "# Command line\n\n| command | what it does | writes |\n|---|---|---|\n".to_owned();
        for row in &self.commands {
            let writes = if row.mutating { "yes" } else { "" };
            writeln!(text, "| `{}` | {} | {writes} |", row.id, row.about).expect("a string");
        }
        text
    }
}

/// The payload of `schema`.
pub(super) fn schema() -> Value {
    let codes: Vec<Value> = Code::ALL
        .iter()
        .map(|code| json!({"code": code.as_str(), "reason_code": code.reason(), "next_actions": code.next_actions()}))
        .collect();
    json!({
        "envelope": {
            "schema_version": 1,
            "fields": {
                "schema_version": "number",
                "ok": "boolean",
                "command": "string",
                "command_id": "string",
                "command_path": "array[string]",
                "version": "string",
                "data": "object",
                "warnings": "array[string]",
                "errors": "array[{code,message,details?}]",
            },
            "error_item": {"code": "string", "message": "string", "details": "object|null"},
        },
        "commands": payloads(),
        "error_codes": codes,
        "path_conventions": {
            "native": "path-like fields use OS-native separators",
            "posix": "every path-like field has a companion that ends in _posix and uses /",
            "hashes": "bare hex in plans, with the prefix sha256: in status and preview",
        },
    })
}

/// The payload of each command; `?` marks a field that is not always there.
fn payloads() -> Value {
    let changes = ["profile", "targets", "changes", "summary"];
    let fields = json!({
        "add": ["module_id", "manifest", "manifest_posix"],
        "adopt-secret": ["path", "path_posix", "line", "kind", "reference"],
        "bootstrap": ["applied", "reason?", "snapshot_id?", "targets", "scope", "changes", "summary"],
        "deploy": ["applied", "reason?", "snapshot_id?", "profile", "targets", "changes", "summary"],
        "diff": changes,
        "doctor": ["machine_id", "roots", "gitignore_fixes", "plaintext_tokens?", "next_actions?"],
        "evolve.propose": ["created", "reason?", "candidates?", "skipped?", "summary?", "branch?", "scope?", "files?",
            "files_posix?", "committed?"],
        "evolve.restore": ["restored", "summary", "reason"],
        "explain.plan": ["profile", "targets", "changes"],
        "explain.status": ["profile", "targets", "drift"],
        "fetch": ["store", "store_posix", "git_modules_fetched"],
        "help": ["global_args", "commands", "mutating_commands", "targets", "notes"],
        "import": ["applied", "reason?", "repo", "repo_posix", "home_root", "home_root_posix", "project", "plan",
            "summary", "conflicts", "next_actions"],
        "init": ["repo", "repo_posix", "git?", "bootstrap?", "guided?", "targets?", "scope?"],
        "lock": ["lockfile", "lockfile_posix", "modules"],
        "overlay.edit": ["module_id", "scope", "overlay_kind", "overlay_dir", "overlay_dir_posix", "created", "sparse",
            "materialized", "patches_dir", "project", "machine_id", "project_id"],
        "overlay.path": ["module_id", "scope", "overlay_dir", "overlay_dir_posix"],
        "overlay.rebase": ["module_id", "scope", "overlay_dir", "overlay_dir_posix", "dry_run", "sparsify", "report"],
        "plan": changes,
        "policy.audit": ["root", "root_posix", "lockfile", "modules", "org_policy_pack?", "change_summary?"],
        "policy.lint": ["root", "root_posix", "issues", "summary"],
        "policy.lock": ["lockfile_path", "lockfile_path_posix", "resolved_version", "sha256", "files"],
        "preview": ["profile", "targets", "plan", "diff?"],
        "record": ["path", "path_posix", "recorded_at", "machine_id"],
        "remote.set": ["repo", "repo_posix", "remote", "url"],
        "remove": ["module_id", "manifest", "manifest_posix"],
        "rollback": ["rolled_back_to", "event_snapshot_id"],
        "score": ["modules", "read_stats"],
        "status": ["profile", "targets", "drift", "summary", "summary_by_root", "summary_total?", "next_actions?",
            "next_actions_detailed?"],
        "sync": ["repo", "repo_posix", "remote", "branch", "rebase", "commands"],
        "update": ["lockfile", "lockfile_posix", "store", "store_posix", "steps", "git_modules_fetched"],
    });
    let rows = fields.as_object().into_iter().flatten();
    rows.map(|(name, fields)| (name.clone(), json!({"data_fields": fields}))).collect()
}

pub(super) fn schema_words(schema: &Value) -> String {
    format!("{schema:#}\n")
}
