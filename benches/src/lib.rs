//! What the benchmarks share: figures and tables, texts, the processes under measurement.
//!
//! The benchmarks themselves are the programs in `src/bin`; `cargo xtask bench` runs them all and
//! appends what they print to RESULTS.md. Every figure stands beside a baseline that was measured in
//! the same run, in interleaved rounds, and the ratio is the result: absolute rates say more about
//! the machine. The budgets are those of design.md, section 7.

// Figures
mod figures;
mod table;
mod text;

// Processes: each part under measurement has its own, so that memory and CPU time can be told apart
mod counter;
mod process;
mod roles;

// The parts: origin, relay and Keyless, and the client that loads them
mod client;
mod course;
mod keyless;
mod origin;
mod pack_repo;
mod payload;
mod peers;
mod relay;

/// An open tunnel, and the kinds of load on it.
pub use client::{Load, Loaded, Transfer, Tunnel};
/// What counts a process's instructions.
pub use counter::Counter;
/// What every subject runs through, and what it came to.
pub use course::{Measured, Subject, fresh_rounds, rounds, watched_transfer};
/// Medians and percentiles, and how to write them.
pub use figures::{decimals, median, megabytes, paired_ratio, percentile};
/// The built binary, and its proxy with so many secrets.
pub use keyless::{Binary, Fleet, Keyless};
/// Config repos for the pack.
pub use pack_repo::{PackRepo, Shape};
/// Other proxies that swap, where they are installed.
pub use peers::Peer;
/// A child process and what the kernel says of it; commands that only have to succeed.
pub use process::{Child, Usage, finish, private, thread_time};
/// Every part in place, and the ways through it.
pub use roles::{ORIGIN, Route, Stage, name, play_if_asked};
/// A Markdown table.
pub use table::Table;
/// Texts with a seed, so that every run has the same.
pub use text::{Random, base64, binary, json, log};

/// Any error; a benchmark that can't run says why and ends.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a benchmark can't run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
