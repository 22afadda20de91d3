//! Reads files that others may have put there: only regular ones, within a bound, without waiting.
//!
//! A FIFO in a repository would be waited for, and a device has no end. What a file is, is asked once it is open. Below a
//! root that no link may leave, files are read by [`beneath`](crate::beneath).

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use crate::tree::MAX_FILE;

/// Opens a regular file that `path` leads to; [`io::ErrorKind::InvalidInput`] of what is none.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let bits = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let opened = OpenOptions::new().read(true).custom_flags(bits).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // What a socket answers.
        Some(Errno::NXIO) => no_file(),
        _ => error,
    })?;
    let about = file.metadata()?;
    match about.is_file() {
        true => Ok(file),
        // As reading one is answered.
        false if about.is_dir() => Err(Errno::ISDIR.into()),
        false => Err(no_file()),
    }
}

/// As [`std::fs::read`], of a file of 32 MiB at most. Blocks for no longer than the disk takes.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path.as_ref())?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        let words = format!("it is larger than {} MiB", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// As [`read`], of text; [`io::ErrorKind::InvalidData`] of what is no UTF-8.
pub(crate) fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(read(path)?).map_err(no_text)
}

/// As [`read`], however long it is: of what this program wrote itself.
pub(crate) fn read_whole(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path.as_ref())?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read_to_string`], where a file that is not there is an empty one.
pub(crate) fn read_or_empty(path: &Path) -> io::Result<String> {
    match read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::net::UnixListener};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for path in [at("fifo"), at("socket"), "/dev/null".into()] {
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        assert_eq!(read(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert_eq!(read_or_empty(&file).unwrap(), "");
        fs::write(&file, "text").unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "text");
        File::create(&file).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(read(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
