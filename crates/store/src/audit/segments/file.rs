//! The files of closed parts: written under another name first, read-only once they are kept.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use aws_lc_rs::digest::{Context, SHA256};
use keyless_core::audit::{Entry, Segment, Stretch, Tampered, Verifier, prefixed};
use uuid::Uuid;

use crate::{
    audit::{LogError, sha256},
    store::StoreError,
};

/// Entries that are verified at once.
const BLOCK: usize = 512;
/// No entry is nearly so long.
const LONGEST: usize = 16 << 20;

/// A file that is being written; gone again unless it is kept.
pub(super) struct PartialFile {
    folder: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    hash: Context,
    is_kept: bool,
}

impl PartialFile {
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("{}.partial", Uuid::new_v4().simple()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let (file, hash) = (BufWriter::new(file), Context::new(&SHA256));
        Ok(Self { folder: folder.to_owned(), path, file, hash, is_kept: false })
    }

    /// Takes rows as [`read_block`](crate::audit::verify::read_block) gives them: a number, a space and an entry on
    /// each line.
    pub(super) fn take_block(&mut self, rows: &str) -> io::Result<()> {
        for row in rows.split('\n') {
            let entry = row.split_once(' ').map_or(row, |(_, entry)| entry);
            for piece in [entry.as_bytes(), b"\n"] {
                self.hash.update(piece);
                self.file.write_all(piece)?;
            }
        }
        Ok(())
    }

    /// Puts everything on the disk; gives the hash.
    pub(super) fn sync(&mut self) -> io::Result<String> {
        self.file.flush()?;
        let file = self.file.get_ref();
        file.set_permissions(Permissions::from_mode(0o400))?;
        file.sync_all()?;
        Ok(prefixed(self.hash.clone().finish().as_ref()))
    }

    /// Gives it its name.
    pub(super) fn keep(mut self, name: &str) -> io::Result<()> {
        fs::rename(&self.path, self.folder.join(name))?;
        self.is_kept = true;
        File::open(&self.folder)?.sync_all()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What stays behind is a copy of what is still in the database.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a file that may be gone.
pub(super) fn remove(folder: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(folder.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Verifies a file by itself: its hash, each entry, and that it leads from where the segment begins to where it ends.
pub(super) fn verify_file(folder: &Path, segment: &Segment) -> Result<(), LogError> {
    let mut lines = Lines::open(folder, segment)?;
    let mut verifier = Verifier::after(segment.before());
    let (mut hash, mut sequence) = (Context::new(&SHA256), segment.first_sequence);
    loop {
        let mut block = Vec::with_capacity(BLOCK);
        while block.len() < BLOCK
            && let Some(line) = lines.next()?
        {
            hash.update(line.as_bytes());
            hash.update(b"\n");
            block.push((sequence, line));
            sequence += 1;
        }
        let rows = block.iter().map(|(sequence, line)| (*sequence, line.as_str()));
        let Some(stretch) = Stretch::verify(rows, None, sha256)? else { break };
        verifier.join(&stretch)?;
    }
    if *verifier.end() != segment.end() {
        let (found, expected) = (verifier.end().sequence(), segment.last_sequence);
        return Err(Tampered::Truncated { found, expected }.into());
    }
    if prefixed(hash.finish().as_ref()) == segment.file_hash {
        Ok(())
    } else {
        Err(LogError::SegmentChanged { file: segment.file.clone() })
    }
}

/// One entry of a file.
pub(in crate::audit) fn entry_of(
    folder: &Path,
    segment: &Segment,
    sequence: u64,
) -> Result<Option<Entry>, LogError> {
    let mut lines = Lines::open(folder, segment)?;
    for _ in segment.first_sequence..sequence {
        lines.next()?;
    }
    lines.next()?.map(|line| segment_entry(segment, &line)).transpose()
}

/// Gives every entry of a file in its order.
pub(in crate::audit) fn visit(
    folder: &Path,
    segment: &Segment,
    mut each: impl FnMut(Entry),
) -> Result<(), LogError> {
    let mut lines = Lines::open(folder, segment)?;
    while let Some(line) = lines.next()? {
        each(segment_entry(segment, &line)?);
    }
    Ok(())
}

fn segment_entry(segment: &Segment, line: &str) -> Result<Entry, LogError> {
    serde_json::from_str(line).map_err(|_| LogError::SegmentChanged { file: segment.file.clone() })
}

/// The lines of a file.
struct Lines<'a> {
    segment: &'a Segment,
    reader: BufReader<File>,
}

impl<'a> Lines<'a> {
    fn open(folder: &Path, segment: &'a Segment) -> Result<Self, LogError> {
        match File::open(folder.join(&segment.file)) {
            Ok(file) => Ok(Self { segment, reader: BufReader::new(file) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(LogError::SegmentMissing { file: segment.file.clone() })
            }
            Err(error) => Err(StoreError::File(error).into()),
        }
    }

    fn next(&mut self) -> Result<Option<String>, LogError> {
        let changed = || LogError::SegmentChanged { file: self.segment.file.clone() };
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut self.reader, LONGEST as u64);
        let read = bounded.read_until(b'\n', &mut line).map_err(StoreError::File)?;
        if read == 0 {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            return Err(changed());
        }
        String::from_utf8(line).map(Some).map_err(|_| changed())
    }
}
