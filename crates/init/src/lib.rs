//! `keyless-guest`: runs as, or under, the init of a microVM guest, and is its only way out.
//!
//! It joins what other rooms make: sockets that take every connection (`jail`'s network, or one
//! listener for each port of a list), and the funnel that carries them on by name (`guest`), over vsock
//! to the host. Around that: what an init does, the session's CA in the trust stores, an environment of
//! placeholders, one command. There is no TLS and no secret in this process, nor in this machine.
//! Source: spec/egress-secret-proxy.md, architecture and update; docs/guest.md.
//!
//! ```text
//!  settings ──► machine (mounts, resolv.conf) ──► trust ──► capture ──► funnel ──► harness
//!  flags, environment,                                      redirect    DNS, TCP   the command, signals,
//!  a file                                                   tun, ports  vsock      orphans, the end
//! ```

// What is wanted
mod settings;

// What is made
mod capture;
mod environment;
mod machine;

// What is run
mod harness;

use std::{ffi::OsString, fmt, io, process::ExitCode, sync::Arc};

use keyless_guest::{DEFAULT_CONNECTION_LIMIT, Funnel, PreambleCarrier};

use self::{capture::Captured, harness::Ended, machine::Resolver};
/// Reads flags, environment and file; for the binary, and a fuzz target.
pub use settings::{
    Capture, OnExit, Settings, SettingsError, USAGE, read_file as read_settings_file,
};

/// Why a guest did not come up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("another keyless-guest has this machine's connections")]
    Taken,
    #[error("{what}: {source}")]
    Step { what: String, source: io::Error },
}

/// Runs the program; gives its exit status.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let first = machine::is_first_process();
    if first {
        // Settings may stand in files, and the kernel mounts nothing.
        machine::mount_kernel_file_systems();
    }
    let settings = Settings::gather(&arguments, |name| std::env::var(name).ok());
    let on_exit = settings.as_ref().map_or(OnExit::Reboot, |settings| settings.on_exit);
    let ended = settings.map_err(Fault::from).and_then(|settings| serve(&settings));
    let ended = ended.unwrap_or_else(|fault| {
        log(format_args!("{fault}"));
        Ended::Code(1)
    });
    if first {
        // A first process that ends is a kernel that panics.
        log(format_args!("the command {ended}"));
        machine::end(on_exit);
    }
    ended.into()
}

/// Sets everything up, and serves until the command has ended.
fn serve(settings: &Settings) -> Result<Ended, Fault> {
    let variables = environment::prepare(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Fault::step("the runtime"))?;
    runtime.block_on(async {
        let Captured { sockets, destination, words, network: _network } =
            capture::set_up(settings)?;
        // Before the command, and when all else is ready: what fails leaves the machine its resolver.
        let _resolver = Resolver::name(settings)?;
        log(format_args!("{}; way out: {}", words, settings.way_out));
        let carrier = Arc::new(PreambleCarrier::new(settings.way_out.clone()));
        let funnel = Funnel::new(sockets, destination, carrier)
            .map_err(Fault::step("the funnel's sockets"))?
            .with_connection_limit(harness::room_for_connections(DEFAULT_CONNECTION_LIMIT));
        tokio::select! {
            ended = harness::run(&settings.command, &variables) => ended,
            never = funnel.serve() => match never {},
        }
    })
}

/// One line on stderr, which is the console in a guest.
fn log(words: fmt::Arguments<'_>) {
    eprintln!("keyless-guest: {words}");
}

impl Fault {
    /// For `map_err`.
    fn step(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Step { what, source }
    }
}
