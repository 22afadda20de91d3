//! The host's trust stores, and the same with the session's CA in them.
//!
//! Read once the jail stands, placed as files of its read-only area that are bound over the originals: what is
//! hidden stays hidden. Each list follows what programs really open (Go's `root_linux.go`, OpenSSL's defaults
//! of Debian, Fedora, SUSE, Alpine).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{
    BUNDLE_IN_JAIL, CA_IN_JAIL, jks,
    nss::{Databases, Replacements},
    pem, subject_hash,
};
use crate::mounts::area::Area;
use crate::orders::Job;

/// Files with all trusted certificates; the first that exists is the base of ours.
pub(super) const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-bundle.crt",
    "/usr/lib/ssl/cert.pem",
    "/usr/local/ssl/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];
/// Directories with a link for each certificate's subject hash.
pub(super) const DIRECTORIES: &[&str] =
    &["/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted/pem/directory-hash"];
/// Key stores of a system's Java packages.
pub(super) const SYSTEM_KEY_STORES: &[&str] =
    &["/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts"];
/// Key stores below a Java home (since 9, and before).
const KEY_STORES_OF_HOME: &[&str] = &["lib/security/cacerts", "jre/lib/security/cacerts"];

/// A certificate file larger than this is not copied; it is no certificate.
const FILE_LIMIT: u64 = 1 << 20;
/// How deep a certificate directory is copied (Debian keeps `java/cacerts` in it).
const DEPTH_LIMIT: u8 = 2;

/// What was found, with symlinks resolved.
pub(crate) struct TrustStores {
    ca_pem: String,
    bundle: String,
    bundles: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
    key_stores: BTreeSet<PathBuf>,
    databases: Databases,
}

/// The host's trusted certificates, PEM; empty when it has none.
pub fn system_bundle() -> String {
    // The first of the list: that is the order programs go by.
    let system = BUNDLES.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default();
    let mut bundle = String::from_utf8_lossy(&system).into_owned();
    if !bundle.is_empty() && !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle
}

impl TrustStores {
    /// `None` when the job names no CA.
    pub(crate) fn read(job: &Job) -> Option<Self> {
        if job.ca_pem.is_empty() {
            return None;
        }
        let bundles = existing(BUNDLES.iter().map(PathBuf::from));
        let bundle = system_bundle() + &job.ca_pem;
        let homes = java_homes(job);
        let of_homes =
            homes.iter().flat_map(|home| KEY_STORES_OF_HOME.iter().map(|end| home.join(end)));
        Some(Self {
            ca_pem: job.ca_pem.clone(),
            bundle,
            bundles,
            directories: existing(DIRECTORIES.iter().map(PathBuf::from)),
            key_stores: existing(SYSTEM_KEY_STORES.iter().map(PathBuf::from).chain(of_homes)),
            databases: Databases::read(job),
        })
    }

    /// Puts our versions into the area, to be bound over the host's; what is to be bound last, over
    /// the covers of hidden places, is given back.
    pub(crate) fn place(&self, area: &mut Area) -> io::Result<Replacements> {
        area.file(CA_IN_JAIL, self.ca_pem.as_bytes())?;
        area.file(BUNDLE_IN_JAIL, self.bundle.as_bytes())?;
        for bundle in self.bundles.iter().filter(|path| !self.is_in_directory(path)) {
            area.cover(BUNDLE_IN_JAIL, bundle);
        }
        if !self.key_stores.is_empty() {
            let key_store = jks::key_store(&pem::certificates(&self.bundle));
            let source = area.file(KEY_STORE_IN_JAIL, &key_store)?;
            for store in self.key_stores.iter().filter(|path| !self.is_in_directory(path)) {
                area.cover(&source, store);
            }
        }
        let ca = pem::certificates(&self.ca_pem);
        let hash = ca.first().and_then(|der| subject_hash::subject_hash(der));
        for (number, directory) in self.directories.iter().enumerate() {
            let copy = area.directory(format!("certificates-{number}"))?;
            self.copy(directory, &copy, DEPTH_LIMIT)?;
            if let Some(hash) = &hash {
                link_by_hash(&copy, hash)?;
            }
            area.cover(&copy, directory);
        }
        self.databases.place(area)
    }

    fn is_in_directory(&self, path: &Path) -> bool {
        self.directories.iter().any(|directory| path.starts_with(directory))
    }

    /// Copies a directory of certificates: links as they are, our stores in the place of theirs.
    fn copy(&self, from: &Path, to: &Path, depth: u8) -> io::Result<()> {
        for entry in fs::read_dir(from)?.flatten() {
            let (original, copy) = (entry.path(), to.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            if self.bundles.contains(&original) {
                symlink(BUNDLE_IN_JAIL, copy)?;
            } else if self.key_stores.contains(&original) {
                symlink(KEY_STORE_IN_JAIL, copy)?;
            } else if kind.is_symlink() {
                symlink(fs::read_link(&original)?, copy)?;
            } else if kind.is_dir() && depth > 0 {
                fs::create_dir(&copy)?;
                self.copy(&original, &copy, depth - 1)?;
            } else if kind.is_file() && entry.metadata().is_ok_and(|file| file.len() <= FILE_LIMIT)
            {
                // One that can't be read out here can't be read in there either.
                let _ = fs::copy(&original, &copy);
            }
        }
        Ok(())
    }
}

const KEY_STORE_IN_JAIL: &str = "/run/keyless/cacerts.jks";

/// Links `HASH.N` to the CA; N tells certificates of the same name apart.
pub(super) fn link_by_hash(directory: &Path, hash: &str) -> io::Result<()> {
    for number in 0..10 {
        match symlink(CA_IN_JAIL, directory.join(format!("{hash}.{number}"))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other,
        }
    }
    Ok(())
}

/// Of the command's `JAVA_HOME`, and of the `java` in its `PATH`.
fn java_homes(job: &Job) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> =
        job.variable("JAVA_HOME").map(PathBuf::from).into_iter().collect();
    if let Some(path) = job.variable("PATH") {
        let java =
            std::env::split_paths(path).find_map(|folder| folder.join("java").canonicalize().ok());
        // HOME/bin/java
        homes.extend(
            java.as_deref().and_then(|java| java.parent()?.parent()).map(Path::to_path_buf),
        );
    }
    homes
}

pub(super) fn existing(paths: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}
