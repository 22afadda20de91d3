//! The fleet's certificate authority, as two files: the certificate that guests have in their image, and
//! the key that stays with the sidecar.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use keyless_core::Error;
use keyless_egress::CaKeys;
use keyless_vault::read_settings_text;
use zeroize::Zeroizing;

use crate::{
    places::unusable,
    whole_file::{create_whole, folder_of},
};

/// Where an authority is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaFiles {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// The private key, PKCS #8 in PEM.
    pub key: PathBuf,
}

impl CaFiles {
    /// Reads both, or makes both when neither is there.
    pub(super) fn read_or_make(&self) -> Result<CaKeys, Error> {
        let there = |path: &Path| fs::exists(path).map_err(|error| unusable(path, &error));
        if !there(&self.certificate)? || !there(&self.key)? {
            // Whoever makes the pair does so alone: another sidecar that starts now finds both.
            let folder = folder_of(&self.key);
            let turn = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder));
            let _turn = turn.map_err(|error| unusable(&folder, &error))?;
            if !there(&self.certificate)? && !there(&self.key)? {
                self.make()?;
            }
        }
        let read = |path: &Path| read_settings_text(path).map_err(|error| unusable(path, &error));
        CaKeys::parse(read(&self.certificate)?, Zeroizing::new(read(&self.key)?))
    }

    fn make(&self) -> Result<(), Error> {
        let made = CaKeys::make()?;
        create_whole(&self.key, made.key_pem().as_bytes(), 0o600)
            .map_err(|error| unusable(&self.key, &error))?;
        create_whole(&self.certificate, made.certificate_pem().as_bytes(), 0o644)
            .map_err(|error| unusable(&self.certificate, &error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Several at once, each of which must come to the same.
    fn at_once<T: Eq + Send + std::fmt::Debug>(read: impl Fn() -> T + Sync) {
        let start = Barrier::new(4);
        let start_and_read = || {
            start.wait();
            read()
        };
        let all: Vec<T> = std::thread::scope(|scope| {
            let begun: Vec<_> = (0..4).map(|_| scope.spawn(start_and_read)).collect();
            begun.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
    }

    #[test]
    fn sidecars_that_start_at_once_share_one_authority_and_one_key() {
        for _ in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            let place = |name: &str| folder.path().join(name);
            let files = CaFiles { certificate: place("ca.pem"), key: place("ca.key") };
            at_once(|| {
                files.read_or_make().unwrap();
                fs::read(&files.certificate).unwrap()
            });
            at_once(|| crate::fleet::key_file::read_or_make(&place("key")).unwrap().to_vec());
        }
    }
}
