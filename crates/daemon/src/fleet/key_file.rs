//! The key from which a fleet's placeholders are derived: 16 or more bytes in a private file.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use data_encoding::HEXLOWER;
use keyless_core::{Code, Error, SafeText};
use zeroize::Zeroizing;

use crate::{broker::fill_random, places::unusable, whole_file::create_whole};

const MIN_BYTES: usize = 16;
const MAX_BYTES: usize = 4096;

/// Reads the key; any content of 16 bytes or more, without its trailing line end, in a file that is not open to everybody.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
    let file = File::open(path).map_err(|error| unusable(path, &error))?;
    let metadata = file.metadata().map_err(|error| unusable(path, &error))?;
    // A group may: that is how a volume of Kubernetes reaches who is not root.
    if metadata.is_file() && metadata.mode() & 0o007 != 0 {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        let detail =
            place.and(" is open to everybody on this machine, so placeholders could be derived");
        return Err(Error::with(Code::KeyFileUnsafe, detail));
    }
    let read = file.take(MAX_BYTES as u64).read_to_end(&mut bytes);
    read.map_err(|error| unusable(path, &error))?;
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    if bytes.len() < MIN_BYTES {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        let detail = place.and(" has fewer than 16 bytes, so placeholders could be guessed");
        return Err(Error::with(Code::ValueRefused, detail));
    }
    Ok(bytes)
}

/// Reads the key, or makes one of 32 random bytes in hexadecimal, 0600.
pub(crate) fn read_or_make(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    if fs::exists(path).is_ok_and(|there| there) {
        return read(path);
    }
    let mut random = Zeroizing::new([0_u8; 32]);
    fill_random(&mut *random)?;
    let mut text = Zeroizing::new(HEXLOWER.encode(&*random));
    text.push('\n');
    match create_whole(path, text.as_bytes(), 0o600) {
        Ok(()) => read(path),
        // Another sidecar was faster: its key is the key.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(unusable(path, &error)),
    }
}
