//! What a rebase that waits for a person has done so far: `.agentpack/rebase.json`, and the texts of upstream
//! that it was done against, which later merges start from, as `.agentpack/upstream/SHA`.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    apply::write_durably,
    error::{PackError, Result},
    paths::RelPath,
    plain_file,
    sha::Sha,
    tree::Tree,
};

const FILE: &str = ".agentpack/rebase.json";
const TEXTS: &str = ".agentpack/upstream";

/// `.agentpack/rebase.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Pending {
    /// Files in conflict, and the upstream that their markers were made against: `None` where it had the file no more.
    pub(super) files: BTreeMap<String, Option<Sha>>,
    /// Files that were moved, and the upstream that they stand on since.
    #[serde(default)]
    pub(super) moved: BTreeMap<String, Sha>,
}

impl Pending {
    pub(super) fn load(overlay: &Path) -> Self {
        let text = plain_file::read_to_string(overlay.join(FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The upstream that a file stands on, where it is not the baseline's.
    pub(super) fn base_of(&self, path: &RelPath) -> Option<Sha> {
        let open = self.files.get(path.as_str()).copied().flatten();
        open.or_else(|| self.moved.get(path.as_str()).copied())
    }

    /// Writes it with the texts that it names, out of upstream as it is now or from where they stand already.
    pub(super) fn write(&self, overlay: &Path, upstream: &Tree) -> Result<()> {
        let texts = overlay.join(TEXTS);
        let named = self.files.values().flatten().chain(self.moved.values());
        for sha in named {
            let place = texts.join(sha.to_string());
            let file = upstream.0.values().find(|file| file.content.sha() == *sha);
            if let Some(file) = file.filter(|_| !place.exists()) {
                write_durably(&place, file.content.bytes())?;
            }
        }
        let text = serde_json::to_string_pretty(self).expect("strings");
        write_durably(&overlay.join(FILE), text.as_bytes())
    }

    /// A text of upstream that was kept.
    pub(super) fn text(overlay: &Path, sha: Sha) -> Option<Vec<u8>> {
        plain_file::read(overlay.join(TEXTS).join(sha.to_string())).ok()
    }

    /// Ends the waiting.
    pub(super) fn clear(overlay: &Path) -> Result<()> {
        let place = overlay.join(FILE);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(PackError::io("remove", &place, &error));
            }
            _ => {}
        }
        // Nothing names them any more.
        let _ = fs::remove_dir_all(overlay.join(TEXTS));
        Ok(())
    }
}
