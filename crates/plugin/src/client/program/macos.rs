//! macOS starts no descriptors: a copy in a folder of this user's alone is what is compared and started.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use tempfile::TempDir;

/// A program that is held as it was compared.
#[derive(Debug)]
pub struct HeldProgram {
    /// 0700, and gone with this.
    folder: TempDir,
    copy: File,
}

const NAME: &str = "plugin";

impl HeldProgram {
    pub(super) fn hold(mut file: File) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("keyless-plugin-").tempdir()?;
        let path = folder.path().join(NAME);
        let mut written =
            OpenOptions::new().write(true).create_new(true).mode(0o500).open(&path)?;
        io::copy(&mut file, &mut written)?;
        let copy = File::open(&path)?;
        Ok(Self { folder, copy })
    }

    /// What would be started, from its first byte on.
    pub(super) fn content(&mut self) -> &mut File {
        &mut self.copy
    }

    /// Where it can be started.
    pub fn path(&mut self) -> io::Result<PathBuf> {
        Ok(self.folder.path().join(NAME))
    }

    /// The copy stays while this is held, which is as long as the program runs: the interpreter of a script opens it when it will.
    pub fn started(&mut self) {}
}
