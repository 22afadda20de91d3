//! `keyless forward`: from a guest's vsock to the sidecar, without a secret in the process.
//!
//! A hypervisor connects once for each of the guest's connections. The forwarder reads the guest's
//! preamble and nothing else, says before it whose it is, and joins the two streams. It is the one that
//! a hostile guest can talk to; values are in another process.
//! Source: spec/egress-secret-proxy.md, decision 5.

use std::{io, os::fd::BorrowedFd, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use keyless_core::{
    Authority, Code, Error, ForwardLine, ForwardToken, MAX_PREAMBLE_BYTES, SafeText, SessionId,
};
use keyless_guest::{Duplex, Link, Listener, VsockListener, splice};
use keyless_sockets::{accept_each, raise_open_files};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};

use crate::{
    fleet::{cannot_listen, read_token},
    sockets::{PlacedSocket, bind_placed},
    stop::Stop,
};

/// A guest's connections at once, as many as a guest's funnel opens.
const CONNECTIONS: usize = 4096;
/// For the whole preamble, and for the sidecar to take the connection (reference/egress.md (d)).
const PATIENCE: Duration = Duration::from_secs(10);

/// For a guest to be told why it goes nowhere.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a forwarder does.
#[derive(Clone, Debug)]
pub struct ForwardSpec {
    /// Where a guest's connections arrive.
    pub listen: Vec<ForwardListen>,
    /// Where the sidecar listens for forwarders.
    pub to: Link,
    /// The session whose connections they are.
    pub session: SessionId,
    /// The file with the token that a sidecar on TCP wants.
    pub token: Option<PathBuf>,
    /// The mode of the Unix sockets: who may connect is who may write.
    pub socket_mode: u32,
}

/// Where a guest's connections arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardListen {
    /// The Unix socket `UDS_1025` that a hypervisor connects to.
    Unix(PathBuf),
    /// The host's own vsock, for the guest with this context id.
    Vsock {
        /// The guest.
        cid: u32,
        /// The port.
        port: u32,
    },
}

/// A forwarder that listens.
pub struct Forward {
    listening: Vec<String>,
    sockets: Vec<PlacedSocket>,
    session: SessionId,
    faults: mpsc::Receiver<Error>,
}

/// What every connection needs.
struct Way {
    to: Link,
    line: String,
    faults: mpsc::Sender<Error>,
}

/// Listens everywhere and begins to forward.
// Boxed, as what is awaited in another crate is compiled in that one, and the binary's own is not optimised.
pub fn start_forward(spec: ForwardSpec) -> BoxFuture<'static, Result<Forward, Error>> {
    Box::pin(start(spec))
}

async fn start(spec: ForwardSpec) -> Result<Forward, Error> {
    raise_open_files();
    let token = spec.token.as_deref().map(read_token).transpose()?;
    check_admission(&spec.to, token.as_ref())?;
    // A fault that nobody has taken yet stands for those that come meanwhile.
    let (sender, faults) = mpsc::channel(1);
    let line = ForwardLine { session: spec.session.clone(), token }.to_string();
    let way = Arc::new(Way { to: spec.to, line, faults: sender });
    let mut forward = Forward { listening: vec![], sockets: vec![], session: spec.session, faults };
    for place in spec.listen {
        let listener = forward.bind(place, spec.socket_mode).await?;
        let way = Arc::clone(&way);
        let limit = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::spawn(accept_each(listener, limit, move |guest| {
            let way = Arc::clone(&way);
            async move { way.carry(guest).await }
        }));
    }
    Ok(forward)
}

/// Anybody on this machine can listen on, and connect to, a TCP port; a Unix socket has an owner.
fn check_admission(to: &Link, token: Option<&ForwardToken>) -> Result<(), Error> {
    match (to, token) {
        (Link::Tcp(_), None) => Err(Error::with(
            Code::Usage,
            SafeText::words("a sidecar on TCP needs --token-file FILE, the same as its own"),
        )),
        (Link::Unix(_) | Link::Vsock(_), Some(_)) => Err(Error::with(
            Code::Usage,
            SafeText::words("--token-file is for a sidecar on TCP; a socket admits by its mode"),
        )),
        (Link::Vsock(_), None) => Err(Error::with(
            Code::Usage,
            SafeText::words("a sidecar is on this machine: --to unix:PATH or ADDRESS:PORT"),
        )),
        _ => Ok(()),
    }
}

impl Forward {
    /// `unix:PATH` and `vsock:CID:PORT`, in the order asked for.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// The session whose connections they are.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Forwards until SIGTERM or SIGINT. Faults go to `warn`: what a guest sent that is no preamble,
    /// and a sidecar that can't be reached.
    pub async fn serve_until_signal(mut self, warn: impl Fn(&Error)) -> Result<(), Error> {
        let mut stop = Stop::listen()?;
        tell_until(stop.asked(), &mut self.faults, warn).await;
        Ok(())
    }

    async fn bind(&mut self, place: ForwardListen, mode: u32) -> Result<Listener, Error> {
        match place {
            ForwardListen::Unix(path) => {
                let name = format!("unix:{}", path.display());
                let (listener, placed) = bind_placed(path, mode).await?;
                self.listening.push(name);
                self.sockets.push(placed);
                Ok(Listener::Unix(listener))
            }
            ForwardListen::Vsock { cid, port } => {
                let name = format!("vsock:{cid}:{port}");
                let listener =
                    VsockListener::bind(port).map_err(|error| cannot_listen(&name, &error))?;
                self.listening.push(name);
                Ok(Listener::Vsock(listener, Some(cid)))
            }
        }
    }
}

/// Tells of faults, one a second, whatever a guest does, and ends as soon as it is stopped.
async fn tell_until(
    stopped: impl Future<Output = ()>,
    faults: &mut mpsc::Receiver<Error>,
    warn: impl Fn(&Error),
) {
    let telling = async {
        while let Some(fault) = faults.recv().await {
            warn(&fault);
            sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stopped => {}
        () = telling => {}
    }
}

impl Way {
    async fn carry(&self, mut guest: Box<dyn Duplex>) {
        let read = timeout(PATIENCE, read_preamble(&mut *guest)).await;
        let received = match read.unwrap_or_else(|_| Err(Code::HeadTimeout.into())) {
            Ok(received) if received.is_empty() => return,
            Ok(received) => received,
            Err(error) => {
                say(&mut *guest, &error).await;
                return self.tell(error);
            }
        };
        match timeout(PATIENCE, self.dial(&received, guest.client())).await {
            // A failure has closed both sides by the end of this block; they are the ones to know.
            Ok(Ok(mut sidecar)) => drop(splice(&mut *guest, &mut *sidecar).await),
            Ok(Err(error)) => self.tell(unreachable(&self.to, error.kind())),
            Err(_) => self.tell(unreachable(&self.to, io::ErrorKind::TimedOut)),
        }
    }

    async fn dial(
        &self,
        received: &[u8],
        client: Option<BorrowedFd<'_>>,
    ) -> io::Result<Box<dyn Duplex>> {
        let first = [self.line.as_bytes(), received].concat();
        self.to.dial_for(&first, client).await
    }

    fn tell(&self, error: Error) {
        let _ = self.faults.try_send(error);
    }
}

/// The preamble; nothing when the guest left at once. Byte by byte: a funnel sends its client's socket along with it, at
/// which a read of a Unix socket ends, and after one that did not fill its buffer tokio waits for more to come, though
/// all may be there.
async fn read_preamble(guest: &mut dyn Duplex) -> Result<Vec<u8>, Error> {
    let mut received = Vec::with_capacity(MAX_PREAMBLE_BYTES);
    loop {
        match guest.read_u8().await {
            Ok(byte) => received.push(byte),
            Err(_) if received.is_empty() => return Ok(received),
            Err(_) => return Err(no_preamble()),
        }
        match Authority::from_preamble(&received) {
            Ok(Some(_)) => return Ok(received),
            Ok(None) => {}
            Err(_) => return Err(no_preamble()),
        }
    }
}

/// Tells a guest in a line, as a sidecar does. Best effort: it may be gone, or read nothing.
async fn say(guest: &mut dyn Duplex, error: &Error) {
    let code = error.code();
    let (message, action) = (error.message(), code.remediation().action);
    let line = format!("keyless: {message} [{}] Instead: {action}\n", code.as_str());
    let saying = async {
        guest.write_all(line.as_bytes()).await.ok()?;
        guest.shutdown().await.ok()?;
        // A socket that is closed over unread bytes is reset, and its client may lose the line.
        while guest.read(&mut [0; 1024]).await.ok()? > 0 {}
        Some(())
    };
    let _ = timeout(FAREWELL, saying).await;
}

fn no_preamble() -> Error {
    Error::with(Code::BadRequest, SafeText::words("the guest sent no preamble, `host:port`"))
}

fn unreachable(to: &Link, kind: io::ErrorKind) -> Error {
    let words = SafeText::words("the sidecar at ").as_they_wrote(&to.to_string());
    Error::with(Code::ConnectFailed, words.and(": ").and(kind))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{IoSlice, Read as _, Write as _},
        mem::MaybeUninit,
        net::{TcpListener as StdListener, TcpStream as Client},
        os::{
            fd::{AsFd as _, BorrowedFd},
            unix::net::UnixStream,
        },
        path::Path,
    };

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_flood_of_faults_keeps_nobody_from_stopping_it() {
        let (sender, mut faults) = mpsc::channel(1);
        let flood =
            tokio::spawn(
                async move { while sender.send(Code::HeadTimeout.into()).await.is_ok() {} },
            );
        let told = std::cell::Cell::new(0);
        let (brief, begun) = (Duration::from_millis(100), std::time::Instant::now());
        tell_until(sleep(brief), &mut faults, |_| told.set(told.get() + 1)).await;
        assert_eq!(told.get(), 1);
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
        tell_until(async {}, &mut faults, |_| panic!("it was stopped before")).await;
        flood.abort();
    }

    /// The sidecar tells it so where it listens itself.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_sends_no_preamble_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("guest.sock");
        let _forward = forward(&door, Link::Unix(folder.path().join("sidecar.sock"))).await;
        let mut guest = UnixStream::connect(&door).unwrap();
        guest.set_read_timeout(Some(PATIENCE)).unwrap();
        guest.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut told = String::new();
        guest.read_to_string(&mut told).unwrap();
        assert!(told.starts_with("keyless: ") && told.contains("no preamble"), "{told}");
    }

    #[tokio::test]
    async fn what_stands_behind_a_preamble_with_a_socket_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let (door, to) = (folder.path().join("guest.sock"), folder.path().join("sidecar.sock"));
        let sidecar = Listener::Unix(UnixListener::bind(&to).unwrap());
        let _forward = forward(&door, Link::Unix(to)).await;
        let mut guest = UnixStream::connect(&door).unwrap();
        // The forwarder's tasks are of this thread: they have accepted it and wait for its bytes by then, and read no more
        // until all that follows is there, of which one event tells.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        begin_with(&guest, guest.as_fd());
        guest.write_all(b"ClientHello").unwrap();
        let mut heard = sidecar.accept().await.unwrap();
        let expected = "keyless-forward/1 thread-7\napi.allowed.test:443\nClientHello";
        let mut received = vec![0; expected.len()];
        let read = timeout(PATIENCE, heard.read_exact(&mut received)).await;
        read.expect("the guest says no more, and is not waited for").unwrap();
        assert_eq!(String::from_utf8_lossy(&received), expected);
    }
    /// A sidecar on TCP breaks off with a reset; one on a Unix socket does so to the client itself.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_answer_that_breaks_off_is_no_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("guest.sock");
        let sidecar = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _forward = forward(&door, Link::Tcp(sidecar.local_addr().unwrap())).await;
        for breaks_off in [true, false] {
            let listener = StdListener::bind("127.0.0.1:0").unwrap();
            let mut client = Client::connect(listener.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            // A funnel's: it carries what comes, and has lent its client's socket.
            let (accepted, _) = listener.accept().unwrap();
            let mut funnel = UnixStream::connect(&door).unwrap();
            begin_with(&funnel, accepted.as_fd());
            let (mut heard, _) = sidecar.accept().await.unwrap();
            let mut received = [0;
                "keyless-forward/1 thread-7 a-token-of-this-node\napi.allowed.test:443\n".len()];
            heard.read_exact(&mut received).await.unwrap();
            if breaks_off {
                heard.set_zero_linger().unwrap();
            }
            drop(heard);
            assert_eq!(funnel.read(&mut [0]).unwrap(), 0);
            drop((funnel, accepted));
            let ended = client.read(&mut [0]).map_err(|error| error.kind());
            let expected = if breaks_off { Err(io::ErrorKind::ConnectionReset) } else { Ok(0) };
            assert_eq!(ended, expected);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_clients_socket_goes_on_to_a_sidecar_of_this_user() {
        let folder = tempfile::tempdir().unwrap();
        let (door, to) = (folder.path().join("guest.sock"), folder.path().join("sidecar.sock"));
        let _forward = forward(&door, Link::Unix(to.clone())).await;
        let sidecar = Listener::Unix(UnixListener::bind(&to).unwrap());
        let guest = UnixStream::connect(&door).unwrap();
        begin_with(&guest, guest.as_fd());
        let mut heard = timeout(PATIENCE, sidecar.accept()).await.unwrap().unwrap();
        heard.read_u8().await.unwrap();
        assert!(heard.client().is_some());
    }

    async fn forward(door: &Path, to: Link) -> Forward {
        let token = door.with_file_name("token");
        std::fs::write(&token, "a-token-of-this-node").unwrap();
        let forward = start_forward(ForwardSpec {
            listen: vec![ForwardListen::Unix(door.to_owned())],
            token: matches!(to, Link::Tcp(_)).then_some(token),
            to,
            session: SessionId::parse("thread-7").unwrap(),
            socket_mode: 0o600,
        });
        forward.await.unwrap()
    }

    /// A preamble, with a socket.
    fn begin_with(guest: &UnixStream, client: BorrowedFd<'_>) {
        let preamble = b"api.allowed.test:443\n";
        let descriptors = [client];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let sent = sendmsg(guest, &[IoSlice::new(preamble)], &mut control, SendFlags::empty());
        assert_eq!(sent, Ok(preamble.len()));
    }
}
