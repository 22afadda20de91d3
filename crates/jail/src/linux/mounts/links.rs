//! Where the links in a hidden folder lead: dotfile managers (GNU stow, rcm, dotbot) link file by file, and what is kept
//! elsewhere is hidden as well.
//!
//! Not what a command can't do without: a virtual environment leads to the interpreter, a snap to the folders in which
//! its user works. So neither programs and what of the system's everybody may read, nor the large folders.

use std::{
    collections::{BTreeSet, VecDeque},
    env,
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::linux::orders::Ground;

/// How many folders are passed on the way to a link, the hidden one among them.
const DEEPEST: u8 = 3;
/// The most names that are looked at below one hidden folder: a browser's profile has more, and its links are near the top.
const MOST_NAMES: usize = 2_000;
/// The system's own folders.
const SYSTEM: &[&str] = &[
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/sbin", "/snap", "/usr",
];
const EVERYBODY_READS: u32 = 0o004;
const SOMEBODY_EXECUTES: u32 = 0o111;

/// Follows links for one jail.
pub(super) struct Links<'a> {
    ground: &'a Ground,
    /// Without links, like all paths here.
    shown: &'a BTreeSet<PathBuf>,
    home: Option<PathBuf>,
    working_directory: Option<PathBuf>,
}

impl<'a> Links<'a> {
    pub(super) fn new(ground: &'a Ground, shown: &'a BTreeSet<PathBuf>) -> Self {
        let home = ground.home.as_ref().and_then(|home| Path::new(home).canonicalize().ok());
        Self { ground, shown, home, working_directory: env::current_dir().ok() }
    }

    /// The links in `hidden` that lead to files and folders outside of it; none where it is no folder.
    pub(super) fn in_folder(&self, hidden: &Path) -> Vec<PathBuf> {
        let (mut found, mut targets) = (Vec::new(), BTreeSet::new());
        // Where nothing but the system's folders is seen, those that are missing lead to these.
        if self.ground.read_only && hidden.parent() == Some(Path::new("/")) {
            return found;
        }
        let mut left = MOST_NAMES;
        let mut folders = VecDeque::from([(hidden.to_owned(), 1)]);
        while let Some((folder, depth)) = folders.pop_front() {
            if self.shown.contains(&folder) {
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Some(rest) = left.checked_sub(1) else { return found };
                left = rest;
                // Listed with the name, nearly everywhere.
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && depth < DEEPEST {
                    folders.push_back((entry.path(), depth + 1));
                } else if kind.is_symlink() {
                    let link = entry.path();
                    match followed(&link, hidden) {
                        Ok(Some((target, about))) if self.may_go(hidden, &target, &about) => {
                            found.push(link);
                            if about.is_dir() && depth < DEEPEST && targets.insert(target.clone()) {
                                folders.push_back((target, depth + 1));
                            }
                        }
                        // Into a folder that is closed, and may be opened again.
                        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                            found.push(link);
                        }
                        _ => {}
                    }
                }
            }
        }
        found
    }

    fn may_go(&self, hidden: &Path, target: &Path, about: &Metadata) -> bool {
        let mode = about.permissions().mode();
        if SYSTEM.iter().any(|folder| target.starts_with(folder)) {
            return about.is_file() && mode & EVERYBODY_READS == 0;
        }
        if about.is_file() {
            return mode & SOMEBODY_EXECUTES == 0 || !is_program(target);
        }
        let holds =
            |place: &Option<PathBuf>| place.as_ref().is_some_and(|place| place.starts_with(target));
        let above = target.parent();
        let is_large = above == Some(Path::new("/")) || above == self.home.as_deref();
        about.is_dir()
            && !is_large
            && !hidden.starts_with(target)
            && !holds(&self.home)
            && !holds(&self.working_directory)
    }
}

/// What a link leads to in the end, if that is outside of the folder.
fn followed(link: &Path, folder: &Path) -> io::Result<Option<(PathBuf, Metadata)>> {
    let target = link.canonicalize()?;
    if target.starts_with(folder) {
        return Ok(None);
    }
    let about = target.metadata()?;
    Ok(Some((target, about)))
}

/// Some file systems (of Windows, under WSL) call every file executable.
fn is_program(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && (head == *b"\x7fELF" || head.starts_with(b"#!"))
}
