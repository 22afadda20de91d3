//! `pack policy`: an organisation's rules about config repos.

use std::fmt::Write as _;

use clap::Subcommand;
use keyless_pack::{AuditData, Code, LintData, PackError, PolicyLockData, commands};

use super::{Call, Outcome, for_people};
use crate::rows::fitted;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Report what the lockfiles hold, and what the last commit changed in them
    #[command(
        after_help = "Examples:\n  keyless pack policy audit\n  keyless pack policy audit --json"
    )]
    Audit,
    /// Check skills, commands, manifest and lockfile against the rules
    #[command(
        after_help = "Examples:\n  keyless pack policy lint\n  keyless pack policy lint --json"
    )]
    Lint,
    /// Pin the policy pack (writes agentpack.org.lock.json)
    #[command(
        after_help = "Examples:\n  keyless pack policy lock --yes\n  keyless pack policy lock --yes --json"
    )]
    Lock,
}

impl Call<'_> {
    pub(super) fn policy(&self, command: &PolicyCommand) -> Outcome {
        let (at, request) = (&self.surroundings, &self.request);
        match command {
            PolicyCommand::Audit => self.answer(commands::policy_audit(at, request)?, audit),
            PolicyCommand::Lint => {
                let linted = commands::policy_lint(at, request);
                let linted = linted.inspect_err(|error| self.violations(error))?;
                self.answer(linted, lint)
            }
            PolicyCommand::Lock => {
                let yes = self.yes("Write agentpack.org.lock.json?")?;
                self.answer(commands::policy_lock(at, request, yes)?, locked)
            }
        }
    }

    /// Every violation in words; for machines they are in the error.
    fn violations(&self, error: &PackError) {
        if self.ui.is_json() || error.code() != Code::PolicyViolations {
            return;
        }
        let details = error.details();
        for issue in details["issues"].as_array().into_iter().flatten() {
            let text = |name: &str| issue[name].as_str().unwrap_or_default().to_owned();
            let line = issue["details"]["line"].as_u64();
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            let (path, message, rule) = (text("path"), text("message"), text("rule"));
            self.ui.line(&fitted(&for_people(&format!("{path}{line}: {message} ({rule})"))));
        }
    }
}

fn audit(data: &AuditData) -> String {
    let mut text = String::new();
    for module in &data.modules {
        let (id, version, sha) = (&module.id, &module.resolved_version, &module.sha256);
        writeln!(text, "{id}  {version}  {sha}  {} file(s)", module.files).expect("a string");
    }
    if let Some(pack) = &data.org_policy_pack {
        writeln!(text, "policy pack  {}  {}", pack.resolved_version, pack.sha256)
            .expect("a string");
    }
    for (mark, ids) in data.change_summary.iter().flat_map(|changes| {
        let changed = changes.modules_changed.iter().map(|change| change.id.clone()).collect();
        [
            ("+", changes.modules_added.clone()),
            ("-", changes.modules_removed.clone()),
            ("~", changed),
        ]
    }) {
        for id in ids {
            writeln!(text, "{mark} {id}  since the commit before").expect("a string");
        }
    }
    text
}

fn lint(data: &LintData) -> String {
    format!("{} file(s) looked at, nothing against the policy.\n", data.summary.files_scanned)
}

fn locked(data: &PolicyLockData) -> String {
    let (version, files) = (&data.resolved_version, data.files);
    format!("Pinned {files} file(s) at {version} in {}\n", data.lockfile_path)
}
