//! Reads small files whole that others may have put there: only regular ones, within a bound, without waiting.
//!
//! What a file is, is asked once it is open, so that nothing takes its place in between. What was read is wiped, and
//! leaves no copies behind as it grows. Files below a root that no link may leave are read by `pack`'s `beneath`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    mem,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use keyless_core::{Code, Error, SafeText};
use rustix::{fs::OFlags, io::Errno};
use zeroize::Zeroizing;

/// The group, and everybody.
const OTHERS: u32 = 0o077;
/// Everybody.
const WORLD: u32 = 0o007;

/// The most that a file of settings, of state or of roots has, in bytes.
const MAX_SETTINGS_BYTES: usize = 4 << 20;

/// As [`std::fs::read`], of a file of 4 MiB at most: a FIFO would be waited for, and a device has no end.
/// The error says what it is instead. Blocks for no longer than the disk takes.
pub fn read_settings(path: &Path) -> io::Result<Vec<u8>> {
    match PlainFile::open(path).and_then(|file| file.bytes(MAX_SETTINGS_BYTES)) {
        Ok(mut bytes) => Ok(mem::take(&mut *bytes)),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(io::Error::new(error.kind(), "it is over 4 MiB"))
        }
        Err(error) => Err(error),
    }
}

/// As [`read_settings`], of text; [`io::ErrorKind::InvalidData`] of what is no UTF-8.
pub fn read_settings_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_settings(path)?).map_err(|_| no_text())
}

/// A file that was opened to be read.
#[derive(Debug)]
pub struct PlainFile(File);

impl PlainFile {
    /// A folder, a pipe or a device, where a regular file belongs.
    pub const NO_FILE: io::ErrorKind = io::ErrorKind::InvalidInput;

    /// Opens what `path` leads to, links and all; a FIFO without waiting for whoever writes into it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OFlags::empty())
    }

    /// Opens what is at `path` itself; a link there is [`NO_FILE`](Self::NO_FILE).
    pub fn open_unlinked(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, flags: OFlags) -> io::Result<Self> {
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let bits = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let opened = OpenOptions::new().read(true).custom_flags(bits).open(path);
        opened.map(Self).map_err(|error| match Errno::from_io_error(&error) {
            // What a socket answers.
            Some(Errno::NXIO) => no_file(),
            Some(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => no_file(),
            _ => error,
        })
    }

    /// Whether others than its owner may do anything with it.
    pub fn is_open_to_others(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.mode() & OTHERS != 0)
    }

    /// Whether everybody may do anything with it. The group may: that is how a volume of Kubernetes reaches who is not
    /// root.
    pub fn is_open_to_everybody(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.mode() & WORLD != 0)
    }

    /// [`Code::KeyFileUnsafe`] unless it is a regular file of the caller's own that is closed to everybody else.
    /// `path` is for the words.
    pub fn check_private(&self, path: &Path) -> Result<(), Error> {
        let place = || SafeText::default().as_they_wrote(&path.to_string_lossy());
        let refuse = |words| Err(Error::with(Code::KeyFileUnsafe, place().and(words)));
        let about = self.0.metadata().map_err(|error| {
            Error::with(Code::PathUnusable, place().and(": ").and(error.kind()))
        })?;
        if !about.is_file() {
            return refuse(" is not a regular file");
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return refuse(" belongs to someone else");
        }
        if about.mode() & OTHERS != 0 {
            return refuse(" is open to others, it has to be 0600");
        }
        Ok(())
    }

    /// All of it; [`io::ErrorKind::FileTooLarge`] beyond `most` bytes, [`NO_FILE`](Self::NO_FILE) of what is none.
    /// Blocks.
    pub fn bytes(self, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
        let bytes = self.head(most + 1)?;
        if bytes.len() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// As [`bytes`](Self::bytes); [`io::ErrorKind::InvalidData`] of what is no UTF-8.
    pub fn text(self, most: usize) -> io::Result<Zeroizing<String>> {
        as_text(self.bytes(most)?)
    }

    /// As [`text`](Self::text), but what is beyond `most` bytes is left unread.
    pub fn start_of_text(self, most: usize) -> io::Result<Zeroizing<String>> {
        as_text(self.head(most)?)
    }

    /// Its first bytes, `most` of them.
    pub(crate) fn head(mut self, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
        let about = self.0.metadata()?;
        if !about.is_file() {
            return Err(no_file());
        }
        // One more than it says, so that its end is found in the same room.
        let said = usize::try_from(about.len()).unwrap_or(usize::MAX).saturating_add(1);
        let mut bytes = Zeroizing::new(vec![0; said.min(most)]);
        let mut filled = 0;
        while filled < most {
            if filled == bytes.len() {
                // It grows, or says less than it has, as those of /proc do.
                bytes = in_larger_room(&bytes, most);
            }
            match self.0.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// Twice the room, and some; the smaller one is wiped when it goes.
fn in_larger_room(bytes: &[u8], most: usize) -> Zeroizing<Vec<u8>> {
    let room = (bytes.len() * 2 + 4096).min(most);
    let mut larger = Zeroizing::new(vec![0; room]);
    larger[..bytes.len()].copy_from_slice(bytes);
    larger
}

fn as_text(mut bytes: Zeroizing<Vec<u8>>) -> io::Result<Zeroizing<String>> {
    match String::from_utf8(mem::take(&mut *bytes)) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(no_text())
        }
    }
}

fn no_file() -> io::Error {
    io::Error::new(PlainFile::NO_FILE, "it is no regular file")
}

fn no_text() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8 text")
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{fs::symlink, net::UnixListener},
    };

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn kind<T: std::fmt::Debug>(read: io::Result<T>) -> io::ErrorKind {
        read.unwrap_err().kind()
    }

    fn read(path: &Path, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
        PlainFile::open(path)?.bytes(most)
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "four").unwrap();
        assert_eq!(**read(&file, 4).unwrap(), *b"four");
        assert_eq!(kind(read(&file, 3)), io::ErrorKind::FileTooLarge);
        let opened = || PlainFile::open(&file).unwrap();
        assert_eq!(**opened().head(2).unwrap(), *b"fo");
        assert_eq!(*opened().start_of_text(2).unwrap(), "fo");
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(kind(opened().text(4)), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_says_less_than_it_has_is_read_whole() {
        let status = Path::new("/proc/self/status");
        if !status.exists() {
            return;
        }
        assert_eq!(fs::metadata(status).unwrap().len(), 0);
        assert!(read(status, 1 << 20).unwrap().ends_with(b"\n"));
        assert_eq!(kind(read(status, 100)), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for path in [at("fifo"), at("socket"), folder.path().to_owned(), "/dev/null".into()] {
            assert_eq!(kind(read(&path, 4)), PlainFile::NO_FILE, "{path:?}");
        }
    }

    #[test]
    fn a_link_is_followed_only_where_one_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(**read(&link, 4).unwrap(), *b"text");
        assert_eq!(kind(PlainFile::open_unlinked(&link)), PlainFile::NO_FILE);
        assert_eq!(*PlainFile::open_unlinked(&file).unwrap().text(4).unwrap(), "text");
    }
}
