//! The host's trust stores, and the same with the session's CA in them.
//!
//! Read once the jail stands, placed as files of its read-only area that are bound over the originals: what is
//! hidden stays hidden. What does not depend on the CA, which is most, is made before the jail has its job, if there
//! is time. For a single command, ours is laid over a directory of some hundred links instead of copying it: the copy would
//! take as long as half of all else. Each list follows what programs really open (Go's `root_linux.go`, OpenSSL's defaults
//! of Debian, Fedora, SUSE, Alpine).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{
    jks,
    nss::{Databases, Replacements},
    pem,
    roots::Roots,
    subject_hash,
};
use crate::linux::mounts::area::{Area, Overlays};
use crate::linux::orders::Job;
use crate::trust::{BUNDLE_IN_JAIL, BUNDLES, CA_IN_JAIL};

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

/// Our versions of the system's stores, but for the CA: begun or copied in the area, bound nowhere yet.
pub(crate) struct Stock {
    /// The key store, where the system has one.
    key_store: Option<jks::Begun>,
    bundles: BTreeSet<PathBuf>,
    key_stores: BTreeSet<PathBuf>,
    directories: Vec<Directory>,
}

/// A directory of certificates.
struct Directory {
    original: PathBuf,
    /// In the area: all of it, or only what takes the place of something there.
    ours: PathBuf,
    is_copied: bool,
}

/// How our links get into a directory of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Into a copy: the host's directory may change while the jail lives.
    Copied,
    /// In a directory laid over the host's, for one command. Copied where that can't be.
    Layered,
}

/// What was found, with symlinks resolved.
pub(crate) struct TrustStores {
    ca_pem: String,
    stock: Stock,
    databases: Databases,
}

impl Stock {
    /// Begins the files and the directories of certificates: our stores stand in them as links.
    pub(crate) fn take(area: &mut Area, way: Way, roots: &Roots) -> io::Result<Self> {
        area.file(BEGUN_BUNDLE, roots.bundle.as_bytes())?;
        let mut stock = Self {
            key_store: None,
            bundles: existing(BUNDLES.iter().map(PathBuf::from)),
            key_stores: existing(SYSTEM_KEY_STORES.iter().map(PathBuf::from)),
            directories: Vec::new(),
        };
        if let Some((bytes, begun)) = &roots.key_store {
            area.file(BEGUN_KEY_STORE, bytes)?;
            stock.key_store = Some(begun.clone());
        }
        let directories = existing(DIRECTORIES.iter().map(PathBuf::from));
        let overlays = (way == Way::Layered).then(Overlays::look);
        for (number, original) in directories.into_iter().enumerate() {
            let ours = area.directory(format!("certificates-{number}"))?;
            stock.link_stores(&original, &ours)?;
            let is_copied = !overlays.as_ref().is_some_and(|all| all.are_possible_at(&original));
            if is_copied {
                copy_beside(&original, &ours, DEPTH_LIMIT)?;
            }
            stock.directories.push(Directory { original, ours, is_copied });
        }
        Ok(stock)
    }

    /// Puts links to our stores where those of a directory are.
    fn link_stores(&self, original: &Path, ours: &Path) -> io::Result<()> {
        let bundles = self.bundles.iter().map(|store| (store, BUNDLE_IN_JAIL));
        let key_stores = self.key_stores.iter().map(|store| (store, KEY_STORE_IN_JAIL));
        for (store, target) in bundles.chain(key_stores) {
            let Ok(name) = store.strip_prefix(original) else { continue };
            let link = ours.join(name);
            fs::create_dir_all(link.parent().unwrap_or(ours))?;
            symlink(target, link)?;
        }
        Ok(())
    }
}

/// Copies a directory of certificates beside what is there already, which stays: links as they are.
fn copy_beside(from: &Path, to: &Path, depth: u8) -> io::Result<()> {
    for entry in fs::read_dir(from)?.flatten() {
        let (original, copy) = (entry.path(), to.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if depth > 0 {
                fs::create_dir_all(&copy)?;
                copy_beside(&original, &copy, depth - 1)?;
            }
        } else if kind.is_symlink() {
            // One that is there is ours. Not asked about before: there are hundreds.
            match symlink(fs::read_link(&original)?, copy) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        } else if kind.is_file()
            && copy.symlink_metadata().is_err()
            && entry.metadata().is_ok_and(|file| file.len() <= FILE_LIMIT)
        {
            // One that can't be read out here can't be read in there either.
            let _ = fs::copy(&original, &copy);
        }
    }
    Ok(())
}

impl TrustStores {
    /// Those that the job's command would open.
    pub(crate) fn read(job: &Job, mut stock: Stock) -> Self {
        let homes = java_homes(job);
        let of_homes =
            homes.iter().flat_map(|home| KEY_STORES_OF_HOME.iter().map(|end| home.join(end)));
        stock.key_stores.append(&mut existing(of_homes));
        Self { ca_pem: job.ca_pem.clone(), stock, databases: Databases::find(job) }
    }

    /// Puts our versions into the area, to be bound over the host's; what is to be bound last, over
    /// the covers of hidden places, is given back.
    pub(crate) fn place(mut self, area: &mut Area) -> io::Result<Replacements> {
        area.file(CA_IN_JAIL, self.ca_pem.as_bytes())?;
        let bundle = area.complete(BEGUN_BUNDLE, BUNDLE_IN_JAIL, self.ca_pem.as_bytes())?;
        for original in self.stock.bundles.iter().filter(|path| !self.is_in_directory(path)) {
            area.cover(&bundle, original);
        }
        let ca = pem::certificates(&self.ca_pem);
        if !self.stock.key_stores.is_empty() {
            let begun = self.stock.key_store.take().filter(|begun| begun.missing() == ca.len());
            let source = if let Some(begun) = begun {
                area.complete(BEGUN_KEY_STORE, KEY_STORE_IN_JAIL, &begun.end(&ca))?
            } else {
                let all = pem::certificates(&fs::read_to_string(&bundle)?);
                area.file(KEY_STORE_IN_JAIL, &jks::key_store(&all))?
            };
            for store in self.stock.key_stores.iter().filter(|path| !self.is_in_directory(path)) {
                area.cover(&source, store);
            }
        }
        let hash = ca.first().and_then(|der| subject_hash::subject_hash(der));
        for Directory { original, ours, is_copied } in &self.stock.directories {
            if let Some(hash) = &hash {
                link_by_hash(ours, original, hash)?;
            }
            if *is_copied {
                area.cover(ours, original);
            } else if area.layer(ours, original).is_err() {
                copy_beside(original, ours, DEPTH_LIMIT)?;
                area.cover(ours, original);
            }
        }
        self.databases.place(area)
    }

    fn is_in_directory(&self, path: &Path) -> bool {
        self.stock.directories.iter().any(|directory| path.starts_with(&directory.original))
    }
}

const KEY_STORE_IN_JAIL: &str = "/run/keyless/cacerts.jks";
/// The names of bundle and key store in the area before the CA is in them.
const BEGUN_BUNDLE: &str = "certificates.begun";
const BEGUN_KEY_STORE: &str = "cacerts.begun";

/// Links `HASH.N` to the CA; N tells certificates of the same name apart, those of `original` among them.
pub(super) fn link_by_hash(directory: &Path, original: &Path, hash: &str) -> io::Result<()> {
    let names = (0..10).map(|number| format!("{hash}.{number}"));
    for name in names.filter(|name| original.join(name).symlink_metadata().is_err()) {
        match symlink(CA_IN_JAIL, directory.join(name)) {
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
