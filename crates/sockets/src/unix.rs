//! Unix sockets at paths of any length.
//!
//! A socket's address holds 107 bytes of path (unix(7)), and a home in a deep folder has longer ones. On Linux the
//! folder is held open then, and the socket is reached through it by its name alone.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{fs::PermissionsExt as _, net},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, fchmod},
    io::{FdFlags, fcntl_setfd},
    net::{AddressFamily, SocketAddrUnix, SocketType},
};
use tokio::net::{UnixListener, UnixStream};

/// `sun_path` without the NUL at its end.
const LONGEST: usize = 107;

/// Connections that wait to be accepted; the kernel lowers it to its own bound.
const BACKLOG: i32 = 1024;

/// Connects to the socket at `path`.
pub async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let way = Way::to(path)?;
    UnixStream::connect(&way.path).await
}

/// Makes a socket of this mode at `path` and listens there. At no moment can anybody connect whom the mode keeps out.
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let way = Way::to(path)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    // On Linux the file gets the mode that the socket has, less the umask. Elsewhere it has another for a moment, in
    // which nothing listens.
    let _ = fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, &SocketAddrUnix::new(&*way.path)?)?;
    fs::set_permissions(&way.path, Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = net::UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// A path that an address can hold.
struct Way {
    path: PathBuf,
    /// What the path leads through.
    _folder: Option<File>,
}

impl Way {
    fn to(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Self { path: path.to_owned(), _folder: None });
        };
        if !cfg!(target_os = "linux") || path.as_os_str().len() <= LONGEST {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_reached_however_deep_it_lies() {
        let root = tempfile::tempdir().expect("a folder");
        for depth in [0, 1, 20] {
            let folder = root.path().join("a-folder-in-a-folder/".repeat(depth));
            std::fs::create_dir_all(&folder).expect("made");
            let path = folder.join("door.sock");
            let missing = connect_unix(&path).await.map(drop).map_err(|error| error.kind());
            assert_eq!(missing, Err(io::ErrorKind::NotFound), "{depth}");
            let listener = bind_unix(&path, 0o600).expect("bound");
            let (near, far) = tokio::join!(connect_unix(&path), listener.accept());
            assert!(near.is_ok() && far.is_ok() && path.exists(), "{depth}");
        }
    }
    /// Linux alone: elsewhere nothing listens before the mode is what it shall be.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_is_never_more_open_than_asked_for() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("door.sock");
        let over = AtomicBool::new(false);
        let open = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut open = 0;
                while !over.load(Ordering::Relaxed) {
                    let mode = fs::symlink_metadata(&path).map(|file| file.permissions().mode());
                    open += u32::from(mode.is_ok_and(|mode| mode & 0o077 != 0));
                }
                open
            });
            for _ in 0..2_000 {
                drop(bind_unix(&path, 0o600).expect("bound"));
                fs::remove_file(&path).expect("removed");
            }
            over.store(true, Ordering::Relaxed);
            watcher.join().expect("it watched")
        });
        assert_eq!(open, 0);
    }
}
