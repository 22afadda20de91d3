//! Files that are written whole: a reader sees the old one or the new one, and what could not be written leaves nothing.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// Writes beside `file`, through to the disk, and takes its place with `mode`. The name beside it is
/// new each time, and a link that lies in its place is replaced: nothing is written through one.
pub fn write_whole(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    beside(file, bytes, mode)?.persist(file)?;
    settle(file)
}

/// [`write_whole`] where no such file may be: [`io::ErrorKind::AlreadyExists`] when there is one. Of several that write
/// at once, one does.
pub fn create_whole(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    beside(file, bytes, mode)?.persist_noclobber(file)?;
    settle(file)
}

/// Whether [`create_whole`] finds a place there, for what is lost where it finds none.
pub fn check_place(file: &Path) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::metadata(folder_of(file)).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// [`write_whole`] over a file that is there: its mode stays, and a link stays one, since what it leads to is written.
pub(crate) fn rewrite_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let mode = fs::metadata(&file)?.permissions().mode();
    write_whole(&file, bytes, mode & 0o7777)
}

fn beside(file: &Path, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let mut beside = tempfile::Builder::new().prefix(".keyless-").tempfile_in(folder_of(file))?;
    beside.write_all(bytes)?;
    beside.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    beside.as_file().sync_all()?;
    Ok(beside)
}

/// Makes the file's new name last.
fn settle(file: &Path) -> io::Result<()> {
    fs::File::open(folder_of(file))?.sync_all()
}

/// The folder that a file is in, whether its path names that or not.
pub(crate) fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A turn at what is in a folder: nobody else has it while this lives. It ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Turn {
    _folder: File,
}

impl Turn {
    /// The turn to change a file by writing it anew. It is the folder's, which is made where it is not there, since the
    /// file's name comes to lead to another file with each change. Waits.
    pub(crate) fn take(file: &Path) -> io::Result<Self> {
        let folder = folder_of(file);
        fs::create_dir_all(&folder)?;
        Self::take_in(&folder)
    }

    /// The turn in a folder that is there. Waits.
    pub(crate) fn take_in(folder: &Path) -> io::Result<Self> {
        let opened = File::open(folder)?;
        opened.lock()?;
        Ok(Self { _folder: opened })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_new_file_takes_nobodys_place() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("key");
        create_whole(&file, b"first", 0o600).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = create_whole(&file, b"second", 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"first");
        // A link that leads nowhere is something too.
        symlink("gone", home.path().join("link")).unwrap();
        let refused = create_whole(&home.path().join("link"), b"second", 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "nothing is left beside them");
    }

    #[test]
    fn a_file_of_somebody_elses_keeps_its_mode_and_its_links() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("file"), home.path().join("link"));
        write_whole(&file, b"old", 0o640).unwrap();
        symlink("file", &link).unwrap();
        rewrite_whole(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_name_alone_is_a_file_of_this_folder() {
        assert_eq!(folder_of(Path::new("key")), Path::new("."));
        assert_eq!(folder_of(Path::new("/key")), Path::new("/"));
    }
}
