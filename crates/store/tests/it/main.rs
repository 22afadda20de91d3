//! The store against real files and a real server, real processes' worth of connections, and a full disk.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod audit;
mod breaks;
mod codes;
mod contacts;
mod file;
mod keys;
mod marks;
mod nl;
mod passkeys;
mod requests;
mod scene;
mod segments;
mod server;
