//! The first bytes of a connection to an intercepted host: TLS or not, and for which name.
//!
//! Only such hosts are waited for; where nothing is intercepted, a server may speak first.
//! ClientHellos may come in any number of segments and records, up to what rustls takes.
//! Source: reference/egress.md (c) 42; (e) 40, 52 and 53.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use keyless_core::{Code, Error, Host, SafeText};
use rustls::{AlertDescription, server::Acceptor};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use crate::{session::Session, write_through::write_through};

/// A TLS handshake record begins with this.
const HANDSHAKE: u8 = 0x16;
/// A fatal `unrecognized_name` (112), for a name that is not this connection's.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// What a client began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// It left without a word.
    Nothing,
    /// A TLS record.
    Tls,
    /// Anything else: HTTP, as far as intercepted hosts go.
    Plain,
}

/// A connection of which some bytes were already read.
pub(crate) struct Prefixed<S> {
    pub(crate) prefix: BytesMut,
    pub(crate) inner: S,
}

/// Waits for the first byte, and leaves it where it is.
pub(crate) async fn read_first<S: AsyncRead + Unpin>(
    stream: &mut Prefixed<S>,
    patience: Duration,
) -> Result<FirstBytes, Error> {
    if stream.prefix.is_empty() {
        // `read_buf` would not return before the buffer has room; give it a ClientHello's.
        stream.prefix.reserve(2048);
        let read = timeout(patience, stream.inner.read_buf(&mut stream.prefix)).await;
        if read.map_err(|_| Error::new(Code::HeadTimeout))?.is_err() {
            return Ok(FirstBytes::Nothing);
        }
    }
    Ok(match stream.prefix.first() {
        None => FirstBytes::Nothing,
        Some(&HANDSHAKE) => FirstBytes::Tls,
        Some(_) => FirstBytes::Plain,
    })
}

/// What is spoken with a client inside of TLS. Who offers protocols is taken for one of its own alone; who offers none
/// is taken at their word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP in its versions.
    Http,
    /// PostgreSQL's own, after an `SSLRequest`.
    Postgres,
}

/// Shakes hands as `host`. A ClientHello for another name gets an alert, one without a name is
/// taken for the connection's own.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    session: &Session,
    host: &Host,
    spoken: Spoken,
    stream: S,
    patience: Duration,
) -> Result<TlsStream<S>, Error> {
    let handshake = async {
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let start = (&mut acceptor).await.map_err(|error| broken(&error))?;
        let named = start.client_hello().server_name().map(str::to_owned);
        if let Some(name) = named
            && Host::parse(&name).as_ref() != Ok(host)
        {
            let mut io = start.io;
            // Best effort: the client may be gone already.
            let _ = io.write_all(&UNRECOGNIZED_NAME).await;
            let _ = io.shutdown().await;
            return Err(Error::with(
                Code::AuthorityMismatch,
                SafeText::words("the TLS handshake named ").as_they_wrote(&name),
            ));
        }
        let mut config = session.authority().serve(host)?;
        if spoken == Spoken::Postgres {
            Arc::make_mut(&mut config).alpn_protocols = vec![b"postgresql".to_vec()];
        }
        start.into_stream(config).await.map_err(|error| broken(&error))
    };
    timeout(patience, handshake).await.map_err(|_| Error::new(Code::HeadTimeout))?
}

/// Says what failed, in our own words.
fn broken(error: &io::Error) -> Error {
    let words = SafeText::words("the TLS handshake with the client failed: ");
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let words = match inner {
        Some(rustls::Error::NoApplicationProtocol) => {
            words.and("it offers (by ALPN) no protocol that is spoken here")
        }
        Some(rustls::Error::PeerIncompatible(_)) => {
            words.and("it offers neither a version nor a cipher of TLS 1.2 and 1.3")
        }
        Some(rustls::Error::AlertReceived(AlertDescription::UnknownCA)) => {
            words.and("it does not trust the session's certificate authority")
        }
        Some(rustls::Error::AlertReceived(_)) => words.and("the client broke it off"),
        Some(_) => words.and("what the client said is not valid"),
        None => words.and(error.kind()),
    };
    Error::with(Code::BadRequest, words)
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let taken = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..taken]);
        self.prefix.advance(taken);
        if self.prefix.is_empty() {
            self.prefix = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(Prefixed<S>);
