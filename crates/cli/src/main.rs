//! The `keyless` binary: arguments, words and tables. No decisions are made here.

mod args;
mod commands;
mod demo;
mod prompt;
mod rows;
mod ui;
mod visible;

fn main() -> std::process::ExitCode {
    keyless_daemon::settle_signals();
    // A jail's init is this same executable, started again.
    keyless_daemon::init_if_asked();
    commands::main()
}
