//! Which of the places that were changed since a snapshot a rollback to it may touch: the user's, and those of the
//! project that the snapshot was made in.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::Scene;
use crate::{
    deployed::every_root,
    desired::Place,
    error::Result,
    snapshot::{Snapshot, SnapshotChange},
    targets::{Root, TargetId},
};

/// Seen from the snapshot that is gone back to.
pub(super) struct Reach<'s> {
    scene: &'s Scene<'s>,
    /// The places that the snapshot itself names.
    named: BTreeSet<Place>,
}

impl<'s> Reach<'s> {
    pub(super) fn of(scene: &'s Scene<'s>, goal: &Snapshot) -> Self {
        let files = goal.files_after();
        let files = files.iter().map(|file| (&file.target, &file.path));
        let changes = goal.changes.iter().map(|change| (&change.target, &change.path));
        let ours = files.chain(changes).filter(|(target, _)| scene.has(target));
        let named = ours.filter_map(|(target, path)| scene.place(goal, target, path).ok());
        Self { scene, named: named.collect() }
    }

    /// Whether a change of `later` is undone.
    pub(super) fn has(&self, later: &Snapshot, change: &SnapshotChange) -> Result<bool> {
        let here = &self.scene.site.project_root;
        let Some(target) = TargetId::parse(&change.target) else { return Ok(false) };
        let place = (target, PathBuf::from(&change.path));
        if self.named.contains(&place) {
            return Ok(true);
        }
        let path = &place.1;
        let roots = self.roots(here, target)?;
        let Some(project) = later.project_root.as_deref().map(Path::new) else {
            // From before snapshots said where they were made.
            return Ok(roots.is_none_or(|roots| is_below(path, &roots)));
        };
        if project == here || !path.starts_with(project) {
            return Ok(true);
        }
        // A home can be a project too. The roots that two projects have in common are the user's.
        let mut common = roots.unwrap_or_default();
        let there = self.roots(project, target)?.unwrap_or_default();
        common.retain(|root| there.iter().any(|other| other.path == root.path));
        Ok(is_below(path, &common))
    }

    /// A target's roots for a project, whatever its options are now; `None` where it is not configured any more.
    fn roots(&self, project: &Path, target: TargetId) -> Result<Option<Vec<Root>>> {
        let site = self.scene.site.in_project(project);
        self.scene.config(target).map(|config| every_root(&site, target, config)).transpose()
    }
}

/// Whether one of the roots may have the place. A project's directory is a root for single files, and other projects may lie in it.
fn is_below(path: &Path, roots: &[Root]) -> bool {
    let is_deep = |root: &Root| root.scan_extras || root.target == TargetId::ExportDir;
    roots.iter().any(|root| {
        if is_deep(root) { path.starts_with(&root.path) } else { path.parent() == Some(&root.path) }
    })
}
