//! Which chain of the audit log is written here.
//!
//! A file has one chain. On a server each home writes a chain of its own, so that no broker waits for another and each
//! answers for what it did. Its name is kept in the home once it has begun: from then on a chain that is missing was
//! taken away, and nothing more is written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use uuid::Uuid;

use super::StoreError;

/// The chain that this home writes.
#[derive(Debug)]
pub(crate) struct OwnChain {
    name: String,
    /// Where the name is kept; none for the only chain of a file.
    keepsake: Option<PathBuf>,
    begun: AtomicBool,
    /// Whether a name is there.
    kept: AtomicBool,
}

impl OwnChain {
    /// The one of a file.
    pub(super) fn only() -> Self {
        let known = || AtomicBool::new(true);
        Self { name: String::new(), keepsake: None, begun: known(), kept: known() }
    }

    /// The one that `home` writes in the database of this id; one of a fresh name, if it has begun none.
    pub(super) fn of_home(home: &Path, database: &str) -> Result<Self, StoreError> {
        let keepsake = home.join(format!("audit-chain-{database}"));
        let (name, begun) = match fs::read_to_string(&keepsake) {
            // Earlier versions left it so when the disk was full, or the machine went, before the name was in it.
            Ok(name) if name.trim_end_matches('\0').is_empty() => {
                fs::remove_file(&keepsake).map_err(StoreError::File)?;
                (fresh_name(), false)
            }
            Ok(name) => (name, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (fresh_name(), false),
            Err(error) => return Err(StoreError::File(error)),
        };
        let known = || AtomicBool::new(begun);
        Ok(Self { name, keepsake: Some(keepsake), begun: known(), kept: known() })
    }

    /// Its name; empty for the only chain of a file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is known to have a head.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Remembers that it has one, since that is on disk now. What fails is tried again the next time.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        self.begun.store(true, Ordering::Release);
        if self.kept.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(file) = &self.keepsake else { return Ok(()) };
        keep(file, &self.name).map_err(|error| {
            self.kept.store(false, Ordering::Release);
            StoreError::File(error)
        })
    }
}

/// Writes the name under another one first: a file without it would be a chain that was taken away.
fn keep(file: &Path, name: &str) -> io::Result<()> {
    let home = file.parent().unwrap_or(file);
    fs::create_dir_all(home)?;
    let partial = file.with_extension(format!("{}.partial", Uuid::new_v4().simple()));
    let kept = written(&partial, name).and_then(|()| match fs::hard_link(&partial, file) {
        // Another process of this home began one as well, and later ones go on with that.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let _ = fs::remove_file(&partial);
    kept.and_then(|()| File::open(home)?.sync_all())
}

fn written(file: &Path, name: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(name.as_bytes())?;
    file.sync_all()
}

/// The machine's name, for people, and something that no other home has.
fn fresh_name() -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let host: String = host.chars().filter(plain).take(40).collect();
    let unique = Uuid::new_v4().simple().to_string();
    format!("{host}-{}", &unique[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(home: &Path) -> OwnChain {
        OwnChain::of_home(home, "id").unwrap()
    }

    /// The disk was full, or the machine went, when the name was to be written.
    #[test]
    fn a_name_that_was_not_written_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit-chain-id");
        for left in ["", "\0\0\0"] {
            fs::write(&file, left).unwrap();
            let chain = opened(folder.path());
            assert!(!chain.has_begun() && chain.name().len() > 12, "{:?}", chain.name());
            chain.begin().unwrap();
            assert_eq!(opened(folder.path()).name(), chain.name());
            assert!(opened(folder.path()).has_begun());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_name_that_could_not_be_kept_is_kept_with_the_next_entry() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let chain = opened(&home);
        fs::write(&home, "no folder").unwrap();
        chain.begin().unwrap_err();
        assert!(chain.has_begun());
        fs::remove_file(&home).unwrap();
        chain.begin().unwrap();
        assert_eq!(opened(&home).name(), chain.name());
        // Another process of this home that began one as well leaves that of the first.
        OwnChain {
            begun: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            name: "late".into(),
            keepsake: chain.keepsake.clone(),
        }
        .begin()
        .unwrap();
        assert_eq!(opened(&home).name(), chain.name());
    }
}
