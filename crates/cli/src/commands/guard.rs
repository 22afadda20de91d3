//! `keyless guard`: asks the deny rules, and lets coding agents ask them.

use std::{
    env,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{
    Code, Error, Exit,
    deny::{Blocked, Decision},
};
use keyless_daemon::{
    Places,
    nl::guard::{
        GuardRules,
        claude::{self, Installed},
    },
    path_unusable,
};
use serde_json::{Value, json};

use crate::{
    args::{GuardCheckArgs, GuardCommand, GuardInstallArgs},
    ui::{self, Ui, table},
};

/// As much as a tool's call may be; Claude Code's are far smaller.
const MAX_CALL: u64 = 16 * 1024 * 1024;
/// With this status Claude Code blocks a call.
const BLOCKS: u8 = 2;

pub(super) fn run(ui: &Ui, command: GuardCommand) -> Result<ExitCode, Error> {
    match command {
        GuardCommand::Check(args) => check(ui, &args),
        GuardCommand::Hook => Ok(hook()),
        GuardCommand::Install(args) => install(ui, &args),
        GuardCommand::Uninstall(args) => uninstall(ui, &args),
        GuardCommand::Rules => list(ui),
    }
}

fn check(ui: &Ui, args: &GuardCheckArgs) -> Result<ExitCode, Error> {
    let rules = rules(ui)?;
    match rules.check(&args.action_type, &args.command.join(" ")) {
        Decision::Allow => {
            ui.answer("guard check", &json!({ "decision": "allow" }), "Allowed.\n");
            Ok(ExitCode::SUCCESS)
        }
        Decision::Block(blocked) => {
            let mut data = serde_json::to_value(&blocked).unwrap_or_default();
            data["decision"] = "block".into();
            data["nl_code"] = blocked.code().nl_code().into();
            Ok(ui.conclude("guard check", Err(Exit::Refused), &data, &words(&blocked)))
        }
    }
}

fn words(blocked: &Blocked) -> String {
    let disguised = if blocked.is_evasion { " It was disguised." } else { "" };
    format!(
        "Blocked by {}: {}{disguised}\nInstead: {}\n  {}\n",
        blocked.rule_id,
        blocked.reason,
        blocked.safe_alternative.description,
        blocked.safe_alternative.example
    )
}

/// Whatever goes wrong here blocks: any other status would let the call through.
fn hook() -> ExitCode {
    let mut input = String::new();
    let read = std::io::stdin().take(MAX_CALL).read_to_string(&mut input);
    let refusal = match (read, Places::from_environment()) {
        (Ok(_), Ok(places)) => claude::answer(&GuardRules::new(places.guard_file()), &input),
        _ => claude::answer(&GuardRules::new(PathBuf::new()), ""),
    };
    let Some(refusal) = refusal else { return ExitCode::SUCCESS };
    Ui::verbatim(&refusal.json.to_string());
    ui::log(&refusal.words);
    ExitCode::from(BLOCKS)
}

/// Claude Code's settings: those of the account, or of the project that this folder is in.
fn settings_file(args: &GuardInstallArgs) -> Result<PathBuf, Error> {
    const PLACE: &str = ".claude/settings.json";
    let home = env::var_os("HOME").map(PathBuf::from);
    if args.user {
        let home = home.ok_or_else(|| Error::with(Code::HomeUnset, "HOME is not set".into()))?;
        return Ok(home.join(PLACE));
    }
    let here = env::current_dir().map_err(|error| path_unusable(Path::new("."), &error))?;
    // A home that is kept in git is no project: its settings are those of the account.
    let is_root = |folder: &&Path| folder.join(".git").exists() && home.as_deref() != Some(folder);
    let root = here.ancestors().find(is_root).unwrap_or(&here);
    let file = root.join(PLACE);
    claude::check_inside(&file, root)?;
    Ok(file)
}

fn uninstall(ui: &Ui, args: &GuardInstallArgs) -> Result<ExitCode, Error> {
    let file = settings_file(args)?;
    let removed = claude::uninstall(&file)?;
    let what = if removed { "no longer asks" } else { "did not ask" };
    let words = format!("Claude Code {what} the guard ({}).\n", file.display());
    let data = json!({ "file": file.to_string_lossy(), "removed": removed });
    ui.answer("guard uninstall", &data, &words);
    Ok(ExitCode::SUCCESS)
}

fn install(ui: &Ui, args: &GuardInstallArgs) -> Result<ExitCode, Error> {
    let file = settings_file(args)?;
    let program =
        env::current_exe().map_err(|error| path_unusable(Path::new("keyless"), &error))?;
    let installed = claude::install(&file, &claude::hook_command(&program)?)?;
    if claude::may_go_away(&program) {
        ui.warn(format!(
            "{} may be removed, and from then on each tool is blocked. Install keyless where it stays, \
             and run its `keyless guard install claude`.",
            program.display()
        ));
    }
    if !args.user {
        ui.warn(format!(
            "Claude Code reads {} where it is started in that folder, and the hook in it is this machine's {}: whoever has the file \
             and no such program is blocked at each tool. --user keeps it to yourself, wherever you start it.",
            file.display(),
            program.display()
        ));
    }
    let what = match installed {
        Installed::Added => "now asks the guard before each tool",
        Installed::Before => "already asks the guard before each tool",
        Installed::Renewed => {
            "asks the guard before each tool, and from now on does nothing without it"
        }
    };
    let words = format!("Claude Code {what} ({}).\n", file.display());
    let data = json!({
        "file": file.to_string_lossy(),
        "added": installed == Installed::Added,
        "renewed": installed == Installed::Renewed,
    });
    ui.answer("guard install", &data, &words);
    Ok(ExitCode::SUCCESS)
}

fn list(ui: &Ui) -> Result<ExitCode, Error> {
    let rules = rules(ui)?;
    let (guard, fault) = rules.current();
    let Some(guard) = guard else {
        return Err(fault.unwrap_or_else(|| Code::GuardUnavailable.into()));
    };
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let category = |rule: &keyless_core::deny::Rule| word(json!(rule.category));
    let severity = |rule: &keyless_core::deny::Rule| word(json!(rule.severity));
    let rows: Vec<Vec<String>> = guard
        .rules()
        .map(|rule| vec![rule.id.clone(), severity(rule), category(rule), rule.description.clone()])
        .collect();
    let data: Vec<Value> = guard
        .rules()
        .map(|rule| {
            let mut data = json!({
                "rule_id": rule.id, "category": rule.category, "severity": rule.severity,
                "patterns": rule.in_force(), "description": rule.description, "applies_to": rule.applies_to,
            });
            if rule.in_commands.is_some() {
                data["patterns_in_texts"] = json!(rule.patterns);
            }
            if let Some(standard) = &rule.standard {
                data["standard_pattern"] = json!(standard);
            }
            data
        })
        .collect();
    let words = table(&["RULE", "SEVERITY", "CATEGORY", "WHAT"], &rows);
    ui.answer("guard rules", &json!({ "rules": data }), &words);
    Ok(ExitCode::SUCCESS)
}

/// The rules of this home; a fault of its file is told, and fatal when nothing else is in force.
fn rules(ui: &Ui) -> Result<GuardRules, Error> {
    let rules = GuardRules::new(Places::from_environment()?.guard_file());
    match rules.current() {
        (None, Some(fault)) => return Err(fault),
        (Some(_), Some(fault)) => ui.warn(fault.message()),
        _ => {}
    }
    Ok(rules)
}
