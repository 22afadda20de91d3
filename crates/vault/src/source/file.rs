//! The source `file`: the whole content of a file that the broker can read.
//!
//! Symbolic links are followed. One newline at the end of a single line is not part of the value,
//! as editors put it there; text of several lines is taken as it is, since keys in PEM end with one. Neither is a byte
//! order mark at the start, which editors of Windows put there.

use std::{io, path::Path};

use keyless_core::{Binding, Error, SafeText, SecretPath, SecretValue};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::{MAX_VALUE_BYTES, Reading, Source, Warning, refused, shown, too_large, unavailable};
use crate::plain_file::PlainFile;

/// One file.
pub(crate) struct FileSource<'a> {
    file: &'a Path,
}

impl<'a> FileSource<'a> {
    pub(crate) fn new(file: &'a Path) -> Self {
        Self { file }
    }
}

impl Source for FileSource<'_> {
    async fn read(&self, path: &SecretPath, binding: Binding) -> Result<Reading, Error> {
        let (path, file) = (path.clone(), self.file.to_owned());
        let reading = spawn_blocking(move || read(&path, &file, binding));
        reading.await.expect("reading a file does not panic")
    }
}

/// Reads the value of `path` from `file`, now. Blocks.
pub(super) fn read(path: &SecretPath, file: &Path, binding: Binding) -> Result<Reading, Error> {
    let mut bytes = content(file).map_err(|error| missing(file, &error))?;
    if bytes.len() > MAX_VALUE_BYTES {
        return Err(too_large(path));
    }
    let mut warnings = Vec::new();
    if drop_mark(&mut bytes) {
        warnings.push(Warning::ByteOrderMark { file: file.to_owned() });
    }
    let kept = without_newline(&bytes).len();
    if kept < bytes.len() {
        warnings.push(Warning::TrailingNewline { file: file.to_owned() });
    }
    bytes.truncate(kept);
    let value = SecretValue::new(path.clone(), std::mem::take(&mut *bytes), binding);
    Ok(Reading { value: value.map_err(|why| refused(path, why))?, warnings, instead: None })
}

/// The file's bytes without a byte order mark, and without the newline of a single line. Blocks.
pub(super) fn bytes(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = content(file)?;
    drop_mark(&mut bytes);
    let kept = without_newline(&bytes).len();
    bytes.truncate(kept);
    Ok(bytes)
}

/// The file's bytes, one more than allowed at most.
fn content(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    PlainFile::open(file)?.head(MAX_VALUE_BYTES + 1)
}

/// Takes a byte order mark away from the start of `value`, within its buffer; whether there was one.
pub fn drop_mark(value: &mut Zeroizing<Vec<u8>>) -> bool {
    let found = value.starts_with(b"\xef\xbb\xbf");
    if found {
        // What moves up leaves its last bytes behind, which are wiped with the whole buffer.
        value.drain(..3);
    }
    found
}

/// `bytes` without the newline that ends its only line.
fn without_newline(bytes: &[u8]) -> &[u8] {
    let Some(line) = bytes.strip_suffix(b"\n") else { return bytes };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&b'\n') { bytes } else { line }
}

fn missing(file: &Path, error: &io::Error) -> Error {
    let words = SafeText::words("the file ").as_they_wrote(&shown(file));
    unavailable(words.and(" can't be read: ").and(why(error.kind())))
}

/// Why a file is not read.
pub(super) fn why(kind: io::ErrorKind) -> SafeText {
    match kind {
        PlainFile::NO_FILE => SafeText::words("it is no regular file"),
        kind => SafeText::default().and(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_said_to_be_none() {
        let device = Path::new("/dev/null");
        let told = missing(device, &content(device).unwrap_err());
        assert!(told.message().contains("/dev/null can't be read: it is no regular file"));
    }

    #[test]
    fn a_mark_at_the_start_goes() {
        for (bytes, found, left) in [
            (&b"\xef\xbb\xbfv"[..], true, &b"v"[..]),
            (b"v\xef\xbb\xbf", false, b"v\xef\xbb\xbf"),
            (b"", false, b""),
        ] {
            let mut value = Zeroizing::new(bytes.to_vec());
            assert_eq!((drop_mark(&mut value), &value[..]), (found, left));
        }
    }

    #[test]
    fn one_newline_of_one_line_goes() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"value", b"value"),
            (b"value\n", b"value"),
            (b"value\r\n", b"value"),
            (b"value\n\n", b"value\n\n"),
            (b"one\ntwo\n", b"one\ntwo\n"),
            (b"\n", b""),
            (b"", b""),
        ];
        for (bytes, expected) in cases {
            assert_eq!(without_newline(bytes), expected, "{bytes:?}");
        }
    }
}
