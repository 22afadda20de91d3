//! `keyless hooks install`: our script in git's folder of hooks, beside what is there.
//!
//! A hook of somebody else is never written to: it gets another name beside ours, runs first, and has its name back
//! after `uninstall`. Ours takes the place in one step, so that at no moment there is none.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::vault::read_settings_text;
use keyless_daemon::{path_unusable, write_whole};
use serde_json::json;

use super::git;
use crate::{args::HooksInstallArgs, ui::Ui};

pub(super) const HOOK: &str = "pre-commit";
/// Asked before a push: what it brings may have come in where git asked nobody.
const PUSH: &str = "pre-push";
/// Asked once a commit's message is written.
const MESSAGE: &str = "commit-msg";
/// What git asks before it makes a commit (a merge without conflicts has a hook of its own), and before it sends any.
pub(super) const HOOKS: [&str; 4] = [HOOK, "pre-merge-commit", MESSAGE, PUSH];
/// How the name of a hook that was there before ends beside ours.
const BEFORE: &str = ".before-keyless";
/// The line by which ours is known.
pub(super) const MARK: &str =
    "# Written by `keyless hooks install`; `keyless hooks uninstall` takes it out again.";

pub(super) fn install(ui: &Ui, args: &HooksInstallArgs) -> Result<ExitCode, Error> {
    let folder = git::hooks()?;
    if !args.shared && !is_own(&folder)? {
        let place =
            SafeText::words("git takes hooks from ").as_they_wrote(&folder.to_string_lossy());
        let words =
            place.and(", outside of this repository; --shared puts it there, for all that use it");
        return Err(Error::with(Code::Usage, words));
    }
    if is_huskys(&folder) {
        let words = "husky writes the folder of hooks anew at each install of packages, so ours would be gone: put \
                     the line `keyless hooks check --staged` into .husky/pre-commit and .husky/pre-merge-commit, \
                     `keyless hooks check --message \"$1\"` into .husky/commit-msg, and \
                     `keyless hooks check --push \"$1\"` into .husky/pre-push, which husky runs";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    fs::create_dir_all(&folder).map_err(|error| path_unusable(&folder, &error))?;
    let before = HOOKS.map(|name| put(&folder, name));
    let before = before.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let hooks = HOOKS.map(|name| folder.join(name).to_string_lossy().into_owned());
    let of_before = HOOKS.iter().zip(&before).map(|(name, before)| match before {
        Before::None => String::new(),
        Before::Runs => format!("The {name} that was there runs first, as ever.\n"),
        Before::Idle => format!(
            "The {name} that was there is not executable, so git never ran it and ours does not either: chmod +x \
             {name}{BEFORE} lets it run.\n"
        ),
    });
    let words = format!(
        "Each commit, each merge and each push is checked ({}).\n{}\
         git asks no hook of commits when it only moves on (a fast-forward), at cherry-pick and at rebase: what comes in so \
         is looked at when it is pushed.\n",
        hooks.join(", "),
        of_before.collect::<String>()
    );
    let chained = before[0] == Before::Runs;
    ui.answer(
        "hooks install",
        &json!({ "hook": hooks[0], "hooks": hooks, "chained": chained }),
        &words,
    );
    Ok(ExitCode::SUCCESS)
}

/// What becomes of the hook that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It is not executable.
    Idle,
    None,
    Runs,
}

/// Puts ours in the place of the hook of this name.
fn put(folder: &Path, name: &str) -> Result<Before, Error> {
    let (hook, before) = (folder.join(name), folder.join(format!("{name}{BEFORE}")));
    if !is_ours(&hook) && fs::symlink_metadata(&hook).is_ok() {
        // Fails when that name is taken: whose hook that is, only a person knows.
        fs::hard_link(&hook, &before).map_err(|error| path_unusable(&before, &error))?;
    }
    write_whole(&hook, script(name).as_bytes(), 0o755)
        .map_err(|error| path_unusable(&hook, &error))?;
    Ok(match fs::metadata(&before) {
        Ok(metadata) if metadata.permissions().mode() & 0o111 != 0 => Before::Runs,
        Ok(_) => Before::Idle,
        Err(_) => Before::None,
    })
}

pub(super) fn uninstall(ui: &Ui) -> Result<ExitCode, Error> {
    let folder = git::hooks()?;
    let mut removed = false;
    for name in HOOKS {
        let (hook, before) = (folder.join(name), folder.join(format!("{name}{BEFORE}")));
        if !is_ours(&hook) {
            continue;
        }
        removed = true;
        let done = if fs::symlink_metadata(&before).is_ok() {
            fs::rename(&before, &hook)
        } else {
            fs::remove_file(&hook)
        };
        done.map_err(|error| path_unusable(&hook, &error))?;
    }
    let hook = folder.join(HOOK);
    let words = if removed {
        "Commits and pushes are no longer checked.\n"
    } else {
        "There was no hook of ours.\n"
    };
    ui.answer(
        "hooks uninstall",
        &json!({ "hook": hook.to_string_lossy(), "removed": removed }),
        words,
    );
    Ok(ExitCode::SUCCESS)
}

/// Whether a folder of hooks serves this repository alone.
fn is_own(folder: &Path) -> Result<bool, Error> {
    let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    let folder = real(folder.to_owned());
    Ok(folder.starts_with(real(git::common()?)) || folder.starts_with(real(git::top()?)))
}

/// Whether husky (from version 9 on) keeps its own scripts there, which lead to those in the folder above.
fn is_huskys(folder: &Path) -> bool {
    folder.ends_with(".husky/_")
}

fn is_ours(hook: &Path) -> bool {
    read_settings_text(hook).is_ok_and(|text| super::is_ours(&text))
}

fn script(name: &str) -> String {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("keyless"));
    let quoted = program.to_string_lossy().replace('\'', r"'\''");
    let (run_before, check) = match name {
        MESSAGE => ON_MESSAGE,
        PUSH => ON_PUSH,
        _ => ON_COMMIT,
    };
    format!(
        "#!/bin/sh\n{MARK}\n\
         before=$(dirname \"$0\")/{name}{BEFORE}\n\
         {run_before}\
         keyless='{quoted}'\n\
         [ -x \"$keyless\" ] || keyless=keyless\n\
         {check}\n"
    )
}

/// How the hook that was there runs, and then ours.
const ON_COMMIT: (&str, &str) = (FIRST, "exec \"$keyless\" hooks check --staged");
/// As [`ON_COMMIT`], for the commit message, which the hook that was there may have changed.
const ON_MESSAGE: (&str, &str) = (FIRST, "exec \"$keyless\" hooks check --message \"$1\"");
const FIRST: &str = "if [ -x \"$before\" ]; then\n    \"$before\" \"$@\" || exit $?\nfi\n";
/// As [`ON_COMMIT`], for a push: both hooks get git's lines, and the mark at their end keeps the last line end.
const ON_PUSH: (&str, &str) = (
    "lines=$(cat; echo .)\n\
     if [ -x \"$before\" ]; then\n    printf '%s' \"${lines%.}\" | \"$before\" \"$@\" || exit $?\nfi\n",
    "printf '%s' \"${lines%.}\" | \"$keyless\" hooks check --push \"$1\" >&2",
);
