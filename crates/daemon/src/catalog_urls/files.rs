//! The files behind it: settings, what each address brought first, the cache, the record.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_vault::{read_settings, read_settings_text, toml_fault};
use sha2::{Digest, Sha256};
use toml_edit::DocumentMut;

use super::{Settings, Try};
use crate::{
    places::{Places, private_directory, unusable},
    whole_file::write_whole,
};

/// How much of the record's end is looked at for what came last.
const LOOKED_AT: u64 = 256 * 1024;

/// Where they lie.
pub(super) struct Files {
    settings: PathBuf,
    folder: PathBuf,
}

impl Files {
    pub(super) fn of(places: &Places) -> Self {
        Self { settings: places.catalog_sources_file(), folder: places.catalog_state() }
    }

    pub(super) fn settings(&self) -> Result<Settings, Error> {
        self.settings_in(&self.settings_text()?)
    }

    /// Writes the settings as `edit` changes what stands there, and gives them. What would not be usable is not written.
    pub(super) fn edit_settings(
        &self,
        edit: impl FnOnce(&mut DocumentMut),
    ) -> Result<Settings, Error> {
        let text = self.settings_text()?;
        let document: Result<DocumentMut, _> = text.parse();
        let mut document = document.map_err(|error| self.invalid(error.message()))?;
        edit(&mut document);
        let text = document.to_string();
        let settings = self.settings_in(&text)?;
        replace(&self.settings, text.as_bytes())?;
        Ok(settings)
    }

    fn settings_text(&self) -> Result<String, Error> {
        match read_settings_text(&self.settings) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| self.invalid(&error.to_string())),
        }
    }

    fn settings_in(&self, text: &str) -> Result<Settings, Error> {
        toml::from_str(text).map_err(|error| self.invalid(&toml_fault(text, &error)))
    }

    fn invalid(&self, fault: &str) -> Error {
        let place = SafeText::default().as_they_wrote(&self.settings.to_string_lossy());
        Error::with(Code::CatalogInvalid, place.and(": ").as_they_wrote(fault.trim()))
    }

    /// SHA-256 of what each address brought first; one that can't be read is forgotten, and its
    /// cache with it.
    pub(super) fn known(&self) -> BTreeMap<String, String> {
        let text = read_settings_text(&self.folder.join("known_hashes.toml")).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    pub(super) fn remember(&self, url: &str, sha256: &str) -> Result<(), Error> {
        let mut known = self.known();
        known.insert(url.to_owned(), sha256.to_owned());
        self.put_known(&known)
    }

    pub(super) fn forget(&self, url: &str) -> Result<(), Error> {
        let mut known = self.known();
        known.remove(url);
        self.put_known(&known)
    }

    pub(super) fn cached(&self, url: &str) -> Option<Vec<u8>> {
        read_settings(&self.cache_file(url)).ok()
    }

    pub(super) fn fetched_at(&self, url: &str) -> Option<Timestamp> {
        let modified: SystemTime = fs::metadata(self.cache_file(url)).ok()?.modified().ok()?;
        modified.try_into().ok()
    }

    pub(super) fn keep(&self, url: &str, bytes: &[u8]) -> Result<(), Error> {
        self.prepare()?;
        replace(&self.cache_file(url), bytes)
    }

    /// Puts a try or a word of the operator on record; that it can't be written stops nothing.
    pub(super) fn note(&self, mut line: serde_json::Value) {
        line["timestamp"] = serde_json::json!(Timestamp::now());
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let file =
                options.append(true).create(true).mode(0o600).open(self.folder.join("audit.log"));
            writeln!(file?, "{line}")
        };
        let _ = self.prepare().map(|()| write());
    }

    /// The last try of an address that is on record, as far as the record's end tells; one that can't be read tells nothing.
    pub(super) fn last_try(&self, url: &str) -> Option<Try> {
        let mut file = File::open(self.folder.join("audit.log")).ok()?;
        let from = file.metadata().ok()?.len().saturating_sub(LOOKED_AT);
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = Vec::new();
        file.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        lines.find_map(|line| {
            serde_json::from_slice::<Try>(line).ok().filter(|tried| tried.url == url)
        })
    }

    fn put_known(&self, known: &BTreeMap<String, String>) -> Result<(), Error> {
        self.prepare()?;
        let text = toml::to_string(known).map_err(|_| Error::from(Code::Internal))?;
        replace(&self.folder.join("known_hashes.toml"), text.as_bytes())
    }

    fn prepare(&self) -> Result<(), Error> {
        private_directory(&self.folder.join("cache"))
    }

    fn cache_file(&self, url: &str) -> PathBuf {
        self.folder.join("cache").join(format!("{}.json", sha256(url.as_bytes())))
    }
}

/// SHA-256 in lower hex digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

fn replace(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_whole(file, bytes, 0o600).map_err(|error| unusable(file, &error))
}
