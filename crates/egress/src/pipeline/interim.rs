//! Interim answers (103 Early Hints and the like) on their way to the client, scrubbed.
//!
//! Over HTTP/1 hyper's servers can't send them, so the guard writes them between answers. 100 is not
//! among them: the server sends its own as soon as the body is asked for.
//! Source: reference/egress.md (c) 23; (e) 66 and 67.

use std::{fmt::Write as _, sync::Arc};

use http::{HeaderMap, StatusCode, Version};

use super::{Task, hop};
use crate::{guard::GuardHandle, http2::Hints, scrub};

/// Where the interim answers to one request are sent.
#[derive(Clone)]
pub(super) enum Line {
    Http1(GuardHandle),
    Http2(Hints),
}

/// Whether this client understands interim answers.
pub(super) fn is_understood(version: Version) -> bool {
    version >= Version::HTTP_11
}

/// Passes the interim answers to a request on.
pub(super) fn forward(task: &Task<'_>, line: &Line) -> impl Fn(StatusCode, &HeaderMap) + use<> {
    let (line, table) = (line.clone(), Arc::clone(&task.table));
    let (authority, taken) = (task.authority.clone(), task.account.taken());
    move |status, headers| {
        // 101 is an answer, not an interim one.
        if [StatusCode::CONTINUE, StatusCode::SWITCHING_PROTOCOLS].contains(&status) {
            return;
        }
        let mut headers = headers.clone();
        hop::strip_response(&mut headers);
        if hop::settle_length(status, &mut headers).is_err() {
            return;
        }
        if scrub::scrub_headers(&table, &authority, &mut headers, &taken).is_ok() {
            line.send(status, headers);
        }
    }
}

impl Line {
    fn send(&self, status: StatusCode, headers: HeaderMap) {
        match self {
            Self::Http1(guard) => guard.write_interim(&head_of(status, &headers)),
            Self::Http2(hints) => hints.send(status, headers),
        }
    }
}

fn head_of(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let mut line = String::new();
    let reason = status.canonical_reason().unwrap_or("Interim");
    write!(line, "HTTP/1.1 {} {reason}\r\n", status.as_u16()).expect("a String takes anything");
    let mut head = line.into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_whole() {
        let headers = HeaderMap::from_iter([(http::header::LINK, "</a>".parse().unwrap())]);
        let head = head_of(StatusCode::EARLY_HINTS, &headers);
        assert_eq!(head, b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
    }
}
