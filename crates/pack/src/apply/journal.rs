//! The journal: what the running transaction is about to change, and how each place was before.
//!
//! It stands in `state/journal.json` from before the first write until after the commit.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{step::Step, write_durably};
use crate::{
    beneath::Disk,
    error::{PackError, Result},
    paths::shown,
    plain_file,
    sha::Sha,
    site::Site,
};

/// The whole journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    version: u32,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) steps: Vec<JournalStep>,
    /// Directories that did not exist before, outermost first.
    pub(crate) folders: Vec<PathBuf>,
}

/// One place.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JournalStep {
    pub(crate) root: PathBuf,
    pub(crate) path: String,
    pub(crate) confine: Option<PathBuf>,
    pub(crate) before: Before,
    /// The digest of what is written; absent when it is removed.
    pub(crate) after: Option<Sha>,
}

/// How it was.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "snake_case")]
pub(crate) enum Before {
    Absent,
    File { sha256: Sha, mode: u32, backup: PathBuf },
    Link { to: String },
}

impl Journal {
    pub(crate) fn new(
        id: &str,
        kind: &str,
        steps: Vec<JournalStep>,
        folders: Vec<PathBuf>,
    ) -> Self {
        Self { version: 1, id: id.to_owned(), kind: kind.to_owned(), steps, folders }
    }

    /// Reads the journal that a process left; `None` when there is none.
    pub(crate) fn load(site: &Site) -> Result<Option<Self>> {
        let path = place(site);
        let bytes = match plain_file::read_whole(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PackError::io("read", &path, &error)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            PackError::new(crate::error::Code::Unexpected, format!("{} can't be read: {error}", path.display()))
                .with("path", shown(&path))
                .hint("compare the target's files with the backups in state/snapshots, then remove the journal")
        })
    }

    pub(crate) fn write(&self, site: &Site) -> Result<()> {
        let bytes = serde_json::to_vec(self).expect("strings and numbers");
        write_durably(&place(site), &bytes)
    }
}

impl JournalStep {
    pub(crate) fn of(step: &Step, backup: Option<PathBuf>, confine: Option<&Path>) -> Self {
        let before = match (&step.before, backup) {
            (Disk::File(file), Some(backup)) => {
                Before::File { sha256: file.sha, mode: file.mode, backup }
            }
            (Disk::Link(to), _) => Before::Link { to: to.clone() },
            _ => Before::Absent,
        };
        Self {
            root: step.root.clone(),
            path: step.path.to_string(),
            confine: confine.map(Path::to_owned),
            before,
            after: step.after.sha(),
        }
    }
}

/// Takes the journal away: the transaction is done or undone.
pub(crate) fn remove(site: &Site) -> Result<()> {
    let path = place(site);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PackError::io("remove", &path, &error))
        }
        _ => Ok(()),
    }
}

/// Whether a journal stands there.
pub(crate) fn exists(site: &Site) -> bool {
    place(site).exists()
}

fn place(site: &Site) -> PathBuf {
    site.state().join("journal.json")
}
