//! Files below a root, reached without following a single link below it.
//!
//! The kernel holds the rule (`openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`; macOS' `O_NOFOLLOW_ANY`), so
//! nothing that is swapped in between can lead a write elsewhere. The root itself may be a link of the user's; a root inside
//! a project may not lead out of that project, because a project's links come from whoever wrote it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::{
    ffi::CString,
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(target_os = "macos")]
use self::macos as system;
use crate::{
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    sha::{Content, Sha},
};

/// An open root.
#[derive(Debug)]
pub(crate) struct Beneath {
    fd: OwnedFd,
    path: PathBuf,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Disk {
    Absent,
    Directory,
    File(DiskFile),
    /// A link and where it says it leads.
    Link(String),
}

/// A regular file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiskFile {
    pub(crate) sha: Sha,
    /// Permission bits.
    pub(crate) mode: u32,
}

impl Disk {
    /// The digest that plans show: a link's is that of where it leads.
    pub(crate) fn sha(&self) -> Option<Sha> {
        match self {
            Self::Absent | Self::Directory => None,
            Self::File(file) => Some(file.sha),
            Self::Link(target) => Some(Sha::of(format!("link:{target}").as_bytes())),
        }
    }

    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Beneath {
    /// Opens a root; `None` when it does not exist. It must lie within `confine` when that is given.
    pub(crate) fn open(root: &Path, confine: Option<&Path>) -> Result<Option<Self>> {
        let fault = |error: io::Error| PackError::io("open", root, &error);
        let real = match fs::canonicalize(root) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                confined(nearest(root).as_deref(), confine, root)?;
                return Ok(None);
            }
            Err(error) => return Err(fault(error)),
        };
        confined(Some(&real), confine, root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd =
            rustix::fs::open(&real, flags, Mode::empty()).map_err(|error| fault(error.into()))?;
        Ok(Some(Self { fd, path: root.to_owned() }))
    }

    /// Waits for nobody: whether this process now holds the root's lock, until it is dropped.
    pub(crate) fn try_lock(&self) -> Result<bool> {
        match rustix::fs::flock(&self.fd, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(self.fault("lock", None, error)),
        }
    }

    /// What stands there.
    pub(crate) fn look(&self, path: &RelPath) -> Result<Disk> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match system::open(&self.fd, path.as_str(), flags) {
            Ok(fd) => self.examine(path, fd),
            Err(Errno::NOENT) => Ok(Disk::Absent),
            Err(Errno::LOOP) => self.link(path),
            Err(Errno::NOTDIR) => {
                Err(self.in_the_way(path, "a file stands where a directory belongs"))
            }
            Err(error) => Err(self.fault("read", Some(path), error)),
        }
    }

    /// The content of a regular file; `None` when there is none.
    pub(crate) fn read(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match system::open(&self.fd, path.as_str(), flags) {
            Ok(fd) => {
                let mut bytes = Vec::new();
                let read = File::from(fd).read_to_end(&mut bytes);
                read.map_err(|error| PackError::io("read", &self.path.join(path), &error))?;
                Ok(Some(bytes))
            }
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(self.fault("read", Some(path), error)),
        }
    }

    /// Makes the directories above a path.
    pub(crate) fn make_parents(&self, path: &RelPath) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if self.folder(parent).is_ok() {
            return Ok(());
        }
        let mut done = String::new();
        for part in parent.split('/') {
            let above = self.folder(if done.is_empty() { "." } else { &done });
            let above = above.map_err(|error| self.refused(path, error))?;
            match rustix::fs::mkdirat(&above, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(self.fault("create the directory of", Some(path), error)),
            }
            done = if done.is_empty() { part.to_owned() } else { format!("{done}/{part}") };
        }
        self.folder(parent).map(|_| ()).map_err(|error| self.refused(path, error))
    }

    /// Puts a file in place as a whole: written beside, then renamed. `temporary` is a name in its directory.
    pub(crate) fn write(
        &self,
        path: &RelPath,
        bytes: &[u8],
        mode: WriteMode,
        temporary: &str,
    ) -> Result<()> {
        let parent = self.parent(path)?;
        let fault = |error: io::Error| PackError::io("write", &self.path.join(path), &error);
        let raw = match mode {
            WriteMode::New { executable } => {
                if executable {
                    0o777
                } else {
                    0o666
                }
            }
            WriteMode::Exact(_) => 0o600,
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&parent, temporary, flags, Mode::from_raw_mode(raw));
        let mut file = File::from(opened.map_err(|error| fault(error.into()))?);
        let written = file.write_all(bytes).and_then(|()| match mode {
            WriteMode::Exact(bits) => file.set_permissions(Permissions::from_mode(bits & 0o7777)),
            WriteMode::New { .. } => Ok(()),
        });
        let renamed = written.and_then(|()| {
            Ok(rustix::fs::renameat(&parent, temporary, &parent, path.file_name())?)
        });
        renamed.map_err(|error| {
            let _ = rustix::fs::unlinkat(&parent, temporary, AtFlags::empty());
            fault(error)
        })
    }

    /// Puts a link in place.
    pub(crate) fn write_link(&self, path: &RelPath, target: &str, temporary: &str) -> Result<()> {
        let parent = self.parent(path)?;
        let made = rustix::fs::symlinkat(target, &parent, temporary)
            .and_then(|()| rustix::fs::renameat(&parent, temporary, &parent, path.file_name()));
        made.map_err(|error| self.fault("write", Some(path), error))
    }

    /// Removes a file or link; nothing there is fine.
    pub(crate) fn remove(&self, path: &RelPath) -> Result<()> {
        let parent = match self.folder(path.parent().unwrap_or(".")) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(self.refused(path, error)),
        };
        match rustix::fs::unlinkat(&parent, path.file_name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.fault("remove", Some(path), error)),
        }
    }

    /// Removes a name beside a path, where a write may have left it.
    pub(crate) fn remove_temporary(&self, path: &RelPath, temporary: &str) {
        if let Ok(parent) = self.folder(path.parent().unwrap_or(".")) {
            let _ = rustix::fs::unlinkat(&parent, temporary, AtFlags::empty());
        }
    }

    /// Removes the directories above a path, innermost first, while they are empty.
    pub(crate) fn remove_empty_parents(&self, path: &RelPath) {
        let mut parent = path.parent();
        while let Some(folder) = parent.and_then(RelPath::parse) {
            let Ok(above) = self.folder(folder.parent().unwrap_or(".")) else { return };
            if rustix::fs::unlinkat(&above, folder.file_name(), AtFlags::REMOVEDIR).is_err() {
                return;
            }
            parent = path.parent().and_then(|all| all.get(..folder.parent().map_or(0, str::len)));
            parent = parent.filter(|rest| !rest.is_empty());
        }
    }

    /// Puts everything that was written on this file system onto the disk.
    pub(crate) fn sync_file_system(&self) -> Result<()> {
        system::sync(&self.fd).map_err(|error| self.fault("sync", None, error))
    }

    fn folder(&self, path: &str) -> std::result::Result<OwnedFd, Errno> {
        system::open(&self.fd, path, system::FOLDER)
    }

    fn parent(&self, path: &RelPath) -> Result<OwnedFd> {
        self.folder(path.parent().unwrap_or(".")).map_err(|error| self.refused(path, error))
    }

    fn examine(&self, path: &RelPath, fd: OwnedFd) -> Result<Disk> {
        let fault = |error: io::Error| PackError::io("read", &self.path.join(path), &error);
        let mut file = File::from(fd);
        let metadata = file.metadata().map_err(fault)?;
        if metadata.is_dir() {
            return Ok(Disk::Directory);
        }
        if !metadata.is_file() {
            return Err(self.in_the_way(path, "something that is no file stands there"));
        }
        let size = usize::try_from(metadata.len()).unwrap_or(0);
        let mut bytes = Vec::with_capacity(size + 1);
        file.read_to_end(&mut bytes).map_err(fault)?;
        Ok(Disk::File(DiskFile { sha: Sha::of(&bytes), mode: metadata.mode() & 0o7777 }))
    }

    /// A link at the path itself is something that stands there; one above it is refused.
    fn link(&self, path: &RelPath) -> Result<Disk> {
        let parent = self.parent(path)?;
        let target: CString = rustix::fs::readlinkat(&parent, path.file_name(), Vec::new())
            .map_err(|error| self.fault("read", Some(path), error))?;
        Ok(Disk::Link(target.to_string_lossy().into_owned()))
    }

    fn refused(&self, path: &RelPath, error: Errno) -> PackError {
        match error {
            Errno::LOOP => {
                self.in_the_way(path, "a directory above it is a link, which is not followed")
            }
            Errno::NOTDIR => self.in_the_way(path, "a file stands where a directory belongs"),
            error => self.fault("open the directory of", Some(path), error),
        }
    }

    fn in_the_way(&self, path: &RelPath, what: &str) -> PackError {
        let full = self.path.join(path);
        PackError::new(Code::IoInvalidPath, format!("{}: {what}", full.display()))
            .with("path", shown(&full))
            .with("path_posix", shown(&full))
            .hint("move it away, or leave the module out of this target")
    }

    fn fault(&self, verb: &str, path: Option<&RelPath>, error: Errno) -> PackError {
        let full = path.map_or_else(|| self.path.clone(), |path| self.path.join(path));
        PackError::io(verb, &full, &error.into())
    }
}

/// How a file's mode is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteMode {
    /// These permission bits.
    Exact(u32),
    /// What the user's umask leaves of a new file's.
    New { executable: bool },
}

impl WriteMode {
    /// The mode of a file that takes this one's place: its own bits, execution as the source has it.
    pub(crate) fn replacing(disk: &Disk, executable: bool) -> Self {
        match disk {
            Disk::File(file) => Self::Exact(with_execution(file.mode, executable)),
            _ => Self::New { executable },
        }
    }
}

/// Execution for whoever may read, or for nobody.
pub(crate) fn with_execution(mode: u32, executable: bool) -> u32 {
    if executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 }
}

/// The file as it is to be, compared with what stands there.
pub(crate) fn differs(disk: &Disk, content: &Content, executable: bool) -> Difference {
    match disk {
        Disk::File(file) if file.sha != content.sha() => Difference::Content,
        Disk::File(file) if executable && file.mode & 0o111 == 0 => Difference::Execution,
        Disk::File(_) => Difference::None,
        _ => Difference::Content,
    }
}

/// In what a file differs from what it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Content,
    /// The bytes are right, and it can't be executed.
    Execution,
    None,
}

fn nearest(root: &Path) -> Option<PathBuf> {
    root.ancestors().find_map(|folder| fs::canonicalize(folder).ok())
}

fn confined(real: Option<&Path>, confine: Option<&Path>, root: &Path) -> Result<()> {
    let Some(confine) = confine else { return Ok(()) };
    let limit = fs::canonicalize(confine).unwrap_or_else(|_| confine.to_owned());
    // A root that does not exist yet may hang on a directory above the project: that is no way out.
    if real.is_none_or(|real| real.starts_with(&limit) || limit.starts_with(real)) {
        return Ok(());
    }
    Err(PackError::new(
        Code::IoInvalidPath,
        format!("{} leads out of its project by a link", root.display()),
    )
    .with("path", shown(root))
    .with("path_posix", shown(root))
    .hint("replace the link by a directory"))
}
