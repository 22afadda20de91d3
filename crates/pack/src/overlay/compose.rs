//! A module as its overlays make it, in memory, with the layer that each file came from.

use std::{collections::BTreeMap, fs, path::Path};

use super::{OverlayKind, OverlayScope, Overlays, baseline, kind_of, patch, rebase};
use crate::{
    error::{Code, PackError, Result},
    manifest::Module,
    paths::{RelPath, shown},
    tree::Tree,
};

/// A module that is ready to be deployed.
#[derive(Clone, Debug)]
pub(crate) struct Composed {
    pub(crate) tree: Tree,
    /// The topmost overlay that touched a file; upstream where absent.
    pub(crate) layers: BTreeMap<RelPath, OverlayScope>,
    pub(crate) warnings: Vec<String>,
}

/// Lays a module's overlays over its upstream files.
pub(crate) fn compose(module: &Module, upstream: &Tree, overlays: &Overlays) -> Result<Composed> {
    let mut composed = Composed {
        tree: upstream.clone().without_metadata(),
        layers: BTreeMap::new(),
        warnings: Vec::new(),
    };
    for (scope, folder) in overlays.of(&module.id) {
        if !folder.is_dir() {
            composed
                .warnings
                .push(format!("overlay {} is no directory and is ignored", folder.display()));
            continue;
        }
        let kind = kind_of(&folder)?;
        let overrides = Tree::read(&folder)?.without_metadata();
        let patches = patch::list(&folder)?;
        let place = patch::Place { module_id: &module.id, scope, folder: &folder };
        mixed(&place, kind, &overrides, &patches)?;
        match kind {
            OverlayKind::Dir => {
                for (path, file) in overrides.0 {
                    unmerged(
                        module,
                        scope,
                        &folder,
                        &path,
                        file.content.bytes(),
                        composed.tree.get(path.as_str()),
                    )?;
                    composed.layers.insert(path.clone(), scope);
                    composed.tree.insert(path, file);
                }
            }
            OverlayKind::Patch => {
                for patch in patches {
                    let before = composed.tree.get(patch.target.as_str()).cloned();
                    let after = patch::applied(&place, &patch, before.as_ref())?;
                    unmerged(
                        module,
                        scope,
                        &folder,
                        &patch.target,
                        after.content.bytes(),
                        before.as_ref(),
                    )?;
                    composed.layers.insert(patch.target.clone(), scope);
                    composed.tree.insert(patch.target, after);
                }
            }
        }
        composed.warnings.extend(baseline::drift(module, scope, &folder, upstream));
    }
    Ok(composed)
}

/// Refuses an overlay that is half one kind and half the other.
fn mixed(
    place: &patch::Place<'_>,
    kind: OverlayKind,
    overrides: &Tree,
    patches: &[patch::PatchFile],
) -> Result<()> {
    let fault = |message: &str, hint: &str| {
        let listed = |patch: &patch::PatchFile| format!("{}/{}.patch", patch::FOLDER, patch.target);
        Err(PackError::config(format!("overlay {} {message}", place.folder.display()))
            .with("module_id", place.module_id)
            .with("scope", place.scope.as_str())
            .with("overlay_dir", shown(place.folder))
            .with("overlay_kind", kind.as_str())
            .with("override_files", names(overrides))
            .with("patch_files", patches.iter().map(listed).collect::<Vec<_>>())
            .hint(hint))
    };
    match kind {
        OverlayKind::Dir if !patches.is_empty() => fault(
            "is of kind dir and holds patches",
            "remove .agentpack/patches, or make its kind patch",
        ),
        OverlayKind::Patch if !overrides.0.is_empty() => fault(
            "is of kind patch and holds whole files",
            "remove these files, or make its kind dir",
        ),
        _ => Ok(()),
    }
}

/// The files of a tree, as errors list them.
pub(super) fn names(tree: &Tree) -> Vec<String> {
    tree.0.keys().map(ToString::to_string).collect()
}

/// Refuses a file that still holds the markers of a conflict, unless the file below it holds them too.
fn unmerged(
    module: &Module,
    scope: OverlayScope,
    folder: &Path,
    path: &RelPath,
    bytes: &[u8],
    below: Option<&crate::tree::TreeFile>,
) -> Result<()> {
    // A patch overlay's conflict lies beside its patch, and is open until a rebase has taken it.
    let pending = fs::symlink_metadata(folder.join(".agentpack/conflicts").join(path)).is_ok();
    let meant = below.is_some_and(|file| has_markers(file.content.bytes()));
    let open = pending || rebase::is_open(folder, path, bytes);
    if !open && (!has_markers(bytes) || meant) {
        return Ok(());
    }
    let message = format!(
        "the {} overlay of `{}` has an unresolved conflict in {path}",
        scope.as_str(),
        module.id
    );
    Err(PackError::new(Code::OverlayRebaseConflict, message)
        .with("module_id", module.id.clone())
        .with("scope", scope.as_str())
        .with("overlay_dir", shown(folder))
        .with("conflicts", vec![path.to_string()])
        .hint("edit the file until no <<<<<<< marker is left, then run `agentpack overlay rebase` again"))
}

/// Whether the three markers of a conflict stand in a text, in their order.
fn has_markers(bytes: &[u8]) -> bool {
    let mut wanted = [&b"<<<<<<< "[..], b"=======", b">>>>>>> "].into_iter().peekable();
    for line in bytes.split(|byte| *byte == b'\n') {
        if wanted.peek().is_some_and(|marker| line.starts_with(marker)) {
            wanted.next();
        }
    }
    wanted.peek().is_none()
}
