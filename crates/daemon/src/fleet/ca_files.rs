//! The fleet's certificate authority, as two files: the certificate that guests have in their image, and
//! the key that stays with the sidecar.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use keyless_core::Error;
use keyless_egress::CaKeys;
use zeroize::Zeroizing;

use crate::places::unusable;

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
        if !there(&self.certificate)? && !there(&self.key)? {
            self.make()?;
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| unusable(path, &error));
        CaKeys::parse(read(&self.certificate)?, Zeroizing::new(read(&self.key)?))
    }

    fn make(&self) -> Result<(), Error> {
        let made = CaKeys::make()?;
        // Who creates the key's file owns the pair; another sidecar that starts now reads it.
        match create(&self.key, 0o600, made.key_pem()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            other => other.map_err(|error| unusable(&self.key, &error))?,
        }
        create(&self.certificate, 0o644, made.certificate_pem())
            .map_err(|error| unusable(&self.certificate, &error))
    }
}

fn create(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}
