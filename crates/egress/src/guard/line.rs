//! Finds the end of a head, and refuses line ends that readers disagree on.

use keyless_core::Code;

/// The length of the head at the beginning of `bytes`, its empty line included; `None` while it is
/// not complete. `scanned` remembers how far earlier calls have looked. Empty lines before the
/// request line belong to the head (RFC 9112, section 2.2).
pub(super) fn find_head_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Code> {
    for at in memchr::memchr_iter(b'\n', &bytes[*scanned..]) {
        let end = *scanned + at + 1;
        if !bytes[..end].ends_with(b"\r\n") {
            return Err(Code::BadRequest);
        }
        let blank = bytes[..end].ends_with(b"\r\n\r\n");
        if blank && bytes[..end].iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
            return Ok(Some(end));
        }
    }
    *scanned = bytes.len();
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_empty_line_however_it_arrives() {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nrest";
        let mut scanned = 0;
        for end in 0..28 - 1 {
            let found = find_head_end(&head[..end], &mut scanned).unwrap();
            assert_eq!(found, (end >= 27).then_some(27), "{end}");
        }
        assert_eq!(find_head_end(head, &mut 0), Ok(Some(27)));
    }

    #[test]
    fn bare_line_feeds_are_refused() {
        for bytes in [&b"GET / HTTP/1.1\nhost: a\r\n\r\n"[..], b"\nGET", b"GET / HTTP/1.1\r\n\n"] {
            assert_eq!(find_head_end(bytes, &mut 0), Err(Code::BadRequest));
        }
    }
}
