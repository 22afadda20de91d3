//! Making an overlay, and finding its files.

use std::{fs, path::Path};

use serde::Serialize;

use super::{
    KIND_FILE, OverlayFile, OverlayKind, OverlayScope, baseline::Baseline, compose::names, folder,
    kind_of, patch,
};
use crate::{
    apply::write_durably,
    error::{PackError, Result},
    manifest::Manifest,
    paths::{RelPath, shown},
    site::Site,
    tree::Tree,
    workspace::{Upstream, one_module},
};

/// How an overlay is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct EditOptions {
    /// Its kind, when it is made now.
    pub kind: OverlayKind,
    /// Without upstream's files.
    pub sparse: bool,
    /// With those of upstream's files that it does not have.
    pub materialize: bool,
}

/// The payload of `overlay edit`.
#[derive(Clone, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the payload is agentpack's")]
pub struct OverlayEditData {
    /// The module.
    pub module_id: String,
    /// The scope.
    pub scope: OverlayScope,
    /// The kind.
    pub overlay_kind: OverlayKind,
    /// Its directory.
    pub overlay_dir: String,
    /// `overlay_dir` with `/` between its segments.
    pub overlay_dir_posix: String,
    /// Whether it was made now.
    pub created: bool,
    /// Whether it was made without upstream's files.
    pub sparse: bool,
    /// Whether upstream's files were added.
    pub materialized: bool,
    /// Where patches go, for that kind.
    pub patches_dir: Option<String>,
    /// Whether it is a project's.
    pub project: bool,
    /// The machine, for a machine's.
    pub machine_id: Option<String>,
    /// The project, for a project's.
    pub project_id: Option<String>,
}

/// The payload of `overlay path`.
#[derive(Clone, Debug, Serialize)]
pub struct OverlayPathData {
    /// The module.
    pub module_id: String,
    /// The scope.
    pub scope: OverlayScope,
    /// Its directory.
    pub overlay_dir: String,
    /// `overlay_dir` with `/` between its segments.
    pub overlay_dir_posix: String,
}

/// Where an overlay is or would be; the config repo must exist, the module need not.
pub(crate) fn path(site: &Site, module_id: &str, scope: OverlayScope) -> Result<OverlayPathData> {
    Manifest::load(&site.repo)?;
    let overlay = shown(&folder(site, scope, module_id));
    Ok(OverlayPathData {
        module_id: module_id.to_owned(),
        scope,
        overlay_dir: overlay.clone(),
        overlay_dir_posix: overlay,
    })
}

/// Makes an overlay, or adds to one.
pub(crate) fn edit(
    site: &Site,
    module_id: &str,
    scope: OverlayScope,
    options: EditOptions,
) -> Result<OverlayEditData> {
    let overlay = folder(site, scope, module_id);
    let exists = overlay.is_dir();
    let mut kind = if exists { kind_of(&overlay)? } else { options.kind };
    if options.materialize && (kind == OverlayKind::Patch || options.kind == OverlayKind::Patch) {
        return Err(PackError::config("a patch overlay can't be materialized")
            .with("module_id", module_id)
            .with("scope", scope.as_str())
            .with("overlay_dir", shown(&overlay))
            .hint("leave --materialize away, or use --kind dir"));
    }
    let becomes_patch = exists && options.kind == OverlayKind::Patch && kind == OverlayKind::Dir;
    if becomes_patch {
        let files = Tree::read(&overlay)?.without_metadata();
        if !files.0.is_empty() {
            let message = format!("{} is an overlay of kind dir, with files", overlay.display());
            return Err(PackError::config(message)
                .with("module_id", module_id)
                .with("overlay_dir", shown(&overlay))
                .with("override_files", names(&files))
                .hint("remove these files first, or leave --kind away"));
        }
        // Nothing is in it yet, so it may still be of the other kind.
        kind = OverlayKind::Patch;
        write_kind(&overlay, kind)?;
    }
    let (module, upstream) = one_module(site, module_id)?;
    let copies = kind == OverlayKind::Dir && (options.materialize || (!exists && !options.sparse));
    if copies {
        for (path, file) in &upstream.tree.clone().without_metadata().0 {
            let place = overlay.join(path);
            if fs::symlink_metadata(&place).is_err() {
                write_durably(&place, file.content.bytes())?;
                set_executable(&place, file.executable)?;
            }
        }
    }
    write_metadata(site, &overlay, &module, kind, &upstream)?;
    let patches = overlay.join(patch::FOLDER);
    if kind == OverlayKind::Patch {
        fs::create_dir_all(&patches).map_err(|error| PackError::io("create", &patches, &error))?;
    }
    Ok(OverlayEditData {
        module_id: module_id.to_owned(),
        scope,
        overlay_kind: kind,
        overlay_dir: shown(&overlay),
        overlay_dir_posix: shown(&overlay),
        created: !exists,
        sparse: options.sparse,
        materialized: options.materialize,
        patches_dir: (kind == OverlayKind::Patch).then(|| shown(&patches)),
        project: scope == OverlayScope::Project,
        machine_id: (scope == OverlayScope::Machine).then(|| site.machine().to_owned()),
        project_id: (scope == OverlayScope::Project).then(|| site.project().id.clone()),
    })
}

/// Module id, kind and baseline, where they are not there yet.
pub(crate) fn write_metadata(
    site: &Site,
    overlay: &Path,
    module: &crate::manifest::Module,
    kind: OverlayKind,
    upstream: &Upstream,
) -> Result<()> {
    let write_missing = |name: &str, text: String| {
        let place = overlay.join(name);
        if place.exists() { Ok(()) } else { write_durably(&place, text.as_bytes()) }
    };
    write_missing(".agentpack/module_id", format!("{}\n", module.id))?;
    let baseline = || Baseline::of(site, module, &upstream.tree, upstream.commit.as_deref());
    if !overlay.join(super::baseline::FILE).exists() {
        write_missing(super::baseline::FILE, baseline().text())?;
    }
    if overlay.join(KIND_FILE).exists() { Ok(()) } else { write_kind(overlay, kind) }
}

fn write_kind(overlay: &Path, kind: OverlayKind) -> Result<()> {
    let text = serde_json::to_string_pretty(&OverlayFile { overlay_kind: kind }).expect("a word");
    write_durably(&overlay.join(KIND_FILE), format!("{text}\n").as_bytes())
}

/// The upstream paths that an overlay changes.
pub(crate) fn overlaid_files(overlay: &Path) -> Vec<RelPath> {
    let files = Tree::read(overlay).map(Tree::without_metadata).unwrap_or_default();
    let patches = patch::list(overlay).unwrap_or_default();
    files.0.into_keys().chain(patches.into_iter().map(|patch| patch.target)).collect()
}

pub(crate) fn set_executable(path: &Path, executable: bool) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let fault = |error: std::io::Error| PackError::io("change the mode of", path, &error);
    let mode = fs::metadata(path).map_err(fault)?.permissions().mode();
    let wanted = crate::beneath::with_execution(mode, executable);
    if wanted == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(wanted)).map_err(fault)
}
