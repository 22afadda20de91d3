//! The vault as a whole: real files, real kills, a full disk, and hands that had no key.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod copies;
mod crash;
mod damage;
mod disk;
mod life;
mod mounted;
mod relock;
mod rotation;
mod scene;
mod sentinel;
mod tamper;
mod writers;
