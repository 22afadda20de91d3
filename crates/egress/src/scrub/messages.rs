//! Where the messages of a stream end, in formats that say how long each is: gRPC and Connect, and
//! AWS's event streams.
//!
//! Who waits for a message must not wait for the next one, so nothing is held back at its end. A
//! stream that breaks the format is one without ends.

use http::HeaderMap;

use crate::media_type::media_type;

/// The messages of one stream, as far as it was read.
pub(super) struct Messages {
    format: Format,
    head: [u8; 5],
    /// How much of the head is there.
    read: usize,
    /// What is still to come of the message; `None` within a head.
    left: Option<u64>,
    broken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Flags, and four bytes with the length of what follows.
    Envelopes,
    /// Four bytes with the length of all, theirs included, which is no less than 16.
    Events,
}

impl Messages {
    /// None where the content type names no such format.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let media_type = media_type(headers);
        let is = |prefix: &[u8]| media_type.starts_with(prefix);
        let is_grpc = is(b"application/grpc") && !is(b"application/grpc-web-text");
        let format = if is(b"application/vnd.amazon.eventstream") {
            Format::Events
        } else if is_grpc || is(b"application/connect+") {
            Format::Envelopes
        } else {
            return None;
        };
        Some(Self { format, head: [0; 5], read: 0, left: None, broken: false })
    }

    /// Reads on to the end of the message: how much of `bytes` belongs to it, or `None` where it
    /// does not end there.
    pub(super) fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            if self.broken {
                return None;
            }
            let Some(left) = self.left else {
                let wanted = self.format.head_length() - self.read;
                let taken = wanted.min(bytes.len() - at);
                self.head[self.read..self.read + taken].copy_from_slice(&bytes[at..at + taken]);
                (self.read, at) = (self.read + taken, at + taken);
                if taken < wanted {
                    return None;
                }
                self.left = self.format.length(self.head);
                self.broken = self.left.is_none();
                continue;
            };
            let taken = left.min((bytes.len() - at) as u64);
            self.left = Some(left - taken);
            at += usize::try_from(taken).unwrap_or(usize::MAX);
            if left > taken {
                return None;
            }
            (self.read, self.left) = (0, None);
            return Some(at);
        }
    }
}

impl Format {
    fn head_length(self) -> usize {
        match self {
            Self::Envelopes => 5,
            Self::Events => 4,
        }
    }

    /// What follows a head; `None` where it is no head.
    fn length(self, head: [u8; 5]) -> Option<u64> {
        let [first, second, third, fourth, fifth] = head;
        match self {
            // Compressed, the end of a Connect stream, trailers of gRPC-Web.
            Self::Envelopes => (first & !0x83 == 0)
                .then(|| u32::from_be_bytes([second, third, fourth, fifth]).into()),
            Self::Events => {
                let whole = u32::from_be_bytes([first, second, third, fourth]);
                (whole >= 16).then(|| u64::from(whole - 4))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    /// Where messages end in `bytes`, read in pieces of `size`.
    fn ends(content_type: &'static str, bytes: &[u8], size: usize) -> Vec<usize> {
        let content_type = HeaderValue::from_static(content_type);
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]);
        let Some(mut messages) = Messages::of(&headers) else { return Vec::new() };
        let (mut ends, mut before) = (Vec::new(), 0);
        for piece in bytes.chunks(size) {
            let mut at = 0;
            while let Some(end) = messages.end_in(&piece[at..]) {
                at += end;
                ends.push(before + at);
            }
            before += piece.len();
        }
        ends
    }

    #[test]
    fn ends_are_found_in_any_pieces() {
        let calls = b"\0\0\0\0\x03abc\x01\0\0\0\0\0\0\0\0\x02de";
        let events = b"\0\0\0\x10............\0\0\0\x11.............";
        for size in 1..40 {
            assert_eq!(ends("application/grpc+proto", calls, size), [8, 13, 20]);
            assert_eq!(ends("application/vnd.amazon.eventstream", events, size), [16, 33]);
        }
    }

    #[test]
    fn what_is_no_such_stream_has_no_ends() {
        assert!(ends("application/grpc", b"{\"a\":\"b\"}\0\0\0\0\0", 3).is_empty());
        assert!(ends("application/vnd.amazon.eventstream", b"\0\0\0\x01....", 3).is_empty());
        assert!(ends("text/plain", b"\0\0\0\0\0", 3).is_empty());
    }
}
