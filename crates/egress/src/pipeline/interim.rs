//! Interim answers (103 Early Hints and the like) on their way to an HTTP/1 client.
//!
//! hyper's servers can't send them, so the guard writes them between answers. 100 is not among
//! them: hyper sends its own as soon as the body is asked for. HTTP/2 clients get none.
//! Source: reference/egress.md (c) 23; (e) 66 and 67.

use std::{fmt::Write as _, sync::Arc};

use http::{HeaderMap, Request, StatusCode, Version};

use super::{Task, hop};
use crate::{guard::GuardHandle, pool::OutgoingBody, scrub};

/// Has the interim answers to `request` forwarded, scrubbed.
pub(super) fn forward(task: &Task<'_>, request: &mut Request<OutgoingBody>, guard: &GuardHandle) {
    let (guard, table) = (guard.clone(), Arc::clone(&task.table));
    let authority = task.authority.clone();
    hyper::ext::on_informational(request, move |response| {
        // 101 is an answer, not an interim one.
        let own = [StatusCode::CONTINUE, StatusCode::SWITCHING_PROTOCOLS];
        if own.contains(&response.status()) {
            return;
        }
        let mut headers = response.headers().clone();
        hop::strip_response(&mut headers);
        scrub::scrub_headers(&table, &authority, &mut headers);
        guard.write_interim(&head_of(response.status(), &headers));
    });
}

/// Whether this client understands interim answers.
pub(super) fn is_understood(version: Version) -> bool {
    version == Version::HTTP_11
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
