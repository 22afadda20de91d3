//! An action or a deploy in words: all that is to be done, line by line, each with a bar before it.

use std::fmt::Write as _;

use keyless_core::approval::{WantedAction, WantedDeploy, WantedFile};
use keyless_daemon::Shown;

use super::words::{known, visible, visible_line};

/// The lines about an action of an agent.
pub(super) fn action(text: &mut String, request: &Shown, wanted: &WantedAction) {
    let WantedAction { agent, acting_for, action, hosts, purpose, sha256, .. } = wanted;
    let by = acting_for.as_ref().map(|other| format!(", for {other}")).unwrap_or_default();
    let _ = writeln!(text, "  Agent:     {agent}{by}");
    let _ = writeln!(text, "  Wants to:  {action}");
    for (path, secret) in request.secrets() {
        let _ = writeln!(text, "  With:      {path}: {}", known(secret));
    }
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let hosts = if hosts.is_empty() { "no host by itself".to_owned() } else { hosts.join(", ") };
    let _ = writeln!(text, "  Reaches:   {hosts}");
    if let Some(purpose) = purpose {
        let _ = writeln!(text, "  It says:   {}", visible(purpose));
    }
    let _ = writeln!(text, "  Digest:    {sha256}");
    text.push_str("  All that it would do, as the agent wrote it:\n");
    quote(text, &wanted.text);
}

/// The lines about a deploy.
pub(super) fn deploy(text: &mut String, wanted: &WantedDeploy) {
    let _ = writeln!(text, "  Project:   {}", visible(&wanted.project));
    let _ = writeln!(text, "  From:      {}", visible(&wanted.repo));
    let (profile, machine) = (visible(&wanted.profile), visible(&wanted.machine));
    let _ = writeln!(text, "  Profile:   {profile}, machine {machine}");
    let _ = writeln!(text, "  Plan:      {}", visible(&wanted.plan_hash));
    let _ = writeln!(
        text,
        "  Files:     {}; what is in them is the config repo's text",
        wanted.file_count()
    );
    for file in &wanted.files {
        one_file(text, file);
    }
    if wanted.more_files > 0 {
        let _ = writeln!(text, "  and {} more: keyless pack diff shows them", wanted.more_files);
    }
}

fn one_file(text: &mut String, file: &WantedFile) {
    let mut marks = String::new();
    if file.adopted {
        marks.push_str("  YOURS: it would be overwritten");
    }
    if file.edited {
        marks.push_str("  edited since it was deployed");
    }
    let _ = writeln!(text, "  {:<6}  {}{marks}", file.op.as_str(), visible(&file.path));
    match &file.diff {
        Some(diff) => quote(text, diff.strip_suffix('\n').unwrap_or(diff)),
        None => text
            .push_str("    (no lines are shown: it is no text, too long, or holds a credential)\n"),
    }
}

/// Words of others, each line with a bar before it: none of them can be taken for ours.
fn quote(text: &mut String, words: &str) {
    for line in words.split('\n') {
        let _ = writeln!(text, "    | {}", visible_line(line));
    }
}
