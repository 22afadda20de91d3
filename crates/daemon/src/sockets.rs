//! Unix sockets that only this user can reach, and who comes to them.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use keyless_core::{Code, Error, SafeText};
use keyless_sockets::{Accepting, Process, bind_unix, connect_unix};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use tokio::{
    net::{UnixListener, UnixStream},
    time::sleep,
};

use crate::places::unusable;

/// How often it is looked whether another process has finished in a folder.
const LOOK: Duration = Duration::from_millis(5);
/// How often at most.
const LOOKS: u32 = 400;

/// The next connection of this user's processes.
pub(crate) async fn next_own(accepting: &mut Accepting<UnixListener>) -> UnixStream {
    loop {
        let stream = accepting.next().await;
        if is_ours(&stream) {
            return stream;
        }
    }
}

/// The directory's mode says so already.
fn is_ours(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// The process that connected.
pub(crate) fn process_of(stream: &UnixStream) -> Option<Process> {
    stream.peer_cred().ok()?.pid()
}

/// The error that the other end told of, by its code's name and its detail.
pub fn told_error(code: &str, detail: &str) -> Error {
    let known = Code::ALL.iter().copied().find(|known| known.as_str() == code);
    let detail = SafeText::default().as_they_wrote_in_full(detail);
    Error::with(known.unwrap_or(Code::Internal), detail)
}

/// Whether somebody listens at `path`.
pub(crate) async fn is_live(path: &Path) -> bool {
    match connect_unix(path).await {
        Ok(_) => true,
        // More wait to be accepted than have room.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Binds a socket of mode 0600; a dead one is replaced, a live one or another file is not. For folders of Keyless's own,
/// in which one process at a time does so.
pub(crate) async fn bind_private(path: &Path) -> Result<UnixListener, Error> {
    make_room(path).await?;
    bind_unix(path, 0o600).map_err(|error| unusable(path, &error))
}

/// A socket that this process listens on where somebody wanted it. Removed with this, if it is still there.
#[derive(Debug)]
pub(crate) struct PlacedSocket {
    path: PathBuf,
    file: Option<(u64, u64)>,
}

/// As [`bind_private`], at a path that others use as well, with the mode that says who may connect.
pub(crate) async fn bind_placed(
    path: PathBuf,
    mode: u32,
) -> Result<(UnixListener, PlacedSocket), Error> {
    let _turn = turn_at(&path).await;
    make_room(&path).await?;
    let listener = bind_unix(&path, mode).map_err(|error| unusable(&path, &error))?;
    let file = file_at(&path);
    Ok((listener, PlacedSocket { path, file }))
}

impl Drop for PlacedSocket {
    fn drop(&mut self) {
        // Somebody may have removed it and listen there now.
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Two that start at once would each take the other's socket, bound and not yet listened on, for a dead one. Whoever may
/// read a folder can keep others waiting, so nobody waits for long.
async fn turn_at(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..LOOKS {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) => sleep(LOOK).await,
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

/// Removes a socket that nobody listens on.
async fn make_room(path: &Path) -> Result<(), Error> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    check_unused(path, path).await?;
    if !found.file_type().is_socket() {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        let why = place.and(" is there already and is no socket");
        return Err(Error::with(Code::PathUnusable, why));
    }
    // Somebody may have removed it and listen there by now, so what is removed is looked at once more.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".dead-{}", std::process::id()));
    let aside = path.with_file_name(name);
    match fs::rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(path, &error)),
    }
    if let Err(error) = check_unused(&aside, path).await {
        let _ = renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE);
        return Err(error);
    }
    fs::remove_file(&aside).map_err(|error| unusable(path, &error))
}

/// [`Code::PathUnusable`] if somebody listens at `path`, or may: it is called `name`.
async fn check_unused(path: &Path, name: &Path) -> Result<(), Error> {
    match connect_unix(path).await {
        // A socket of datagrams is one of the others.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(unusable(name, &error))
        }
        Err(error)
            if error.kind() != io::ErrorKind::WouldBlock
                && error.raw_os_error() != Some(Errno::PROTOTYPE.raw_os_error()) =>
        {
            Ok(())
        }
        _ => {
            let place = SafeText::default().as_they_wrote(&name.to_string_lossy());
            Err(Error::with(Code::PathUnusable, place.and(" is in use by another process")))
        }
    }
}

/// Device and number.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{
        fs::PermissionsExt as _,
        net::{UnixDatagram, UnixListener as Bound},
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_many_that_start_at_once_over_a_dead_socket_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let path = folder.path().join(format!("{round}.sock"));
            drop(Bound::bind(&path).unwrap());
            let starts = (0..8).map(|_| tokio::spawn(bind_placed(path.clone(), 0o600)));
            let mut bound = Vec::new();
            for start in starts.collect::<Vec<_>>() {
                bound.extend(start.await.unwrap());
            }
            assert_eq!(bound.len(), 1, "{round}");
            assert!(is_live(&path).await, "{round}");
        }
        let entries = fs::read_dir(folder.path()).unwrap();
        assert_eq!(entries.count(), 0, "nothing stays, beside its own or aside");
    }

    #[tokio::test]
    async fn what_others_have_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (_live, _datagrams) =
            (Bound::bind(at("live")).unwrap(), UnixDatagram::bind(at("datagrams")).unwrap());
        fs::write(at("file"), "text").unwrap();
        for (name, reason) in [
            ("live", "is in use by another process"),
            ("datagrams", "is in use by another process"),
            ("file", "is there already and is no socket"),
        ] {
            let before = file_at(&at(name));
            let error = bind_placed(at(name), 0o600).await.unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(file_at(&at(name)), before, "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[tokio::test]
    async fn who_ends_leaves_the_socket_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door.sock");
        let (first, its_place) = bind_placed(path.clone(), 0o660).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        fs::remove_file(&path).unwrap();
        let (_second, place) = bind_placed(path.clone(), 0o600).await.unwrap();
        drop((first, its_place));
        assert!(is_live(&path).await);
        drop(place);
        assert!(!path.exists());
    }
}
