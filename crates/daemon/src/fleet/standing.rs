//! How a running sidecar stands, in a file of its own below the runtime directory, so that
//! `keyless doctor` can tell without a listener. A lock says that the process is still there: it ends with it,
//! however that ends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process,
};

use keyless_core::Error;
use serde::{Deserialize, Serialize};

use super::reload::ReloadState;
use crate::places::{Places, unusable};

const PREFIX: &str = "proxy-";
const SUFFIX: &str = ".json";

/// What a sidecar says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) pid: u32,
    /// The catalog that it follows.
    pub(crate) catalog: PathBuf,
    /// Secrets in force.
    pub(crate) secrets: usize,
    /// Why the files, as they lie there now, are not in force.
    pub(crate) problem: Option<String>,
}

/// The file of this process; gone when it is dropped.
pub(super) struct StandingFile {
    path: PathBuf,
    file: File,
    catalog: PathBuf,
}

impl StandingFile {
    /// The file of a sidecar that follows `catalog`.
    pub(super) fn create(places: &Places, catalog: &Path) -> Result<Self, Error> {
        let path = places.runtime().join(format!("{PREFIX}{}{SUFFIX}", process::id()));
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(|error| unusable(&path, &error))?;
        // Nobody else has this process's number; one that had it has left its lock behind.
        file.lock_shared().map_err(|error| unusable(&path, &error))?;
        let catalog = std::path::absolute(catalog).unwrap_or_else(|_| catalog.to_owned());
        Ok(Self { path, file, catalog })
    }

    /// Says how it stands now. A disk that is full is told elsewhere.
    pub(super) fn say(&self, state: &ReloadState) {
        let standing = Standing {
            pid: process::id(),
            catalog: self.catalog.clone(),
            secrets: state.secrets,
            problem: state.problem().map(Error::message),
        };
        let _ = self.write(&standing);
    }

    fn write(&self, standing: &Standing) -> io::Result<()> {
        let text = serde_json::to_vec(standing)?;
        let mut file = &self.file;
        file.rewind()?;
        file.write_all(&text)?;
        file.set_len(text.len() as u64)
    }
}

impl Drop for StandingFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The sidecars that run with this home.
pub(crate) fn sidecars(places: &Places) -> Vec<Standing> {
    let Ok(entries) = fs::read_dir(places.runtime()) else { return Vec::new() };
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_one);
    let mut found: Vec<Standing> = paths.filter_map(|path| running(&path)).collect();
    found.sort_unstable_by_key(|standing| standing.pid);
    found
}

/// What a file says whose process still holds it.
fn running(path: &Path) -> Option<Standing> {
    let mut file = File::open(path).ok()?;
    if file.try_lock().is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_still_runs_is_told() {
        let home = tempfile::tempdir().unwrap();
        let places = Places::below(home.path());
        places.prepare_runtime().unwrap();
        assert!(sidecars(&places).is_empty());
        let file = StandingFile::create(&places, Path::new("/etc/catalog.yaml")).unwrap();
        file.say(&ReloadState { secrets: 12_345, ..ReloadState::default() });
        file.say(&ReloadState { secrets: 3, ..ReloadState::default() });
        let [standing] = &sidecars(&places)[..] else { panic!("one runs") };
        assert_eq!((standing.secrets, standing.pid), (3, process::id()));
        // As a process leaves it that was killed.
        fs::copy(&file.path, places.runtime().join("proxy-1.json")).unwrap();
        assert_eq!(sidecars(&places).len(), 1);
        drop(file);
        assert!(sidecars(&places).is_empty());
    }
}
