//! What upstream was when an overlay was made: `.agentpack/baseline.json`, version 2.

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Serialize};

use super::OverlayScope;
use crate::{
    error::{Code, PackError, Result},
    git,
    manifest::{Module, Source},
    paths::{RelPath, shown},
    plain_file,
    sha::Sha,
    site::Site,
    tree::{FileRow, Tree},
};

/// The baseline's place in an overlay.
pub(crate) const FILE: &str = ".agentpack/baseline.json";

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Baseline {
    #[serde(default)]
    pub(crate) version: u32,
    pub(crate) created_at: String,
    pub(crate) upstream_sha256: Sha,
    pub(crate) file_manifest: Vec<FileRow>,
    #[serde(default)]
    pub(crate) upstream: Option<Upstream>,
}

/// Where the merge base can be found again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Upstream {
    /// A commit of a git module.
    Git {
        url: String,
        commit: String,
        #[serde(default)]
        subdir: String,
    },
    /// A path in the config repo, at a commit of it.
    LocalPath { repo_rel_path: String, repo_git_rev: Option<String>, repo_dirty: Option<bool> },
}

impl Baseline {
    /// What upstream is now.
    pub(crate) fn of(site: &Site, module: &Module, upstream: &Tree, commit: Option<&str>) -> Self {
        let origin = match (&module.source, commit) {
            (Source::Git(git), Some(commit)) => Some(Upstream::Git {
                url: git.url.clone(),
                commit: commit.to_owned(),
                subdir: git.subdir.as_ref().map(ToString::to_string).unwrap_or_default(),
            }),
            (Source::Git(_), None) => None,
            (Source::Local(path), _) => Some(local(site, path)),
        };
        Self {
            version: 2,
            created_at: crate::clock::now(),
            upstream_sha256: upstream.sha(),
            file_manifest: upstream.rows(),
            upstream: origin,
        }
    }

    /// Reads an overlay's baseline.
    pub(crate) fn load(overlay: &Path) -> Result<Self> {
        let path = overlay.join(FILE);
        let text = plain_file::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                absent(overlay, &path, Code::OverlayBaselineMissing, "is missing")
            }
            _ => PackError::io("read", &path, &error),
        })?;
        serde_json::from_str(&text).map_err(|error| {
            absent(
                overlay,
                &path,
                Code::OverlayBaselineUnsupported,
                &format!("can't be read: {error}"),
            )
        })
    }

    pub(crate) fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers");
        format!("{text}\n")
    }

    pub(crate) fn sha_of(&self, path: &RelPath) -> Option<Sha> {
        self.file_manifest.iter().find(|row| row.path == path.as_str()).map(|row| row.sha256)
    }
}

/// Says where upstream has moved below an overlay since its baseline.
pub(crate) fn drift(
    module: &Module,
    scope: OverlayScope,
    overlay: &Path,
    upstream: &Tree,
) -> Vec<String> {
    let baseline = match Baseline::load(overlay) {
        Ok(baseline) => baseline,
        Err(error) if error.code() == Code::OverlayBaselineMissing => return Vec::new(),
        Err(error) => return vec![format!("{error}; whether upstream has moved can't be told")],
    };
    if baseline.upstream_sha256 == upstream.sha() {
        return Vec::new();
    }
    let known: HashMap<&str, Sha> =
        baseline.file_manifest.iter().map(|row| (row.path.as_str(), row.sha256)).collect();
    let name = format!("{} overlay of `{}`", scope.as_str(), module.id);
    let mut warnings = Vec::new();
    for path in super::edit::overlaid_files(overlay) {
        let Some(before) = known.get(path.as_str()) else { continue };
        match upstream.get(path.as_str()) {
            None => warnings.push(format!(
                "{name}: upstream no longer has {path}; run `agentpack overlay rebase`"
            )),
            Some(file) if file.content.sha() != *before => {
                warnings.push(format!(
                    "{name}: upstream changed {path}; run `agentpack overlay rebase`"
                ));
            }
            Some(_) => {}
        }
    }
    if warnings.is_empty() {
        warnings.push(format!("{name}: upstream changed in files that it does not touch"));
    }
    warnings
}

fn local(site: &Site, path: &RelPath) -> Upstream {
    let inside = site.repo.join(".git").exists();
    let asked = |arguments: &[&str]| inside.then(|| git::run(&site.repo, arguments).ok()).flatten();
    let status = asked(&[git::STATUS, &["--", path.as_str()]].concat());
    Upstream::LocalPath {
        repo_rel_path: path.to_string(),
        repo_git_rev: asked(&["rev-parse", "--verify", "HEAD"]).map(|text| text.trim().to_owned()),
        repo_dirty: status.map(|text| !text.trim().is_empty()),
    }
}

fn absent(overlay: &Path, path: &Path, code: Code, what: &str) -> PackError {
    PackError::new(code, format!("the overlay's baseline {} {what}", path.display()))
        .with("overlay_dir", shown(overlay))
        .with("baseline_path", shown(path))
        .hint("make the overlay again with `agentpack overlay edit`")
}
