//! What git says of the repository that this folder lies in.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use keyless_core::{Code, Error, SafeText};

/// The working tree's root.
pub(super) fn top() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--show-toplevel"])
}

/// The folder that all working trees of the repository share.
pub(super) fn common() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--path-format=absolute", "--git-common-dir"])
}

/// Where git looks for hooks, wherever `core.hooksPath` leads.
pub(super) fn hooks() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--path-format=absolute", "--git-path", "hooks"])
}

/// The files that the next commit adds or changes, from the working tree's root.
pub(super) fn staged() -> Result<Vec<PathBuf>, Error> {
    let list = ask(&["diff", "--cached", "--name-only", "-z", "--diff-filter=ACMRT"])?;
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}

/// A file as it is staged; nothing for what is no file, such as a submodule.
pub(super) fn staged_bytes(file: &Path) -> Option<Vec<u8>> {
    // With its stage, which a name such as `0:notes` would be taken for otherwise.
    let mut object = b":0:".to_vec();
    object.extend(file.as_os_str().as_bytes());
    let output =
        Command::new("git").args(["cat-file", "blob"]).arg(OsStr::from_bytes(&object)).output();
    output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
}

fn one_path(arguments: &[&str]) -> Result<PathBuf, Error> {
    let mut line = ask(arguments)?;
    // git's own line end; any further one is the name's.
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(PathBuf::from(OsStr::from_bytes(&line)))
}

fn ask(arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let unusable = |words: SafeText| Error::with(Code::PathUnusable, words);
    let output = Command::new("git")
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| unusable(SafeText::words("git: ").and(error.kind())))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Its words in the one language that every git of ours speaks: see `LC_ALL` above.
    if said.contains("not a git repository") {
        return Err(Code::RepositoryMissing.into());
    }
    let said = said.lines().next().unwrap_or("git failed");
    Err(unusable(SafeText::words("git says: ").as_they_wrote(said)))
}
