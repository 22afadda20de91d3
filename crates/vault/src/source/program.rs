//! Runs a program of another secret manager: never through a shell, by its absolute path, with
//! arguments alone, an environment that is named, and a limit on what it writes. Who gives up on it kills it.

use std::{
    fs, io,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::OnceLock,
};

use data_encoding::HEXLOWER;
use keyless_core::SafeText;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
    task::spawn_blocking,
};
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{SourceFault, State},
    granted,
    supply::{Setting, Supply},
};
use crate::router::{SourceType, optional};

/// The bound on open files with which programs run, where it is not that of this process.
static OPEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Has programs of sources run with this bound on open files, whatever that of this process becomes. The first word holds.
pub fn run_programs_with_open_files(limit: Rlimit) {
    let _ = OPEN_FILES.set(limit);
}

const MAX_OUTPUT: usize = 1024 * 1024;
/// Variables that such programs need to find their user and a person.
const INHERITED: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GPG_TTY",
    "HOME",
    "LANG",
    "LC_ALL",
    "PATH",
    "USER",
    "WAYLAND_DISPLAY",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A program, as the operator allowed it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    checksum: Option<String>,
    environment: Vec<(String, Setting)>,
}

/// As soon as it has begun: what comes between fork and exec can't be had without `unsafe`.
#[cfg(target_os = "linux")]
fn lower_open_files(pid: Option<Pid>) {
    if let Some((limit, pid)) = OPEN_FILES.get().copied().zip(pid) {
        // One that has ended by now needs none.
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, limit);
    }
}

/// No other system lets one process do that to another.
#[cfg(not(target_os = "linux"))]
fn lower_open_files(_pid: Option<Pid>) {}

/// A program and all that it started, killed when it is dropped.
struct Group(Option<Pid>);

/// What a program did.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) output: Zeroizing<Vec<u8>>,
    /// To tell refusals apart; never shown, as it may hold values.
    errors: Zeroizing<Vec<u8>>,
}

impl Program {
    /// The program of a source: `program` (absolute), `checksum_sha256`, and `environment`, a table
    /// of what it gets beside the usual.
    pub(crate) fn of(settings: &Table, kind: SourceType) -> Result<Self, String> {
        let usual = kind.program().map(|(_, place)| place.to_owned());
        let path = PathBuf::from(optional(settings, "program")?.or(usual).unwrap_or_default());
        if !path.is_absolute() {
            return Err("program is not an absolute path".to_owned());
        }
        let environment = granted::environment(settings)?;
        Ok(Self { path, checksum: optional(settings, "checksum_sha256")?, environment })
    }

    /// What the operator grants it under this name, where that is no secret.
    pub(crate) fn granted(&self, name: &str) -> Option<&str> {
        let entry = self.environment.iter().find(|(known, _)| known == name);
        entry.and_then(|(_, value)| value.written())
    }

    /// The folder that is its user's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.granted("HOME").map(PathBuf::from).or_else(std::env::home_dir)
    }

    /// Where its data and keys are: what the operator grants it, and what it keeps by itself below its user's home and
    /// the folder for configuration.
    pub(crate) fn files(&self, in_home: &[&str], in_config: &[&str]) -> Vec<PathBuf> {
        const CONFIG: &str = "XDG_CONFIG_HOME";
        let config = self.granted(CONFIG).map(PathBuf::from);
        let config = config.or_else(|| std::env::var_os(CONFIG).map(PathBuf::from));
        let config = config.or_else(|| self.home().map(|home| home.join(".config")));
        let below = |folder: Option<PathBuf>, names: &[&str]| {
            let folder = folder.filter(|folder| folder.is_absolute());
            folder.map(|folder| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>())
        };
        let own = [below(self.home(), in_home), below(config, in_config)];
        own.into_iter().flatten().flatten().chain(granted::places(&self.environment)).collect()
    }

    /// Whether it is there, and the one that was allowed. Blocks.
    pub(crate) fn check(&self) -> Result<(), SourceFault> {
        let metadata = fs::metadata(&self.path).map_err(|_| self.missing())?;
        if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
            return Err(self.missing());
        }
        let Some(expected) = &self.checksum else { return Ok(()) };
        let bytes = fs::read(&self.path).map_err(|_| self.missing())?;
        if HEXLOWER.encode(&Sha256::digest(&bytes)).eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        let words = "the program's checksum is not the one in sources.toml";
        Err(SourceFault::new(State::Unavailable, words))
    }

    /// Runs it to its end; dropped before that, it is killed with all that it started. `secrets` are variables that only
    /// this call gets.
    pub(crate) async fn run(
        &self,
        arguments: &[&str],
        input: Option<&[u8]>,
        secrets: &[(&str, &str)],
        with: &Supply,
    ) -> Result<Ran, SourceFault> {
        // A checksum means that all of it is read, and some are a hundred megabytes.
        let program = self.clone();
        let checked = spawn_blocking(move || program.check()).await;
        checked.expect("reading a program does not panic")?;
        let inherited = INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let granted = self.environment.iter();
        let granted = granted.map(|(name, value)| Ok((name.as_str(), value.resolve(with)?)));
        let granted: Vec<(&str, &str)> = granted.collect::<Result<_, SourceFault>>()?;
        let mut child = Command::new(&self.path)
            .args(arguments)
            .env_clear()
            .envs(inherited)
            .envs(granted)
            .envs(secrets.iter().copied())
            .current_dir("/")
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|_| self.missing())?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        lower_open_files(pid);
        let mut group = Group(pid);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A program that reads none of it says so by how it ends.
                let _ = stdin.write_all(input).await;
            }
        };
        let (output, errors, ()) = tokio::join!(read_limited(stdout), read_limited(stderr), write);
        let unreadable = |_: io::Error| {
            let words = "the program wrote over 1 MiB, or could not be read";
            SourceFault::new(State::Unavailable, words)
        };
        let (output, errors) = (output.map_err(unreadable)?, errors.map_err(unreadable)?);
        let status = child.wait().await.map_err(unreadable)?;
        // What a program leaves on purpose, such as an agent of its own, stays.
        group.0 = None;
        Ok(Ran { status, output, errors })
    }

    fn missing(&self) -> SourceFault {
        let words = SafeText::words("no program at ").as_they_wrote(&shown(&self.path));
        SourceFault { state: State::NotInstalled, words }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Ran {
    /// Whether its errors contain one of these words, in any case.
    pub(crate) fn complains_of(&self, words: &[&str]) -> bool {
        let errors = Zeroizing::new(String::from_utf8_lossy(&self.errors).to_lowercase());
        words.iter().any(|word| errors.contains(word))
    }

    /// How it ended, for the operator.
    pub(crate) fn ending(&self) -> SafeText {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => {
                SafeText::words("the program ended with ").number(u64::from(code.unsigned_abs()))
            }
            (None, Some(signal)) => SafeText::words("the program was ended by signal ")
                .number(u64::from(signal.unsigned_abs())),
            (None, None) => SafeText::words("the program ended"),
        }
    }
}

async fn read_limited(from: Option<impl AsyncRead + Unpin>) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    if let Some(from) = from {
        from.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > MAX_OUTPUT { Err(io::ErrorKind::InvalidData.into()) } else { Ok(bytes) }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
