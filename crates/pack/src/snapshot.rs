//! Snapshots: what each deploy, rollback and bootstrap changed, and what it left behind.
//!
//! ```text
//! state/snapshots/ID.json            written last: with it, the snapshot exists
//! state/snapshots/ID/backup/T/HASH   what stood in the places that it changed
//! state/snapshots/ID/state/T/HASH    what it left there; the same bytes in two snapshots are one file
//! ```
//!
//! HASH is the first 16 digits of the digest of the absolute path. Source: shared/reference/agentpack.md,
//! section 5.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Code, PackError, Result},
    ids,
    paths::shown,
    plain_file,
    sha::Sha,
    site::Site,
};

/// How many snapshots are kept; older ones go, unless they hold a file that the user wrote.
const KEPT: usize = 20;

/// A snapshot's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) targets: Vec<String>,
    #[serde(default)]
    pub(crate) managed_files: Option<Vec<SnapshotFile>>,
    pub(crate) changes: Vec<SnapshotChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rolled_back_to: Option<String>,
    #[serde(default)]
    pub(crate) lockfile_sha256: Option<Sha>,
    pub(crate) backup_root: String,
    /// The config repo that it came from; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repo: Option<String>,
    /// The project that it was made in; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project_root: Option<String>,
}

/// A file that the snapshot left behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotFile {
    pub(crate) target: String,
    pub(crate) path: String,
    pub(crate) sha256: Sha,
    /// Whether it may be executed; agentpack does not write this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) executable: bool,
}

/// A place that it changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotChange {
    pub(crate) target: String,
    pub(crate) op: String,
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backup_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_sha256: Option<Sha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after_sha256: Option<Sha>,
    /// Permission bits of the backup; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_mode: Option<u32>,
    /// Where a link led that stood there; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_link: Option<String>,
    /// Whether the user's own file was replaced; agentpack does not write this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) adopted: bool,
}

/// The snapshots of a home.
pub(crate) struct Snapshots;

impl Snapshots {
    /// All that can be read, oldest first, and a sentence about each that can't.
    pub(crate) fn list(site: &Site) -> Result<(Vec<Snapshot>, Vec<String>)> {
        let folder = site.snapshots();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Vec::new(), Vec::new()));
            }
            Err(error) => return Err(PackError::io("read", &folder, &error)),
        };
        let (mut snapshots, mut warnings) = (Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let path = entry.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            if path.extension().is_none_or(|end| end != "json") || !is_id(&id) {
                continue;
            }
            match read(&path) {
                Ok(snapshot) if snapshot.id == id => snapshots.push(snapshot),
                Ok(_) => warnings
                    .push(format!("snapshot {} is of another id and is ignored", path.display())),
                Err(error) => warnings.push(format!(
                    "snapshot {} can't be read and is ignored: {error}",
                    path.display()
                )),
            }
        }
        snapshots.sort_by_key(|snapshot| order(&snapshot.id));
        Ok((snapshots, warnings))
    }

    /// One snapshot by its id.
    pub(crate) fn load(site: &Site, id: &str) -> Result<Snapshot> {
        let unknown = |what: &str| {
            PackError::new(Code::SnapshotNotFound, format!("there is no snapshot {what}"))
                .with("snapshot_id", id)
                .hint("snapshot ids are the names of the .json files in state/snapshots")
        };
        if !is_id(id) {
            return Err(unknown("with such an id: it must be digits and letters only"));
        }
        let path = site.snapshots().join(format!("{id}.json"));
        match read(&path) {
            Ok(snapshot) if snapshot.id == id => Ok(snapshot),
            Ok(snapshot) => Err(damaged(&path, &format!("it says it is {}", snapshot.id))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown(id)),
            Err(error) => Err(damaged(&path, &error.to_string())),
        }
    }

    /// Where the last snapshot left content with this digest, by absolute path.
    pub(crate) fn left_behind(site: &Site) -> HashMap<(String, String), (Sha, PathBuf)> {
        let Ok((snapshots, _)) = Self::list(site) else { return HashMap::new() };
        let Some(last) = snapshots.last() else { return HashMap::new() };
        let place = |file: SnapshotFile| {
            let path = state_path(site, &last.id, &file.target, Path::new(&file.path));
            ((file.target, file.path), (file.sha256, path))
        };
        last.files_after().into_iter().map(place).collect()
    }

    /// Whether later snapshots than this one may have been pruned; `all` are those that are left, oldest first.
    pub(crate) fn may_lack(all: &[Snapshot], since: &Snapshot) -> bool {
        let later = all.iter().rev().take_while(|snapshot| snapshot.id != since.id).count();
        later >= KEPT
    }

    /// Removes what the policy does not keep; never the last copy of a file that a user wrote.
    pub(crate) fn prune(site: &Site) {
        let Ok((snapshots, _)) = Self::list(site) else { return };
        let old = snapshots.len().saturating_sub(KEPT);
        let precious = |snapshot: &Snapshot| snapshot.changes.iter().any(|change| change.adopted);
        for snapshot in snapshots.iter().take(old).filter(|snapshot| !precious(snapshot)) {
            discard(site, &snapshot.id);
            let _ = fs::remove_file(site.snapshots().join(format!("{}.json", snapshot.id)));
        }
    }
}

impl Snapshot {
    /// The files that were ours when it was done.
    pub(crate) fn files_after(&self) -> Vec<SnapshotFile> {
        if let Some(files) = &self.managed_files {
            return files.clone();
        }
        // From before snapshots listed their files: what they wrote.
        let written = |change: &SnapshotChange| {
            let manifest = change.path.contains("/.agentpack.manifest");
            let sha256 = change
                .after_sha256
                .filter(|_| !manifest && matches!(change.op.as_str(), "create" | "update"))?;
            Some(SnapshotFile {
                target: change.target.clone(),
                path: change.path.clone(),
                sha256,
                executable: false,
            })
        };
        self.changes.iter().filter_map(written).collect()
    }
}

/// What a directory is called that is being removed.
pub(crate) const GONE: &str = ".gone-";

/// Removes a snapshot's directory: gone under its name at once, whatever happens to this process.
pub(crate) fn discard(site: &Site, id: &str) {
    let gone = site.snapshots().join(format!("{GONE}{id}"));
    if fs::rename(site.snapshots().join(id), &gone).is_ok() {
        let _ = fs::remove_dir_all(gone);
    }
}

/// Where a snapshot keeps what stood at a path.
pub(crate) fn backup_path(site: &Site, id: &str, target: &str, path: &Path) -> PathBuf {
    site.snapshots().join(id).join("backup").join(ids::sanitized(target)).join(key(path))
}

/// Where a snapshot keeps what it left at a path.
pub(crate) fn state_path(site: &Site, id: &str, target: &str, path: &Path) -> PathBuf {
    site.snapshots().join(id).join("state").join(ids::sanitized(target)).join(key(path))
}

/// Whether this can be a snapshot's name: what we and agentpack make, and nothing that is a path.
pub(crate) fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The order of ids in time: they are nanoseconds.
pub(crate) fn order(id: &str) -> (usize, String) {
    (id.len(), id.to_owned())
}

pub(crate) fn damaged(path: &Path, what: &str) -> PackError {
    PackError::new(
        Code::SnapshotInvalid,
        format!("snapshot {} can't be used: {what}", path.display()),
    )
    .with("path", shown(path))
    .hint("roll back to another snapshot; nothing was changed")
}

fn key(path: &Path) -> String {
    Sha::of(shown(path).as_bytes()).prefix(16)
}

fn read(path: &Path) -> io::Result<Snapshot> {
    let bytes = plain_file::read_whole(path)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}
