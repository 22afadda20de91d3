//! Writing: one transaction at a time per home and per root, whole or not at all.
//!
//! ```text
//! lock home -> undo what was interrupted -> back up, keep copies -> journal -> lock roots
//!           -> check and write each place -> snapshot file (commit) -> journal away -> prune
//! ```
//!
//! Up to the snapshot file everything can be undone from the journal and the backups, by this process or by
//! the next one. Each place is compared with what the plan saw immediately before it is written.

pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod step;
mod undo;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use self::undo::Undone;
pub(crate) use self::{
    lock::{HomeLock, RepoLock},
    step::{After, Step},
    undo::{interrupted, recover},
};
use crate::{
    beneath::Beneath,
    clock,
    deployed::confine,
    error::{Code, PackError, Result},
    paths::shown,
    plain_file,
    sha::{Content, Sha},
    site::Site,
    snapshot::{self, Snapshot, SnapshotFile, Snapshots},
    targets::TargetId,
};

/// The watcher of a transaction: it gets the progress, and may withdraw the transaction between two writes.
pub trait Watch {
    /// `done` of `total` places are written.
    fn progress(&self, done: usize, total: usize);
    /// Whether to stop and undo.
    fn is_cancelled(&self) -> bool;
}

/// Nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _: usize, _: usize) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Everything that one deploy, rollback or bootstrap writes.
pub(crate) struct Transaction<'a> {
    pub(crate) site: &'a Site,
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) targets: Vec<TargetId>,
    pub(crate) steps: Vec<Step>,
    /// The files that are ours afterwards.
    pub(crate) managed: Vec<SnapshotFile>,
    /// What stands afterwards in every place of ours, manifests included.
    pub(crate) state: Vec<(TargetId, PathBuf, Content)>,
    pub(crate) rolled_back_to: Option<String>,
}

/// Marks a snapshot's directory as made here: without a snapshot's file it is what a dead process left.
/// agentpack's own directories do not have it, and may hold the only copy of something.
const OURS: &str = ".keyless";

/// A snapshot id and the time that it stands for.
pub(crate) fn new_id() -> (String, String) {
    (clock::nanos().to_string(), clock::now())
}

impl Transaction<'_> {
    /// Does it, or undoes what was done and says why.
    pub(crate) fn run(self, _lock: &HomeLock, watch: &dyn Watch) -> Result<String> {
        let folder = self.site.snapshots().join(&self.id);
        let prepared = self.prepare();
        if let Err(error) = prepared {
            let _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
        let record = self.journal();
        if let Err(error) = record.write(self.site) {
            let _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
        match self.write(watch).and_then(|()| self.commit()) {
            Ok(()) => {
                journal::remove(self.site)?;
                Snapshots::prune(self.site);
                Ok(self.id)
            }
            Err(error) => Err(undone(error, undo::undo(self.site, &record))),
        }
    }

    /// Fills the snapshot's directory; no root is touched yet, and a full disk shows here first.
    fn prepare(&self) -> Result<()> {
        write_new(&self.site.snapshots().join(&self.id).join(OURS), b"")?;
        let known = Snapshots::left_behind(self.site);
        let mut roots = Roots::new(self.site);
        for step in &self.steps {
            let Some(backup) = self.backup_of(step) else { continue };
            let root = roots.open(&step.root)?.ok_or_else(|| step.changed())?;
            let bytes = root.read(&step.path)?.ok_or_else(|| step.changed())?;
            if Some(Sha::of(&bytes)) != step.before.sha() {
                return Err(step.changed());
            }
            // It may hold what others may not read, and the copy shall not be easier to read.
            write_as(&backup, &bytes, 0o600)?;
        }
        for (target, path, content) in &self.state {
            let place = snapshot::state_path(self.site, &self.id, target.as_str(), path);
            let same = known
                .get(&(target.to_string(), shown(path)))
                .filter(|(sha, _)| *sha == content.sha());
            keep(&place, content, same.map(|(_, path)| path.as_path()))?;
        }
        // The journal points at the copies: it must not outlive them.
        let folder = Beneath::open(&self.site.snapshots(), None)?.filter(|_| is_durable());
        folder.map_or(Ok(()), |folder| folder.sync_file_system())
    }

    fn backup_of(&self, step: &Step) -> Option<PathBuf> {
        let is_file = matches!(step.before, crate::beneath::Disk::File(_));
        is_file
            .then(|| snapshot::backup_path(self.site, &self.id, step.target.as_str(), &step.full()))
    }

    fn journal(&self) -> journal::Journal {
        let steps = self.steps.iter().map(|step| {
            journal::JournalStep::of(step, self.backup_of(step), confine(self.site, &step.root))
        });
        journal::Journal::new(&self.id, self.kind, steps.collect(), self.missing_folders())
    }

    /// The directories that will be made, outermost first.
    fn missing_folders(&self) -> Vec<PathBuf> {
        let mut missing = BTreeSet::new();
        let mut present = BTreeSet::new();
        for step in self.steps.iter().filter(|step| !matches!(step.after, After::Absent)) {
            let full = step.full();
            for folder in full.ancestors().skip(1) {
                if present.contains(folder) || missing.contains(folder) {
                    break;
                }
                if folder.exists() {
                    present.insert(folder.to_owned());
                    break;
                }
                missing.insert(folder.to_owned());
            }
        }
        missing.into_iter().collect()
    }

    fn write(&self, watch: &dyn Watch) -> Result<()> {
        let mut roots = Roots::new(self.site);
        let needed: BTreeSet<&Path> = self
            .steps
            .iter()
            .filter(|step| !matches!(step.after, After::Absent))
            .map(|step| step.root.as_path())
            .collect();
        for root in needed {
            fs::create_dir_all(root).map_err(|error| PackError::io("create", root, &error))?;
        }
        // In one order everywhere, so that two homes with common roots can't wait for each other.
        let all: BTreeSet<&Path> = self.steps.iter().map(|step| step.root.as_path()).collect();
        for root in all {
            if let Some(root) = roots.open(root)? {
                lock::wait_for(
                    || root.try_lock(),
                    || "another process is writing there".to_owned(),
                )?;
            }
        }
        for (done, step) in self.steps.iter().enumerate() {
            watch.progress(done, self.steps.len());
            if watch.is_cancelled() {
                return Err(PackError::new(
                    Code::Cancelled,
                    "the command was cancelled by its caller",
                ));
            }
            let Some(root) = roots.open(&step.root)? else {
                if step.before.is_absent() {
                    continue;
                }
                return Err(step.changed());
            };
            if root.look(&step.path)? != step.before {
                return Err(step.changed());
            }
            step.write(root, &self.id)?;
        }
        watch.progress(self.steps.len(), self.steps.len());
        if is_durable() {
            roots.sync()?;
        }
        Ok(())
    }

    /// The snapshot's own file, after which nothing is undone.
    fn commit(&self) -> Result<()> {
        let changes =
            self.steps.iter().map(|step| step.change(self.backup_of(step).as_deref())).collect();
        let lock = plain_file::read(self.site.repo.join(crate::lockfile::FILE)).ok();
        let snapshot = Snapshot {
            kind: self.kind.to_owned(),
            id: self.id.clone(),
            created_at: self.created_at.clone(),
            targets: self.targets.iter().map(ToString::to_string).collect(),
            managed_files: Some(self.managed.clone()),
            changes,
            rolled_back_to: self.rolled_back_to.clone(),
            lockfile_sha256: lock.map(|bytes| Sha::of(&bytes)),
            backup_root: shown(&self.site.snapshots().join(&self.id).join("backup")),
            repo: Some(shown(&self.site.repo)),
            project_root: Some(shown(&self.site.project_root)),
        };
        let text = serde_json::to_string_pretty(&snapshot).expect("strings and numbers");
        write_durably(&self.site.snapshots().join(format!("{}.json", self.id)), text.as_bytes())
    }
}

/// Open roots by path.
struct Roots<'s> {
    site: &'s Site,
    open: BTreeMap<PathBuf, Option<Beneath>>,
}

impl<'s> Roots<'s> {
    fn new(site: &'s Site) -> Self {
        Self { site, open: BTreeMap::new() }
    }

    fn open(&mut self, root: &Path) -> Result<Option<&Beneath>> {
        if !self.open.contains_key(root) {
            let opened = Beneath::open(root, confine(self.site, root))?;
            self.open.insert(root.to_owned(), opened);
        }
        Ok(self.open[root].as_ref())
    }

    fn sync(&self) -> Result<()> {
        self.open.values().flatten().try_for_each(Beneath::sync_file_system)
    }
}

/// `AGENTPACK_FSYNC=0` gives up that what was deployed survives a power cut; a killed process loses nothing.
fn is_durable() -> bool {
    let asked = std::env::var("AGENTPACK_FSYNC").unwrap_or_default().to_lowercase();
    !matches!(asked.as_str(), "0" | "false" | "no" | "n" | "off")
}

/// A copy of content: another name of the same file where the last snapshot has it, else a new file.
fn keep(place: &Path, content: &Content, same: Option<&Path>) -> Result<()> {
    if let Some(same) = same {
        make_parent(place)?;
        if fs::hard_link(same, place).is_ok() {
            return Ok(());
        }
    }
    write_new(place, content.bytes())
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    write_as(path, bytes, 0o666)
}

/// Writes a file that is not there yet, readable as `mode` says from its first byte on.
fn write_as(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    make_parent(path)?;
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    opened
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|error| PackError::io("write", path, &error))
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| PackError::io("create", parent, &error))
}

/// Writes a file of ours whole: beside, onto the disk, renamed, and the directory onto the disk.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let fault = |error: std::io::Error| PackError::io("write", path, &error);
    make_parent(path)?;
    let parent = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(parent)
        .map_err(fault)?;
    temporary.write_all(bytes).map_err(fault)?;
    if is_durable() {
        temporary.as_file().sync_all().map_err(fault)?;
    }
    temporary.persist(path).map_err(|error| fault(error.error))?;
    if is_durable() {
        fs::File::open(parent).and_then(|folder| folder.sync_all()).map_err(fault)?;
    }
    Ok(())
}

/// The error, with what became of the undoing.
fn undone(error: PackError, outcome: Result<Undone>) -> PackError {
    match outcome {
        Ok(Undone { left, forgotten }) => {
            let mut error = error.with("undone", true);
            if !left.is_empty() {
                let places: Vec<String> = left.iter().map(|left| shown(&left.place)).collect();
                let backups: Vec<_> =
                    left.iter().map(|left| left.backup.as_deref().map(shown)).collect();
                error = error.with("left_alone", places).with("left_alone_backups", backups);
            }
            match forgotten {
                Ok(()) => error,
                Err(fault) => error.with("undo_error", fault.message()).hint(
                    "the places are brought back; the next command that writes removes what is left of this one",
                ),
            }
        }
        Err(fault) => error
            .with("undone", false)
            .with("undo_error", fault.message())
            .hint("the next command that writes undoes the rest; free space or mend the permissions first"),
    }
}
