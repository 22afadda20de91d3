//! Everything that a repo does against its policy, and against what skills and commands must be.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{FILE, Policy, assets, pack, supply};
use crate::{
    error::{Code, PackError, Result},
    manifest::{self, Manifest},
    paths::shown,
    site::Site,
};

/// The payload of `policy lint`.
#[derive(Clone, Debug, Serialize)]
pub struct LintData {
    /// The config repo.
    pub root: String,
    /// `root` with `/` between its segments.
    pub root_posix: String,
    /// What was found, by path.
    pub issues: Vec<LintIssue>,
    /// Numbers.
    pub summary: LintSummary,
}

/// Something against a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LintIssue {
    /// The rule.
    pub rule: &'static str,
    /// The file, relative to the repo.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// What is wrong.
    pub message: String,
    /// What is wrong, for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// How much was looked at and found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LintSummary {
    /// Issues.
    pub violations: usize,
    /// Skills and commands.
    pub files_scanned: usize,
    /// Skills.
    pub skill_files: usize,
    /// Commands of Claude Code.
    pub claude_command_files: usize,
    /// Issues by rule.
    pub rules: BTreeMap<&'static str, usize>,
}

impl LintIssue {
    pub(super) fn new(rule: &'static str, path: &str, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self { rule, path_posix: path.clone(), path, message, details: None }
    }

    pub(super) fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// Looks at everything; any issue is an error that holds them all.
pub(crate) fn lint(site: &Site) -> Result<(LintData, Vec<String>)> {
    if !site.repo.is_dir() {
        let message = format!("there is no config repo {}", site.repo.display());
        return Err(PackError::new(Code::ConfigMissing, message)
            .with("path", shown(&site.repo))
            .hint("run `agentpack init`, or name the config repo with --repo"));
    }
    let seen = assets::seen(&site.repo);
    let mut issues = seen.issues;
    let mut warnings = Vec::new();
    if let Some((policy, faults)) = Policy::load(&site.repo)? {
        issues.extend(faults.into_iter().map(|fault| {
            LintIssue::new("policy_config", FILE, fault.message).with(json!(fault.details))
        }));
        issues.extend(pack::against(site, &policy));
        issues.extend(against_manifest(site, &policy, &mut warnings));
    }
    issues.sort_by(|a, b| (&a.path, a.rule, &a.message).cmp(&(&b.path, b.rule, &b.message)));
    let mut rules = BTreeMap::new();
    for issue in &issues {
        *rules.entry(issue.rule).or_default() += 1;
    }
    let summary = LintSummary {
        violations: issues.len(),
        files_scanned: seen.skills + seen.commands,
        skill_files: seen.skills,
        claude_command_files: seen.commands,
        rules,
    };
    let (root, root_posix) = (shown(&site.repo), shown(&site.repo));
    let data = LintData { root, root_posix, issues, summary };
    if data.issues.is_empty() { Ok((data, warnings)) } else { Err(violations(data)) }
}

fn violations(data: LintData) -> PackError {
    let count = data.issues.len();
    PackError::new(Code::PolicyViolations, format!("policy lint found {count} violation(s)"))
        .with("root", data.root)
        .with("root_posix", data.root_posix)
        .with("issues", json!(data.issues))
        .with("summary", json!(data.summary))
}

/// What the manifest and the lockfile do against the policy.
fn against_manifest(site: &Site, policy: &Policy, warnings: &mut Vec<String>) -> Vec<LintIssue> {
    if policy.distribution.is_none() && policy.supply.is_none() {
        return Vec::new();
    }
    let mut issues = Vec::new();
    match Manifest::load(&site.repo) {
        Ok(manifest) => {
            warnings.extend(manifest.warnings.iter().cloned());
            if let Some(distribution) = &policy.distribution {
                issues.extend(supply::distribution(&manifest, distribution));
            }
            if let Some(supply) = &policy.supply {
                issues.extend(supply::remotes(&manifest, supply));
                if supply.require_lockfile {
                    issues.extend(supply::lockfile(site, &manifest));
                }
            }
        }
        Err(error) => {
            let policies = [
                ("distribution_policy", policy.distribution.is_some()),
                ("supply_chain_policy", policy.supply.is_some()),
            ];
            for (rule, _) in policies.into_iter().filter(|(_, is_set)| *is_set) {
                let message = format!("{} can't be read for {rule}", manifest::FILE);
                let details = json!({"error": error.message()});
                issues.push(LintIssue::new(rule, manifest::FILE, message).with(details));
            }
        }
    }
    issues
}
