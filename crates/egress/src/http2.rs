//! HTTP/2 on both sides, over `h2` itself: hyper's own leaves no way for interim answers.
//!
//! The server hands out requests and sends what comes of them, the client the other way round; what
//! a message says is for others. Field names that HTTP/2 has no place for are left out of whatever is sent.

mod alive;
mod client;
mod frame_heads;
mod incoming;
mod keep;
mod overdue;
mod pipe;
mod server;
mod tunnel;
mod unfit;

use std::error::Error as StdError;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::combinators::UnsyncBoxBody;

pub use self::overdue::is_head_under_way;
pub(crate) use self::{
    client::{Client, Failure},
    incoming::Incoming,
    server::{Hints, serve},
    tunnel::tunnel,
};

/// A body to be sent.
type Outgoing = UnsyncBoxBody<Bytes, Box<dyn StdError + Send + Sync>>;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Whether a field is about one HTTP/1 connection, and not about the message (RFC 9113, section 8.2.2).
pub(crate) fn is_of_http1(name: &HeaderName) -> bool {
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::UPGRADE
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
}

/// Leaves out what HTTP/2 has no place for.
fn fit(headers: &mut HeaderMap) {
    while let Some(name) = headers.keys().find(|name| is_of_http1(name)).cloned() {
        headers.remove(name);
    }
    if headers.get(header::TE).is_some_and(|te| te != "trailers") {
        headers.remove(header::TE);
    }
}

/// Says how long a body is, where nobody has said so yet.
fn say_length(headers: &mut HeaderMap, length: Option<u64>) {
    if let Some(length) = length {
        headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
}

/// The length that a head says, if all its fields say the same.
fn said_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers
        .get_all(header::CONTENT_LENGTH)
        .iter()
        .map(|value| value.to_str().ok()?.parse::<u64>().ok());
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}
