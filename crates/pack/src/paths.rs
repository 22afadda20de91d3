//! Relative paths that stay where they belong, and paths as payloads show them.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use crate::ids::is_component;

/// A path below some directory: UTF-8 components joined by `/`, none of them `.`, `..` or empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

impl RelPath {
    /// Reads a path that something outside wrote. `None` when it could lead elsewhere.
    pub fn parse(text: &str) -> Option<Self> {
        text.split('/').all(is_component).then(|| Self(text.to_owned()))
    }

    /// A path below `base`, when it is.
    pub(crate) fn below(base: &Path, path: &Path) -> Option<Self> {
        let rest = path.strip_prefix(base).ok()?;
        Self::parse(rest.to_str()?)
    }

    /// A single file's name.
    pub(crate) fn name(text: &str) -> Option<Self> {
        is_component(text).then(|| Self(text.to_owned()))
    }

    /// `other` below this.
    pub(crate) fn join(&self, other: &Self) -> Self {
        Self(format!("{}/{}", self.0, other.0))
    }

    /// The text, with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last component.
    pub(crate) fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Its directory, when it has one.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Its components.
    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<Path> for RelPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// A path as payloads show it.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A path with `~` and `~/` replaced by the home directory.
pub(crate) fn expanded(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

/// An absolute path without `.` and `..`, by words alone: nothing needs to exist.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_elsewhere_is_none() {
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/./b", "a/", "a\\b", "a\0b"] {
            assert_eq!(RelPath::parse(bad), None, "{bad}");
        }
        assert_eq!(RelPath::parse("a/b.md").unwrap().file_name(), "b.md");
    }

    #[test]
    fn a_tilde_is_the_home() {
        let home = Path::new("/h");
        assert_eq!(expanded("~/x", home), Path::new("/h/x"));
        assert_eq!(expanded("~", home), home);
        assert_eq!(expanded("~other/x", home), Path::new("~other/x"));
        assert_eq!(absolute(Path::new("/a/b"), Path::new("../c/./d")), Path::new("/a/c/d"));
    }
}
