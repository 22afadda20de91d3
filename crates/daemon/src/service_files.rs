//! What of the operator's `providers/` can't be used, for whoever asks how the broker is.
//!
//! A file is read again when it, or which files there are, has changed. Nothing here says where the folder is.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use keyless_action::{ProviderFault, Providers};
use parking_lot::Mutex;

use crate::places::Places;

/// The operator's files of services.
pub(crate) struct ServiceFiles {
    folder: PathBuf,
    seen: Mutex<Option<Seen>>,
}

/// What was found, and in which files.
struct Seen {
    files: Vec<(PathBuf, Option<SystemTime>, u64)>,
    faults: Vec<ProviderFault>,
}

impl ServiceFiles {
    pub(crate) fn new(places: &Places) -> Self {
        Self { folder: places.services_folder(), seen: Mutex::default() }
    }

    /// The faults of the files that can't be used, as they lie there. Blocks.
    pub(crate) fn faults(&self) -> Vec<ProviderFault> {
        let files = files(&self.folder);
        let mut seen = self.seen.lock();
        match &*seen {
            Some(seen) if seen.files == files => seen.faults.clone(),
            _ => {
                let faults = Providers::faults_in(&self.folder);
                *seen = Some(Seen { files, faults: faults.clone() });
                faults
            }
        }
    }
}

/// What is wrong with one, in words.
pub(crate) fn in_words(fault: &ProviderFault) -> String {
    let ProviderFault { file, operation, why } = fault;
    match operation {
        None => format!("{file}: {why}; it is left out"),
        Some(operation) => format!("{file}: {operation} can't be called: {why}"),
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let metadata = fs::metadata(entry.path()).ok()?;
            Some((entry.path(), metadata.modified().ok(), metadata.len()))
        })
        .collect();
    files.sort();
    files
}
