//! The bearer credential of `keyless mcp --http`: a private file, made when it is not there.

use std::path::Path;

use keyless_core::Error;
use zeroize::Zeroizing;

use crate::{fleet::key_file, passphrase::read_passphrase_file};

/// Reads the credential, refused unless its file is the caller's own and 0600; makes one of 64
/// hexadecimal digits first where there is none.
pub fn http_credential(file: &Path) -> Result<Zeroizing<String>, Error> {
    if !file.exists() {
        key_file::read_or_make(file)?;
    }
    read_passphrase_file(file)
}
