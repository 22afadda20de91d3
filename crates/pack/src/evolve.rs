//! Evolving the config repo from what agents and people did to deployed files.
//!
//! `propose` takes edits over as overlays, on a branch of their own; `restore` puts missing files back and
//! touches no other.

mod propose;
mod restore;
mod sections;
mod skipped;

use std::path::PathBuf;

use serde::Serialize;

pub(crate) use self::{
    propose::propose,
    restore::{RestoreOptions, restore},
};
pub use self::{
    propose::{ProposeData, ProposeOptions, ProposeSummary},
    restore::{RestoreData, RestoreSummary, Restored},
    skipped::{Skipped, Suggestion},
};
use crate::targets::TargetId;

/// A deployed file of a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EvolveItem {
    /// The module.
    pub module_id: String,
    /// The target.
    pub target: TargetId,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
}

impl EvolveItem {
    fn new(module_id: &str, target: TargetId, path: &std::path::Path) -> Self {
        let path = crate::paths::shown(path);
        Self { module_id: module_id.to_owned(), target, path_posix: path.clone(), path }
    }
}

/// The place of an item.
type At<'a> = (&'a TargetId, &'a PathBuf);
