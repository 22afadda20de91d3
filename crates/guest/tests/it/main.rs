//! The funnel over real sockets on loopback, where 127/8 is local without any namespace.

#![expect(clippy::unwrap_used, reason = "a scene that can't be set up fails its test")]

mod dns;
mod scene;
mod tunnel;
