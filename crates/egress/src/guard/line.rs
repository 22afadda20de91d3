//! Finds the end of a head, and refuses line ends that readers disagree on.

use keyless_core::Error;

use super::head::{NO_HEAD, malformed};

/// The most bytes of empty lines before a request; a browser of old sent one line after a body.
const MAX_EMPTY: usize = 64;

/// The length of the head at the beginning of `bytes`, its empty line included; `None` while it is
/// not complete. `scanned` remembers how far earlier calls have looked. Empty lines before the
/// request line belong to the head (RFC 9112, section 2.2).
/// What can't begin one is refused at once: who speaks another protocol waits for an answer.
pub(super) fn find_head_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Error> {
    let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    if empty > MAX_EMPTY || bytes.get(empty).is_some_and(|byte| !byte.is_ascii_graphic()) {
        return Err(malformed(NO_HEAD));
    }
    for at in memchr::memchr_iter(b'\n', &bytes[*scanned..]) {
        let end = *scanned + at + 1;
        if !bytes[..end].ends_with(b"\r\n") {
            return Err(malformed("a line does not end with CR and LF"));
        }
        if end > empty && bytes[..end].ends_with(b"\r\n\r\n") {
            return Ok(Some(end));
        }
    }
    *scanned = bytes.len();
    Ok(None)
}

#[cfg(test)]
mod tests {
    use keyless_core::Code;

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
            assert_eq!(find_head_end(bytes, &mut 0).unwrap_err().code(), Code::BadRequest);
        }
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_byte() {
        for first in [0x00, 0x04, 0x05, 0x16, b' ', 0x7f, 0x80, 0xff] {
            assert!(find_head_end(&[first], &mut 0).is_err(), "{first:#x}");
        }
        assert_eq!(find_head_end(b"\r\nG", &mut 0), Ok(None));
    }

    #[test]
    fn empty_lines_before_a_request_are_few() {
        let after = |lines: usize| format!("{}G / HTTP/1.1\r\n\r\n", "\r\n".repeat(lines));
        for lines in 0..=32 {
            let text = after(lines);
            assert_eq!(find_head_end(text.as_bytes(), &mut 0), Ok(Some(text.len())), "{lines}");
        }
        assert!(find_head_end(&after(33).as_bytes()[..66], &mut 0).is_err());
    }
}
