//! Paths without links, for many paths with folders in common: what is hidden is a table of some hundred files, most of
//! which do not exist. Each folder is looked at once; `canonicalize` looks at all above a path for each.

use std::{
    collections::HashMap,
    fs,
    path::{Component, Path, PathBuf},
};

use rustix::io::Errno;

/// What is known of paths at one moment. Not to be kept for longer than one look at the host.
#[derive(Default)]
pub(super) struct Canonical(HashMap<PathBuf, Option<PathBuf>>);

impl Canonical {
    /// What [`Path::canonicalize`] gives; `None` where it fails.
    pub(super) fn of(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let found = self.look_up(path);
        self.0.insert(path.to_owned(), found.clone());
        found
    }

    fn look_up(&mut self, path: &Path) -> Option<PathBuf> {
        let last = path.components().next_back().filter(|_| path.is_absolute());
        let (Some(above), Some(Component::Normal(name))) = (path.parent(), last) else {
            return path.canonicalize().ok();
        };
        let here = self.of(above)?.join(name);
        match fs::read_link(&here) {
            // It is there, and no link.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Some(here),
            Err(_) => None,
            Ok(_) => here.canonicalize().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_what_the_system_says() {
        let top = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let at = |name: &str| top.path().join(name);
        fs::create_dir_all(at("folder/below")).expect("made");
        fs::write(at("folder/file"), "").expect("written");
        for (target, link) in [
            ("folder", "to-folder"),
            ("to-folder/below", "over-link"),
            ("missing", "to-nothing"),
            ("round", "round"),
            ("../folder/file", "folder/below/up"),
            ("/", "to-root"),
        ] {
            symlink(target, at(link)).expect("linked");
        }
        let mut canonical = Canonical::default();
        let mut check = |path: PathBuf| {
            assert_eq!(canonical.of(&path), path.canonicalize().ok(), "{}", path.display());
        };
        for name in [
            "folder",
            "folder/",
            "folder/.",
            "folder/below/..",
            "folder/file",
            "folder/file/x",
            "to-folder",
            "to-folder/file",
            "over-link",
            "over-link/up",
            "over-link/../file",
            "to-nothing",
            "to-nothing/x",
            "round",
            "round/x",
            "folder/below/up",
            "to-root",
            "to-root/proc",
            "missing/../folder",
            "",
        ] {
            check(at(name));
        }
        for path in ["/", "/..", "", ".", "src", "no-such", "/proc/self/exe", "//proc//self/../1"] {
            check(path.into());
        }
    }
}
