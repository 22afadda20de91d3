//! Undoing a transaction from its journal: by the process that failed, or by the next one.
//!
//! A place that holds what the transaction wrote gets back what it held before. A place that holds anything
//! else was changed by somebody in between and is left alone, which is said; what it held before stays in its
//! backup, the only copy there is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    OURS, is_durable,
    journal::{self, Before, Journal, JournalStep},
    lock::HomeLock,
    step::temporary,
};
use crate::{
    beneath::{Beneath, Disk, WriteMode},
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    plain_file,
    sha::Sha,
    site::Site,
    snapshot,
};

/// A place that somebody else changed during a transaction that was undone.
pub(crate) struct LeftAlone {
    pub(crate) place: PathBuf,
    /// What it held before the transaction, if it was a file.
    pub(crate) backup: Option<PathBuf>,
}

/// What an undo came to whose places are all brought back.
pub(super) struct Undone {
    /// The places that were left alone.
    pub(super) left: Vec<LeftAlone>,
    /// Whether the transaction is forgotten; otherwise its journal and its backups stay for the next command.
    pub(super) forgotten: Result<()>,
}

/// Finishes or undoes what an interrupted process left; says what it did.
pub(crate) fn recover(site: &Site, _lock: &HomeLock) -> Result<Option<String>> {
    let Some(journal) = Journal::load(site)? else {
        sweep(site);
        return Ok(None);
    };
    if !snapshot::is_id(&journal.id) {
        return Err(PackError::new(
            Code::Unexpected,
            "the journal of an interrupted command is damaged",
        ));
    }
    if site.snapshots().join(format!("{}.json", journal.id)).exists() {
        journal::remove(site)?;
        return Ok(Some(format!(
            "the interrupted {} {} had been complete",
            journal.kind, journal.id
        )));
    }
    let Undone { left, forgotten } = undo(site, &journal)?;
    forgotten?;
    let mut text = format!(
        "an interrupted {} ({}) was undone: {} place(s) are as they were before it",
        journal.kind,
        journal.id,
        journal.steps.len() - left.len()
    );
    if !left.is_empty() {
        text.push_str("; changed by somebody else and left alone: ");
        let said = left.iter().map(|LeftAlone { place, backup }| match backup {
            Some(backup) => format!("{} (before: {})", shown(place), shown(backup)),
            None => shown(place),
        });
        text.push_str(&said.collect::<Vec<_>>().join(", "));
    }
    Ok(Some(text))
}

/// Removes what a process left that died before its journal stood: no root had been touched.
fn sweep(site: &Site) {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries(site.snapshots()) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(snapshot::GONE) {
            let _ = fs::remove_dir_all(&path);
        } else if path.join(OURS).exists() && !path.with_extension("json").exists() {
            snapshot::discard(site, &name);
        } else {
            // Died before the mark was made; what is not empty is not removed.
            let _ = fs::remove_dir(&path);
        }
    }
    for entry in entries(site.state()).chain(entries(site.snapshots())) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Tokens are written under a lock of their own, perhaps right now.
        if name.starts_with('.') && name.ends_with(".tmp") && !name.starts_with(".confirm") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What a command that only reads says about a transaction that is not finished.
pub(crate) fn interrupted(site: &Site) -> Option<String> {
    if !journal::exists(site) {
        return None;
    }
    Some(match HomeLock::holder(site) {
        Some(pid) => format!("process {pid} is applying right now; this view may be halfway"),
        None => "an earlier apply was interrupted; the next deploy or rollback undoes it first"
            .to_owned(),
    })
}

/// Brings every place back, then forgets the transaction. Fails where a place can't be brought back.
pub(super) fn undo(site: &Site, journal: &Journal) -> Result<Undone> {
    undo_with(site, journal, sync)
}

fn undo_with(
    site: &Site,
    journal: &Journal,
    sync: impl Fn(&Path) -> io::Result<()>,
) -> Result<Undone> {
    // As long as its file stands, the next command takes the whole for complete, and so it is: nothing of it may be undone.
    uncommit(site, &journal.id)?;
    // That it may come back after a power cut is told at the end: the places are brought back all the same, and the journal
    // and the backups stay for the next command. One before may have taken it away, and failed here.
    let snapshots = site.snapshots();
    let durable = sync(&snapshots).map_err(|error| PackError::io("write", &snapshots, &error));
    // Copies of the new state are of no use any more, and their space may be what is missing.
    let folder = site.snapshots().join(&journal.id);
    let _ = fs::remove_dir_all(folder.join("state"));
    let mut roots: BTreeMap<PathBuf, Option<Beneath>> = BTreeMap::new();
    let mut left = Vec::new();
    // What was created goes first, for its space.
    let (created, others): (Vec<_>, Vec<_>) =
        journal.steps.iter().rev().partition(|step| matches!(step.before, Before::Absent));
    for step in created.into_iter().chain(others) {
        if !roots.contains_key(&step.root) {
            roots.insert(step.root.clone(), Beneath::open(&step.root, step.confine.as_deref())?);
        }
        let path = RelPath::parse(&step.path).ok_or_else(|| {
            PackError::new(
                Code::Unexpected,
                format!("the journal names {:?}, which leads elsewhere", step.path),
            )
        })?;
        let restored = match &roots[&step.root] {
            Some(root) => {
                root.remove_temporary(&path, &temporary(&path, &journal.id));
                restored(root, &path, step, &journal.id)?
            }
            // The whole target is gone. Nobody asked for it to be made again.
            None => matches!(step.before, Before::Absent),
        };
        if !restored {
            let backup = match &step.before {
                Before::File { backup, .. } => {
                    Some(backup.clone()).filter(|backup| backup.exists())
                }
                Before::Absent | Before::Link { .. } => None,
            };
            left.push(LeftAlone { place: step.root.join(&path), backup });
        }
    }
    for made in journal.folders.iter().rev() {
        let _ = fs::remove_dir(made);
    }
    let kept: Vec<&Path> = left.iter().filter_map(|left| left.backup.as_deref()).collect();
    let forgotten = durable.and_then(|()| forget(site, &folder, &kept));
    Ok(Undone { left, forgotten })
}

/// Removes all that is left of a transaction but these backups.
fn forget(site: &Site, folder: &Path, kept: &[&Path]) -> Result<()> {
    gone(
        folder,
        if kept.is_empty() { fs::remove_dir_all(folder) } else { thin_out(folder, kept) },
    )?;
    journal::remove(site)
}

/// Takes the snapshot's own file away before any place is brought back: it stands there where all but the last step of the
/// commit came off, and says to whoever comes after a crash that nothing is to be undone.
fn uncommit(site: &Site, id: &str) -> Result<()> {
    let file = site.snapshots().join(format!("{id}.json"));
    gone(&file, fs::remove_file(&file))
}

fn sync(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder) {
        _ if !is_durable() => Ok(()),
        // Whoever has taken it away has taken the file with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}

/// Removes from a snapshot's directory all but these backups, and the mark by which it would be swept.
fn thin_out(folder: &Path, kept: &[&Path]) -> io::Result<()> {
    for targets in fs::read_dir(folder.join("backup"))? {
        for backup in fs::read_dir(targets?.path())? {
            let backup = backup?.path();
            if !kept.contains(&backup.as_path()) {
                fs::remove_file(backup)?;
            }
        }
    }
    fs::remove_file(folder.join(OURS))
}

/// What is gone already is as good as removed.
fn gone(path: &Path, removed: io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PackError::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Whether the place is as it was before, now.
fn restored(root: &Beneath, path: &RelPath, step: &JournalStep, id: &str) -> Result<bool> {
    let disk = root.look(path)?;
    if is_before(&disk, &step.before) {
        return Ok(true);
    }
    if disk.sha() != step.after || matches!(disk, Disk::Directory) {
        return Ok(false);
    }
    let temporary = temporary(path, id);
    match &step.before {
        Before::Absent => root.remove(path)?,
        Before::Link { to } => {
            root.make_parents(path)?;
            root.write_link(path, to, &temporary)?;
        }
        Before::File { sha256, mode, backup } => {
            let bytes = plain_file::read_whole(backup)
                .map_err(|error| PackError::io("read", backup, &error))?;
            if Sha::of(&bytes) != *sha256 {
                return Err(snapshot::damaged(backup, "the backup is not what was backed up"));
            }
            root.make_parents(path)?;
            let written = root.write(path, &bytes, WriteMode::Exact(*mode), &temporary);
            if written.as_ref().is_err_and(|error| error.code() == Code::IoDiskFull) {
                // No room for both: the backup is safe, so the new file may go first.
                root.remove(path)?;
                root.write(path, &bytes, WriteMode::Exact(*mode), &temporary)?;
            } else {
                written?;
            }
        }
    }
    Ok(true)
}

fn is_before(disk: &Disk, before: &Before) -> bool {
    match (disk, before) {
        (Disk::Absent, Before::Absent) => true,
        (Disk::File(file), Before::File { sha256, mode, .. }) => {
            file.sha == *sha256 && file.mode == *mode
        }
        (Disk::Link(target), Before::Link { to }) => target == to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        credentials::TokenForms,
        gate::ApplyGate,
        site::{Request, Surroundings},
    };

    /// A home whose transaction `1` has written `a` over, and its own file too.
    fn committed(folder: &Path, before: Before) -> (Site, Journal) {
        let surroundings = Surroundings {
            cwd: folder.to_owned(),
            user_home: folder.to_owned(),
            agentpack_home: folder.join("ap"),
            codex_home: None,
            machine: None,
            editor: None,
            forms: TokenForms::default(),
            gate: ApplyGate::default(),
        };
        let site = Site::new(&surroundings, &Request::default());
        let root = folder.join("root");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(site.snapshots()).unwrap();
        fs::write(root.join("a"), "new").unwrap();
        fs::write(site.snapshots().join("1.json"), "{}").unwrap();
        let after = Some(Sha::of(b"new"));
        let step = JournalStep { root, path: "a".to_owned(), confine: None, before, after };
        let journal = Journal::new("1", "deploy", vec![step], Vec::new());
        journal.write(&site).unwrap();
        (site, journal)
    }

    /// The folder could not be written to disk, say, once the file stood in it.
    #[test]
    fn what_is_undone_is_no_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let (site, journal) = committed(folder.path(), Before::Absent);
        let Undone { left, forgotten } = undo(&site, &journal).unwrap();
        forgotten.unwrap();
        assert!(left.is_empty() && !folder.path().join("root/a").exists());
        assert!(!site.snapshots().join("1.json").exists() && !journal::exists(&site));
    }

    /// What could not be written to disk keeps no place from being brought back; the next command finishes it.
    #[test]
    fn a_snapshot_that_may_come_back_keeps_no_place_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (site, mut journal) = committed(folder.path(), Before::Absent);
        let backup = site.snapshots().join("1/backup/t/a");
        fs::create_dir_all(backup.parent().unwrap()).unwrap();
        fs::write(&backup, "old").unwrap();
        let before = Before::File { sha256: Sha::of(b"old"), mode: 0o644, backup: backup.clone() };
        journal.steps[0].before = before;
        journal.write(&site).unwrap();
        let fails = |_: &Path| Err(io::ErrorKind::Other.into());
        // The second finds no file of the snapshot's any more.
        for _ in 0..2 {
            let undone = undo_with(&site, &journal, fails).unwrap();
            assert!(undone.left.is_empty() && undone.forgotten.is_err());
            assert_eq!(fs::read_to_string(folder.path().join("root/a")).unwrap(), "old");
            assert!(journal::exists(&site) && backup.exists());
        }
        let told = super::super::undone(
            PackError::new(Code::Cancelled, "no"),
            undo_with(&site, &journal, fails),
        );
        let told = told.details();
        assert!(told["undone"] == true && told.contains_key("undo_error"), "{told:?}");
        let lock = HomeLock::take(&site).unwrap();
        let told = recover(&site, &lock).unwrap().unwrap();
        assert!(told.contains("was undone") && !journal::exists(&site), "{told}");
        assert!(!backup.exists());
    }

    #[test]
    fn what_is_half_undone_is_not_taken_for_complete() {
        let folder = tempfile::tempdir().unwrap();
        let backup = folder.path().join("backup");
        let before = Before::File { sha256: Sha::of(b"old"), mode: 0o644, backup: backup.clone() };
        let (site, journal) = committed(folder.path(), before);
        assert!(undo(&site, &journal).is_err(), "its backup can't be read");
        fs::write(&backup, "old").unwrap();
        let lock = HomeLock::take(&site).unwrap();
        let told = recover(&site, &lock).unwrap().unwrap();
        assert!(told.contains("was undone"), "{told}");
        assert_eq!(fs::read_to_string(folder.path().join("root/a")).unwrap(), "old");
    }
}
