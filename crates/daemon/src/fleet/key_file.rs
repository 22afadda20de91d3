//! The key from which a fleet's placeholders are derived: 16 or more bytes in a private file.

use std::{fs, io, path::Path};

use data_encoding::HEXLOWER;
use keyless_core::{Code, Error, SafeText};
use keyless_vault::PlainFile;
use zeroize::Zeroizing;

use crate::{broker::fill_random, places::unusable, whole_file::create_whole};

const MIN_BYTES: usize = 16;
const MAX_BYTES: usize = 4096;

/// Reads the key; any content of 16 bytes or more, without its trailing line end, in a regular file that is not open to everybody.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let file = PlainFile::open(path).map_err(|error| unusable(path, &error))?;
    let is_open = file.is_open_to_everybody();
    let mut bytes = file.bytes(MAX_BYTES).map_err(|error| unusable(path, &error))?;
    if is_open.map_err(|error| unusable(path, &error))? {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        let detail =
            place.and(" is open to everybody on this machine, so placeholders could be derived");
        return Err(Error::with(Code::KeyFileUnsafe, detail));
    }
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
