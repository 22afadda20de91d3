//! On Linux a descriptor is started: what was read through it.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

/// A program that is held as it was compared.
#[derive(Debug)]
pub struct HeldProgram {
    file: File,
    inherited: Option<OwnedFd>,
}

impl HeldProgram {
    #[expect(clippy::unnecessary_wraps, reason = "macOS makes a copy, which may fail")]
    pub(super) fn hold(file: File) -> io::Result<Self> {
        Ok(Self { file, inherited: None })
    }

    /// What would be started, from its first byte on.
    pub(super) fn content(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it can be started, until it has been: the number stays open in the program, as the interpreter of a
    /// script opens it by this path again.
    pub fn path(&mut self) -> io::Result<PathBuf> {
        // Without close-on-exec.
        let inherited = self.inherited.insert(rustix::io::dup(&self.file)?);
        Ok(format!("/proc/self/fd/{}", inherited.as_raw_fd()).into())
    }

    /// The program has what it needs, and no other child gets it.
    pub fn started(&mut self) {
        self.inherited = None;
    }
}
