//! The same trust for a whole machine: a microVM guest, whose image may be read-only.
//!
//! What the image has stays as it is, and our versions are bound over it: a guest that boots with
//! another certificate trusts that one and not both.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::stores::{DIRECTORIES, SYSTEM_KEY_STORES, existing, link_by_hash};
use super::{jks, pem, subject_hash};
use crate::trust::{BUNDLE_IN_JAIL, BUNDLES, CA_IN_JAIL, system_bundle};

const KEY_STORE: &str = "/run/keyless/cacerts.jks";

/// Makes the programs of this machine trust `ca_pem` beside what they trust already. Gives how many
/// stores it was put into. Must run as root.
pub fn trust_on_this_machine(ca_pem: &str) -> io::Result<usize> {
    let ca = pem::certificates(ca_pem);
    let Some(first) = ca.first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no certificate in PEM"));
    };
    take_back();
    let bundle = system_bundle() + ca_pem;
    fs::create_dir_all("/run/keyless")?;
    write_new(CA_IN_JAIL, ca_pem.as_bytes())?;
    write_new(BUNDLE_IN_JAIL, bundle.as_bytes())?;
    let mut stores = 0;
    for store in existing(BUNDLES.iter().map(PathBuf::from)) {
        mount_bind(BUNDLE_IN_JAIL, &store)?;
        stores += 1;
    }
    let key_stores = existing(SYSTEM_KEY_STORES.iter().map(PathBuf::from));
    if !key_stores.is_empty() {
        write_new(KEY_STORE, &jks::key_store(&pem::certificates(&bundle)))?;
    }
    for store in key_stores {
        mount_bind(KEY_STORE, &store)?;
        stores += 1;
    }
    if let Some(hash) = subject_hash::subject_hash(first) {
        for directory in existing(DIRECTORIES.iter().map(PathBuf::from)) {
            // Read-only images keep their directories; the bundles and variables reach most programs.
            if link_by_hash(&directory, &directory, &hash).is_ok() {
                stores += 1;
            }
        }
    }
    Ok(stores)
}

/// Takes what earlier starts have bound from the stores, or their certificates would be trusted as well.
fn take_back() {
    for (ours, stores) in [(BUNDLE_IN_JAIL, BUNDLES), (KEY_STORE, SYSTEM_KEY_STORES)] {
        let Ok(ours) = fs::metadata(ours) else { continue };
        let is_ours = |store: &Path| {
            fs::metadata(store).is_ok_and(|it| (it.dev(), it.ino()) == (ours.dev(), ours.ino()))
        };
        for store in existing(stores.iter().map(PathBuf::from)) {
            // What an image links to ours can't be taken away.
            while is_ours(&store) && unmount(&store, UnmountFlags::DETACH).is_ok() {}
        }
    }
}

/// Not the file that an earlier start has bound somewhere.
fn write_new(path: &str, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(Path::new(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::write(path, bytes),
    }
}
