//! What of the host a jail is built over, as far as it matters to what the jail hides.
//!
//! A jail that stands for a while before its job comes must be what one built now would be: it hides what would be
//! hidden now. What is compared is each covered place with the file that is there, and the host's mounts.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    covers::Covers,
    hosted::{SocketList, Surroundings},
    resolver,
};
use crate::linux::orders::Ground;

/// Equal for two moments if a jail that was built in the one is what the other asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Each covered path and which file is there: a cover goes with its file when that is replaced.
    covered: Vec<(PathBuf, FileId)>,
    /// What stands in the place of the host's files about names.
    resolver: Vec<String>,
    /// The kernel's list.
    mounts: String,
}

/// Device, number and last change: a file system gives the number of a file that went to the next one.
pub(crate) type FileId = (u64, u64, Option<(i64, i64)>);

impl Sight {
    /// Looks now; `None` for a ground whose jails are not alike for all commands, or where it can't be seen.
    pub(crate) fn of(ground: &Ground) -> Option<Self> {
        if !ground.is_alike_for_all() {
            return None;
        }
        let surroundings = Surroundings::read(ground, SocketList::open());
        let covers = Covers::resolve(ground, &surroundings).ok()?;
        let (targets, resolver): (Vec<_>, Vec<_>) =
            resolver::files(ground).into_iter().map(|(_, target, text)| (target, text)).unzip();
        let covered = covers.paths().cloned().chain(targets);
        let covered = covered.filter_map(|path| Some((path.clone(), file_id(&path)?))).collect();
        // Where the list can't be read, two moments can't be told to be alike.
        let mounts = Some(surroundings.mounts).filter(|list| !list.is_empty())?;
        Some(Self { covered, resolver, mounts })
    }
}

/// `None` where there is none, or none that can be looked at.
pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    let file = path.metadata().ok()?;
    // A folder changes with what is in it, and its cover stays.
    let changed = (!file.is_dir()).then(|| (file.ctime(), file.ctime_nsec()));
    Some((file.dev(), file.ino(), changed))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{linux::orders::Purpose, plan::Plan};

    #[test]
    fn a_file_that_is_replaced_a_socket_and_another_list_are_seen() {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let hidden = folder.path().join("token");
        fs::write(&hidden, "1").expect("written");
        let look = |hide: &[&Path]| {
            let hide = hide.iter().map(Into::into).collect();
            let plan = Plan { hide, read_only: true, ..Plan::default() };
            let mut seen = Sight::of(&Ground::new(Purpose::Run, &plan, vec![])).expect("a sight");
            // Elsewhere on the machine other tests' sockets come and go meanwhile.
            seen.covered.retain(|(path, _)| path.starts_with(folder.path()));
            seen
        };
        let first = look(&[&hidden]);
        assert_eq!(look(&[&hidden]), first);
        assert_ne!(look(&[]), first);
        fs::write(folder.path().join("new"), "2").expect("written");
        assert_eq!(look(&[&hidden]), first);
        fs::rename(folder.path().join("new"), &hidden).expect("renamed");
        let second = look(&[&hidden]);
        assert_ne!(second, first);
        // The first file's number is free by now, and may come again.
        fs::write(folder.path().join("new"), "3").expect("written");
        fs::rename(folder.path().join("new"), &hidden).expect("renamed");
        let third = look(&[&hidden]);
        assert!(third != second && third != first);
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.path().join("s")).expect("bound");
        assert_ne!(look(&[&hidden]), third);
    }

    #[test]
    fn what_a_hidden_folder_leads_to_is_seen() {
        let top = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let (folder, kept) = (top.path().join("folder"), top.path().join("kept"));
        fs::create_dir(&folder).expect("made");
        fs::write(&kept, "1").expect("written");
        let look = || {
            let plan = Plan { hide: vec![folder.clone()], read_only: true, ..Plan::default() };
            let seen = Sight::of(&Ground::new(Purpose::Run, &plan, vec![])).expect("a sight");
            seen.covered.into_iter().filter(|(path, _)| path.starts_with(top.path())).collect()
        };
        let first: Vec<(PathBuf, FileId)> = look();
        std::os::unix::fs::symlink(&kept, folder.join("link")).expect("linked");
        let second = look();
        assert_ne!(second, first);
        fs::write(top.path().join("new"), "2").expect("written");
        assert_eq!(look(), second);
        fs::rename(top.path().join("new"), &kept).expect("renamed");
        assert_ne!(look(), second);
    }

    #[test]
    fn what_can_change_the_hosts_files_is_not_compared() {
        let plan = Plan { read_only: false, ..Plan::default() };
        assert_eq!(Sight::of(&Ground::new(Purpose::Run, &plan, vec![])), None);
    }
}
