//! Passphrases from a private file, for unattended use. Prompts are the command line's.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};
use keyless_vault::{PlainFile, read_settings};
use zeroize::Zeroizing;

use crate::{
    absolute_paths,
    places::{Places, create_private, unusable},
    whole_file::write_whole,
};

/// Longer than any passphrase; guards against a wrong file.
const MAX_BYTES: usize = 4096;

/// Where a path names what a process has open.
const DESCRIPTORS: &[&str] = &["/dev/fd", "/dev/stdin", "/proc"];

/// Reads a passphrase file, refused unless it is the caller's own and 0600 or stricter. One
/// trailing line end is dropped. The checks are made on the opened file, so it can't be swapped.
pub fn read_passphrase_file(path: &Path) -> Result<Zeroizing<String>, Error> {
    let file = PlainFile::open(path).map_err(|error| unusable(path, &error))?;
    file.check_private(path)?;
    let mut text = file.start_of_text(MAX_BYTES).map_err(|error| unusable(path, &error))?;
    let kept = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(kept);
    if text.is_empty() {
        let detail = SafeText::default().as_they_wrote(&path.to_string_lossy()).and(" is empty");
        return Err(Error::with(Code::PathUnusable, detail));
    }
    Ok(text)
}

/// Where the recovery phrase of a new store is kept when nobody is there to write it down. No jail shows the home.
pub(crate) fn recovery_file(places: &Places) -> PathBuf {
    places.data().join("recovery-phrase.txt")
}

/// Where the recovery phrase of a store that is about to be made is kept, in a folder that is there.
/// [`Code::PathUnusable`] when a file of that name is there too: it may be what opens another store.
pub fn unused_recovery_file(places: &Places) -> Result<PathBuf, Error> {
    let file = recovery_file(places);
    if fs::symlink_metadata(&file).is_ok() {
        let words = SafeText::default().as_they_wrote(&file.to_string_lossy());
        let words = words.and(" is there already, and may open another store: move it away");
        return Err(Error::with(Code::PathUnusable, words));
    }
    places.check_data()?;
    Ok(file)
}

/// Notes that a passphrase of this store was read from `path`: every later run hides that file,
/// however its own session is opened. A home that can't be written to is no reason to refuse work;
/// the run at hand hides the file in any case.
pub fn remember_passphrase_file(places: &Places, path: &Path) {
    let known = remembered_passphrase_files(places);
    for path in names_of(path).into_iter().filter(|path| !known.contains(path)) {
        let _ = append_path(&places.passphrase_files(), &path);
    }
}

/// A file's path, absolute, and that of the file itself: a descriptor is another file in another process, and a link may
/// lead elsewhere tomorrow.
pub fn names_of(path: &Path) -> Vec<PathBuf> {
    let mut names = absolute_paths([path]);
    names.extend(path.canonicalize());
    names.retain(|path| !DESCRIPTORS.iter().any(|folder| path.starts_with(folder)));
    names.dedup();
    names
}

/// The files that passphrases of this store were read from, as absolute paths.
pub fn remembered_passphrase_files(places: &Places) -> Vec<PathBuf> {
    paths_in(&places.passphrase_files())
}

/// The paths of a list, as [`append_path`] and [`write_paths`] write it; none where it is not there.
pub(crate) fn paths_in(list: &Path) -> Vec<PathBuf> {
    let bytes = read_settings(list).unwrap_or_default();
    let paths = bytes.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| OsStr::from_bytes(path).into()).collect()
}

/// Writes such a list anew.
pub(crate) fn write_paths(list: &Path, paths: &[PathBuf]) -> io::Result<()> {
    write_whole(list, &paths.iter().flat_map(|path| entry(path)).collect::<Vec<u8>>(), 0o600)
}

/// A path, and the byte that none contains.
fn entry(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_bytes(), &[0]].concat()
}

/// Appends a path, in one write: two processes don't mix.
fn append_path(list: &Path, path: &Path) -> io::Result<()> {
    if let Some(folder) = list.parent() {
        create_private(folder)?;
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(list)?;
    file.write_all(&entry(path))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn only_a_private_file_is_trusted() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pass");
        fs::write(&path, "correct horse battery\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_passphrase_file(&path).unwrap_err().code(), Code::KeyFileUnsafe);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(*read_passphrase_file(&path).unwrap(), "correct horse battery");
        fs::write(&path, "\n").unwrap();
        assert_eq!(read_passphrase_file(&path).unwrap_err().code(), Code::PathUnusable);
        let missing = scratch.path().join("missing");
        assert_eq!(read_passphrase_file(&missing).unwrap_err().code(), Code::PathUnusable);
        assert_eq!(read_passphrase_file(scratch.path()).unwrap_err().code(), Code::KeyFileUnsafe);
    }
}
