//! Which chain of the audit log is written here.
//!
//! A file has one chain. On a server each home writes a chain of its own, so that no broker waits for another and each
//! answers for what it did. Its name is kept in the home once it has begun: from then on a chain that is missing was
//! taken away, and nothing more is written.

use std::{
    fs::{self, OpenOptions},
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
}

impl OwnChain {
    /// The one of a file.
    pub(super) fn only() -> Self {
        Self { name: String::new(), keepsake: None, begun: AtomicBool::new(true) }
    }

    /// The one that `home` writes in the database of this id; one of a fresh name, if it has begun none.
    pub(super) fn of_home(home: &Path, database: &str) -> Result<Self, StoreError> {
        let keepsake = home.join(format!("audit-chain-{database}"));
        let (name, begun) = match fs::read_to_string(&keepsake) {
            Ok(name) => (name, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (fresh_name(), false),
            Err(error) => return Err(StoreError::File(error)),
        };
        Ok(Self { name, keepsake: Some(keepsake), begun: AtomicBool::new(begun) })
    }

    /// Its name; empty for the only chain of a file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is known to have a head.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Remembers that it has one, since that is on disk now.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        if self.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(file) = &self.keepsake else { return Ok(()) };
        match keep(file, &self.name) {
            // Another process of this home began one as well, and later ones go on with that.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            kept => kept.map_err(StoreError::File),
        }
    }
}

fn keep(file: &Path, name: &str) -> io::Result<()> {
    if let Some(home) = file.parent() {
        fs::create_dir_all(home)?;
    }
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
