//! Payloads in words, for people.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use keyless_pack::{
    AdoptData, BootstrapData, Change, DeployData, DoctorData, DriftKind, ExplainPlanData,
    ExplainStatusData, FetchData, InitData, LockData, ModuleData, Op, OverlayEditData,
    OverlayPathData, OverlayRebaseData, PackError, PlanData, PreviewData, ProposeData, RestoreData,
    RollbackData, RollbackPreview, StatusData, Summary, UpdateData, UpdateKind,
};

use crate::{rows::barred, ui::Ui, visible::one_line};

pub(super) fn error(error: &PackError) {
    let message = format!("{} ({})", error.message(), error.code().as_str());
    let next = error.hint_text().map(super::for_people);
    Ui::fault(&message, next.as_deref());
}

pub(super) fn plan(data: &PlanData) -> String {
    changes(&data.changes, data.summary)
}

pub(super) fn preview(data: &PreviewData) -> String {
    let mut text = changes(&data.plan.changes, data.plan.summary);
    for file in data.diff.iter().flat_map(|diff| &diff.files) {
        match &file.unified {
            Some(diff) => text.push_str(&coloured(diff)),
            None => writeln!(text, "{}: no diff to show", one_line(&file.path)).expect("a string"),
        }
    }
    text
}

pub(super) fn deploy(data: &DeployData) -> String {
    let mut text = String::new();
    match &data.snapshot_id {
        Some(id) => {
            text.push_str(&changes(&data.changes, data.summary));
            writeln!(text, "Applied. Snapshot: {id}").expect("a string");
        }
        None if data.reason.is_some() => text.push_str("Nothing to do.\n"),
        None => {
            text.push_str(&changes(&data.changes, data.summary));
            let command = super::for_people("agentpack deploy --apply");
            writeln!(text, "Nothing was written; `{command}` does.").expect("a string");
        }
    }
    text
}

pub(super) fn bootstrap(data: &BootstrapData) -> String {
    let mut text = changes(&data.changes, data.summary);
    match &data.snapshot_id {
        Some(id) => writeln!(text, "Installed. Snapshot: {id}").expect("a string"),
        None if data.changes.is_empty() => {}
        None => text.push_str("Nothing was written.\n"),
    }
    text
}

pub(super) fn status(data: &StatusData) -> String {
    let mut text = String::new();
    for item in &data.drift {
        let (mark, style) = match item.kind {
            DriftKind::Extra => ("extra   ", AnsiColor::Cyan.on_default()),
            DriftKind::Missing => ("missing ", AnsiColor::Red.on_default()),
            DriftKind::Modified => ("modified", AnsiColor::Yellow.on_default()),
        };
        let edited = if item.edited { "  (edited after it was deployed)" } else { "" };
        writeln!(text, "{style}{mark}{style:#}  {}  {}{edited}", item.target, one_line(&item.path))
            .expect("a string");
    }
    let summary = data.summary;
    let (modified, missing, extra) = (summary.modified, summary.missing, summary.extra);
    if modified + missing + extra == 0 {
        text.push_str("No drift.\n");
    } else {
        writeln!(text, "{modified} modified, {missing} missing, {extra} extra").expect("a string");
    }
    // Who has no wish for the operator's assets need not read of them every time.
    let wished = data.next_actions_detailed.iter().filter(|next| next.action != "bootstrap");
    let commands: Vec<String> = wished.map(|next| next.command.clone()).collect();
    next(&mut text, &commands);
    text
}

pub(super) fn doctor(data: &DoctorData) -> String {
    let mut text = format!("Machine: {}\n", data.machine_id);
    for root in &data.roots {
        let state = if root.issues.is_empty() { "ok".to_owned() } else { root.issues.join(", ") };
        writeln!(text, "{}  {}  {state}", root.target, root.root).expect("a string");
    }
    for fix in data.gitignore_fixes.iter().filter(|fix| fix.updated) {
        writeln!(text, "mended {}", fix.gitignore_path).expect("a string");
    }
    for token in &data.plaintext_tokens {
        writeln!(
            text,
            "{}:{} holds a credential ({})",
            one_line(&token.path),
            token.line,
            token.kind
        )
        .expect("a string");
    }
    next(&mut text, &data.next_actions);
    text
}

pub(super) fn adopt(data: &AdoptData) -> String {
    format!("{}:{} now says {}\n", data.path, data.line, data.reference)
}

pub(super) fn explain_plan(data: &ExplainPlanData) -> String {
    let mut text = String::new();
    for change in &data.changes {
        let modules: Vec<String> = change
            .modules
            .iter()
            .map(|module| format!("{} ({})", module.module_id, module.layer.unwrap_or("unknown")))
            .collect();
        writeln!(text, "{} {}  {}", mark(change.op), one_line(&change.path), modules.join(", "))
            .expect("a string");
    }
    if text.is_empty() { "No changes.\n".to_owned() } else { text }
}

pub(super) fn explain_status(data: &ExplainStatusData) -> String {
    let mut text = String::new();
    for item in &data.drift {
        writeln!(text, "{:?} {}  {}", item.kind, one_line(&item.path), item.modules.join(", "))
            .expect("a string");
    }
    if text.is_empty() { "No drift.\n".to_owned() } else { text }
}

pub(super) fn rollback(data: &RollbackData) -> String {
    let back = format!("agentpack rollback --to before:{}", data.event_snapshot_id);
    let back = super::for_people(&back);
    format!("Rolled back to {}. To take it back: {back}\n", data.rolled_back_to)
}

pub(super) fn rollback_preview(data: &RollbackPreview) -> String {
    let mut text = changes(&data.changes, data.summary);
    let command = format!("agentpack rollback --to {}", one_line(&data.rolled_back_to));
    let command = super::for_people(&command);
    writeln!(text, "Nothing was written; {command} does this.").expect("a string");
    text
}

pub(super) fn propose(data: &ProposeData) -> String {
    let mut text = String::new();
    for candidate in data.candidates.iter().flatten() {
        writeln!(text, "would propose {}  {}", candidate.module_id, one_line(&candidate.path))
            .expect("a string");
    }
    for skipped in data.skipped.iter().flatten() {
        writeln!(text, "skipped {}: {}", one_line(&skipped.path), skipped.reason_message)
            .expect("a string");
    }
    match (&data.branch, data.reason) {
        (Some(branch), _) => {
            for file in &data.files {
                writeln!(text, "wrote {}", one_line(file)).expect("a string");
            }
            writeln!(text, "Committed on branch {branch}; merge it to keep the edits.")
                .expect("a string");
        }
        (None, Some("dry_run")) => {}
        (None, _) => text.push_str("Nothing to propose.\n"),
    }
    text
}

pub(super) fn restore(data: &RestoreData) -> String {
    let verb = if data.reason == "dry_run" { "would restore" } else { "restored" };
    let mut text = String::new();
    for file in &data.restored {
        writeln!(text, "{verb} {}", one_line(&file.path)).expect("a string");
    }
    if text.is_empty() { "Nothing is missing.\n".to_owned() } else { text }
}

pub(super) fn overlay_edit(data: &OverlayEditData) -> String {
    let verb = if data.created { "Made" } else { "Kept" };
    format!("{verb} the {} overlay {}\n", data.scope.as_str(), data.overlay_dir)
}

pub(super) fn overlay_path(data: &OverlayPathData) -> String {
    format!("{}\n", data.overlay_dir)
}

pub(super) fn overlay_rebase(data: &OverlayRebaseData) -> String {
    let report = &data.report;
    let mut text = String::new();
    for (what, files) in
        [("updated", &report.updated), ("deleted", &report.deleted), ("kept", &report.skipped)]
    {
        for file in files {
            writeln!(text, "{what} {}", one_line(file)).expect("a string");
        }
    }
    text.push_str(if data.dry_run { "Nothing was written.\n" } else { "Rebased.\n" });
    text
}

pub(super) fn init(data: &InitData) -> String {
    let installed = data.bootstrap.as_ref().map(bootstrap).unwrap_or_default();
    if data.existed {
        return format!("{installed}Kept {} as it is.\n", data.repo);
    }
    let next = super::for_people(
        "Next: `agentpack add` what is in modules/ there or a module of your own, then `agentpack plan`.",
    );
    format!("{installed}Made {}\n{next}\n", data.repo)
}

pub(super) fn module(data: &ModuleData) -> String {
    format!("{} in {}\n", data.module_id, data.manifest)
}

pub(super) fn lock(data: &LockData) -> String {
    format!("Locked {} module(s) in {}\n", data.modules, data.lockfile)
}

pub(super) fn fetch(data: &FetchData) -> String {
    format!("{} git module(s) in {}\n", data.git_modules_fetched, data.store)
}

pub(super) fn update(data: &UpdateData) -> String {
    let names: Vec<&str> = data.steps.iter().map(|step| step.name).collect();
    let fetched = data.git_modules_fetched;
    format!("Done: {}. {fetched} git module(s) in {}\n", names.join(", "), data.store)
}

fn changes(changes: &[Change], summary: Summary) -> String {
    let mut text = String::new();
    for change in changes {
        let note = match change.update_kind {
            Some(UpdateKind::AdoptUpdate) => "  (not deployed by agentpack; needs --adopt)",
            _ if change.edited => "  (edited after it was deployed; backed up first)",
            _ => "",
        };
        let style = style(change.op);
        writeln!(
            text,
            "{style}{}{style:#} {}  {}{note}",
            mark(change.op),
            change.target,
            one_line(&change.path)
        )
        .expect("a string");
    }
    if changes.is_empty() {
        return "No changes.\n".to_owned();
    }
    writeln!(
        text,
        "{} to create, {} to update, {} to delete",
        summary.create, summary.update, summary.delete
    )
    .expect("a string");
    text
}

fn mark(op: Op) -> &'static str {
    match op {
        Op::Create => "+",
        Op::Delete => "-",
        Op::Update => "~",
    }
}

fn style(op: Op) -> Style {
    match op {
        Op::Create => AnsiColor::Green.on_default(),
        Op::Delete => AnsiColor::Red.on_default(),
        Op::Update => AnsiColor::Yellow.on_default(),
    }
}

fn coloured(diff: &str) -> String {
    let line = |line: &str| {
        let style = match line.as_bytes().first() {
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => Style::new(),
        };
        barred(&format!("{style}{}{style:#}\n", one_line(line)))
    };
    diff.lines().map(line).collect()
}

fn next(text: &mut String, actions: &[String]) {
    for action in actions {
        writeln!(text, "next: {}", super::for_people(action)).expect("a string");
    }
}
