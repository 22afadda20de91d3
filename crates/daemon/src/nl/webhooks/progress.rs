//! How far each receiver has been told: a small file, written whole.

use std::{collections::BTreeMap, path::PathBuf};

use parking_lot::Mutex;

use super::HookUrl;
use crate::{places::Places, whole_file::write_whole};
use keyless_vault::read_settings_text;

/// The last entry of the log that each receiver was told of, by its URL.
pub(super) struct Progress {
    file: PathBuf,
    told: Mutex<BTreeMap<String, u64>>,
}

impl Progress {
    pub(super) fn of(places: &Places) -> Self {
        let file = places.webhooks_state();
        let text = read_settings_text(&file).unwrap_or_default();
        // One that can't be read is begun anew, from the log's end.
        let told = serde_json::from_str(&text).unwrap_or_default();
        Self { file, told: Mutex::new(told) }
    }

    /// How far a receiver was told; nothing for a new one, which is told what happens from now on.
    pub(super) fn of_receiver(&self, url: &HookUrl) -> Option<u64> {
        self.told.lock().get(&url.to_string()).copied()
    }

    /// Notes that a receiver was told so far. What can't be written is told again after a restart.
    pub(super) fn save(&self, url: &HookUrl, sequence: u64) {
        let mut told = self.told.lock();
        if told.insert(url.to_string(), sequence) != Some(sequence)
            && let Ok(text) = serde_json::to_vec(&*told)
        {
            let _ = write_whole(&self.file, &text, 0o600);
        }
    }
}
