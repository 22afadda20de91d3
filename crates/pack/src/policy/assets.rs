//! Skills and slash commands in the repo: their front matter, and whether what they run is safe to be run by an agent.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{invocations::Invocation, lint::LintIssue};
use crate::{
    module::{allows_bash, front_matter, runs_bash},
    paths::shown,
    tree::read_limited,
    yaml::Node,
};

/// Directories that hold nothing of the repo's own.
const SKIPPED: &[&str] = &[".agentpack", ".git", "node_modules", "target"];
/// Where slash commands are.
const COMMANDS: &[&str] =
    &[".claude/commands", "templates/claude/commands", "modules/claude-commands"];

/// What was looked at, and what is wrong with it.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) skills: usize,
    pub(super) commands: usize,
    pub(super) issues: Vec<LintIssue>,
}

/// Looks at every skill and slash command of a repo. Links are not followed.
pub(super) fn seen(repo: &Path) -> Seen {
    let mut seen = Seen::default();
    let mut files = Vec::new();
    below(repo, &mut files);
    for file in files {
        let Ok(relative) = file.strip_prefix(repo) else { continue };
        let path = shown(relative);
        let is_markdown = relative.extension().is_some_and(|end| end == "md");
        if relative.file_name().is_some_and(|name| name == "SKILL.md") {
            seen.skills += 1;
            look(&mut seen.issues, &file, &path, skill);
        }
        if is_markdown && COMMANDS.iter().any(|folder| relative.starts_with(folder)) {
            seen.commands += 1;
            look(&mut seen.issues, &file, &path, command);
        }
    }
    seen
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
        if kind.is_dir() && !skipped {
            below(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

fn look(
    issues: &mut Vec<LintIssue>,
    file: &Path,
    path: &str,
    rules: fn(&str, &str) -> Vec<LintIssue>,
) {
    let error = match read_limited(file) {
        Ok(read) => match read.content.text() {
            Some(text) => return issues.extend(rules(text, path)),
            None => "it is not UTF-8".to_owned(),
        },
        Err(error) => error.message().to_owned(),
    };
    let issue = LintIssue::new("io_read", path, "the file can't be read");
    issues.push(issue.with(json!({"error": error})));
}

fn skill(text: &str, path: &str) -> Vec<LintIssue> {
    let issue = |message: String| LintIssue::new("skill_frontmatter", path, message);
    let front = match front_matter(text) {
        Ok(front) => front,
        Err(why) if text.starts_with("---") => {
            let message = format!("front matter {why}");
            return vec![issue(message).with(json!({"error": why.to_string()}))];
        }
        Err(_) => {
            let details = json!({"required_fields": ["name", "description"]});
            return vec![issue("front matter (`---` … `---`) is missing".to_owned()).with(details)];
        }
    };
    let mut issues = Vec::new();
    for field in ["name", "description"] {
        match front.get(field).filter(|node| !node.is_null()) {
            None => {
                let details = json!({"missing": [field]});
                issues.push(issue(format!("front matter has no {field}")).with(details));
            }
            Some(node) => match node.string() {
                None => {
                    let details = json!({"field": field, "expected": "string"});
                    issues.push(issue(format!("front matter's {field} is no text")).with(details));
                }
                Some(text) if text.trim().is_empty() => {
                    let details = json!({"field": field});
                    issues.push(issue(format!("front matter's {field} is empty")).with(details));
                }
                Some(_) => {}
            },
        }
    }
    issues
}

fn command(text: &str, path: &str) -> Vec<LintIssue> {
    let mut issues: Vec<LintIssue> = tools(text, path).into_iter().collect();
    issues.extend(Invocation::all(text).into_iter().filter_map(|invocation| {
        let missing = invocation.missing();
        let id = invocation.command?;
        (!missing.is_empty()).then(|| {
            let message = format!("`{id}` writes, and must be called with {}", missing.join(" and "));
            let details = json!({
                "line": invocation.line, "command_id": id, "invocation": invocation.words, "missing": missing,
            });
            LintIssue::new("dangerous_defaults", path, message).with(details)
        })
    }));
    issues
}

/// Whether a command that runs bash says which.
fn tools(text: &str, path: &str) -> Option<LintIssue> {
    if !runs_bash(text) {
        return None;
    }
    let issue = |message: String| LintIssue::new("claude_command_allowed_tools", path, message);
    let front = match front_matter(text) {
        Ok(front) => front,
        Err(why) if text.starts_with("---") => {
            return Some(
                issue(format!("front matter {why}")).with(json!({"error": why.to_string()})),
            );
        }
        Err(_) => return Some(issue("runs bash and has no front matter".to_owned())),
    };
    match front.get("allowed-tools").filter(|node: &&Node| !node.is_null()) {
        None => {
            let details = json!({"missing": ["allowed-tools"]});
            Some(issue("runs bash and has no allowed-tools".to_owned()).with(details))
        }
        tools if allows_bash(tools) => None,
        Some(_) => Some(issue("runs bash, and its allowed-tools name no Bash(…)".to_owned())),
    }
}
