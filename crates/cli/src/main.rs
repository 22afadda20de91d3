//! The `keyless` binary: arguments, words and tables. No decisions are made here.

mod args;
mod commands;
mod demo;
mod prompt;
mod ui;

/// Every request's buffers are made on one thread and often freed on another, where the system's
/// allocator waits for locks; this one does not (`cargo xtask bench --only proxy`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // A jail's init is this same executable, started again.
    keyless_daemon::init_if_asked();
    commands::main()
}
