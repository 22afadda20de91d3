//! A scratch home: a private directory that plays `$HOME` and `KEYLESS_HOME`, removed when dropped.
//!
//! It starts no process and knows nothing of Keyless's files beyond their folder.

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A home directory of mode 0700 under the system's temporary directory.
pub struct ScratchHome {
    root: TempDir,
}

impl ScratchHome {
    /// Makes an empty home.
    ///
    /// # Errors
    /// As creating a directory.
    pub fn new() -> io::Result<Self> {
        // A short prefix: Unix socket paths end at 107 bytes.
        let root = tempfile::Builder::new().prefix("kl-").tempdir()?;
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700))?;
        for folder in ["home", "keyless", "run", "tmp", "work"] {
            let path = root.path().join(folder);
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(Self { root })
    }

    /// Writes a file (mode 0600) at `relative` under the root, with its folders, and returns its path.
    ///
    /// # Errors
    /// As writing a file.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        use io::Write as _;

        let path = self.root.path().join(relative);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content.as_ref())?;
        Ok(path)
    }

    /// Returns the directory that holds everything below.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns what `$HOME` names.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Returns what `KEYLESS_HOME` names.
    pub fn keyless_home(&self) -> PathBuf {
        self.root.path().join("keyless")
    }

    /// Returns an empty directory to start commands in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the whole environment for a command under test: clear the inherited one, then set these.
    ///
    /// `PATH` is the only variable taken from the test's own environment.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        vec![
            ("HOME", self.home()),
            ("KEYLESS_HOME", self.keyless_home()),
            ("LANG", "C.UTF-8".into()),
            ("PATH", path.into()),
            ("TMPDIR", self.root.path().join("tmp")),
            ("XDG_RUNTIME_DIR", self.root.path().join("run")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_gone_after() {
        let home = ScratchHome::new().unwrap();
        let file = home.write("home/.aws/credentials", "x").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(home);
        assert!(!file.exists());
    }
}
