//! What a guest is told: by flags, by its environment (the kernel passes `NAME=value` of its command
//! line on to init), by a file. A flag wins over a variable, a variable over the file.

use std::{ffi::OsString, fs, io, path::PathBuf};

use keyless_guest::{Link, VsockAddr};

/// Where the file is looked for when no flag names one.
const DEFAULT_FILE: &str = "/etc/keyless/guest.conf";

/// Each setting: its name as a flag and in the file, and its variable.
const NAMES: &[(&str, &str)] = &[
    ("ca", "EGRESS_CA_CERT"),
    ("capture", "KEYLESS_CAPTURE"),
    ("environment", "KEYLESS_ENVIRONMENT"),
    ("on-exit", "KEYLESS_ON_EXIT"),
    ("placeholders", "KEYLESS_PLACEHOLDERS"),
    ("ports", "EGRESS_PORTS"),
    ("resolv-conf", "KEYLESS_RESOLV_CONF"),
    ("way-out", "KEYLESS_WAY_OUT"),
];

/// What `--help` says.
pub const USAGE: &str = "\
keyless-guest: a microVM guest's only way out

Usage: keyless-guest [OPTIONS] [--] [COMMAND ARGUMENTS...]

  --way-out LINK        vsock:CID:PORT or unix:PATH (default vsock:2:1025)
  --capture HOW         auto, redirect, tun or ports (default auto: the first that the kernel has)
  --ports LIST          for `ports` (default 80,443,8000,8080,4318,9418)
  --ca FILE             a certificate to trust, PEM, put over the system's bundles
  --placeholders FILE   NAME=value lines for the command: what `keyless placeholders` printed
  --environment FILE    where the command's new variables are written, too (default
                        /run/keyless/environment)
  --resolv-conf FILE    written to name 127.0.0.1 (default /etc/resolv.conf; `none`: not written)
  --on-exit WHAT        as process 1: reboot, poweroff or halt (default reboot)
  --config FILE         NAME = VALUE lines, names as above (default /etc/keyless/guest.conf)

Each option is also a variable: EGRESS_PORTS, EGRESS_CA_CERT, KEYLESS_WAY_OUT, KEYLESS_CAPTURE,
KEYLESS_PLACEHOLDERS, KEYLESS_ENVIRONMENT, KEYLESS_RESOLV_CONF, KEYLESS_ON_EXIT.
Without a command it serves until it is ended.";

/// Everything that a guest is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The host's end of the funnel.
    pub way_out: Link,
    /// How connections are taken.
    pub capture: Capture,
    /// The ports of [`Capture::Ports`].
    pub ports: Vec<u16>,
    /// A certificate to trust.
    pub ca: Option<PathBuf>,
    /// The file with placeholders, as variables for the command.
    pub placeholders: Option<PathBuf>,
    /// Where the command's new variables are written.
    pub environment: PathBuf,
    /// The resolver's file; nothing is written when absent.
    pub resolv_conf: Option<PathBuf>,
    /// What the first process does at the end.
    pub on_exit: OnExit,
    /// What is run; nothing when empty.
    pub command: Vec<OsString>,
}

/// How connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The first of the others that the kernel has.
    Auto,
    /// A listener for each port of a list.
    Ports,
    /// nf_tables turns every connection to one listener.
    Redirect,
    /// A TUN device takes every connection, and turns it to one listener.
    Tun,
}

/// What the first process does when the command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// Stops the processor.
    Halt,
    /// Cuts the power (needs ACPI).
    PowerOff,
    /// Resets the machine: how a guest tells Firecracker that it is done.
    Reboot,
}

/// Why settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A value of a setting.
    #[error("{name}: {why}")]
    BadValue {
        /// The setting.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The file.
    #[error("{path}: {source}")]
    File {
        /// The file's path.
        path: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A line of the file.
    #[error("line {number}: {why}")]
    Line {
        /// The line's number, from 1.
        number: usize,
        /// What is wrong.
        why: String,
    },
    /// The last flag has no value.
    #[error("--{0} needs a value")]
    NoValue(String),
    /// No such flag.
    #[error("{0} is not an option; see --help")]
    Unknown(String),
}

impl Settings {
    /// Flags, then variables, then the file.
    pub(crate) fn gather(
        arguments: &[OsString],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let (flags, command) = read_flags(arguments)?;
        let file = read_config(flag(&flags, "config"))?;
        let mut settings = Self::default();
        for (name, variable_name) in NAMES {
            let said = flag(&flags, name).map(str::to_owned);
            let said = said.or_else(|| variable(variable_name).filter(|text| !text.is_empty()));
            if let Some(value) = said.as_deref().or_else(|| flag(&file, name)) {
                settings.set(name, value).map_err(|why| bad_value(name, why))?;
            }
        }
        settings.command = command;
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ca" => self.ca = Some(value.into()),
            "capture" => self.capture = Capture::parse(value)?,
            "environment" => self.environment = value.into(),
            "on-exit" => self.on_exit = OnExit::parse(value)?,
            "placeholders" => self.placeholders = Some(value.into()),
            "ports" => self.ports = parse_ports(value)?,
            "resolv-conf" => self.resolv_conf = (value != "none").then(|| value.into()),
            "way-out" => self.way_out = value.parse::<Link>()?,
            _ => unreachable!("NAMES has no other"),
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            way_out: Link::Vsock(VsockAddr::EGRESS),
            capture: Capture::Auto,
            // Source: spec/egress-secret-proxy.md, update of 2026-07-01.
            ports: vec![80, 443, 8000, 8080, 4318, 9418],
            ca: None,
            placeholders: None,
            environment: "/run/keyless/environment".into(),
            resolv_conf: Some("/etc/resolv.conf".into()),
            on_exit: OnExit::Reboot,
            command: Vec::new(),
        }
    }
}

impl Capture {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "ports" => Ok(Self::Ports),
            "redirect" => Ok(Self::Redirect),
            "tun" => Ok(Self::Tun),
            _ => Err("not auto, redirect, tun or ports".to_owned()),
        }
    }
}

impl OnExit {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "halt" => Ok(Self::Halt),
            "poweroff" => Ok(Self::PowerOff),
            "reboot" => Ok(Self::Reboot),
            _ => Err("not reboot, poweroff or halt".to_owned()),
        }
    }
}

type Said = Vec<(String, String)>;

/// `--name value` and `--name=value`, and the command from `--` or the first other word on: on a
/// kernel's command line there is but one `--`, and the kernel takes it.
fn read_flags(arguments: &[OsString]) -> Result<(Said, Vec<OsString>), SettingsError> {
    let mut flags = Said::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.as_slice().first() {
        let text = argument.to_string_lossy();
        let Some(name) = text.strip_prefix("--") else { break };
        rest.next();
        if name.is_empty() {
            break;
        }
        let unknown = || SettingsError::Unknown(text.clone().into_owned());
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        if name != "config" && !is_setting(name) {
            return Err(unknown());
        }
        let value = value.or_else(|| rest.next().map(|next| next.to_string_lossy().into_owned()));
        let value = value.ok_or_else(|| SettingsError::NoValue(name.to_owned()))?;
        flags.push((name.to_owned(), value));
    }
    Ok((flags, rest.cloned().collect()))
}

/// What was said last.
fn flag<'a>(said: &'a Said, name: &str) -> Option<&'a str> {
    said.iter().rev().find(|(said, _)| said == name).map(|(_, value)| value.as_str())
}

fn read_config(named: Option<&str>) -> Result<Said, SettingsError> {
    let path = named.unwrap_or(DEFAULT_FILE);
    match fs::read_to_string(path) {
        Ok(text) => read_file(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(Said::new()),
        Err(source) => Err(SettingsError::File { path: path.to_owned(), source }),
    }
}

/// Reads `name = value` lines; empty ones and those with `#` in front are nothing. Each name may
/// stand once.
pub fn read_file(text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let mut said = Said::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |why: String| SettingsError::Line { number, why };
        let (name, value) =
            line.split_once('=').ok_or_else(|| fault("not `name = value`".to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if !is_setting(name) {
            return Err(fault(format!("{name} is not a setting")));
        }
        if flag(&said, name).is_some() {
            return Err(fault(format!("{name} is said twice")));
        }
        said.push((name.to_owned(), value.to_owned()));
    }
    Ok(said)
}

fn is_setting(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// Numbers with commas or spaces between them; each once.
fn parse_ports(text: &str) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(port) if port != 0 && port != 53 => ports.push(port),
            _ => return Err(format!("{word} is no port from 1 to 65535 (53 is DNS)")),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() { Err("no port".to_owned()) } else { Ok(ports) }
}

fn bad_value(name: &str, why: String) -> SettingsError {
    SettingsError::BadValue { name: name.to_owned(), why }
}

#[cfg(test)]
mod tests;
