//! A module's files in memory: read once, hashed once, shared by all targets.
//!
//! Links are not followed out of the module, special files are refused, and sizes have a limit: a module may
//! come from a stranger's repository.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{PackError, Result},
    paths::{RelPath, shown},
    plain_file,
    sha::{Content, Sha},
};

/// One file of a module may have this many bytes.
pub(crate) const MAX_FILE: u64 = 32 * 1024 * 1024;
/// A module may have this many files,
pub(crate) const MAX_FILES: usize = 100_000;
/// and this many bytes in all.
pub(crate) const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// A file's content and whether it may be executed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeFile {
    pub(crate) content: Content,
    pub(crate) executable: bool,
}

/// Files by their path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree(pub(crate) BTreeMap<RelPath, TreeFile>);

/// One row of a file manifest in lockfiles and baselines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRow {
    pub(crate) path: String,
    pub(crate) sha256: Sha,
    pub(crate) bytes: u64,
}

impl Tree {
    /// Reads a file or a directory, `.git` left out. A single file stands under its own name.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let real = fs::canonicalize(path).map_err(|error| PackError::io("read", path, &error))?;
        let metadata = fs::metadata(&real).map_err(|error| PackError::io("read", path, &error))?;
        let mut reader = Reader { base: real.clone(), files: BTreeMap::new(), bytes: 0 };
        if metadata.is_dir() {
            reader.folder(&real)?;
        } else {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(RelPath::name);
            let name = name.ok_or_else(|| odd_name(path))?;
            reader.file(&real, name)?;
        }
        Ok(Self(reader.files))
    }

    /// This tree without `.agentpack` directories: what a module is made of.
    pub(crate) fn without_metadata(mut self) -> Self {
        self.0.retain(|path, _| !path.components().any(|part| part == ".agentpack"));
        self
    }

    /// The rows of a file manifest, by path.
    pub(crate) fn rows(&self) -> Vec<FileRow> {
        let row = |(path, file): (&RelPath, &TreeFile)| FileRow {
            path: path.to_string(),
            sha256: file.content.sha(),
            bytes: file.content.bytes().len() as u64,
        };
        self.0.iter().map(row).collect()
    }

    /// The tree's own digest, as lockfiles hold it.
    pub(crate) fn sha(&self) -> Sha {
        let line = |row: FileRow| format!("{}\n{}\n{}\n", row.path, row.sha256, row.bytes);
        let text: String = self.rows().into_iter().map(line).collect();
        Sha::of(text.as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Option<&TreeFile> {
        self.0.get(&RelPath::parse(path)?)
    }

    pub(crate) fn insert(&mut self, path: RelPath, file: TreeFile) {
        self.0.insert(path, file);
    }
}

struct Reader {
    base: PathBuf,
    files: BTreeMap<RelPath, TreeFile>,
    bytes: u64,
}

impl Reader {
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let fault = |error: io::Error| PackError::io("read", folder, &error);
        for entry in fs::read_dir(folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            if entry.file_name() == ".git" {
                continue;
            }
            let (path, kind) = (entry.path(), entry.file_type().map_err(fault)?);
            if kind.is_dir() {
                self.folder(&path)?;
                continue;
            }
            let name = RelPath::below(&self.base, &path).ok_or_else(|| odd_name(&path))?;
            if kind.is_symlink() {
                let real = self.inside(&path)?;
                self.file(&real, name)?;
            } else if kind.is_fifo()
                || kind.is_socket()
                || kind.is_block_device()
                || kind.is_char_device()
            {
                return Err(refused(
                    &path,
                    "is neither file nor directory",
                    "remove it from the module",
                ));
            } else {
                self.file(&path, name)?;
            }
        }
        Ok(())
    }

    /// Where a link leads, if that is a file of the same module.
    fn inside(&self, link: &Path) -> Result<PathBuf> {
        let real = fs::canonicalize(link).ok().filter(|real| real.starts_with(&self.base));
        real.filter(|real| {
            real.is_file() && !real.components().any(|part| part.as_os_str() == ".git")
        })
        .ok_or_else(|| {
            let message = "is a link that does not lead to a file of this module";
            refused(link, message, "replace the link by the file that it is meant to be")
        })
    }

    fn file(&mut self, path: &Path, name: RelPath) -> Result<()> {
        let file = read_limited(path)?;
        self.bytes += file.content.bytes().len() as u64;
        self.files.insert(name, file);
        if self.files.len() > MAX_FILES || self.bytes > MAX_BYTES {
            let message = format!("holds more than {MAX_FILES} files or {} MiB", MAX_BYTES >> 20);
            return Err(refused(
                &self.base,
                &message,
                "split the module, or point it at a smaller directory",
            ));
        }
        Ok(())
    }
}

/// Reads one regular file up to the limit.
pub(crate) fn read_limited(path: &Path) -> Result<TreeFile> {
    let fault = |error: io::Error| PackError::io("read", path, &error);
    let file = plain_file::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            refused(path, "is not a regular file", "replace it by a regular file")
        }
        _ => fault(error),
    })?;
    let metadata = file.metadata().map_err(fault)?;
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.len().min(MAX_FILE)).unwrap_or(0) + 1);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("is larger than {} MiB", MAX_FILE >> 20);
        return Err(refused(
            path,
            &message,
            "agents don't read files of this size; leave it out of the module",
        ));
    }
    let executable = metadata.permissions().mode() & 0o111 != 0;
    Ok(TreeFile { content: Content::new(bytes), executable })
}

fn refused(path: &Path, what: &str, hint: &str) -> PackError {
    PackError::config(format!("{} {what}", path.display())).with("path", shown(path)).hint(hint)
}

fn odd_name(path: &Path) -> PackError {
    refused(
        path,
        "has a name that can't be deployed",
        "use UTF-8 names without backslashes and control characters",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_lockfiles_digest() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        fs::write(folder.path().join(".git/HEAD"), "x").unwrap();
        fs::write(folder.path().join("a.md"), "hello\n").unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        let sha = Sha::of(b"hello\n");
        assert_eq!(tree.sha(), Sha::of(format!("a.md\n{sha}\n6\n").as_bytes()));
        let file = Tree::read(&folder.path().join("a.md")).unwrap();
        assert_eq!(file, tree);
    }

    #[test]
    fn links_stay_inside_and_pipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let module = folder.path().join("module");
        fs::create_dir_all(module.join("sub")).unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        fs::write(module.join("real.md"), "fine").unwrap();
        std::os::unix::fs::symlink("../real.md", module.join("sub/link.md")).unwrap();
        assert_eq!(
            Tree::read(&module).unwrap().get("sub/link.md").unwrap().content.bytes(),
            b"fine"
        );
        for target in ["../../outside", "/etc/hostname", "nowhere", "..", "."] {
            let link = module.join("sub/bad.md");
            std::os::unix::fs::symlink(target, &link).unwrap();
            let error = Tree::read(&module).unwrap_err();
            assert!(
                error.message().contains("does not lead to a file of this module"),
                "{target}: {error}"
            );
            fs::remove_file(link).unwrap();
        }
        let pipe = module.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(Tree::read(&module).unwrap_err().message().contains("neither file nor directory"));
    }
}
