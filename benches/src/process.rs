//! A child process and what the kernel says of it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write as _},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child as Process, ChildStdout, Command, Stdio},
    time::Duration,
};

use crate::{Result, counter::Counter};

/// Ticks per second of `/proc/PID/stat`: `USER_HZ`, 100 on every Linux that Rust supports.
const TICK: Duration = Duration::from_millis(10);

/// Runs a command over this input to its end; an error with its last words unless it succeeds.
pub fn finish(command: &mut Command, input: &[u8]) -> Result<()> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    child.stdin.take().ok_or("a piped stdin is there")?.write_all(input)?;
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {said}", output.status).into())
}

/// Writes a file that its owner alone reads.
pub fn private(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text)?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o600))?)
}

/// A child that has said on its first line of stdout that it is ready. Killed when dropped.
pub struct Child {
    process: Process,
    stdout: BufReader<ChildStdout>,
    first_line: String,
    counter: Option<Counter>,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Resident memory, bytes.
    pub resident: u64,
    /// Processor time, user and system.
    pub cpu: Duration,
}

impl Child {
    /// Starts `command` and waits for its first line. Its stdin stays open until it is dropped.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().ok_or("a piped stdout is there")?;
        let mut stdout = BufReader::new(stdout);
        let mut first_line = String::new();
        stdout.read_line(&mut first_line)?;
        let first_line = first_line.trim().to_owned();
        let child = Self { process, stdout, first_line, counter: None };
        if child.first_line.is_empty() {
            return Err(format!("{command:?} ended before it was ready").into());
        }
        Ok(child)
    }

    /// As [`Child::start`], with its instructions counted into a file in `folder` if there is one.
    pub(crate) fn start_counted(
        command: &mut Command,
        folder: Option<&Path>,
        name: &str,
    ) -> Result<Self> {
        let Some(folder) = folder else { return Self::start(command) };
        let (mut valgrind, counter) = Counter::wrap(command, folder, name);
        let mut child = Self::start(&mut valgrind)?;
        child.counter = Some(counter);
        Ok(child)
    }

    /// What counts its instructions.
    pub fn counter(&self) -> Option<&Counter> {
        self.counter.as_ref()
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it said when it was ready.
    pub fn first_line(&self) -> &str {
        &self.first_line
    }

    /// All that it said until it ended, when its first line was not the expected one.
    pub(crate) fn last_words(mut self) -> String {
        let mut words = format!("{}\n", self.first_line);
        // What can't be read can't be shown; the first line is there in any case.
        let _ = self.stdout.read_to_string(&mut words);
        words
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage> {
        let pid = self.process.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(Usage { resident: resident(&status)?, cpu: cpu(&stat)? })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left to do about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processor time of the calling thread. Unlike the clock it stands still while others have the core.
pub fn thread_time() -> Result<Duration> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = statistics.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

fn resident(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib =
        line.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmRSS: it has ended")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Fields 14 and 15, counted behind the program's name, which may hold anything.
fn cpu(stat: &str) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: Vec<u32> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(TICK * ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_read_right() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 1 0 9 9 9";
        assert_eq!(cpu(stat).unwrap(), Duration::from_millis(420));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n").unwrap(), 2 << 20);
        assert!(resident("Name:\tx\n").is_err());
    }
}
