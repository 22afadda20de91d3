//! The source `files`: a folder with one file per secret, such as a mount of Kubernetes.
//!
//! A reference is the file's place below the folder and can't lead out of it by `..`, nor by a link, unless the operator
//! says so: the folder is hidden from jails, and what lies elsewhere is not. Links within it, as Kubernetes' own, are
//! followed.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use keyless_core::SafeText;
use tokio::task::spawn_blocking;
use toml::{Table, Value};
use zeroize::Zeroizing;

use super::{
    backend::{
        Answer, Backend, Capabilities, Fetched, Held, MAX_HELD, SourceFault, State, holds_too_much,
        not_there,
    },
    file,
    supply::Supply,
};
use crate::{plain_file::PlainFile, router::required};

/// What a link out of the folder comes to.
const LINKED_OUT: &str = "the file is a link out of the source's folder, which alone is hidden from jails: name the \
                          folder where it really is, or set links_out = true";

/// One folder.
pub(crate) struct FolderSource {
    folder: PathBuf,
    links: Links,
}

/// Where links may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Anywhere,
    Within,
}

/// Why a file was not read.
enum Unread {
    LinkedOut,
    Io(io::Error),
}

impl FolderSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        let folder = PathBuf::from(required(settings, "folder")?);
        let links = match settings.get("links_out") {
            None | Some(Value::Boolean(false)) => Links::Within,
            Some(Value::Boolean(true)) => Links::Anywhere,
            Some(_) => return Err("links_out is true or false".to_owned()),
        };
        if folder.is_absolute() {
            Ok(Self { folder, links })
        } else {
            Err("folder is not absolute".to_owned())
        }
    }
}

impl Backend for FolderSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        if self.folder.is_dir() { Ok(()) } else { Err(not_there("folder", &self.folder)) }
    }

    fn state<'a>(&'a self, _: &'a Supply) -> Answer<'a, State> {
        let there = self.folder.is_dir();
        Box::pin(async move { if there { State::Available } else { State::NotInstalled } })
    }

    fn list<'a>(&'a self, _: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
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
        _: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let below = Path::new(reference);
            if !below.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(SourceFault::new(State::Available, "the reference leaves the folder"));
            }
            let (folder, file, links) = (self.folder.clone(), self.folder.join(below), self.links);
            let read = spawn_blocking(move || read(&folder, &file, links)).await;
            match read.expect("reading a file does not panic") {
                Ok(bytes) => Ok(Some(Fetched { bytes, lease: None })),
                Err(Unread::Io(error)) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                    PlainFile::NO_FILE => {
                        let words = "what lies there is no regular file";
                        Err(SourceFault::new(State::Available, words))
                    }
                    kind => {
                        let words =
                            SafeText::words("the file can't be read: ").and(file::why(kind));
                        Err(SourceFault { state: State::Unavailable, words })
                    }
                },
                Err(Unread::LinkedOut) => Err(SourceFault::new(State::Available, LINKED_OUT)),
            }
        })
    }
}

/// The file's bytes, from where it really is. Blocks.
fn read(folder: &Path, file: &Path, links: Links) -> Result<Zeroizing<Vec<u8>>, Unread> {
    let file = file.canonicalize()?;
    if links == Links::Within && !file.starts_with(folder.canonicalize()?) {
        return Err(Unread::LinkedOut);
    }
    Ok(file::bytes(&file)?)
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    async fn get(folder: &Path, more: &str, reference: &str) -> Result<Option<String>, String> {
        let settings = format!("folder = {:?}\n{more}", folder.display().to_string());
        let source = FolderSource::new(&settings.parse().unwrap()).unwrap();
        let got = source.get(reference, &Supply::default()).await;
        got.map(|got| got.map(|one| String::from_utf8(one.bytes.to_vec()).unwrap()))
            .map_err(|fault| fault.words.as_str().to_owned())
    }

    #[tokio::test]
    async fn a_folder_in_a_files_place_is_no_fault_of_the_source() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("token")).unwrap();
        fs::write(root.path().join("file"), "value").unwrap();
        let settings = format!("folder = {:?}", root.path().display().to_string());
        let source = FolderSource::new(&settings.parse().unwrap()).unwrap();
        let with = Supply::default();
        let fault = source.get("token", &with).await.err().unwrap();
        assert_eq!(fault.state, State::Available, "{}", fault.words.as_str());
        assert!(source.get("file/token", &with).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_link_leads_out_of_the_folder_only_where_the_operator_says_so() {
        let root = tempfile::tempdir().unwrap();
        let [mount, real, elsewhere] =
            ["mount", "real", "elsewhere"].map(|name| root.path().join(name));
        // As Kubernetes mounts, through a link as well.
        fs::create_dir_all(real.join("..2026")).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(real.join("..2026/token"), "within").unwrap();
        fs::write(elsewhere.join("token"), "without").unwrap();
        for (target, link) in [
            (real.clone(), mount.clone()),
            ("..2026".into(), real.join("..data")),
            ("..data/token".into(), real.join("token")),
            (elsewhere.join("token"), real.join("absolute")),
            ("../elsewhere/token".into(), real.join("relative")),
            (elsewhere.clone(), real.join("folder")),
            ("nowhere".into(), real.join("dangling")),
        ] {
            symlink(target, link).unwrap();
        }
        assert_eq!(get(&mount, "", "token").await, Ok(Some("within".to_owned())));
        assert_eq!(get(&mount, "", "dangling").await, Ok(None));
        for reference in ["absolute", "relative", "folder/token"] {
            let refused = get(&mount, "", reference).await.unwrap_err();
            assert!(refused.contains("links_out = true"), "{reference}: {refused}");
            let allowed = get(&mount, "links_out = true", reference).await;
            assert_eq!(allowed, Ok(Some("without".to_owned())), "{reference}");
        }
        let settings = "folder = \"/x\"\nlinks_out = \"yes\"".parse().unwrap();
        assert!(FolderSource::new(&settings).is_err());
    }
}
