//! The source `files`: a folder with one file per secret, such as a mount of Kubernetes.
//!
//! A reference is the file's place below the folder and can't lead out of it by `..`.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use keyless_core::{SecretPath, SecretValue};
use tokio::task::spawn_blocking;
use toml::Table;

use super::{
    backend::{
        Answer, Backend, Capabilities, Fetched, Held, MAX_HELD, SourceFault, State, holds_too_much,
    },
    file,
};
use crate::router::required;

/// One folder.
pub(crate) struct FolderSource {
    folder: PathBuf,
}

impl FolderSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        let folder = PathBuf::from(required(settings, "folder")?);
        if folder.is_absolute() {
            Ok(Self { folder })
        } else {
            Err("folder is not absolute".to_owned())
        }
    }
}

impl Backend for FolderSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST)
    }

    fn reference(&self, path: &SecretPath, rest: &str, _: Option<&Table>) -> String {
        if rest.is_empty() { path.to_string() } else { rest.to_owned() }
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    fn state<'a>(&'a self, _: Option<&'a SecretValue>) -> Answer<'a, State> {
        let there = self.folder.is_dir();
        Box::pin(async move { if there { State::Available } else { State::NotInstalled } })
    }

    fn list<'a>(
        &'a self,
        _: Option<&'a SecretValue>,
    ) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        let folder = self.folder.clone();
        Box::pin(async move {
            let unreadable = || SourceFault::new(State::Unavailable, "the folder can't be read");
            let found = spawn_blocking(move || files_below(&folder, &folder, unreadable)).await;
            let files = found.expect("reading a folder does not panic")?;
            Ok(files.into_iter().map(|file| Held { reference: file, name: None }).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        _: Option<&'a SecretValue>,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let below = Path::new(reference);
            if !below.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(SourceFault::new(State::Available, "the reference leaves the folder"));
            }
            let file = self.folder.join(below);
            let read = spawn_blocking(move || file::bytes(&file)).await;
            match read.expect("reading a file does not panic") {
                Ok(bytes) => Ok(Some(Fetched { bytes, lease: None })),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(_) => Err(SourceFault::new(State::Unavailable, "the file can't be read")),
            }
        })
    }
}

/// The files below `folder`, by their place below `root`; what begins with a dot is left out, and no folder is
/// entered through a link. `unreadable` is how it is told that a folder can't be looked into. Blocks.
pub(super) fn files_below(
    folder: &Path,
    root: &Path,
    unreadable: fn() -> SourceFault,
) -> Result<Vec<String>, SourceFault> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).map_err(|_| unreadable())? {
            let entry = entry.map_err(|_| unreadable())?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if entry.file_type().map_err(|_| unreadable())?.is_dir() {
                folders.push(entry.path());
            } else if let Ok(below) = entry.path().strip_prefix(root)
                && let Some(below) = below.to_str()
                && entry.path().is_file()
            {
                found.push(below.to_owned());
            }
            if found.len() > MAX_HELD {
                return Err(holds_too_much());
            }
        }
    }
    Ok(found)
}
