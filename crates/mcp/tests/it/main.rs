//! The server at the other end of a pair of streams.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod conversation;
mod over_http;
