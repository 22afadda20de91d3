//! Keyless's chores: `cargo xtask test|bench|fuzz|macos|setup|aws-models`.
//!
//! Orchestration only: each chore calls cargo and other tools, and says what it calls. What CI runs is
//! `cargo xtask test` and nothing more.

mod aws_models;
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
