//! `keyless-guest`: see the library, and docs/guest.md.

fn main() -> std::process::ExitCode {
    keyless_init::main()
}
