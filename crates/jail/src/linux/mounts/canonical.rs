//! Paths without links, for many paths with folders in common: what is hidden is a table of some hundred files, most of
//! which do not exist. Each folder is looked at once; `canonicalize` looks at all above a path for each.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

use rustix::io::Errno;

/// As many links as the kernel follows for one path.
const MOST_LINKS: usize = 40;

/// What is known of paths at one moment. Not to be kept for longer than one look at the host.
#[derive(Default)]
pub(super) struct Canonical(HashMap<PathBuf, Found>);

#[derive(Clone)]
enum Found {
    At(PathBuf),
    Missing,
    /// This process may not look there.
    Closed,
}

impl Canonical {
    /// What [`Path::canonicalize`] gives; `None` where it fails.
    pub(super) fn of(&mut self, path: &Path) -> Option<PathBuf> {
        match self.find(path) {
            Found::At(path) => Some(path),
            Found::Missing | Found::Closed => None,
        }
    }

    /// Whether a folder on the way, which is there, can't be looked into.
    pub(super) fn is_closed(&mut self, path: &Path) -> bool {
        matches!(self.find(path), Found::Closed)
    }

    fn find(&mut self, path: &Path) -> Found {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let found = self.look_up(path);
        self.0.insert(path.to_owned(), found.clone());
        found
    }

    fn look_up(&mut self, path: &Path) -> Found {
        let last = path.components().next_back().filter(|_| path.is_absolute());
        let (Some(above), Some(Component::Normal(name))) = (path.parent(), last) else {
            return found(path.canonicalize());
        };
        let here = match self.find(above) {
            Found::At(above) => above.join(name),
            nowhere => return nowhere,
        };
        match fs::read_link(&here) {
            // It is there, and no link.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Found::At(here),
            Err(error) => found(Err(error)),
            Ok(_) => found(here.canonicalize()),
        }
    }
}

fn found(path: io::Result<PathBuf>) -> Found {
    match path {
        Ok(path) => Found::At(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Found::Closed,
        Err(_) => Found::Missing,
    }
}

/// What is passed on the way to a path.
#[derive(Default)]
pub(super) struct Way {
    /// The links, by paths that have none above them.
    pub(super) links: Vec<PathBuf>,
    /// The folder where it ends, as this process may not look into it.
    pub(super) closed: Option<PathBuf>,
}

impl Way {
    /// Goes along an absolute path.
    pub(super) fn to(path: &Path) -> Self {
        let mut way = Self::default();
        let mut here = PathBuf::from("/");
        let mut ahead = names(path);
        while let Some(name) = ahead.pop() {
            if name == "/" {
                here = PathBuf::from("/");
                continue;
            }
            if name == ".." {
                // Above the root is the root.
                here.pop();
                continue;
            }
            let at = here.join(&name);
            match fs::read_link(&at) {
                Ok(target) if way.links.len() < MOST_LINKS => {
                    way.links.push(at);
                    ahead.extend(names(&target));
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    way.closed = Some(here);
                    return way;
                }
                _ => here = at,
            }
        }
        way
    }
}

/// A path's parts, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let mut names: Vec<OsString> = parts.map(|part| part.as_os_str().to_owned()).collect();
    names.reverse();
    names
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
        let linked = |name: &str| Way::to(&at(name)).links;
        assert!(linked("folder/file").is_empty());
        assert_eq!(linked("to-folder/file"), [at("to-folder")]);
        assert_eq!(linked("over-link/up"), ["over-link", "to-folder", "folder/below/up"].map(at));
        assert_eq!(linked("to-root/proc/./../no-such"), [at("to-root")]);
        assert_eq!(linked("round").len(), MOST_LINKS);
        for path in ["/", "/..", "", ".", "src", "no-such", "/proc/self/exe", "//proc//self/../1"] {
            check(path.into());
        }
    }
}
