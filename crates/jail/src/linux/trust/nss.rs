//! NSS databases in the home (Chromium and what is built on it): each is replaced by an empty one
//! that trusts the session's CA. What the user keeps there, keys among it, stays hidden.
//!
//! Written by Debian's `certutil`, of the system and never of the `PATH`: it runs while the mounts
//! can still be changed. Without it, or when it fails, and where the home has no database, nothing is
//! replaced: Chromium then says that it does not know the authority.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::stores::existing;
use crate::linux::{
    channel::{During, Failure, Step},
    mounts::area::{self, Area},
    orders::Job,
};
use crate::trust::CA_IN_JAIL;

const CERTUTIL: &str = "/usr/bin/certutil";
/// Below the home, and below `$XDG_DATA_HOME` (Chromium since 125).
const IN_HOME: &str = ".pki/nssdb";
const IN_DATA: &str = "pki/nssdb";

/// The databases that were found.
pub(crate) struct Databases(BTreeSet<PathBuf>);

/// The databases with their replacements, to be bound once the hidden places are covered.
pub(crate) struct Replacements(Vec<(PathBuf, PathBuf)>);

impl Databases {
    /// Those that the command would open.
    pub(super) fn find(job: &Job) -> Self {
        Self(folders(job))
    }

    /// Makes the replacement among the jail's own files, where no other jail's can be, of the CA that is there already.
    /// Devices must still work: NSS wants `/dev/urandom`.
    pub(super) fn place(self, area: &mut Area) -> io::Result<Replacements> {
        if self.0.is_empty() || !Path::new(CERTUTIL).exists() {
            return Ok(Replacements(Vec::new()));
        }
        // Chromium opens it to write, or not at all.
        let ours = area.private_directory(0o700)?;
        if make(&ours).is_err() {
            return Ok(Replacements(Vec::new()));
        }
        let pairs = self.0.into_iter().map(|folder| (ours.clone(), folder));
        Ok(Replacements(pairs.collect()))
    }
}

impl Replacements {
    /// Binds them over what hides the originals.
    pub(crate) fn bind(&self) -> Result<(), Failure> {
        for (source, target) in &self.0 {
            area::bind(source, target)
                .during(Step::Trust, || format!("replace {}", target.display()))?;
        }
        Ok(())
    }
}

fn folders(job: &Job) -> BTreeSet<PathBuf> {
    let Some(home) = job.variable("HOME").map(PathBuf::from) else { return BTreeSet::new() };
    let data = job.variable("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.unwrap_or_else(|| home.join(".local/share"));
    existing([home.join(IN_HOME), data.join(IN_DATA)].into_iter())
}

/// A database that trusts the session's CA. There is nothing secret in it.
fn make(folder: &Path) -> io::Result<()> {
    let database = format!("sql:{}", folder.display());
    certutil(&["-N", "-d", &database, "--empty-password"])?;
    certutil(&["-A", "-d", &database, "-n", "keyless", "-t", "C,,", "-i", CA_IN_JAIL])
}

fn certutil(arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new(CERTUTIL);
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(CERTUTIL)) }
}
