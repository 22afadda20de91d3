//! The files of closed parts: written under another name first, read-only once they are kept.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use aws_lc_rs::digest::{Context, SHA256};
use keyless_core::audit::{
    Entry, LogKeys, Segment, Stretch, Tampered, Verifier, Vouching, prefixed,
};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    audit::{LogError, keys::OpenKeys, sha256, verify::block_rows},
    store::StoreError,
};

/// Entries that are verified at once.
const BLOCK: usize = 512;
/// No entry is nearly so long.
const LONGEST: usize = 16 << 20;

/// A file that is being written; gone again unless it is kept.
pub(in crate::audit) struct PartialFile {
    folder: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    hash: Context,
    is_kept: bool,
}

impl PartialFile {
    pub(in crate::audit) fn begin(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("{}.partial", Uuid::new_v4().simple()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let (file, hash) = (BufWriter::new(file), Context::new(&SHA256));
        Ok(Self { folder: folder.to_owned(), path, file, hash, is_kept: false })
    }

    /// Takes rows as [`read_block`](crate::audit::verify::read_block) gives them: a number, a space and an entry on
    /// each line.
    pub(in crate::audit) fn take_block(&mut self, rows: &[u8]) -> io::Result<()> {
        for (_, entry) in block_rows(rows) {
            for piece in [entry, b"\n"] {
                self.hash.update(piece);
                self.file.write_all(piece)?;
            }
        }
        Ok(())
    }

    /// Puts everything on the disk; gives the hash.
    pub(in crate::audit) fn sync(&mut self) -> io::Result<String> {
        self.file.flush()?;
        let file = self.file.get_ref();
        file.set_permissions(Permissions::from_mode(0o400))?;
        file.sync_all()?;
        Ok(prefixed(self.hash.clone().finish().as_ref()))
    }

    /// Gives it its name.
    pub(in crate::audit) fn keep(mut self, name: &str) -> io::Result<()> {
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

/// The file in this folder that has the name of a part's numbers, of whatever day.
pub(in crate::audit) fn file_of_numbers(folder: &Path, segment: &Segment) -> Option<String> {
    let names =
        fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_this = |name: &String| Segment { file: name.clone(), ..segment.clone() }.has_own_name();
    names.filter(is_this).max()
}

/// Verifies a file by itself: its hash, each entry, and that it leads from where the segment begins to where it ends; of one
/// that is not what was written, that it is what was found. Gives what the keys say of it.
pub(in crate::audit) fn verify_file(
    folder: &Path,
    segment: &Segment,
    keys: Option<&OpenKeys>,
) -> Result<Vouching, LogError> {
    if segment.broken.is_some() {
        let (hash, _) = hash_of(folder, segment)?;
        return is_of_hash(segment, &hash).map(|()| Vouching::default());
    }
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
        let keys = keys.map(|keys| keys as &dyn LogKeys);
        let Some(stretch) = Stretch::verify(rows, None, sha256, keys)? else { break };
        verifier.join(&stretch)?;
    }
    if *verifier.end() != segment.end() {
        let (found, expected) = (verifier.end().sequence(), segment.last_sequence);
        return Err(Tampered::Truncated { found, expected }.into());
    }
    is_of_hash(segment, &prefixed(hash.finish().as_ref()))?;
    Ok(verifier.vouching().clone())
}

fn is_of_hash(segment: &Segment, hash: &str) -> Result<(), LogError> {
    if hash == segment.file_hash {
        Ok(())
    } else {
        Err(LogError::SegmentChanged { file: segment.file.clone() })
    }
}

/// The hash of a file, whatever is in it, and how many lines that is.
fn hash_of(folder: &Path, segment: &Segment) -> Result<(String, u64), LogError> {
    let mut reader = Lines::open(folder, segment)?.reader;
    let (mut hash, mut lines) = (Context::new(&SHA256), 0);
    loop {
        let bytes = reader.fill_buf().map_err(StoreError::File)?;
        if bytes.is_empty() {
            return Ok((prefixed(hash.finish().as_ref()), lines));
        }
        hash.update(bytes);
        lines += bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        let length = bytes.len();
        reader.consume(length);
    }
}

/// What is in the place of a file.
pub(in crate::audit) struct Found {
    pub(in crate::audit) hash: String,
    pub(in crate::audit) entries: u64,
    /// How many of them a key vouches for.
    pub(in crate::audit) genuine: u64,
}

/// A file that is not what was written, as it is; nothing where it is gone.
pub(in crate::audit) fn file_as_it_is(
    folder: &Path,
    segment: &Segment,
    keys: &OpenKeys,
) -> Result<Option<Found>, LogError> {
    let (hash, entries) = match hash_of(folder, segment) {
        Err(LogError::SegmentMissing { .. }) => return Ok(None),
        found => found?,
    };
    let (mut lines, mut count) = (Lines::open(folder, segment)?, 0);
    // What follows a line that can't be read is not looked at.
    while let Ok(Some(line)) = lines.next() {
        count += genuine(&line, keys).map_or(0, |one| one.vouching().with);
    }
    Ok(Some(Found { hash, entries, genuine: count }))
}

/// An entry that is whole in itself, under the number that it says, with what the keys say of it.
pub(in crate::audit) fn genuine(entry: &str, keys: &OpenKeys) -> Option<Stretch> {
    #[derive(Deserialize)]
    struct Numbered {
        sequence: u64,
    }
    let Numbered { sequence } = serde_json::from_str(entry).ok()?;
    Stretch::verify([(sequence, entry)], None, sha256, Some(keys)).ok()?
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

/// Gives every entry of a file in its order; of one that is not what was written, what can be read and has a number of its own.
pub(in crate::audit) fn visit(
    folder: &Path,
    segment: &Segment,
    mut each: impl FnMut(Entry),
) -> Result<(), LogError> {
    let mut lines = Lines::open(folder, segment)?;
    if segment.broken.is_none() {
        while let Some(line) = lines.next()? {
            each(segment_entry(segment, &line)?);
        }
        return Ok(());
    }
    let mut readable = Vec::new();
    loop {
        match lines.next() {
            Ok(None) => break,
            Ok(Some(line)) => {
                let entry = segment_entry(segment, &line).ok();
                readable.extend(entry.filter(|entry| segment.contains(entry.sequence)));
            }
            Err(LogError::SegmentChanged { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    readable.sort_by_key(|entry| entry.sequence);
    readable.into_iter().for_each(each);
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
