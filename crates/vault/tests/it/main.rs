//! The vault as a whole: real files, real kills, a full disk, and hands that had no key.

mod crash;
mod disk;
mod life;
mod scene;
mod sentinel;
mod tamper;
mod writers;
