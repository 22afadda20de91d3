//! Where forwarders connect: one line that says whose bytes follow, then a guest's preamble.
//!
//! A Unix socket is reached by this user alone (its mode, and the peer's credentials); over TCP a
//! token admits. vsock needs no forwarder: the host's kernel says which guest it is.
//! Source: spec/egress-secret-proxy.md, decision 5; reference/egress.md (c) 34.

use std::{io, path::Path, sync::Arc, time::Duration};

use keyless_core::{
    Code, Error, ForwardLine, ForwardToken, MAX_FORWARD_BYTES, SafeText, SessionId,
};
use keyless_guest::VsockListener;
use keyless_sockets::{Handed, accept_each};
use keyless_vault::PlainFile;
use rustix::process::geteuid;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
    time::timeout,
};

use super::sessions::Sessions;
use crate::places::unusable;

/// Connections at once on one door; egress has a bound of its own for all doors.
const CONNECTIONS: usize = 4096;
/// A forwarder writes its line at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far more than a token has, in bytes.
const MAX_TOKEN_FILE: usize = 4096;

/// Serves forwarders on a Unix socket.
pub(super) async fn serve_unix(listener: UnixListener, sessions: Arc<Sessions>) {
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    accept_each(listener, limit, move |stream| {
        let sessions = Arc::clone(&sessions);
        async move {
            let own = geteuid().as_raw();
            let peer = stream.peer_cred().map(|credentials| credentials.uid());
            if peer.is_ok_and(|uid| uid == own || uid == 0) {
                serve(&sessions, None, Handed::new(stream)).await;
            } else {
                sessions.engine.log_stranger(&Code::ProxyAuthRequired.into());
            }
        }
    })
    .await;
}

/// Serves forwarders over TCP, who show the token.
pub(super) async fn serve_tcp(listener: TcpListener, token: ForwardToken, sessions: Arc<Sessions>) {
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    accept_each(listener, limit, move |(stream, _)| {
        let (sessions, token) = (Arc::clone(&sessions), token.clone());
        async move {
            // Small writes would wait for acknowledgements; a socket without it still works.
            let _ = stream.set_nodelay(true);
            serve(&sessions, Some(&token), stream).await;
        }
    })
    .await;
}

/// Serves guests that reach this machine over vsock: one session for the guest that `only` names, or
/// one for each, named after its context id.
pub(super) async fn serve_vsock(
    listener: VsockListener,
    only: Option<(u32, SessionId)>,
    sessions: Arc<Sessions>,
) {
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    accept_each(listener, limit, move |(stream, peer)| {
        let session = match &only {
            Some((cid, session)) => (*cid == peer.cid).then(|| session.clone()),
            None => Some(SessionId::of_guest(peer.cid)),
        };
        let sessions = Arc::clone(&sessions);
        async move {
            if let Some(session) = session {
                hand_over(&sessions, &session, Vec::new(), stream).await;
            }
        }
    })
    .await;
}

/// Reads a token file: one line of 16 to 256 visible characters.
pub(crate) fn read_token(path: &Path) -> Result<ForwardToken, Error> {
    let place = || SafeText::default().as_they_wrote(&path.to_string_lossy());
    let read = PlainFile::open(path).and_then(|file| file.text(MAX_TOKEN_FILE));
    let text = read.map_err(|error| unusable(path, &error))?;
    ForwardToken::parse(text.trim_end()).map_err(|_| {
        let rule = " is not one line of 16 to 256 visible characters";
        Error::with(Code::ValueRefused, place().and(rule))
    })
}

async fn serve<S>(sessions: &Sessions, token: Option<&ForwardToken>, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let read = timeout(PATIENCE, read_line(&mut stream)).await;
    let admitted = read.unwrap_or_else(|_| Err(Code::HeadTimeout.into())).and_then(|read| {
        let admits = read.as_ref().is_none_or(|(line, _)| line.token.as_ref() == token);
        if admits { Ok(read) } else { Err(Code::ProxyAuthRequired.into()) }
    });
    match admitted {
        Ok(None) => {}
        Ok(Some((line, rest))) => hand_over(sessions, &line.session, rest, stream).await,
        Err(error) => sessions.engine.log_stranger(&error),
    }
}

async fn hand_over<S>(sessions: &Sessions, id: &SessionId, received: Vec<u8>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match sessions.get(id).await {
        Ok(open) => {
            let session = Arc::clone(&open.session);
            sessions.engine.serve_preamble(session, received, stream).await;
        }
        Err(error) => sessions.engine.log_stranger(&error),
    }
}

/// The forwarder's line, and what came after it; nothing when it left without a word.
async fn read_line(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<(ForwardLine, Vec<u8>)>, Error> {
    let mut received = Vec::with_capacity(MAX_FORWARD_BYTES);
    loop {
        let ended = match stream.read_buf(&mut received).await {
            Ok(0) | Err(_) => true,
            Ok(_) => false,
        };
        match ForwardLine::read(&received) {
            Ok(Some((line, used))) => return Ok(Some((line, received.split_off(used)))),
            Ok(None) if received.is_empty() && ended => return Ok(None),
            Ok(None) if ended => return Err(io_ended()),
            Ok(None) => {}
            Err(error) => {
                return Err(Error::with(Code::BadRequest, SafeText::default().and(error)));
            }
        }
    }
}

fn io_ended() -> Error {
    let detail = SafeText::words("the forwarder's line: ").and(io::ErrorKind::UnexpectedEof);
    Error::with(Code::BadRequest, detail)
}
