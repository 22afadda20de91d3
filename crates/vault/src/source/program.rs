//! Runs a program of another secret manager: never through a shell, by its absolute path, with
//! arguments alone, an environment that is named, and a limit on what it writes. Who gives up on it kills it.
//!
//! One whose checksum was given is started as it was compared: nobody can put another in its place in between.

use std::{
    fs, io,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::OnceLock,
};

use keyless_core::SafeText;
use keyless_plugin::{ClientError, HeldProgram, ProcessGroup, open_checked};
use rustix::process::{Pid, Resource, Rlimit};
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
/// What is made room for before the last read, which finds the end.
const LAST_READ: usize = 64;
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
        self.open().map(drop)
    }

    /// As [`Self::check`], but gives the file that was compared, where the program has a checksum. Blocks.
    fn open(&self) -> Result<Option<HeldProgram>, SourceFault> {
        let metadata = fs::metadata(&self.path).map_err(|_| self.missing())?;
        if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
            return Err(self.missing());
        }
        let Some(expected) = &self.checksum else { return Ok(None) };
        open_checked(&self.path, expected).map(Some).map_err(|error| {
            let words = match error {
                ClientError::Checksum => "the program's checksum is not the one in sources.toml",
                ClientError::Unsafe => {
                    "the program has a checksum in sources.toml, and others than you and root may change it"
                }
                _ => return self.missing(),
            };
            SourceFault::new(State::Unavailable, words)
        })
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
        let opened = spawn_blocking(move || program.open()).await;
        let held = opened.expect("reading a program does not panic")?;
        self.run_held(held, arguments, input, secrets, with).await
    }

    async fn run_held(
        &self,
        mut held: Option<HeldProgram>,
        arguments: &[&str],
        input: Option<&[u8]>,
        secrets: &[(&str, &str)],
        with: &Supply,
    ) -> Result<Ran, SourceFault> {
        let inherited = INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let granted = self.environment.iter();
        let granted = granted.map(|(name, value)| Ok((name.as_str(), value.resolve(with)?)));
        let granted: Vec<(&str, &str)> = granted.collect::<Result<_, SourceFault>>()?;
        let path = match &mut held {
            Some(held) => held.path().map_err(|_| self.missing())?,
            None => self.path.clone(),
        };
        let mut child = Command::new(path)
            // Some are several programs, and look at their name.
            .arg0(&self.path)
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
        if let Some(held) = &mut held {
            held.started();
        }
        let group = ProcessGroup::of(&child);
        lower_open_files(group.pid());
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
        group.leave();
        Ok(Ran { status, output, errors })
    }

    fn missing(&self) -> SourceFault {
        let words = SafeText::words("no program at ").as_they_wrote(&shown(&self.path));
        SourceFault { state: State::NotInstalled, words }
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
    // Room for all at once, and some for the last read: what a buffer has outgrown is given back with values in it.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_OUTPUT + LAST_READ));
    if let Some(from) = from {
        from.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > MAX_OUTPUT { Err(io::ErrorKind::InvalidData.into()) } else { Ok(bytes) }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use data_encoding::HEXLOWER;
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// Puts a script there; gives its checksum.
    fn script(path: &Path, says: &str) -> String {
        let text = format!("#!/bin/sh\necho {says}\n");
        fs::write(path, &text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        HEXLOWER.encode(&Sha256::digest(text))
    }

    #[tokio::test]
    async fn what_is_started_is_what_was_compared() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("pass"), folder.path().join("other"));
        let checksum = script(&path, "ours");
        let settings = format!("program = {path:?}\nchecksum_sha256 = {checksum:?}\n");
        let program = Program::of(&settings.parse().unwrap(), SourceType::Pass).unwrap();
        let held = program.open().unwrap();
        script(&other, "theirs");
        fs::rename(&other, &path).unwrap();
        let with = Supply::new(None, Vec::new());
        let ran = program.run_held(held, &[], None, &[], &with).await.unwrap();
        assert_eq!(&ran.output[..], b"ours\n");
        let refused = async || {
            let ran = program.run(&[], None, &[], &with).await;
            ran.err().unwrap().words.as_str().to_owned()
        };
        assert!(refused().await.contains("checksum is not the one"));
        script(&path, "ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(refused().await.contains("others than you and root may change it"));
    }
}
