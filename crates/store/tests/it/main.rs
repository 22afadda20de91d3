//! The store against real files, real processes' worth of connections, and a full disk.

mod audit;
mod file;
mod scene;
