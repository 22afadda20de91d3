//! `keyless hooks install`: our script in git's folder of hooks, beside what is there.
//!
//! A hook of somebody else is never written to: it gets another name beside ours, runs first, and has its name back
//! after `uninstall`. Ours takes the place in one step, so that at no moment there is none.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{path_unusable, write_whole};
use serde_json::json;

use super::git;
use crate::{args::HooksInstallArgs, ui::Ui};

pub(super) const HOOK: &str = "pre-commit";
/// What a hook that was there before is called beside ours.
const BEFORE: &str = "pre-commit.before-keyless";
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
                     the line `keyless hooks check --staged` into .husky/pre-commit, which husky runs";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    fs::create_dir_all(&folder).map_err(|error| path_unusable(&folder, &error))?;
    let (hook, before) = (folder.join(HOOK), folder.join(BEFORE));
    let chained = !is_ours(&hook) && fs::symlink_metadata(&hook).is_ok();
    if chained {
        // Fails when that name is taken: whose hook that is, only a person knows.
        fs::hard_link(&hook, &before).map_err(|error| path_unusable(&before, &error))?;
    }
    write_whole(&hook, script().as_bytes(), 0o755).map_err(|error| path_unusable(&hook, &error))?;
    let runs_first = fs::symlink_metadata(&before).is_ok();
    let mut words = format!("Each commit is checked ({}).\n", hook.display());
    if runs_first {
        words.push_str("The hook that was there runs first, as ever.\n");
    }
    ui.answer(
        "hooks install",
        &json!({ "hook": hook.to_string_lossy(), "chained": runs_first }),
        &words,
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn uninstall(ui: &Ui) -> Result<ExitCode, Error> {
    let folder = git::hooks()?;
    let (hook, before) = (folder.join(HOOK), folder.join(BEFORE));
    let removed = is_ours(&hook);
    if removed && fs::symlink_metadata(&before).is_ok() {
        fs::rename(&before, &hook).map_err(|error| path_unusable(&hook, &error))?;
    } else if removed {
        fs::remove_file(&hook).map_err(|error| path_unusable(&hook, &error))?;
    }
    let words =
        if removed { "Commits are no longer checked.\n" } else { "There was no hook of ours.\n" };
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
    fs::read_to_string(hook).is_ok_and(|text| super::is_ours(&text))
}

fn script() -> String {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("keyless"));
    let quoted = program.to_string_lossy().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n{MARK}\n\
         before=$(dirname \"$0\")/{BEFORE}\n\
         if [ -x \"$before\" ]; then\n    \"$before\" \"$@\" || exit $?\nfi\n\
         keyless='{quoted}'\n\
         [ -x \"$keyless\" ] || keyless=keyless\n\
         exec \"$keyless\" hooks check --staged\n"
    )
}
