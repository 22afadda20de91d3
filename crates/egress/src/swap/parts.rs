//! Lengths that are said inside of a multipart body: `Content-Length` in a part's own head, or in that of a message within
//! the part, as in a batch of requests. A value longer or shorter than its placeholder makes them wrong.
//!
//! Where the body is there as a whole they are set right; where it streams they have left by then, and the swap is refused.

use core::ops::Range;

use http::{HeaderMap, header};
use keyless_core::{Code, Error};
use memchr::memchr_iter;
use zeroize::Zeroizing;

use crate::media_type::media_type;

const NAME: &[u8] = b"content-length:";
/// Behind the last part's delimiter.
const CLOSE: &[u8] = b"--";
/// More of them are set right in no body.
const MOST: usize = 1_000;

/// What ends the parts of a multipart body: `--` and its boundary (RFC 2046, section 5.1.1).
pub(super) struct Delimiter(Vec<u8>);

/// A length that is said.
struct Length {
    digits: Range<usize>,
    /// What is behind its head, up to the end of the part.
    body: Range<usize>,
}

/// Whether the part that is under way has said a length.
pub(super) struct Watch {
    delimiter: Delimiter,
    /// How the line begins.
    line: Vec<u8>,
    has_said: bool,
}

impl Delimiter {
    /// That of a body with this head; none where it is not multipart.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        if !media_type(headers).starts_with(b"multipart/") {
            return None;
        }
        let said = headers.get(header::CONTENT_TYPE)?.as_bytes();
        let mut parameters = said.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
        let boundary = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_at_checked(b"boundary=".len())?;
            name.eq_ignore_ascii_case(b"boundary=").then_some(value)
        })?;
        let bare = boundary.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        Some(Self([b"--", bare.unwrap_or(boundary)].concat()))
    }

    /// `after`, which `before` became, with its lengths set right where they were right before.
    pub(super) fn set_right(
        &self,
        before: &[u8],
        after: Zeroizing<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let (old, new) = (self.lengths(before), self.lengths(&after));
        if old.len() != new.len() || old.len() > MOST {
            let words = "the lengths that its parts say could not be set right";
            return Err(Error::with(Code::BodyDigest, words.into()));
        }
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        // From the end: what is within another's part counts in its length.
        for (old, new) in old.iter().zip(new).rev() {
            let Some((said, beyond)) = old.said(before) else { continue };
            let within = edits.iter().filter(|(digits, _)| new.body.contains(&digits.start));
            let (longer, shorter) = within.fold((0, 0), |(longer, shorter), (digits, number)| {
                (longer + number.len(), shorter + digits.len())
            });
            let length = (new.body.len() + longer).saturating_sub(shorter + beyond);
            if length != said {
                edits.push((new.digits, length.to_string()));
            }
        }
        if edits.is_empty() {
            return Ok(after);
        }
        let longer: usize = edits.iter().map(|(_, number)| number.len()).sum();
        let mut right = Zeroizing::new(Vec::with_capacity(after.len() + longer));
        let mut done = 0;
        for (digits, number) in edits.iter().rev() {
            right.extend_from_slice(&after[done..digits.start]);
            right.extend_from_slice(number.as_bytes());
            done = digits.end;
        }
        right.extend_from_slice(&after[done..]);
        Ok(right)
    }

    /// All that are said, in their order.
    fn lengths(&self, text: &[u8]) -> Vec<Length> {
        let (mut found, mut in_head, mut in_part) = (Vec::new(), Vec::new(), Vec::new());
        let mut begin = 0;
        let ends = memchr_iter(b'\n', text).map(|at| at + 1).chain([text.len()]);
        for end in ends {
            let line = &text[begin..end];
            if self.is(line) {
                let end = begin - line_end(&text[..begin]);
                let ended = in_part
                    .drain(..)
                    .map(|(digits, from): (_, usize)| Length { digits, body: from.min(end)..end });
                found.extend(ended);
                in_head.clear();
            } else if line.trim_ascii().is_empty() {
                in_part.extend(in_head.drain(..).map(|digits| (digits, end)));
            } else if let Some(digits) = digits(line) {
                in_head.push(begin + digits.start..begin + digits.end);
            }
            begin = end;
        }
        found
    }

    /// Whether a line, or what is there of it, is this: another may begin so, as that of a body within a part.
    fn is(&self, line: &[u8]) -> bool {
        let rest = line.strip_prefix(&*self.0);
        let rest = rest.map(|rest| rest.strip_prefix(CLOSE).unwrap_or(rest));
        rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    }

    /// Watches a body that streams.
    pub(super) fn watch(self) -> Watch {
        Watch { delimiter: self, line: Vec::new(), has_said: false }
    }
}

impl Length {
    /// The number, if it says how long the rest of the part is, and how many line ends it leaves out.
    fn said(&self, text: &[u8]) -> Option<(usize, usize)> {
        let said = str::from_utf8(&text[self.digits.clone()]).ok()?.parse().ok()?;
        let body = &text[self.body.clone()];
        let beyond = body.get(said..)?;
        beyond.iter().all(|byte| b"\r\n".contains(byte)).then_some((said, beyond.len()))
    }
}

impl Watch {
    /// Looks at what comes next.
    pub(super) fn look(&mut self, text: &[u8]) {
        let most = (self.delimiter.0.len() + CLOSE.len()).max(NAME.len());
        let mut begin = 0;
        for end in memchr_iter(b'\n', text).map(|at| at + 1).chain([text.len()]) {
            let line = &text[begin..end];
            let room = most.saturating_sub(self.line.len());
            self.line.extend_from_slice(&line[..line.len().min(room)]);
            if line.ends_with(b"\n") && self.delimiter.is(&self.line) {
                self.has_said = false;
            } else if starts_with_name(&self.line) {
                self.has_said = true;
            }
            if line.ends_with(b"\n") {
                self.line.clear();
            }
            begin = end;
        }
    }

    /// Judges one swap in the part.
    pub(super) fn check(&self, placeholder: usize, value: usize) -> Result<(), Error> {
        if !self.has_said || placeholder == value {
            return Ok(());
        }
        let words = "its part says its own Content-Length, which has left by then: leave that away, or send the body with a length, of up to 8 MiB";
        Err(Error::with(Code::BodyDigest, words.into()))
    }
}

fn starts_with_name(line: &[u8]) -> bool {
    line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// Where a line that says a length has its number.
fn digits(line: &[u8]) -> Option<Range<usize>> {
    let rest = starts_with_name(line).then(|| &line[NAME.len()..])?;
    let from = line.len() - rest.trim_ascii_start().len();
    let number = line[from..].trim_ascii_end();
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    is_number.then(|| from..from + number.len())
}

/// How many bytes the line end takes that `text` ends with.
fn line_end(text: &[u8]) -> usize {
    match text {
        [.., b'\r', b'\n'] => 2,
        [.., b'\n'] => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delimiter() -> Delimiter {
        Delimiter(b"--x".to_vec())
    }

    fn set_right(before: &str, placeholder: &str, value: &str) -> Option<String> {
        let after = Zeroizing::new(before.replace(placeholder, value).into_bytes());
        let right = delimiter().set_right(before.as_bytes(), after).ok()?;
        Some(String::from_utf8(right.to_vec()).unwrap())
    }

    #[test]
    fn the_boundary_is_read() {
        let of = |text: &str| {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, text.parse().unwrap())]);
            Delimiter::of(&headers).map(|delimiter| String::from_utf8(delimiter.0).unwrap())
        };
        for (text, expected) in [
            ("multipart/form-data; boundary=x", Some("--x")),
            ("Multipart/Mixed; charset=utf-8;Boundary=\"a b\"", Some("--a b")),
            ("multipart/form-data", None),
            ("text/plain; boundary=x", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn lengths_that_were_right_stay_right() {
        let part = |length: &str, text: &str| {
            format!("--x\r\nA: b\r\nCONTENT-length: {length}\r\n\r\n{text}\r\n")
        };
        let quoted = |length: &str, text: &str| {
            format!("--x\r\n\r\nContent-Length:{length}\nC: d\n\n{text}\r\n")
        };
        for (before, after) in [
            (part("3", "a@b"), part("12", "along-valueb")),
            (part("1", "@"), part("10", "long-value")),
            (quoted("1", "@"), quoted("10", "long-value")),
            // A body within the part, whose boundary begins as the outer one.
            (part("8", "--xy\r\n@b"), part("17", "--xy\r\nlong-valueb")),
            // What was wrong is nobody's.
            (part("9", "@"), part("9", "long-value")),
            (part("0", "@"), part("0", "long-value")),
            (part("", "@"), part("", "long-value")),
            // A line end of the part's own.
            (part("1", "@\r\n"), part("10", "long-value\r\n")),
        ] {
            let others =
                |middle: &str| format!("{}{middle}{}--x--", part("2", "ab"), part("0", ""));
            let right = set_right(&others(&before), "@", "long-value");
            assert_eq!(right, Some(others(&after)), "{before}");
        }
        assert_eq!(set_right(&part("1", "@"), "@", "\r\nContent-Length: 5\r\n\r\n--x"), None);
    }

    /// As batches of requests have it: one length counts the other's digits.
    #[test]
    fn a_length_within_a_part_counts_in_the_parts_own() {
        let whole = |inner: &str, text: &str| {
            let message = format!("POST /a HTTP/1.1\r\nContent-Length: {inner}\r\n\r\n{text}");
            format!("--x\r\nContent-Length: {}\r\n\r\n{message}\r\n--x--", message.len())
        };
        let right = set_right(&whole("1", "@"), "@", "long-value");
        assert_eq!(right, Some(whole("10", "long-value")));
    }

    #[test]
    fn a_length_that_has_left_is_seen_in_any_pieces() {
        let said = b"--x\r\nA: b\r\ncontent-LENGTH: 3\r\n\r\nabc";
        let unsaid = b"\r\n--x\r\nA: content-length: 3\r\n\r\nContent-length\r\n";
        for size in 1..said.len() {
            let mut watch = delimiter().watch();
            for (text, is_refused) in [(&said[..], true), (unsaid, false)] {
                text.chunks(size).for_each(|piece| watch.look(piece));
                assert_eq!(watch.check(1, 2).is_err(), is_refused, "{size}");
                assert!(watch.check(1, 1).is_ok());
            }
            for piece in [&said[..], b"\r\n--xy\r\nb"].concat().chunks(size) {
                watch.look(piece);
            }
            assert!(watch.check(1, 2).is_err(), "{size}");
        }
    }
}
