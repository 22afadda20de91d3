//! The two files: a project's `.keyless/secrets.toml`, and the operator's `index.toml`.
//!
//! A file that is no TOML is refused as a whole; a fault in one entry is told of that entry, and
//! everything beside it stands. No file is an empty file. Source: reference/secrets.md, 2.1 and 2.2.

use std::{
    collections::{BTreeMap, BTreeSet},
    io, mem,
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText, SecretPath};
use toml::{Table, Value};

use super::entry::{Entry, Fault, InventoryFile, Override, by_path};
use crate::{plain_file::PlainFile, toml_fault};

/// By how many letters a word may be off that was meant to be one of ours.
const SLIP: usize = 2;

/// What a project says of the secrets that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What it can't do without.
    pub required: BTreeSet<SecretPath>,
    /// What it uses when it is there.
    pub optional: BTreeSet<SecretPath>,
    /// What it says about secrets of others.
    pub overrides: BTreeMap<SecretPath, Override>,
    /// Its own.
    pub secrets: BTreeMap<SecretPath, Entry>,
    /// What can't be used.
    pub faults: Vec<Fault>,
}

/// What the operator knows of secrets whose values the store does not keep, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFile {
    /// By path.
    pub secrets: BTreeMap<SecretPath, Entry>,
    /// What can't be used.
    pub faults: Vec<Fault>,
}

impl Manifest {
    /// The most bytes of a manifest, or of the operator's index: more than anybody writes by hand.
    pub const MAX_BYTES: usize = 1024 * 1024;

    /// Where a project's own providers of tokens lie below its root.
    pub const CATALOG: &str = ".keyless/catalog";

    /// The project that `from` lies in: the nearest folder with a manifest, up to the one that is
    /// a repository's root. None beyond that: a manifest in `/tmp` is nobody's.
    pub fn project_of(from: &Path) -> Option<PathBuf> {
        Self::projects_above(from).next().map(Path::to_owned)
    }

    /// Every project that `from` lies in, the nearest first: a package's, then that of the repository around it.
    pub fn projects_above(from: &Path) -> impl Iterator<Item = &Path> {
        // Also what can't be read as a file: that the project limits itself is known then.
        within_repository(from).filter(|folder| {
            folder.join(InventoryFile::Manifest.as_str()).symlink_metadata().is_ok()
        })
    }

    /// The folder with the providers of tokens of the project that `from` lies in: the nearest one, up to the
    /// repository's root. A project may have one before it has a manifest. Blocks.
    pub fn catalog_of(from: &Path) -> Option<PathBuf> {
        within_repository(from)
            .map(|folder| folder.join(Self::CATALOG))
            .find(|catalog| catalog.is_dir())
    }

    /// Reads the manifest of `project`. [`Code::ManifestInvalid`] when it is no TOML. Blocks.
    pub fn load(project: &Path) -> Result<Self, Error> {
        let file = project.join(InventoryFile::Manifest.as_str());
        Self::parse(&read(&file)?).map_err(|fault| invalid(&file, &fault))
    }

    /// The text of the manifest of `project`, of [`Manifest::MAX_BYTES`] at most. [`Code::ManifestInvalid`] when it is
    /// there and can't be read. Blocks.
    pub fn text_of(project: &Path) -> Result<String, Error> {
        read(&project.join(InventoryFile::Manifest.as_str()))
    }

    /// Reads a manifest's text; the error says what is wrong with the file as a whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (table, file) = (table(text)?, InventoryFile::Manifest);
        let mut faults =
            unknown_keys(file, &table, &["required", "optional", "overrides", "secret"]);
        let required = paths(file, "required", table.get("required"), &mut faults);
        let mut optional = paths(file, "optional", table.get("optional"), &mut faults);
        for path in &required {
            if optional.remove(path) {
                let why = "is required as well; one of the two lists is enough".to_owned();
                let place = format!("optional {:?}", path.as_str());
                faults.push(Fault::of_none(file, place, why));
            }
        }
        let secrets = by_path(file, "secret", table.get("secret"), Entry::read, &mut faults);
        let mut overrides: BTreeMap<_, _> =
            by_path(file, "overrides", table.get("overrides"), Override::read, &mut faults)
                .into_iter()
                .collect();
        for (path, _) in &secrets {
            if overrides.remove(path).is_some() {
                let place = format!("overrides.{:?}", path.as_str());
                let why = format!(
                    "the project has a secret of that path itself: these lines belong under [secret.{:?}]",
                    path.as_str()
                );
                faults.push(Fault::of(file, place, path.clone(), why));
            }
        }
        Ok(Self { required, optional, overrides, secrets: secrets.into_iter().collect(), faults })
    }

    /// Whether the project names `path`.
    pub fn declares(&self, path: &SecretPath) -> bool {
        self.required.contains(path) || self.optional.contains(path)
    }
}

impl IndexFile {
    /// Reads the operator's index. [`Code::ManifestInvalid`] when it is no TOML. Blocks.
    pub fn load(file: &Path) -> Result<Self, Error> {
        Self::parse(&read(file)?).map_err(|fault| invalid(file, &fault))
    }

    /// Reads an index's text; the error says what is wrong with the file as a whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (table, file) = (table(text)?, InventoryFile::Index);
        let mut faults = unknown_keys(file, &table, &["secret"]);
        let secrets = by_path(file, "secret", table.get("secret"), Entry::read, &mut faults);
        Ok(Self { secrets: secrets.into_iter().collect(), faults })
    }
}

/// `from` and the folders around it, up to the one that is a repository's root.
fn within_repository(from: &Path) -> impl Iterator<Item = &Path> {
    let mut beyond = false;
    from.ancestors()
        .take_while(move |folder| !mem::replace(&mut beyond, folder.join(".git").exists()))
}

fn read(file: &Path) -> Result<String, Error> {
    let read = PlainFile::open(file).and_then(|opened| opened.text(Manifest::MAX_BYTES));
    match read {
        Ok(mut text) => Ok(mem::take(&mut *text)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound if file.symlink_metadata().is_err() => Ok(String::new()),
            io::ErrorKind::NotFound => Err(invalid(file, "a link that leads nowhere")),
            io::ErrorKind::FileTooLarge => Err(invalid(file, "over 1 MiB")),
            PlainFile::NO_FILE => Err(invalid(file, "not a regular file")),
            _ => Err(invalid(file, &error.to_string())),
        },
    }
}

fn table(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| toml_fault(text, &error))
}

/// What stands under no word of ours may have been a tightening: of the paths that it names, or of any secret where it names none.
fn unknown_keys(file: InventoryFile, table: &Table, known: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        let nearest = known.iter().filter(|word| strsim::osa_distance(key, word) <= SLIP);
        let nearest = nearest.min_by_key(|word| strsim::osa_distance(key, word));
        let meant = nearest.map(|word| format!(" (did you mean {word}?)")).unwrap_or_default();
        let why = format!("is unknown{meant}; there are {}", known.join(", "));
        let before = faults.len();
        for path in named(value) {
            let place = format!("{key}.{:?}", path.as_str());
            faults.push(Fault::of(file, place, path, why.clone()));
        }
        if faults.len() == before {
            faults.push(Fault { of_any: true, ..Fault::of_none(file, key.clone(), why) });
        }
    }
    faults
}

/// The paths that a table has as its keys, or a list in it.
fn named(value: &Value) -> BTreeSet<SecretPath> {
    match value {
        Value::Table(entries) => {
            entries.keys().filter_map(|key| SecretPath::parse(key).ok()).collect()
        }
        Value::Array(list) => {
            let texts = list.iter().filter_map(Value::as_str);
            texts.filter_map(|text| SecretPath::parse(text).ok()).collect()
        }
        _ => BTreeSet::new(),
    }
}

fn paths(
    file: InventoryFile,
    section: &'static str,
    list: Option<&Value>,
    faults: &mut Vec<Fault>,
) -> BTreeSet<SecretPath> {
    let mut all = BTreeSet::new();
    let entries = match list {
        None => return all,
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            let why = "is not a list of paths".to_owned();
            faults.push(Fault::of_none(file, section.to_owned(), why));
            return all;
        }
    };
    for (position, entry) in entries.iter().enumerate() {
        let fault = |why| Fault::of_none(file, format!("{section}[{position}]"), why);
        match entry.as_str().map(SecretPath::parse) {
            None => faults.push(fault("is not a path in quotes".to_owned())),
            Some(Err(error)) => faults.push(fault(error.to_string())),
            Some(Ok(path)) => {
                if !all.insert(path) {
                    faults.push(fault("stands there twice".to_owned()));
                }
            }
        }
    }
    all
}

fn invalid(file: &Path, fault: &str) -> Error {
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::ManifestInvalid, place.and(": ").as_they_wrote(fault))
}
