//! Keyless's chores: `cargo xtask test|bench|fuzz|macos|setup`.
//!
//! Orchestration only: each chore calls cargo and other tools, and says what it calls. What CI runs is
//! `cargo xtask test` and nothing more.

mod bench;
mod chores;
mod fuzz;
mod macos;
mod setup;
mod shell;
mod test;

fn main() -> std::process::ExitCode {
    chores::run()
}
