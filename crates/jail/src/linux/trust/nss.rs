//! NSS databases in the home (Chromium and what is built on it): each is replaced by an empty one
//! that trusts the session's CA. What the user keeps there, keys among it, stays hidden.
//!
//! Written by Debian's `certutil`, of the system and never of the `PATH`: it runs while the mounts
//! can still be changed. Without it, or when it fails, and where the home has no database, nothing is
//! replaced: Chromium then says that it does not know the authority.

use std::{
    collections::BTreeSet,
    env, fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use super::stores::existing;
use crate::linux::{
    channel::{During, Failure, Step},
    mounts::area::{self, Area},
    orders::Job,
};

const CERTUTIL: &str = "/usr/bin/certutil";
/// Below the home, and below `$XDG_DATA_HOME` (Chromium since 125).
const IN_HOME: &str = ".pki/nssdb";
const IN_DATA: &str = "pki/nssdb";
/// What makes up a database of the form `sql:`.
const FILES: [&str; 3] = ["cert9.db", "key4.db", "pkcs11.txt"];

/// The databases that were found, and what shall stand in their place.
pub(crate) struct Databases {
    folders: BTreeSet<PathBuf>,
    files: Vec<(&'static str, Vec<u8>)>,
}

/// The databases with their replacements, to be bound once the hidden places are covered.
pub(crate) struct Replacements(Vec<(PathBuf, PathBuf)>);

impl Databases {
    /// Those that the command would open. Devices must still work: NSS wants `/dev/urandom`.
    pub(super) fn read(job: &Job) -> Self {
        let folders = folders(job);
        let known = !folders.is_empty() && Path::new(CERTUTIL).exists();
        let files = if known { trusting(&job.ca_pem).ok() } else { None };
        Self { folders, files: files.unwrap_or_default() }
    }

    /// Puts the replacement into the jail's own files.
    pub(super) fn place(&self, area: &mut Area) -> io::Result<Replacements> {
        if self.files.is_empty() {
            return Ok(Replacements(Vec::new()));
        }
        // Chromium opens it to write, or not at all.
        let copy = area.private_directory(0o700)?;
        for (name, content) in &self.files {
            fs::write(copy.join(name), content)?;
        }
        let pairs = self.folders.iter().map(|folder| (copy.clone(), folder.clone()));
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

/// The files of a database that trusts this CA. There is nothing secret in them.
fn trusting(ca_pem: &str) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let scratch = env::temp_dir().join(format!("keyless-nss-{}", process::id()));
    fs::DirBuilder::new().mode(0o700).create(&scratch)?;
    let made = make(&scratch, ca_pem);
    fs::remove_dir_all(&scratch)?;
    made
}

fn make(scratch: &Path, ca_pem: &str) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let ca = scratch.join("ca.pem");
    fs::write(&ca, ca_pem)?;
    let database = format!("sql:{}", scratch.display());
    certutil(&["-N", "-d", &database, "--empty-password"])?;
    let ca = ca.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    certutil(&["-A", "-d", &database, "-n", "keyless", "-t", "C,,", "-i", ca])?;
    FILES.into_iter().map(|name| Ok((name, fs::read(scratch.join(name))?))).collect()
}

fn certutil(arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new(CERTUTIL);
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(CERTUTIL)) }
}
