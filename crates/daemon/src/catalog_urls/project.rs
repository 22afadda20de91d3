//! The files of projects: each counts once the operator has trusted it as it is, and until it changes.
//!
//! Agents write in projects, so a file there is nobody's word. What a person has read at a terminal is remembered by
//! the file's place and its SHA-256, where the first fetches of addresses are.

use std::path::{Path, PathBuf};

use keyless_core::{Code, Error, SafeText};
use keyless_vault::{
    Manifest, Provider, ProviderFault, Providers, Tier, provider_files, provider_in, provider_text,
};
use serde::Serialize;
use serde_json::json;

use super::files::{Files, sha256};
use crate::places::Places;

/// The files of projects, and which of them the operator trusts.
pub struct ProjectCatalogs {
    files: Files,
}

/// One file of a project, as it was read.
pub struct ProjectFile {
    /// Its real place.
    pub file: PathBuf,
    /// What it says, or why it can't be used.
    pub provider: Result<Provider, String>,
    /// SHA-256 of it; nothing when it can't be read.
    pub sha256: Option<String>,
    /// Whether it counts.
    pub trust: Trust,
}

/// Whether a project's file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// It is not what was trusted.
    Changed,
    /// The operator has trusted what it is.
    Trusted,
    /// Nobody was asked yet.
    Untrusted,
}

impl ProjectCatalogs {
    /// As these places have them.
    pub fn new(places: &Places) -> Self {
        Self { files: Files::of(places) }
    }

    /// The files of the project that `folder` lies in. Blocks.
    pub fn around(&self, folder: &Path) -> Vec<ProjectFile> {
        let catalog = Manifest::catalog_of(folder);
        let files = catalog.map(|catalog| provider_files(&catalog)).unwrap_or_default();
        files.iter().map(|file| self.look(file)).collect()
    }

    /// Every file that was trusted once, of whichever project. Blocks.
    pub fn remembered(&self) -> Vec<ProjectFile> {
        let known = self.files.known();
        let files = known.keys().map(Path::new).filter(|key| key.is_absolute());
        files.map(|file| self.look(file)).collect()
    }

    /// Another trusted file that says something else of the same provider. Blocks.
    pub fn rival(&self, file: &ProjectFile) -> Option<ProjectFile> {
        let mut others = self.remembered().into_iter();
        others.find(|other| other.trust == Trust::Trusted && file.contradicts(other))
    }

    /// Reads one file. Blocks.
    pub fn look(&self, file: &Path) -> ProjectFile {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let text = provider_text(&file);
        let sha256 = text.as_ref().ok().map(|text| sha256(text.as_bytes()));
        let known = self.files.known();
        let trust = match file.to_str().and_then(|key| known.get(key)) {
            None => Trust::Untrusted,
            Some(known) if Some(known) == sha256.as_ref() => Trust::Trusted,
            Some(_) => Trust::Changed,
        };
        let is_a_projects = file.parent().is_some_and(|folder| folder.ends_with(Manifest::CATALOG));
        let provider = text.and_then(|text| {
            if is_a_projects {
                provider_in(&file, &text)
            } else {
                Err(format!("lies in no {}", Manifest::CATALOG))
            }
        });
        ProjectFile { file, provider, sha256, trust }
    }

    /// Lets a file count as it was read, until it changes.
    pub fn trust(&self, shown: &ProjectFile) -> Result<(), Error> {
        let key =
            shown.file.to_str().ok_or_else(|| refused(&shown.file, "has no name in UTF-8"))?;
        let sha256 = shown.sha256.as_deref();
        let sha256 = sha256.ok_or_else(|| refused(&shown.file, "can't be read"))?;
        self.files.remember(key, sha256)?;
        self.note(key, Some(sha256), "trusted");
        Ok(())
    }

    /// Lets a file count no more. `Code::Usage` where it did not.
    pub fn forget(&self, file: &Path) -> Result<(), Error> {
        let file = place_of(file);
        let key = file.to_str().filter(|key| self.files.known().contains_key(*key));
        let key = key.ok_or_else(|| refused(&file, "was not trusted"))?;
        self.files.forget(key)?;
        self.note(key, None, "forgotten");
        Ok(())
    }

    fn note(&self, file: &str, sha256: Option<&str>, outcome: &'static str) {
        self.files.note(json!({
            "file": file, "sha256": sha256, "outcome": outcome,
        }));
    }
}

/// Where a file is, or was.
fn place_of(file: &Path) -> PathBuf {
    let gone = || {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        folder.ok().zip(file.file_name()).map(|(folder, name)| folder.join(name))
    };
    let place = file.canonicalize().ok().or_else(gone);
    place.or_else(|| std::path::absolute(file).ok()).unwrap_or_else(|| file.to_owned())
}

impl ProjectFile {
    /// Whether both speak of one provider, and not in the same words.
    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        let (Ok(ours), Ok(theirs)) = (&self.provider, &other.provider) else { return false };
        ours.provider_id == theirs.provider_id && self.sha256 != other.sha256
    }

    /// `known`, and beside it what the file says, if it may.
    pub(crate) fn beside(self, mut known: Providers) -> Providers {
        // What would not count either way is not offered for trust.
        let could = self.provider.as_ref().is_ok_and(|p| known.provider(&p.provider_id).is_none());
        let why = match self.trust {
            Trust::Changed if could => {
                "it is not the file that you trusted; keyless catalog trust FILE, once you know why"
            }
            Trust::Untrusted if could => {
                "a project's file counts once you trust it: keyless catalog trust FILE"
            }
            _ => return known.with_file(Tier::Project, &self.file, self.provider),
        };
        known.left_out.push(ProviderFault { file: self.file, why: why.to_owned() });
        known
    }
}

fn refused(file: &Path, why: &'static str) -> Error {
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::Usage, place.and(" ").and(SafeText::words(why)))
}
