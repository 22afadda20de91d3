//! Calling other programs: shown before they run, with a failure that repeats the command.

use std::{
    io,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
};

/// Why a chore failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("`{command}` could not be started: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed: {status}")]
    Status { command: String, status: ExitStatus },
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
    #[error("{0}")]
    Other(String),
}

/// Returns the root of the repository, whatever directory the chore was started in.
pub(crate) fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask stands in the repository's root").to_owned()
}

/// A command that will run in the repository's root.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// The cargo that runs this chore.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    // `cargo run` sets it; the same cargo must be used for the same toolchain.
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), arguments)
}

/// Shows and runs a command with the terminal as its own.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = show(command);
    println!("    $ {shown}");
    let status = command.status().map_err(|source| Failure::start(&shown, source))?;
    if status.success() { Ok(()) } else { Err(Failure::Status { command: shown, status }) }
}

/// Shows and runs a command, and returns what it printed; its errors go to the terminal.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let shown = show(command);
    println!("    $ {shown}");
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Failure::start(&shown, source))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        print!("{text}");
        return Err(Failure::Status { command: shown, status: output.status });
    }
    Ok(text)
}

/// Runs a command silently; returns its first line, or nothing when it fails.
pub(crate) fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = command(program, arguments).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

impl Failure {
    /// For reading or writing the file `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into().display().to_string();
        move |source| Self::File { path, source }
    }

    fn start(command: &str, source: io::Error) -> Self {
        Self::Start { command: command.to_owned(), source }
    }
}

/// The command as one would type it: variables set for it, program, arguments.
fn show(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}=\"{}\"", name.display(), value?.display())));
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).display().to_string();
    let arguments = command.get_args().map(|argument| argument.display().to_string());
    variables.chain([program]).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut doc = command("/usr/bin/cargo", &["doc", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(show(&doc), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn a_failure_repeats_the_command() {
        let failure = run(&mut command("false", &["x"])).unwrap_err().to_string();
        assert!(failure.starts_with("`false x` failed: exit status: 1"), "{failure}");
    }
}
