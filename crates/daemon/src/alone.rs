//! Runs that opened the store by themselves. No broker knows of them, so each stands in a folder, where `keyless session`
//! and `keyless lock` find it; one whose entry is taken away ends its session.
//!
//! An entry is the row that a list shows, in a file that its run holds a lock on: what a killed run left is known by that.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::{Error, SecretPath};
use rustix::fs::{FlockOperation, flock};

use crate::{
    places::{Places, private_directory, unusable},
    session_book::{SessionKind, SessionRow},
};

/// How soon a run hears that it is to end.
const HEARING: Duration = Duration::from_millis(250);

/// Before the name of an entry that is being made.
const NEW: &str = ".";

/// A run's place in the folder, given up when this is dropped.
pub(crate) struct Entry {
    file: File,
    path: PathBuf,
}

impl Entry {
    /// Enters a session that begins now. Blocks.
    pub(crate) fn make(places: &Places, id: &str, secrets: &[SecretPath]) -> Result<Self, Error> {
        let folder = folder(places);
        places.prepare_data()?;
        private_directory(&folder)?;
        // It comes into the list whole, and locked.
        let (new, path) = (folder.join(format!("{NEW}{id}")), folder.join(id));
        let (kind, since) = (SessionKind::Run, Timestamp::now());
        let row = SessionRow { id: id.to_owned(), kind, since, secrets: secrets.to_vec() };
        let text = serde_json::to_vec(&row).expect("a row is plain data");
        let make = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.write_all(&text)?;
            fs::rename(&new, &path)?;
            Ok(file)
        };
        let file = make().map_err(|error| unusable(&path, &error))?;
        Ok(Self { file, path })
    }

    /// Returns once the entry was taken away.
    pub(crate) async fn taken(&self) {
        while self.is_there() {
            tokio::time::sleep(HEARING).await;
        }
    }

    /// Whether nobody has taken it away.
    pub(crate) fn is_there(&self) -> bool {
        self.file.metadata().is_ok_and(|ours| ours.nlink() > 0)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The runs that are under way. Blocks.
pub fn runs_alone(places: &Places) -> Vec<SessionRow> {
    let entries = fs::read_dir(folder(places)).into_iter().flatten().flatten();
    let is_whole = |entry: &fs::DirEntry| !entry.file_name().as_bytes().starts_with(NEW.as_bytes());
    let mut rows: Vec<_> =
        entries.filter(is_whole).filter_map(|entry| row_of(&entry.path())).collect();
    rows.sort_by_key(|row| row.since);
    rows
}

/// Has the run of this name end its session; `false` where there is none. Blocks.
pub fn end_run_alone(places: &Places, id: &str) -> Result<bool, Error> {
    let is_there = runs_alone(places).iter().any(|row| row.id == id);
    if is_there {
        take_away(&folder(places).join(id))?;
    }
    Ok(is_there)
}

/// Has all of them end their sessions; gives how many there were. Blocks.
pub fn end_runs_alone(places: &Places) -> Result<usize, Error> {
    let rows = runs_alone(places);
    for row in &rows {
        take_away(&folder(places).join(&row.id))?;
    }
    Ok(rows.len())
}

fn folder(places: &Places) -> PathBuf {
    places.runs_alone()
}

fn row_of(path: &Path) -> Option<SessionRow> {
    let mut file = File::open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // Nobody holds it: its run was killed.
        let _ = fs::remove_file(path);
        return None;
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn take_away(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_seen_told_and_gone() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(folder.path());
        let ids = || runs_alone(&places).into_iter().map(|row| row.id).collect::<Vec<_>>();
        let secret = SecretPath::parse("team/api/token").unwrap();
        let one = Entry::make(&places, "s-1", &[secret]).unwrap();
        let two = Entry::make(&places, "s-2", &[]).unwrap();
        assert_eq!(ids(), ["s-1", "s-2"]);
        assert!(end_run_alone(&places, "s-1").unwrap());
        one.taken().await;
        assert!(!end_run_alone(&places, "s-1").unwrap());
        assert_eq!(ids(), ["s-2"]);
        drop(two);
        assert_eq!(ids(), [""; 0]);
        // A killed one leaves its file.
        fs::write(super::folder(&places).join("s-3"), "{}").unwrap();
        assert_eq!((ids().len(), end_runs_alone(&places).unwrap()), (0, 0));
        assert!(!super::folder(&places).join("s-3").exists());
    }
}
