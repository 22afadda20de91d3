//! Git modules on this machine: each commit once, under `cache/git/<digest of the url>/<commit>`.
//!
//! Filled on first need, never changed after: a checkout appears under its name only when it is whole.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    error::{Code, PackError, Result},
    git,
    manifest::GitSource,
    sha::Sha,
    site::Site,
};

/// The checkouts of one home, with the refs that this command has resolved.
#[derive(Debug)]
pub(crate) struct Checkouts {
    cache: PathBuf,
    resolved: Mutex<HashMap<(String, String), String>>,
    /// Held by whoever fetches a checkout: modules of one repository are read in parallel.
    fetching: Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>,
}

impl Checkouts {
    pub(crate) fn new(site: &Site) -> Self {
        let cache = site.cache().join("git");
        Self { cache, resolved: Mutex::default(), fetching: Mutex::default() }
    }

    /// The commit of a ref, asked from its server once per command.
    pub(crate) fn resolve(&self, source: &GitSource) -> Result<String> {
        if git::is_commit(&source.reference) {
            return Ok(source.reference.to_lowercase());
        }
        let key = (source.url.clone(), source.reference.clone());
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(commit) = resolved.get(&key) {
            return Ok(commit.clone());
        }
        let commit = asked(source)?;
        resolved.insert(key, commit.clone());
        Ok(commit)
    }

    /// The directory of a commit; fetched when it is not there yet.
    pub(crate) fn checkout(&self, url: &str, commit: &str, source: &GitSource) -> Result<PathBuf> {
        git::check_source(url, commit).map_err(PackError::config)?;
        if !git::is_commit(commit) {
            return Err(PackError::config(format!("`{commit}` is no commit id")));
        }
        let folder = self.cache.join(Sha::of(url.as_bytes()).to_string()).join(commit);
        if folder.is_dir() {
            return Ok(folder);
        }
        let turn = {
            let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(fetching.entry(folder.clone()).or_default())
        };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !folder.is_dir() {
            fetch(url, commit, source, &folder)?;
        }
        Ok(folder)
    }
}

fn asked(source: &GitSource) -> Result<String> {
    let name = &source.reference;
    let refs = [
        format!("refs/heads/{name}"),
        format!("refs/tags/{name}"),
        format!("refs/tags/{name}^{{}}"),
    ];
    let mut arguments = vec!["ls-remote", "--", source.url.as_str()];
    arguments.extend(refs.iter().map(String::as_str));
    let answer = git::run_remote(Path::new("/"), &arguments)?;
    let commit_of = |wanted: &str| {
        let mut lines = answer.lines().filter_map(|line| line.split_once('\t'));
        lines.find(|(_, name)| *name == wanted).map(|(commit, _)| commit.to_owned())
    };
    // An annotated tag is an object of its own; its commit is the peeled one.
    let found = refs.iter().rev().find_map(|name| commit_of(name));
    found.filter(|commit| git::is_commit(commit)).ok_or_else(|| {
        PackError::new(
            Code::GitFailed,
            format!("{} has no branch or tag `{name}`", git::shown_url(&source.url)),
        )
        .hint("check `url` and `ref` of the module's source")
    })
}

/// Brings a commit into a directory beside its final one, then renames it.
fn fetch(url: &str, commit: &str, source: &GitSource, folder: &Path) -> Result<()> {
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(|error| PackError::io("create", parent, &error))?;
    // Of this call alone: another one of this process may be fetching the same commit.
    let temporary = tempfile::Builder::new()
        .prefix(&format!(".{commit}."))
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(|error| PackError::io("create", parent, &error))?;
    clone(url, commit, source, parent, temporary.path())?;
    match fs::rename(temporary.path(), folder) {
        Err(_) if folder.is_dir() => Ok(()),
        outcome => outcome.map_err(|error| PackError::io("create", folder, &error)),
    }
}

fn clone(
    url: &str,
    commit: &str,
    source: &GitSource,
    parent: &Path,
    temporary: &Path,
) -> Result<()> {
    let name = temporary.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let shallow = [
        "clone",
        "--quiet",
        "--no-checkout",
        "--depth",
        "1",
        "--branch",
        &source.reference,
        "--",
        url,
        name,
    ];
    let whole = ["clone", "--quiet", "--no-checkout", "--", url, name];
    let check_out = || {
        // The clone's own settings name no filter, which is looked at; links are taken as they are.
        git::run(
            temporary,
            &["-c", "core.autocrlf=false", "checkout", "--quiet", "--detach", commit, "--"],
        )?;
        let head = git::run(temporary, &["rev-parse", "HEAD"])?;
        if head.trim() == commit {
            return Ok(());
        }
        Err(PackError::new(
            Code::GitFailed,
            format!("{} gave another commit than {commit}", git::shown_url(url)),
        ))
    };
    if source.shallow && !git::is_commit(&source.reference) {
        let tried = git::run_remote(parent, &shallow).and_then(|_| check_out());
        if tried.is_ok() {
            return tried;
        }
        let _ = fs::remove_dir_all(temporary);
    }
    git::run_remote(parent, &whole)?;
    check_out()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_ref_is_told_without_the_credential_in_its_url() {
        let home = tempfile::tempdir().unwrap();
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let folder = home.path().join(&token).join("repo");
        fs::create_dir_all(&folder).unwrap();
        git::run(&folder, &["init", "--quiet", "--bare"]).unwrap();
        let source = GitSource {
            url: folder.to_str().unwrap().to_owned(),
            reference: "nowhere".to_owned(),
            subdir: None,
            shallow: false,
        };
        let told = format!("{:?}", asked(&source).unwrap_err());
        assert!(told.contains("has no branch or tag `nowhere`"), "{told}");
        assert!(!told.contains(&token), "{told}");
    }
}
