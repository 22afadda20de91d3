//! The `keyless` binary: arguments, words and tables. No decisions are made here.

mod args;
mod commands;
mod demo;
mod prompt;
mod ui;

fn main() -> std::process::ExitCode {
    // A jail's init is this same executable, started again.
    keyless_daemon::init_if_asked();
    commands::main()
}
