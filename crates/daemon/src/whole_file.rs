//! Files that are written whole: a reader sees the old one or the new one.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// Writes beside `file`, through to the disk, and takes its place with `mode`. The name beside it is
/// new each time, and a link that lies in its place is replaced: nothing is written through one.
pub fn write_whole(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".keyless-").tempfile_in(folder)?;
    beside.write_all(bytes)?;
    beside.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    beside.as_file().sync_all()?;
    beside.persist(file)?;
    fs::File::open(folder)?.sync_all()
}
