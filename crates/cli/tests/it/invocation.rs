//! One run of `keyless`: how it is started, and what came out of it.
//!
//! Every run hands its streams, and its `/proc` entries while it lives, to the [`World`] that
//! started it; the world searches them when the test ends.

use std::{
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::FileExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
};

use serde_json::Value;

use crate::world::{World, wait_until};

/// The binary under test.
pub(crate) const KEYLESS: &str = env!("CARGO_BIN_EXE_keyless");

/// A command line of `keyless` that has not been run yet.
pub(crate) struct Invocation<'w> {
    world: &'w World,
    command: Command,
    stdin: Vec<u8>,
    /// The test itself put a value into the environment; then it is no finding there.
    value_in_environment: bool,
}

/// What one run showed to the one who started it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A `keyless` that serves in the background; it is ended when this is dropped.
pub(crate) struct Background<'w> {
    world: &'w World,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl<'w> Invocation<'w> {
    pub(crate) fn new(world: &'w World, arguments: &[OsString]) -> Self {
        let mut command = Command::new(KEYLESS);
        command.args(arguments).current_dir(world.home.work());
        command.env_clear().envs(world.home.environment());
        Self { world, command, stdin: Vec::new(), value_in_environment: false }
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// As [`Invocation::env`], for a variable that is meant to hold a value.
    pub(crate) fn env_with_value(mut self, name: &str, value: &str) -> Self {
        self.value_in_environment = true;
        self.env(name, value)
    }

    /// Another command in the same surroundings: a shell that calls `keyless`, say.
    pub(crate) fn instead(mut self, command: &[&str]) -> Self {
        let mut other = Command::new(command[0]);
        other.args(&command[1..]).current_dir(self.world.home.work());
        other.env_clear();
        other.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.command = other;
        self
    }

    /// Without the passphrase that the world gives otherwise.
    pub(crate) fn without_passphrase(mut self) -> Self {
        self.command.env_remove("KEYLESS_PASSPHRASE_FILE");
        self
    }

    /// As another account, which only root can give it.
    pub(crate) fn by_account(mut self, account: Option<u32>) -> Self {
        if let Some(account) = account {
            self.command.uid(account).gid(account);
        }
        self
    }

    /// The bare command, for what only the operating system can say about it.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Seen {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        note_process(self.world, child.id(), self.value_in_environment);
        let mut stdin = child.stdin.take().unwrap();
        let input = self.stdin;
        // A command that reads nothing closes its end early, which is its right.
        let feeding = thread::spawn(move || stdin.write_all(&input).map_or((), drop));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        self.world.saw("stdout", &output.stdout);
        self.world.saw("stderr", &output.stderr);
        Seen { status: output.status, stdout: output.stdout, stderr: output.stderr }
    }

    /// Starts it and leaves it running.
    pub(crate) fn start(mut self) -> Background<'w> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.command.spawn().unwrap();
        note_process(self.world, child.id(), self.value_in_environment);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Background { world: self.world, child, stdin, stdout: BufReader::new(stdout) }
    }
}

/// Notes what other processes may see of this one.
fn note_process(world: &World, pid: u32, value_in_environment: bool) {
    let files: &[&str] = if value_in_environment { &["cmdline"] } else { &["cmdline", "environ"] };
    for file in files {
        // Not to be had when it has ended already, or hardened itself against us.
        if let Ok(bytes) = fs::read(format!("/proc/{pid}/{file}")) {
            world.saw(&format!("/proc/PID/{file}"), &bytes);
        }
    }
}

impl Seen {
    /// It succeeded; gives stdout as text.
    #[track_caller]
    pub(crate) fn ok(&self) -> String {
        self.exits(0);
        self.text()
    }

    /// It ended with this exit status.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "signal {:?}\nstdout: {}\nstderr: {}",
            self.status.signal(),
            self.text(),
            self.errors()
        );
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The one JSON object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}): {}\nstderr: {}", self.text(), self.errors())
        })
    }

    /// `data` of a successful answer.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        let answer = self.exits(0).json();
        assert_eq!((&answer["ok"], &answer["errors"]), (&true.into(), &Value::Array(vec![])));
        answer["data"].clone()
    }
}

/// The process that serves, by the number of the one that was started: a broker goes on in a child of that, which has the
/// same arguments.
pub(crate) fn serving(started: u32) -> u32 {
    let read = |file: String| fs::read_to_string(file).unwrap_or_default();
    let arguments = |process: u32| read(format!("/proc/{process}/cmdline"));
    let own = arguments(started);
    if !own.split('\0').any(|word| ["broker", "serve"].contains(&word)) {
        return started;
    }
    let children = read(format!("/proc/{started}/task/{started}/children"));
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.find(|child| arguments(*child) == own).unwrap_or(started)
}

/// What a process holds in memory that could be read, but for pages of zeros: an allocator reserves far more than it uses.
pub(crate) fn memory_of(process: u32) -> io::Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = fs::File::open(format!("/proc/{process}/mem"))?;
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        let mut area = vec![0; usize::try_from(to - from).unwrap()];
        // Guard pages and kernel mappings can't be read.
        if memory.read_exact_at(&mut area, from).is_ok() {
            let used = area.chunks(PAGE).filter(|page| page.iter().any(|byte| *byte != 0));
            used.for_each(|page| all.extend(page));
        }
    }
    Ok(all)
}

impl Background<'_> {
    /// Of a broker the process that serves.
    pub(crate) fn pid(&self) -> u32 {
        serving(self.child.id())
    }

    /// The next line of stdout, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        self.world.saw("stdout", line.as_bytes());
        line.trim_end().to_owned()
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            // Each of its threads goes on for a moment: one may still answer.
            wait_until("it has stopped", || self.has_stopped());
        }
    }

    fn has_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" T"))
        })
    }

    /// As [`memory_of`], for its process.
    pub(crate) fn memory(&self) -> io::Result<Vec<u8>> {
        memory_of(self.pid())
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        self.world.saw("stdout", &rest);
        self.child.wait().unwrap()
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        // Where it is a child of the one that was started, that ends with it.
        let serving = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        let _ = serving
            .map(|process| rustix::process::kill_process(process, rustix::process::Signal::KILL));
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
