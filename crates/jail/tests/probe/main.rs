//! For the tests only: `jail-probe PLAN.json` runs a plan's command in a jail and answers it.
//!
//! It plays the broker: every TCP connection gets one line that says where it wanted to go, every
//! DNS datagram comes back as it was. SIGTERM and SIGUSR1 are passed on. The status is the command's.

mod reserve;
mod sys;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, ExitCode, abort};
use std::thread;
use std::time::Duration;

use keyless_jail::{Bounds, Exit, JailError, Jailed, Plan};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::Deserialize;

/// [`Plan`], readable.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Orders {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    working_directory: String,
    hide: Vec<String>,
    show: Vec<String>,
    ca_pem: String,
    uts_name: Option<String>,
    /// End by SIGABRT after this long, to see what is left.
    abort_after_ms: Option<u64>,
    /// Once there is this file, send this signal to the command.
    signal_once: Option<(String, i32)>,
    /// Run it without a jail, for comparison.
    bare: bool,
    /// Directories of the jail's own.
    own_directories: Vec<(String, u32)>,
    /// Whether the host's files can't be changed.
    read_only: bool,
    /// Processes, and bytes in directories of the jail's own.
    bounds: Option<(u64, u64)>,
    /// What is done with a reserve of jails, in this order, instead of running the command once.
    reserve: Vec<reserve::Step>,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            command: vec![],
            environment: vec![("PATH".into(), std::env::var("PATH").unwrap_or_default())],
            working_directory: "/".into(),
            hide: vec![],
            show: vec![],
            ca_pem: String::new(),
            uts_name: None,
            abort_after_ms: None,
            signal_once: None,
            bare: false,
            own_directories: vec![],
            read_only: false,
            bounds: None,
            reserve: vec![],
        }
    }
}

fn main() -> ExitCode {
    keyless_jail::init_if_asked();
    sys::outlive_terminal_signals();
    // As the broker is: it must be able to start a jail nevertheless.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).expect("may be given up");
    let argument = std::env::args().nth(1).expect("a plan");
    if argument == "--check" {
        return match keyless_jail::check() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    let orders: Orders = serde_json::from_str(&argument).expect("a plan in JSON");
    if orders.bare {
        let status = Command::new(&orders.command[0]).args(&orders.command[1..]).status();
        return exit_code(Exit::Code(status.ok().and_then(|status| status.code()).unwrap_or(1)));
    }
    if !orders.reserve.is_empty() {
        return match reserve::play(&orders.reserve, plan(&orders)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    match keyless_jail::spawn(&plan(&orders)) {
        Ok(jailed) => answer(jailed, &orders),
        Err(error) => failed(&error),
    }
}

fn plan(orders: &Orders) -> Plan {
    let own = orders.own_directories.iter();
    Plan {
        command: orders.command.iter().map(OsString::from).collect(),
        environment: orders.environment.iter().map(|(name, value)| (name, value).into()).collect(),
        working_directory: orders.working_directory.clone().into(),
        hide: orders.hide.iter().map(Into::into).collect(),
        show: orders.show.iter().map(Into::into).collect(),
        ca_pem: orders.ca_pem.clone(),
        uts_name: orders.uts_name.clone().map(OsString::from),
        own_directories: own.map(|(path, mode)| (path.into(), *mode)).collect(),
        read_only: orders.read_only,
        bounds: orders.bounds.map(|(processes, bytes)| Bounds { processes, bytes }),
        ..Plan::default()
    }
}

fn answer(jailed: Jailed, orders: &Orders) -> ExitCode {
    let Jailed { sockets, process } = jailed;
    thread::spawn(move || say_destination(&sockets.tcp, "tcp"));
    thread::spawn(move || say_destination(&sockets.dns_tcp, "dns"));
    thread::spawn(move || echo(&sockets.dns_udp));
    if let Some(delay) = orders.abort_after_ms {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(delay));
            abort();
        });
    }
    thread::scope(|scope| {
        if let Some((file, signal)) = &orders.signal_once {
            let process = &process;
            scope.spawn(move || {
                while !Path::new(file).exists() {
                    wait_a_little();
                }
                process.signal(*signal);
            });
        }
        exit_code(process.wait())
    })
}

fn say_destination(listener: &TcpListener, name: &str) {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let destination =
                    keyless_jail::original_destination(&stream).expect("a destination");
                let _ = stream.write_all(format!("{name} {destination}\n").as_bytes());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_a_little(),
            Err(_) => return,
        }
    }
}

fn echo(socket: &UdpSocket) {
    let mut datagram = [0; 1500];
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((length, sender)) => drop(socket.send_to(&datagram[..length], sender)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_a_little(),
            Err(_) => return,
        }
    }
}

fn wait_a_little() {
    thread::sleep(Duration::from_millis(2));
}

/// A death by signal is told as a shell does: 128 and the number.
fn exit_code(exit: Exit) -> ExitCode {
    let code = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            128 + signal
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn failed(error: &JailError) -> ExitCode {
    let _ = writeln!(io::stderr(), "jail-probe: {error}: {error:?}");
    ExitCode::from(match error {
        JailError::CommandNotFound { .. } => 127,
        JailError::CommandNotExecutable { .. } => 126,
        _ => 125,
    })
}
