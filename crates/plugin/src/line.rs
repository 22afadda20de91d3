//! Lines of a bounded length, in buffers that are wiped.

use std::io::{self, BufRead};

use zeroize::Zeroizing;

/// The longest line that either end takes, in bytes.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Reads one line without its end; `None` at the end of the stream. Fails with
/// [`io::ErrorKind::InvalidData`] on a line that is too long.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(4096));
    loop {
        let available = from.fill_buf()?;
        if available.is_empty() {
            return if line.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = &available[..end.unwrap_or(available.len())];
        append(&mut line, taken)?;
        let used = taken.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// Appends, and leaves no unwiped copy behind when the buffer has to grow.
pub(crate) fn append(line: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) -> io::Result<()> {
    if line.len() + bytes.len() > MAX_LINE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if line.len() + bytes.len() > line.capacity() {
        let capacity = (line.capacity() * 2).max(line.len() + bytes.len());
        let mut grown = Zeroizing::new(Vec::with_capacity(capacity));
        grown.extend_from_slice(line);
        *line = grown;
    }
    line.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_bounded() {
        let mut from = io::Cursor::new(b"one\n\ntwo\nrest".to_vec());
        let mut next = || read(&mut from).map(|line| line.map(|line| line.to_vec()));
        assert_eq!(next().unwrap().unwrap(), b"one");
        assert_eq!(next().unwrap().unwrap(), b"");
        assert_eq!(next().unwrap().unwrap(), b"two");
        assert_eq!(next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        let error = read(&mut io::Cursor::new(long)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
