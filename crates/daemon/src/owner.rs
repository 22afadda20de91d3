//! Which broker a session belongs to, and whether that one lives.
//!
//! A broker holds a lock on a file of its home for as long as its process lives, however that ends. Its name stands at each
//! of its sessions, behind the chain that its home writes: on a server other homes have brokers too, of which nothing is
//! known here.

use std::{
    fs::{self, DirEntry, File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use keyless_core::Error;
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use crate::places::{Places, private_directory, unusable};

/// Before the name of a file that is being made.
const NEW: &str = ".";

/// A broker of this home that lives no more, for the process that has found that out first, until this is dropped.
pub(crate) struct Gone {
    id: String,
    file: PathBuf,
    /// No entry from before it is its own.
    begun: Option<Timestamp>,
    _held: File,
}

impl Gone {
    /// What entries of the log about its actions call it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// When it began, if that can be told.
    pub(crate) fn begun(&self) -> Option<Timestamp> {
        self.begun
    }

    /// Nobody needs to know of it any more. Blocks.
    pub(crate) fn forget(self) {
        let _ = fs::remove_file(self.file);
    }
}

/// A broker that lives until this is dropped.
pub(crate) struct Owner {
    name: String,
    folder: PathBuf,
    file: PathBuf,
    _held: File,
    is_owing: AtomicBool,
}

impl Owner {
    /// A broker that begins now, in the home that writes `chain`. Blocks.
    pub(crate) fn begin(places: &Places, chain: &str) -> Result<Self, Error> {
        let folder = places.brokers();
        private_directory(&folder)?;
        let id = Uuid::new_v4().simple().to_string();
        // It comes into the folder locked.
        let (new, file) = (folder.join(format!("{NEW}{id}")), folder.join(&id));
        let make = || {
            let held = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            flock(&held, FlockOperation::NonBlockingLockExclusive)?;
            fs::rename(&new, &file)?;
            Ok(held)
        };
        let held = make().map_err(|error| unusable(&file, &error))?;
        let (name, is_owing) = (format!("{chain}/{id}"), AtomicBool::default());
        Ok(Self { name, folder, file, _held: held, is_owing })
    }

    /// The end of an action may be missing in the log when this ends: its file stays, for the next one to look.
    pub(crate) fn owe(&self) {
        self.is_owing.store(true, Ordering::Relaxed);
    }

    /// What it is called, at its sessions.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it is called in the log, at its actions.
    pub(crate) fn id(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Whether a broker of this name was one of this home and lives no more. Blocks.
    pub(crate) fn survives(&self, name: &str) -> bool {
        let home = |name: &str| name.rsplit_once('/').map(|(chain, _)| chain.to_owned());
        let id = name.rsplit('/').next().unwrap_or_default();
        home(name) == home(&self.name)
            && Uuid::try_parse(id).is_ok()
            && !is_held(&self.folder.join(id))
    }

    /// The brokers of this home that live no more, but for those that another one has been given here. Blocks.
    pub(crate) fn gone(&self) -> Vec<Gone> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| gone(&entry)).collect()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !*self.is_owing.get_mut() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

fn gone(entry: &DirEntry) -> Option<Gone> {
    let id = entry.file_name().into_string().ok()?;
    if id.starts_with(NEW) {
        return None;
    }
    let held = File::open(entry.path()).ok()?;
    flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Nothing is ever written into it.
    let made = held.metadata().and_then(|made| made.modified()).ok();
    let begun = made.and_then(|made| Timestamp::try_from(made).ok());
    Some(Gone { id, file: entry.path(), begun, _held: held })
}

/// What can't be looked at is somebody's.
fn is_held(file: &Path) -> bool {
    match File::open(file) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_outlived_once_nobody_holds_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(folder.path());
        let begin = |chain| Owner::begin(&places, chain).unwrap();
        let (one, two) = (begin(""), begin(""));
        assert!(!two.survives(one.name()) && !two.survives(two.name()));
        let over = begin("");
        let file = over.file.clone();
        drop(over);
        assert!(!file.exists());
        // One that owes an end leaves its file, as a killed one does.
        let (killed, file) = (one.name().to_owned(), one.file.clone());
        one.owe();
        drop(one);
        assert!(two.survives(&killed));
        let mut gone = two.gone();
        let [first] = &gone[..] else { panic!("{}", gone.len()) };
        assert!(killed.ends_with(first.id()));
        // One looks after it, and no other.
        assert!(begin("").gone().is_empty());
        gone.remove(0).forget();
        assert!(!file.exists() && two.file.exists() && two.survives(&killed));
        // One of another home, and no broker's name at all.
        assert!(!begin("ann").survives(&killed) && !two.survives("/..") && !two.survives(""));
    }
}
