//! Unix sockets at paths of any length.
//!
//! A socket's address holds 107 bytes of path (unix(7)), and a home in a deep folder has longer ones. On Linux the
//! folder is held open then, and the socket is reached through it by its name alone.

use std::{
    fs::{self, File, Permissions},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{fs::PermissionsExt as _, net},
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::{
    fs::{Mode, fchmod},
    io::{FdFlags, fcntl_setfd},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect_unspec, recvmsg,
        sendmsg,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{UnixListener, UnixStream},
};

use crate::link::{Duplex, End};

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

/// Sends `bytes`, and `descriptor` with the first of them.
pub(crate) async fn send_with(
    stream: &UnixStream,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let offer = |bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        // Rust's programs ignore SIGPIPE.
        let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?;
        Ok(sent)
    };
    let mut sent = stream.async_io(Interest::WRITABLE, || offer(bytes, &[descriptor])).await?;
    while sent < bytes.len() {
        sent += stream.async_io(Interest::WRITABLE, || offer(&bytes[sent..], &[])).await?;
    }
    Ok(())
}

/// An accepted stream, and the socket of a client of its other side, if that came with the first bytes: a Unix socket
/// knows no resets, so a funnel lends its client's own.
pub(crate) struct Handed {
    inner: UnixStream,
    client: Option<OwnedFd>,
    end: End,
}

impl Handed {
    pub(crate) fn new(inner: UnixStream) -> Self {
        Self { inner, client: None, end: End::Whole }
    }
}

impl Duplex for Handed {
    fn when_gone(&mut self, end: End) {
        self.end = end;
    }

    fn client(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(client) = self.client.as_ref().filter(|_| self.end == End::Cut) {
            // Of what is no TCP socket, nothing comes.
            let _ = connect_unspec(client);
        }
    }
}

impl AsyncRead for Handed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.client.is_some() {
            return Pin::new(&mut this.inner).poll_read(cx, into);
        }
        loop {
            ready!(this.inner.poll_read_ready(cx))?;
            let room = into.initialize_unfilled();
            match this.inner.try_io(Interest::READABLE, || receive(&this.inner, room)) {
                Ok((count, client)) => {
                    into.advance(count);
                    this.client = client;
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Handed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Bytes and the descriptor that came with them; the kernel closes any further one.
fn receive(stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = recvmsg(stream, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().next()))
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
