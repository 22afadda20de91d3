//! Overlays: what a user, a machine or a project changes in a module, kept apart from the module.
//!
//! ```text
//! upstream < <repo>/overlays/KEY < <repo>/overlays/machines/M/KEY < <repo>/projects/P/overlays/KEY
//! ```
//!
//! A directory overlay replaces or adds whole files; a patch overlay holds one unified diff per file.
//! Source: shared/reference/agentpack.md, section 3.

pub(crate) mod baseline;
pub(crate) mod compose;
pub(crate) mod edit;
pub(crate) mod patch;
pub(crate) mod rebase;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{PackError, Result},
    ids,
    paths::shown,
    plain_file,
    site::Site,
};

/// Whose change an overlay is; later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlayScope {
    /// For every machine and project.
    Global,
    /// For one machine.
    Machine,
    /// For one project.
    Project,
}

/// How an overlay holds its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlayKind {
    /// Whole files.
    #[default]
    Dir,
    /// Unified diffs.
    Patch,
}

/// The overlays that exist, listed once per command.
#[derive(Debug)]
pub(crate) struct Overlays {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    scope: OverlayScope,
    base: PathBuf,
    names: HashSet<String>,
}

/// Where an overlay says its kind; one that says nothing holds whole files.
pub(crate) const KIND_FILE: &str = ".agentpack/overlay.json";

/// [`KIND_FILE`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct OverlayFile {
    #[serde(default)]
    pub(crate) overlay_kind: OverlayKind,
}

impl OverlayScope {
    /// All, lowest first.
    pub const ALL: [Self; 3] = [Self::Global, Self::Machine, Self::Project];

    /// The word in payloads and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Machine => "machine",
            Self::Project => "project",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl OverlayKind {
    /// The word in payloads and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::Patch => "patch",
        }
    }
}

impl Overlays {
    /// Lists the overlays of every scope.
    pub(crate) fn open(site: &Site) -> Self {
        let scopes = OverlayScope::ALL.into_iter().filter(|scope| {
            // Asking for the project's id costs a call of git; most repos have no project overlays.
            *scope != OverlayScope::Project || site.repo.join("projects").is_dir()
        });
        let layer = |scope| {
            let base = base(site, scope);
            let entries = fs::read_dir(&base).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            Layer { scope, base, names }
        };
        Self { layers: scopes.map(layer).collect() }
    }

    /// Only those of lower scopes.
    pub(crate) fn below(mut self, scope: OverlayScope) -> Self {
        self.layers.retain(|layer| layer.scope < scope);
        self
    }

    /// The overlays of one module, lowest first.
    pub(crate) fn of(&self, id: &str) -> Vec<(OverlayScope, PathBuf)> {
        let find = |layer: &Layer| {
            let name = candidates(id).into_iter().find(|name| layer.names.contains(name))?;
            Some((layer.scope, layer.base.join(name)))
        };
        self.layers.iter().filter(|layer| !layer.names.is_empty()).filter_map(find).collect()
    }
}

/// Where an overlay is, or would be made: the first name that exists, else the canonical one.
pub(crate) fn folder(site: &Site, scope: OverlayScope, id: &str) -> PathBuf {
    let base = base(site, scope);
    let found = candidates(id).into_iter().map(|name| base.join(name)).find(|path| path.is_dir());
    found.unwrap_or_else(|| base.join(ids::module_fs_key(id)))
}

/// What kind of overlay a directory is.
pub(crate) fn kind_of(folder: &Path) -> Result<OverlayKind> {
    let path = folder.join(KIND_FILE);
    let text = match plain_file::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(OverlayKind::Dir),
        Err(error) => return Err(PackError::io("read", &path, &error)),
    };
    let file: OverlayFile = serde_json::from_str(&text).map_err(|error| {
        PackError::config(format!("{} can't be read: {error}", path.display()))
            .with("path", shown(&path))
            .with("meta_path", shown(&path))
            .with("overlay_dir", shown(folder))
            .hint("write {\"overlay_kind\": \"dir\"} or {\"overlay_kind\": \"patch\"}")
    })?;
    Ok(file.overlay_kind)
}

/// Names under which a module's overlay may stand, best first.
fn candidates(id: &str) -> Vec<String> {
    let mut names = vec![ids::module_fs_key(id), ids::unbounded_fs_key(id)];
    if ids::is_component(id) {
        names.push(id.to_owned());
    }
    names
}

fn base(site: &Site, scope: OverlayScope) -> PathBuf {
    match scope {
        OverlayScope::Global => site.repo.join("overlays"),
        OverlayScope::Machine => site.repo.join("overlays/machines").join(site.machine()),
        OverlayScope::Project => {
            site.repo.join("projects").join(&site.project().id).join("overlays")
        }
    }
}
