//! Counts a process's instructions: valgrind's callgrind runs it, far slower, on a processor of its own making that has
//! no noise. That one has AES and AVX2 but no SHA, so hashing weighs more there than on most machines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, process::Child};

/// Where callgrind writes what it has counted about one process.
pub struct Counter(PathBuf);

impl Counter {
    /// Whether there is a valgrind to count by.
    pub fn is_installed() -> bool {
        Command::new("callgrind_control").arg("--version").output().is_ok()
    }

    /// What starts `command` counted, with exactly its variables.
    pub(crate) fn wrap(command: &Command, folder: &Path, name: &str) -> (Command, Self) {
        let file = folder.join(format!("callgrind.{name}"));
        let mut counted = Command::new("valgrind");
        counted.env_clear();
        let variables = command.get_envs();
        counted.envs(variables.filter_map(|(name, value)| value.map(|value| (name, value))));
        counted.args(["--quiet", "--tool=callgrind"]);
        let mut option = std::ffi::OsString::from("--callgrind-out-file=");
        option.push(&file);
        counted.arg(option).arg(command.get_program()).args(command.get_args());
        (counted, Self(file))
    }

    /// Begins to count anew.
    pub fn zero(&self, process: &Child) -> Result<()> {
        control("--zero", process)
    }

    /// What was counted since, over all threads. The profile is left in `KEYLESS_BENCH_PROFILES`, if that names a folder.
    pub fn read(&self, process: &Child) -> Result<u64> {
        control("--dump", process)?;
        let dump = self.0.with_extension(format!("{}.1", self.name()));
        let text = fs::read_to_string(&dump)?;
        if let Some(folder) = std::env::var_os("KEYLESS_BENCH_PROFILES") {
            fs::copy(&dump, Path::new(&folder).join(format!("callgrind.{}", self.name())))?;
        }
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(totals.ok_or("callgrind's file has no totals")?.trim().parse()?)
    }

    fn name(&self) -> String {
        self.0.extension().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn control(order: &str, process: &Child) -> Result<()> {
    let done =
        Command::new("callgrind_control").arg(order).arg(process.id().to_string()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("callgrind_control {order}: {}", String::from_utf8_lossy(&done.stderr)).into())
}
