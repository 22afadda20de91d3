//! What the manifest must deploy, where its modules may come from, and how the lockfile must pin them.

use std::path::Path;

use serde_json::json;

use super::{Distribution, Supply, lint::LintIssue};
use crate::{
    git,
    lockfile::{self, LockIndex, LockedModule, Lockfile},
    manifest::{self, GitSource, Manifest, Module, Source},
    paths::shown,
    site::Site,
};

/// Targets and modules that are required and not there.
pub(super) fn distribution(manifest: &Manifest, required: &Distribution) -> Vec<LintIssue> {
    let mut issues = Vec::new();
    let configured = |name: &String| manifest.targets.keys().any(|target| target.as_str() == name);
    let missing = sorted(required.targets.iter().filter(|name| !configured(name)));
    if !missing.is_empty() {
        let message = format!("required targets are missing: {}", missing.join(", "));
        let details = json!({"missing": missing, "required": required.targets});
        let issue = LintIssue::new("distribution_required_targets", manifest::FILE, message);
        issues.push(issue.with(details));
    }
    let module = |id: &String| manifest.modules.iter().find(|module| module.id == *id);
    let missing = sorted(required.modules.iter().filter(|id| module(id).is_none()));
    let is_disabled = |id: &&String| module(id).is_some_and(|module| !module.enabled);
    let disabled = sorted(required.modules.iter().filter(is_disabled));
    if !missing.is_empty() || !disabled.is_empty() {
        let message = "required modules are missing or disabled";
        let details =
            json!({"missing": missing, "disabled": disabled, "required": required.modules});
        let issue = LintIssue::new("distribution_required_modules", manifest::FILE, message);
        issues.push(issue.with(details));
    }
    issues
}

/// Modules from repositories that are not allowed.
pub(super) fn remotes(manifest: &Manifest, supply: &Supply) -> Vec<LintIssue> {
    let foreign = |module: &Module| {
        let Source::Git(git) = &module.source else { return None };
        let details = not_allowed(&git.url, supply)?;
        let message = format!("module {} comes from a git remote that is not allowed", module.id);
        let mut details = details;
        details["module_id"] = module.id.clone().into();
        Some(
            LintIssue::new("supply_chain_allowed_git_remotes", manifest::FILE, message)
                .with(details),
        )
    };
    manifest.modules.iter().filter_map(foreign).collect()
}

/// What is wrong with a remote, as details; `None` when it is allowed, or nothing is asked.
pub(super) fn not_allowed(url: &str, supply: &Supply) -> Option<serde_json::Value> {
    let remote = normalized(url);
    let allows = |entry: &String| {
        let entry = normalized(entry);
        let entry = entry.trim_end_matches('/');
        remote.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let free = supply.remotes.is_empty()
        || (git::check_place(url).is_ok() && supply.remotes.iter().any(allows));
    (!free).then(|| {
        let shown = git::shown_url(url);
        let allowed: Vec<String> = supply.remotes.iter().map(|url| git::shown_url(url)).collect();
        json!({"remote": shown, "remote_normalized": normalized(&shown), "allowed_git_remotes": allowed})
    })
}

/// One spelling of a remote: the host in lower case, and the path as it is, since servers tell paths apart by case.
fn normalized(url: &str) -> String {
    let url = url.trim();
    let url = url.strip_suffix('/').unwrap_or(url);
    let url = url.strip_suffix(".git").unwrap_or(url);
    if url.starts_with('/') {
        return url.to_owned();
    }
    let url = match url.strip_prefix("git@").and_then(|rest| rest.split_once(':')) {
        Some((host, path)) => format!("{host}/{path}"),
        None => url.to_owned(),
    };
    let bare = match url.strip_prefix("ssh://") {
        Some(rest) => match rest.split_once('@') {
            Some((user, rest)) if !user.contains('/') => rest,
            _ => rest,
        },
        None => ["https://", "http://"]
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .unwrap_or(&url),
    };
    match bare.split_once('/') {
        Some((host, path)) => format!("{}/{path}", host.to_lowercase()),
        None => bare.to_lowercase(),
    }
}

/// What the lockfile lacks for enabled git modules.
pub(super) fn lockfile(site: &Site, manifest: &Manifest) -> Vec<LintIssue> {
    let enabled = manifest.modules.iter().filter(|module| module.enabled);
    let git: Vec<(&Module, &GitSource)> = enabled
        .filter_map(|module| match &module.source {
            Source::Git(git) => Some((module, git)),
            Source::Local(_) => None,
        })
        .collect();
    if git.is_empty() {
        return Vec::new();
    }
    let path = site.repo.join(lockfile::FILE);
    let index = match Lockfile::load(&site.repo) {
        Ok(Some(lockfile)) => LockIndex::new(Some(lockfile)),
        Ok(None) => {
            let ids: Vec<&str> = git.iter().map(|(module, _)| module.id.as_str()).collect();
            let details = json!({"enabled_git_modules": ids, "path": shown(&path)});
            return vec![of_lockfile(
                "supply_chain_lockfile_missing",
                "the lockfile is missing: run `agentpack lock`",
                details,
            )];
        }
        Err(error) => return vec![invalid(&path, error.message())],
    };
    git.iter().flat_map(|(module, git)| unpinned(module, git, index.get(&module.id))).collect()
}

fn invalid(path: &Path, error: &str) -> LintIssue {
    let details = json!({"error": error, "path": shown(path)});
    of_lockfile("supply_chain_lockfile_invalid", "the lockfile can't be read", details)
}

fn unpinned(module: &Module, git: &GitSource, locked: Option<&LockedModule>) -> Vec<LintIssue> {
    let id = &module.id;
    let Some(locked) = locked else {
        let message = format!("the lockfile lacks module {id}");
        return vec![of_lockfile(
            "supply_chain_lockfile_missing_module",
            &message,
            json!({"module_id": id}),
        )];
    };
    let Some(pinned) = &locked.resolved_source.git else {
        let message = format!("the lockfile has module {id} from elsewhere than git");
        let details = json!({
            "module_id": id, "config": {"git_url": git::shown_url(&git.url)}, "lock": {"resolved_source": locked.resolved_source},
        });
        return vec![of_lockfile("supply_chain_lockfile_source_mismatch", &message, details)];
    };
    let mut issues = Vec::new();
    let (ours, theirs) = (normalized(&git.url), normalized(&pinned.url));
    if ours != theirs {
        let message = format!("the lockfile has module {id} from another remote");
        let details = json!({
            "module_id": id, "config_url": git::shown_url(&git.url), "config_url_normalized": normalized(&git::shown_url(&git.url)),
            "lock_url": git::shown_url(&pinned.url), "lock_url_normalized": normalized(&git::shown_url(&pinned.url)), "hint": "run `agentpack lock`",
        });
        issues.push(of_lockfile("supply_chain_lockfile_url_mismatch", &message, details));
    }
    if !git::is_commit(&pinned.commit) {
        let message = format!("the lockfile pins module {id} to no commit");
        let details = json!({"module_id": id, "commit": pinned.commit});
        issues.push(of_lockfile("supply_chain_lockfile_unpinned_commit", &message, details));
    }
    issues
}

fn of_lockfile(rule: &'static str, message: &str, details: serde_json::Value) -> LintIssue {
    LintIssue::new(rule, lockfile::FILE, message).with(details)
}

fn sorted<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_remote_holds_no_credential() {
        let remotes = ["github.com/acme", "https://me:hunter2@h.example/b", "hunter2@h.example:c"];
        let supply = Supply { remotes: remotes.map(str::to_owned).to_vec(), ..Supply::default() };
        for url in [
            "https://me:hunter2@h.example/a",
            "https://hunter2@h.example/a",
            "hunter2@h.example:a/h.example/a",
            "me:hunter2@h.example/a",
        ] {
            let told = not_allowed(url, &supply).unwrap().to_string();
            assert!(told.contains("h.example/a") && !told.contains("hunter2"), "{told}");
            let git = GitSource {
                url: "/srv/a".to_owned(),
                reference: "main".to_owned(),
                subdir: None,
                shallow: false,
            };
            let module = Module {
                id: "prompt:a".to_owned(),
                kind: crate::manifest::ModuleKind::Prompt,
                enabled: true,
                tags: Vec::new(),
                targets: Vec::new(),
                source: Source::Git(git.clone()),
                line: 1,
            };
            let locked: LockedModule = serde_json::from_value(json!({
                "id": "prompt:a", "type": "prompt", "resolved_version": "1", "file_manifest": [],
                "sha256": crate::sha::Sha::of(b"").to_string(),
                "resolved_source": {"git": {"url": url, "commit": "0".repeat(40)}},
            }))
            .unwrap();
            let told = format!("{:?}", unpinned(&module, &git, Some(&locked)));
            assert!(told.contains("h.example/a") && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_remote_is_allowed_by_host_and_whole_parts_of_its_path() {
        let remotes = vec!["github.com/acme".to_owned(), "https://Git.Example/T/".to_owned()];
        let supply = Supply { remotes, ..Supply::default() };
        for (url, allowed) in [
            ("https://github.com/acme/repo", true),
            ("https://GitHub.com/acme/repo.git/", true),
            ("git@github.com:acme/repo.git", true),
            ("ssh://git@github.com/acme/repo", true),
            ("https://git.example/T/repo", true),
            ("https://git.example/t/repo", false),
            ("https://github.com/Acme/repo", false),
            ("https://github.com/acme-evil/repo", false),
            ("https://github.com/acme/../evil/repo", false),
            ("https://github.com/acme/%2E%2e/evil/repo", false),
            ("https://github.com/acme//repo", false),
            ("https://me@github.com/acme/repo", false),
            ("https://github.com\\@evil.example/acme/repo", false),
            ("git@github.com:acme/../evil/repo", false),
            ("/github.com/acme/repo", false),
            ("file:///github.com/acme/repo", false),
        ] {
            assert_eq!(not_allowed(url, &supply).is_none(), allowed, "{url}");
        }
    }
}
