//! Every home of Keyless on this account: a jail hides all of them, whichever its own run uses.
//!
//! The default ones are known by the environment and the account; each other one is noted, once its store was opened,
//! in a list below `HOME` that neither `KEYLESS_HOME` nor an XDG variable moves. A folder that is gone is skipped.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{self, Path, PathBuf},
};

use crate::{
    config::Config,
    passphrase::{paths_in, write_paths},
    places::{PASSPHRASE_FILES, Places, create_private},
    whole_file::{Turn, folder_of},
};

/// Below a home directory: the list, in a folder that is hidden as the default home's own.
const LIST: &str = ".local/state/keyless/homes";
/// Beside the list, the file that each open run has a lock of.
const RUNS: &str = "runs";

/// The folders of this home and of every other that is known, with what their settings and their use name: files with
/// credentials, and those that opened their stores. Blocks.
pub fn files_of_all_homes(places: &Places) -> Vec<PathBuf> {
    let mut all = places.all();
    for folder in Places::usual().into_iter().chain(noted()) {
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    let named: Vec<PathBuf> = all.iter().flat_map(|folder| named_in(folder)).collect();
    all.extend(named);
    all
}

/// Notes that this home is in use, for the jails of others. What can't be written is no reason to refuse work.
pub fn note_home(places: &Places) {
    // What a variable of this environment says another one may not.
    let known: Vec<PathBuf> = Places::without_variables().into_iter().chain(noted()).collect();
    let Some(list) = lists().into_iter().next() else { return };
    let new: Vec<PathBuf> =
        places.all().into_iter().filter(|folder| !known.contains(folder)).collect();
    if !new.is_empty() {
        let _ = add_to(&list, new);
    }
}

/// Adds folders to the list, and takes out those that are gone: homes of tests and demos would make it grow without end.
fn add_to(list: &Path, new: Vec<PathBuf>) -> io::Result<()> {
    create_private(&folder_of(list))?;
    let _turn = Turn::take(list)?;
    let mut all = paths_in(list);
    all.retain(|folder| fs::exists(folder).unwrap_or(true));
    all.extend(new);
    write_paths(list, &all)
}

/// Makes the folders of this home and of the usual ones, where they are not there yet: what is not there can't be hidden. A
/// command in a jail would make them, settings and all, or read a store that is made there while it runs.
pub fn make_room(places: &Places) {
    let usual = Places::usual().into_iter().filter(|folder| is_ours_to_make(folder));
    for folder in places.all().into_iter().chain(usual) {
        // Where we can't, neither can the command.
        let _ = create_private(&folder);
    }
}

/// Whether what it would be made in is this account's: as root with another one's environment it would not be that one's.
fn is_ours_to_make(folder: &Path) -> bool {
    let above = folder.ancestors().find_map(|above| fs::metadata(above).ok());
    above.is_some_and(|above| above.uid() == rustix::process::geteuid().as_raw())
}

/// Says that a command in a jail is open, until this is dropped or the process ends.
#[derive(Debug)]
pub struct OpenRun {
    _locks: Vec<File>,
}

/// Notes that a command in a jail begins, for [`open_runs_see`]. What can't be noted is no reason to refuse work.
pub fn note_open_run() -> OpenRun {
    let lock = |file: PathBuf| {
        let lock = File::create(file).ok()?;
        lock.lock_shared().ok()?;
        Some(lock)
    };
    OpenRun { _locks: runs_files().filter_map(lock).collect() }
}

/// Whether commands in jails are open on this account that see what is made at `place` now: a jail hides what was known when
/// it began, by the variables of its own environment.
pub fn open_runs_see(place: &Path) -> bool {
    let place = path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let mut known = Places::without_variables().into_iter().chain(noted());
    let are_open = || {
        let mut locks = runs_files().filter_map(|file| File::open(file).ok());
        locks.any(|lock| lock.try_lock().is_err())
    };
    !known.any(|folder| place.starts_with(folder)) && are_open()
}

fn runs_files() -> impl Iterator<Item = PathBuf> {
    lists().into_iter().map(|list| list.with_file_name(RUNS))
}

/// The home directory of the environment, then the account's, if that is another.
pub(crate) fn account_homes() -> Vec<PathBuf> {
    let told = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let mut homes: Vec<PathBuf> = told.into_iter().chain(keyless_jail::account_home()).collect();
    homes.dedup();
    homes
}

fn lists() -> Vec<PathBuf> {
    account_homes().iter().map(|home| home.join(LIST)).collect()
}

fn noted() -> Vec<PathBuf> {
    lists().iter().flat_map(|list| paths_in(list)).filter(|folder| folder.is_dir()).collect()
}

/// What a home in this folder says is none of an agent's business. Settings that can't be read name nothing.
fn named_in(folder: &Path) -> Vec<PathBuf> {
    let settings = folder.join("config.toml");
    let settings = fs::exists(&settings).unwrap_or(false).then(|| Config::load(&settings).ok());
    let mut named =
        settings.flatten().map(|config| config.files_with_credentials()).unwrap_or_default();
    named.extend(paths_in(&folder.join(PASSPHRASE_FILES)));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_that_are_gone_leave_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("state/homes");
        let homes: Vec<PathBuf> =
            ["one", "two", "three"].iter().map(|name| folder.path().join(name)).collect();
        for home in &homes {
            fs::create_dir(home).unwrap();
            add_to(&list, vec![home.clone()]).unwrap();
        }
        assert_eq!(paths_in(&list), homes);
        fs::remove_dir(&homes[0]).unwrap();
        fs::remove_dir(&homes[2]).unwrap();
        let four = folder.path().join("four");
        add_to(&list, vec![four.clone()]).unwrap();
        assert_eq!(paths_in(&list), [homes[1].clone(), four]);
    }
}
