//! From a key file to a wrapping key: 32 random bytes, optionally together with this machine's id.
//!
//! For unattended starts. The file is trusted only if it is the caller's own and closed to others,
//! which is checked on the opened file, so that it can't be swapped. A file bound to a machine
//! opens nothing on another one; a machine without an id is refused, never taken for unbound.
//! Source: reference/secrets.md, 7.2.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use keyless_core::{Code, Error, SafeText};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{draw_salt, read_salt, unreadable};
use crate::{
    key::{self, KEY_BYTES, Subkey},
    plain_file::PlainFile,
    random,
};

const INFO: &str = "keyless/v1/envelope/keyfile";
/// Where Linux keeps the machine's id, and where D-Bus kept it before.
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The bytes of a key file; wiped on drop, never printed.
pub struct Keyfile(Zeroizing<[u8; KEY_BYTES]>);

/// Whether a key file opens the store on this machine alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineBinding {
    /// It opens the store anywhere.
    #[default]
    #[serde(rename = "none")]
    Unbound,
    /// Only together with the id of the machine that it was made on.
    #[serde(rename = "machine-v1")]
    MachineV1,
}

/// What stands in the envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    salt: String,
    binding: MachineBinding,
}

impl Keyfile {
    /// Makes a fresh key file at `path`, 0600 and on disk when this returns. Never overwrites.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let key = Zeroizing::new(random::bytes::<KEY_BYTES>()?);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(&*key).and_then(|()| file.sync_all()).inspect_err(|_| {
                // A part of a key opens nothing, and would stand in the way of the next try.
                let _ = fs::remove_file(path);
            })
        };
        write().map_err(|error| unusable(path, &error))?;
        Ok(Self(key))
    }

    /// Reads a key file. [`Code::KeyFileUnsafe`] unless it is a regular file of the caller's own,
    /// closed to everybody else; [`Code::PathUnusable`] when it is not there or no key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = PlainFile::open_unlinked(path).map_err(|error| unusable(path, &error))?;
        file.check_private(path)?;
        let bytes = file.head(KEY_BYTES + 1).map_err(|error| unusable(path, &error))?;
        if bytes.len() != KEY_BYTES {
            let words = place(path).and(" is not a key file: it has to have 32 bytes");
            return Err(Error::with(Code::PathUnusable, words));
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    pub(super) fn wrapping_key(&self, parameters: &Parameters) -> Result<Subkey, Error> {
        self.wrapping_key_on(parameters, machine_id)
    }

    fn wrapping_key_on(
        &self,
        parameters: &Parameters,
        machine: impl FnOnce() -> Result<String, Error>,
    ) -> Result<Subkey, Error> {
        let salt = read_salt(&parameters.salt)?;
        let mut material = Zeroizing::new(self.0.to_vec());
        if parameters.binding == MachineBinding::MachineV1 {
            // The key's length is fixed, so no other pair of key and id gives the same bytes.
            material.extend_from_slice(machine()?.as_bytes());
        }
        Ok(key::derive(Some(&salt), &material, INFO))
    }
}

impl fmt::Debug for Keyfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyfile")
    }
}

impl Parameters {
    pub(super) fn draw(binding: MachineBinding) -> Result<Self, Error> {
        Ok(Self { salt: draw_salt()?, binding })
    }

    /// Whether an envelope's parameters bind it to a machine.
    pub(super) fn binding_of(text: &str) -> Result<MachineBinding, Error> {
        let parameters: Self = serde_json::from_str(text).map_err(|_| unreadable())?;
        Ok(parameters.binding)
    }
}

fn machine_id() -> Result<String, Error> {
    let read = |file: &&str| fs::read_to_string(file).ok();
    let id = MACHINE_IDS.iter().find_map(read).map(|text| text.trim().to_owned());
    id.filter(|id| !id.is_empty() && id != "uninitialized").ok_or_else(|| {
        let words = "this machine has no id (/etc/machine-id), so nothing can be bound to it";
        Error::with(Code::PathUnusable, SafeText::words(words))
    })
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::with(Code::DiskFull, place(path))
        }
        PlainFile::NO_FILE => {
            Error::with(Code::PathUnusable, place(path).and(" is not a regular file"))
        }
        kind => Error::with(Code::PathUnusable, place(path).and(": ").and(kind)),
    }
}

fn place(path: &Path) -> SafeText {
    SafeText::default().as_they_wrote(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn code<T: fmt::Debug>(answer: Result<T, Error>) -> Code {
        answer.unwrap_err().code()
    }

    #[test]
    fn a_file_that_is_made_reads_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vault.key");
        let made = Keyfile::create(&path).unwrap();
        assert_eq!(*Keyfile::read(&path).unwrap().0, *made.0);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(code(Keyfile::create(&path)), Code::PathUnusable);
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(unusable(Path::new("vault.key"), &full).code(), Code::DiskFull);
    }

    #[test]
    fn only_a_private_file_of_32_bytes_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vault.key");
        Keyfile::create(&path).unwrap();
        for open_to_others in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open_to_others)).unwrap();
            assert_eq!(code(Keyfile::read(&path)), Code::KeyFileUnsafe);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(code(Keyfile::read(&link)), Code::PathUnusable);
        assert_eq!(code(Keyfile::read(folder.path())), Code::KeyFileUnsafe);
        for length in [0, 31, 33] {
            fs::write(&path, vec![1; length]).unwrap();
            assert_eq!(code(Keyfile::read(&path)), Code::PathUnusable, "{length}");
        }
    }

    #[test]
    fn a_bound_file_needs_its_machine() {
        let key = Keyfile(Zeroizing::new([1; KEY_BYTES]));
        let parameters = Parameters::draw(MachineBinding::MachineV1).unwrap();
        let on = |id: &str| key.wrapping_key_on(&parameters, || Ok(id.to_owned())).unwrap();
        assert_eq!(*on("one"), *on("one"));
        assert_ne!(*on("one"), *on("other"));
        let none = || Err(Error::new(Code::PathUnusable));
        assert_eq!(code(key.wrapping_key_on(&parameters, none)), Code::PathUnusable);
        let unbound = Parameters::draw(MachineBinding::Unbound).unwrap();
        assert!(key.wrapping_key_on(&unbound, none).is_ok());
    }
}
