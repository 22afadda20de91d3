//! The config repo between machines: where it is pushed, and pull followed by push.
//!
//! A pull that fails half-way is taken back, so that the repo is as it was before the command.

use serde::Serialize;

use crate::{
    error::{Code, PackError, Result},
    git,
    paths::shown,
    site::Site,
};

/// The payload of `remote set`.
#[derive(Clone, Debug, Serialize)]
pub struct RemoteData {
    /// The config repo.
    pub repo: String,
    /// `repo` with `/` between its segments.
    pub repo_posix: String,
    /// The remote's name.
    pub remote: String,
    /// Where it leads.
    pub url: String,
}

/// The payload of `sync`.
#[derive(Clone, Debug, Serialize)]
pub struct SyncData {
    /// The config repo.
    pub repo: String,
    /// `repo` with `/` between its segments.
    pub repo_posix: String,
    /// The remote's name.
    pub remote: String,
    /// The branch that is checked out.
    pub branch: String,
    /// Whether commits of ours were put on top of theirs.
    pub rebase: bool,
    /// What was called, in order; what would be, in a dry run.
    pub commands: Vec<String>,
}

/// What `sync` is asked for.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// The remote's name.
    pub remote: String,
    /// Put our commits on top of theirs.
    pub rebase: bool,
    /// Only say what would be called.
    pub dry_run: bool,
}

/// Names a remote, or gives it another URL; makes the git repository where there is none.
pub(crate) fn set(site: &Site, name: &str, url: &str) -> Result<RemoteData> {
    check_name(name)?;
    // First what may not be repeated, for the other fault repeats it.
    git::check_place(url).and_then(|()| git::check_url(url)).map_err(|fault| {
        PackError::config(fault)
            .with("url", git::shown_url(url))
            .hint("give an https, ssh, git or file URL, user@host:path, or an absolute path")
    })?;
    std::fs::create_dir_all(&site.repo)
        .map_err(|error| PackError::io("create", &site.repo, &error))?;
    if !site.repo.join(".git").exists() {
        git::run(&site.repo, &["init", "--quiet"])?;
    }
    let verb = if is_set(site, name) { "set-url" } else { "add" };
    git::run(&site.repo, &["remote", verb, "--", name, url])?;
    let repo = shown(&site.repo);
    Ok(RemoteData {
        repo_posix: repo.clone(),
        repo,
        remote: name.to_owned(),
        url: git::shown_url(url),
    })
}

/// Pulls, then pushes the branch that is checked out. A remote that lacks the branch is only pushed to.
pub(crate) fn sync(site: &Site, options: &SyncOptions) -> Result<SyncData> {
    let remote = options.remote.as_str();
    let branch = ready(site, remote)?;
    let heads = format!("refs/heads/{branch}");
    let theirs = git::run_remote(&site.repo, &["ls-remote", "--", remote, &heads])?;
    let mut commands: Vec<Vec<&str>> = Vec::new();
    if !theirs.trim().is_empty() {
        let pull: &[&str] = if options.rebase { &["pull", "--rebase"] } else { &["pull"] };
        commands.push([pull, &[remote, &branch]].concat());
    }
    commands.push(vec!["push", remote, &branch]);
    if !options.dry_run {
        commands.iter().try_for_each(|words| carried_out(site, words))?;
    }
    let repo = shown(&site.repo);
    Ok(SyncData {
        repo_posix: repo.clone(),
        repo,
        remote: remote.to_owned(),
        rebase: options.rebase,
        commands: commands.iter().map(|words| format!("git {}", words.join(" "))).collect(),
        branch: branch.clone(),
    })
}

/// The branch, when repository, tree, branch and remote are as a sync needs them.
fn ready(site: &Site, remote: &str) -> Result<String> {
    let fault =
        |code, message: &str, hint: &str| git::fault(&site.repo, "sync", code, message, hint);
    git::require_clean(&site.repo, "sync")?;
    let Ok(branch) = git::run(&site.repo, &["symbolic-ref", "--quiet", "--short", "HEAD"]) else {
        let message = "the config repo's HEAD is on no branch";
        return Err(fault(Code::GitDetachedHead, message, "check a branch out first"));
    };
    if check_name(remote).is_err() || !is_set(site, remote) {
        let hint = format!("run `agentpack remote set URL --name {remote}`");
        return Err(fault(
            Code::GitRemoteMissing,
            &format!("there is no remote `{remote}`"),
            &hint,
        )
        .with("remote", remote));
    }
    // Before anything is pulled.
    git::check_pushes(&site.repo)?;
    Ok(branch.trim().to_owned())
}

fn carried_out(site: &Site, words: &[&str]) -> Result<()> {
    let (merging, stood) = (is_merging(site), standing(site));
    let Err(error) = git::run_remote(&site.repo, words) else { return Ok(()) };
    if words[0] != "pull" {
        return Err(error);
    }
    // Nothing was in progress before: the tree was clean and a branch was checked out.
    let undo: Option<&[&str]> = match (is_rebasing(site), !merging && is_merging(site)) {
        (true, _) => Some(&["rebase", "--abort"]),
        (_, true) => Some(&["merge", "--abort"]),
        _ => None,
    };
    if let Some(words) = undo {
        // What came of it is looked at below.
        let _ = git::run(&site.repo, words);
    }
    let undone = stood.is_some() && standing(site) == stood;
    Err(error.with("undone", undone).hint(if undone {
        "the config repo is as it was; pull by hand to see what both sides changed, or sync with --rebase"
    } else {
        "the pull could not be taken back; look at `git status` in the config repo, and end or abort what it names"
    }))
}

/// The branch, its commit (empty before the first) and what differs from it; `None` where there is no branch.
fn standing(site: &Site) -> Option<(String, String, String)> {
    let branch = git::run(&site.repo, &["symbolic-ref", "--quiet", "HEAD"]).ok()?;
    let commit = git::run(&site.repo, &["rev-parse", "--quiet", "--verify", "HEAD"]);
    let changes = git::run(&site.repo, git::STATUS).ok()?;
    Some((branch, commit.unwrap_or_default(), changes))
}

/// Git knows where it keeps that: in a linked worktree or a submodule `.git` is a file.
fn is_rebasing(site: &Site) -> bool {
    ["rebase-merge", "rebase-apply"].iter().any(|name| {
        let place = git::run(&site.repo, &["rev-parse", "--git-path", name]);
        place.is_ok_and(|place| site.repo.join(place.trim_end_matches('\n')).exists())
    })
}

fn is_merging(site: &Site) -> bool {
    git::run(&site.repo, &["rev-parse", "--quiet", "--verify", "MERGE_HEAD"]).is_ok()
}

fn is_set(site: &Site, name: &str) -> bool {
    git::run(&site.repo, &["remote", "get-url", "--", name]).is_ok()
}

/// Refuses a name that git could take for an option.
fn check_name(name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(fine) {
        return Ok(());
    }
    Err(PackError::config(format!("`{name}` can't be the name of a remote"))
        .with("remote", name)
        .hint("use letters, digits, `_`, `-`, `.` and `/`"))
}
