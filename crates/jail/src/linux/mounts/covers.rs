//! Hides paths of the host's tree, and brings shown ones back.
//!
//! A hidden directory is covered by an empty one, a hidden file by an empty file (or the emptiest text
//! that its format allows), a socket by a file, on which `connect` is refused. All read-only. A name that
//! is a symlink hides what it leads to, a folder what links in it lead to ([`super::links`]), and what is mounted elsewhere as well is
//! hidden there, too. The links on the way keep their names. What can't be reached from here can't be reached by the command,
//! and is skipped, but for what lies in a folder of the user's own that is closed: it is hidden as a whole. Anything else that
//! fails stops the jail, as a secret would be visible.
//!
//! A limit of the kernel: when a program outside replaces a covered *file* by renaming another over it
//! (`npm login` in a second terminal), the cover goes with the old file. Folders don't have this.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::getuid;

use super::aliases::Mounts;
use super::area::{Area, EMPTY, NOTHING, bind};
use super::canonical::{Canonical, Way};
use super::hosted::Surroundings;
use super::links::Links;
use super::{Kind, attach, clone_tree, mount_point, pin};
use crate::linux::channel::{During, Failure, Step};
use crate::linux::orders::Ground;

/// Replaced as a whole by other files of this folder.
const REPLACED: &[&str] = &["/dev", "/run"];
/// Kernel file systems, looked after by `kernel`.
const KERNEL: &[&str] = &["/proc", "/sys"];

/// What happens at a path; the map's order has every path after those above it.
enum Operation {
    Hide(Kind),
    /// The same of a way out, which may be gone with its program by the time.
    Block(Kind),
    /// A directory of the jail's own, with this mode.
    Own(u32),
    /// Brought back, from the copy.
    Show(Kind, OwnedFd),
    /// It keeps its name: moved aside, it would show what was covered in it to the next jail. What is there for a way out
    /// alone may be gone with it.
    Pin {
        is_fleeting: bool,
    },
}

/// Decided, not yet done.
pub(super) struct Covers(BTreeMap<PathBuf, Operation>);

impl Covers {
    /// Looks at the host's tree; `/run` and `/dev` must still be the host's.
    pub(super) fn resolve(ground: &Ground, surroundings: &Surroundings) -> Result<Self, Failure> {
        let mut known = Canonical::default();
        let show = ground.show.iter().map(Path::new);
        let shown: BTreeSet<PathBuf> = resolved(&mut known, show).collect();
        let Hidden { paths: mut hidden, links } = Hidden::find(ground, &shown, &mut known);
        let mounts = Mounts::parse(&surroundings.mounts);
        let mut elsewhere: Vec<PathBuf> = runtime_elsewhere(&mounts).collect();
        // In a jail that sees the system's folders alone, files that are mounted there are the system's.
        if !ground.read_only {
            elsewhere.extend(other_names(&mounts, &hidden));
        }
        hidden.extend(resolved(&mut known, elsewhere.iter().map(PathBuf::as_path)));
        let mut out = surroundings.ways_out.clone();
        out.extend(other_names(&mounts, &surroundings.ways_out));
        let out = resolved(&mut known, out.iter().map(PathBuf::as_path));
        let blocked = out.map(|path| (path, Operation::Block as fn(_) -> _));
        let hiding = hidden.into_iter().map(|path| (path, Operation::Hide as fn(_) -> _));
        let mut wanted = BTreeMap::new();
        for (path, operation) in blocked.chain(hiding) {
            match Kind::of(&path) {
                Ok(kind) => drop(wanted.insert(path, Some(operation(kind)))),
                // Gone since it was found, as the socket of a program that ends.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let doing = || format!("look at {}", path.display());
                    return Err(error).during(Step::Hide, doing);
                }
            }
        }
        for (path, mode) in &surroundings.gathering_places {
            let place = resolved(&mut known, [path.as_path()]);
            wanted.extend(place.map(|path| (path, Some(Operation::Own(*mode)))));
        }
        // A shown path takes the place of a wish to hide the same.
        wanted.extend(shown.into_iter().map(|path| (path, None)));

        let mut covers = Self(BTreeMap::new());
        for (path, operation) in wanted {
            match operation {
                Some(_) if covers.is_gone(&path) => {}
                Some(operation) => drop(covers.0.insert(path, operation)),
                None => covers.show(path, ground.read_only)?,
            }
        }
        if !ground.read_only {
            covers.pin(&links);
        }
        Ok(covers)
    }

    /// Pins the folders in which something is covered, and the `links` that lead to it, where the user could rename them:
    /// only what is a mount itself keeps its name.
    fn pin(&mut self, links: &BTreeSet<PathBuf>) {
        let links = links.iter().filter(|link| !self.0.contains_key(*link) && !self.is_gone(link));
        let links: Vec<PathBuf> = links.cloned().collect();
        let covered = |wanted: fn(&Operation) -> bool| {
            self.0.iter().filter(move |(_, done)| wanted(done)).map(|(path, _)| path.as_path())
        };
        let hidden = covered(|done| matches!(done, Operation::Hide(_)));
        let hidden: Vec<&Path> = hidden.chain(links.iter().map(PathBuf::as_path)).collect();
        let blocked = covered(|done| matches!(done, Operation::Block(_)));
        let above = |path: &Path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
        let lasting: BTreeSet<PathBuf> =
            hidden.into_iter().flat_map(above).chain(links.iter().cloned()).collect();
        let fleeting: BTreeSet<PathBuf> = blocked.flat_map(above).collect();
        for (names, is_fleeting) in [(lasting, false), (fleeting, true)] {
            for name in names.into_iter().filter(|name| name.parent().is_some_and(is_ours)) {
                self.0.entry(name).or_insert(Operation::Pin { is_fleeting });
            }
        }
    }

    /// In a jail that can't change the host's files, what is shown is the exception.
    fn show(&mut self, path: PathBuf, always: bool) -> Result<(), Failure> {
        let as_a_whole = REPLACED.iter().any(|replaced| path == Path::new(replaced));
        let kernels = KERNEL.iter().any(|kernel| path.starts_with(kernel));
        if (always || self.is_gone(&path)) && !as_a_whole && !kernels {
            let deed = || format!("keep {} visible", path.display());
            let kind = Kind::of(&path).during(Step::Hide, deed)?;
            let tree = clone_tree(&path).during(Step::Hide, deed)?;
            self.0.insert(path, Operation::Show(kind, tree));
        }
        Ok(())
    }

    /// Whether the nearest decision above a path already takes it away.
    fn is_gone(&self, path: &Path) -> bool {
        let mut above = path.ancestors().skip(1);
        match above.find_map(|above| self.0.get(above)) {
            Some(Operation::Show(..)) => false,
            Some(Operation::Hide(_) | Operation::Block(_) | Operation::Own(_)) => true,
            Some(Operation::Pin { .. }) | None => {
                REPLACED.iter().chain(KERNEL).any(|replaced| path.starts_with(replaced))
            }
        }
    }

    /// What something happens at.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.keys()
    }

    /// Prepares what covers, while the area can still be written.
    pub(super) fn place(self, area: &mut Area) -> io::Result<Placed> {
        let mut placed = Placed { steps: Vec::new() };
        let Self(operations) = self;
        for (number, (path, operation)) in operations.iter().enumerate() {
            let mut shown = shown_below(path, &operations).peekable();
            let source = match operation {
                Operation::Pin { is_fleeting } => {
                    placed.steps.push((path.clone(), Deed::Pin { is_fleeting: *is_fleeting }));
                    continue;
                }
                Operation::Show(..) => continue,
                Operation::Own(mode) => area.private_directory(*mode)?,
                Operation::Hide(Kind::File) | Operation::Block(Kind::File) => stand_in(area, path)?,
                Operation::Hide(Kind::Directory) | Operation::Block(Kind::Directory) => {
                    match shown.peek() {
                        None => NOTHING.into(),
                        Some(_) => area.directory(format!("covers/{number}"))?,
                    }
                }
            };
            for (below, kind) in shown {
                mount_point(&source.join(below), kind)?;
            }
            let is_fleeting = matches!(operation, Operation::Block(_));
            placed.steps.push((path.clone(), Deed::Cover { source, is_fleeting }));
        }
        for (path, operation) in operations {
            if let Operation::Show(kind, tree) = operation {
                placed.steps.push((path, Deed::Attach(kind, tree)));
            }
        }
        // Each after what is above it.
        placed.steps.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(placed)
    }
}

/// Whether the user may change what is in a folder, or may give themselves that right.
fn is_ours(folder: &Path) -> bool {
    is_owned(folder) || access(folder, Access::WRITE_OK).is_ok()
}

fn is_owned(folder: &Path) -> bool {
    rustix::fs::stat(folder).is_ok_and(|about| about.st_uid == getuid().as_raw())
}

enum Deed {
    Cover { source: PathBuf, is_fleeting: bool },
    Pin { is_fleeting: bool },
    Attach(Kind, OwnedFd),
}

/// Ready to be mounted.
pub(super) struct Placed {
    steps: Vec<(PathBuf, Deed)>,
}

impl Placed {
    /// Mounts it all; `/run` and `/dev` must be the jail's by now.
    pub(super) fn apply(self) -> Result<(), Failure> {
        for (path, deed) in self.steps {
            let (verb, done) = match deed {
                Deed::Cover { source, is_fleeting } => {
                    ("cover", or_gone(bind(&source, &path), is_fleeting))
                }
                Deed::Pin { is_fleeting } => ("pin", or_gone(pin(&path), is_fleeting)),
                Deed::Attach(kind, tree) => ("bring back", attach_shown(&path, kind, &tree)),
            };
            done.during(Step::Hide, || format!("{verb} {}", path.display()))?;
        }
        Ok(())
    }
}

fn attach_shown(path: &Path, kind: Kind, tree: &OwnedFd) -> io::Result<()> {
    if REPLACED.iter().any(|replaced| path.starts_with(replaced)) {
        mount_point(path, kind)?;
    }
    attach(tree, path)
}

/// What is shown below `path`, which is covered: where from there, and what its mount point must be.
fn shown_below<'a>(
    path: &'a Path,
    operations: &'a BTreeMap<PathBuf, Operation>,
) -> impl Iterator<Item = (&'a Path, Kind)> {
    let from = operations.range(path.to_path_buf()..).skip(1);
    let below =
        from.map_while(move |(other, operation)| Some((other.strip_prefix(path).ok()?, operation)));
    below.filter_map(|(rest, operation)| match operation {
        Operation::Show(kind, _) => Some((rest, *kind)),
        _ => None,
    })
}

/// What is asked to be hidden.
#[derive(Default)]
struct Hidden {
    /// Without links: what is named, and what links in there lead to; of a folder that is shown nothing is followed.
    paths: Vec<PathBuf>,
    /// The links on the way to all that: without them the next jail would not find it.
    links: BTreeSet<PathBuf>,
}

impl Hidden {
    fn find(ground: &Ground, shown: &BTreeSet<PathBuf>, known: &mut Canonical) -> Self {
        let mut hidden = Self::default();
        for path in ground.hide.iter().map(Path::new) {
            hidden.take(path, known);
        }
        let links = Links::new(ground, shown);
        let linking = hidden.paths.iter().flat_map(|folder| links.in_folder(folder));
        for link in linking.collect::<Vec<_>>() {
            hidden.take(&link, known);
        }
        hidden
    }

    fn take(&mut self, path: &Path, known: &mut Canonical) {
        if let Some(found) = known.of(path) {
            if found != path {
                self.links.extend(Way::to(path).links);
            }
            // The root itself is never one of them.
            self.paths.extend(Some(found).filter(|found| found != Path::new("/")));
        } else if known.is_closed(path) {
            // Its owner closed it, and opens it again: the command is the same user.
            let Way { links, closed } = Way::to(path);
            let closed = closed.filter(|folder| folder.parent().is_some() && is_owned(folder));
            if let Some(folder) = closed {
                self.links.extend(links);
                self.paths.push(folder);
            }
        }
    }
}

/// Where these show under other names.
fn other_names(mounts: &Mounts, paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let others = paths.iter().flat_map(|path| mounts.other_names(path));
    others.filter(|other| other.metadata().is_ok())
}

/// Of what the jail replaces, sockets may lie in every folder; single files are mounted from there as the system's.
fn runtime_elsewhere(mounts: &Mounts) -> impl Iterator<Item = PathBuf> {
    let runtime = mounts.other_names(Path::new("/run")).into_iter().filter(|other| other.is_dir());
    runtime.filter(|other| !other.starts_with("/run"))
}

/// What is gone can't be mounted on, nor seen.
fn or_gone(mounted: Result<(), impl Into<io::Error>>, is_fleeting: bool) -> io::Result<()> {
    match mounted.map_err(Into::into) {
        Err(error) if is_fleeting && error.kind() == io::ErrorKind::NotFound => Ok(()),
        mounted => mounted,
    }
}

/// The emptiest file that a program which expects to find one there still understands.
fn stand_in(area: &mut Area, path: &Path) -> io::Result<PathBuf> {
    match path.extension().and_then(OsStr::to_str) {
        Some("json") => area.file("empty.json", b"{}\n"),
        // Maven refuses an empty settings.xml.
        Some("xml") if path.ends_with("settings.xml") => {
            area.file("settings.xml", b"<settings/>\n")
        }
        _ => Ok(EMPTY.into()),
    }
}

/// Existing paths without symlinks; the root itself is never one of them.
fn resolved<'a>(
    known: &mut Canonical,
    paths: impl IntoIterator<Item = &'a Path>,
) -> impl Iterator<Item = PathBuf> {
    paths.into_iter().filter_map(|path| known.of(path)).filter(|path| path != Path::new("/"))
}
