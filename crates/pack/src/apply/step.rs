//! One place that a transaction changes.

use std::path::{Path, PathBuf};

use crate::{
    beneath::{Beneath, Disk, WriteMode},
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    sha::{Content, Sha},
    snapshot::SnapshotChange,
    targets::TargetId,
};

/// What is there, and what shall be there.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) target: TargetId,
    pub(crate) root: PathBuf,
    pub(crate) path: RelPath,
    /// What the snapshot calls it.
    pub(crate) op: &'static str,
    pub(crate) before: Disk,
    pub(crate) after: After,
    /// Whether a file of the user's own is replaced.
    pub(crate) adopted: bool,
}

/// What shall stand at a place.
#[derive(Clone, Debug)]
pub(crate) enum After {
    Absent,
    /// A file whose mode follows its source and what it replaces.
    File {
        content: Content,
        executable: bool,
    },
    /// A link, as it stood there once.
    Link(String),
    /// A file with the mode that it had.
    Restored {
        content: Content,
        mode: u32,
    },
}

impl After {
    /// The digest that journals and snapshots hold.
    pub(crate) fn sha(&self) -> Option<Sha> {
        match self {
            Self::Absent => None,
            Self::File { content, .. } | Self::Restored { content, .. } => Some(content.sha()),
            Self::Link(target) => Disk::Link(target.clone()).sha(),
        }
    }
}

impl Step {
    /// The absolute path.
    pub(crate) fn full(&self) -> PathBuf {
        self.root.join(&self.path)
    }

    /// Brings the place to its new state.
    pub(crate) fn write(&self, root: &Beneath, id: &str) -> Result<()> {
        let temporary = temporary(&self.path, id);
        match &self.after {
            After::Absent => {
                root.remove(&self.path)?;
                root.remove_empty_parents(&self.path);
                Ok(())
            }
            After::File { content, executable } => {
                root.make_parents(&self.path)?;
                let mode = WriteMode::replacing(&self.before, *executable);
                root.write(&self.path, content.bytes(), mode, &temporary)
            }
            After::Link(target) => {
                root.make_parents(&self.path)?;
                root.write_link(&self.path, target, &temporary)
            }
            After::Restored { content, mode } => {
                root.make_parents(&self.path)?;
                root.write(&self.path, content.bytes(), WriteMode::Exact(*mode), &temporary)
            }
        }
    }

    /// The error for a place that is not as the plan saw it.
    pub(crate) fn changed(&self) -> PackError {
        let path = shown(&self.full());
        PackError::new(Code::PlanChanged, format!("{path} changed after the plan was made"))
            .with("path", path.clone())
            .with("path_posix", path)
            .with("target", self.target.as_str())
            .hint("look at the plan again, then deploy again")
    }

    /// The row of the snapshot.
    pub(crate) fn change(&self, backup: Option<&Path>) -> SnapshotChange {
        SnapshotChange {
            target: self.target.to_string(),
            op: self.op.to_owned(),
            path: shown(&self.full()),
            backup_path: backup.map(shown),
            before_sha256: self.before.sha(),
            after_sha256: self.after.sha(),
            before_mode: match &self.before {
                Disk::File(file) => Some(file.mode),
                _ => None,
            },
            before_link: match &self.before {
                Disk::Link(target) => Some(target.clone()),
                _ => None,
            },
            adopted: self.adopted,
        }
    }
}

/// The name beside a file under which a transaction writes it.
pub(crate) fn temporary(path: &RelPath, id: &str) -> String {
    let digest = Sha::of(path.as_str().as_bytes()).prefix(16);
    format!(".agentpack-{id}-{digest}.tmp")
}
