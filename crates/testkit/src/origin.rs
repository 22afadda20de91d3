//! A server on 127.0.0.1 that records every byte that reached it, after TLS.
//!
//! ```text
//! TCP accept -> TLS (leaf of the TestCa, ALPN) -> transcript -> hyper (h1 or h2) -> recorder -> Handler
//!                                                            \-> Script (verbatim bytes)
//! ```
//!
//! It runs on a runtime of its own, so that tests and the demo may block while it serves. It never
//! decides what a test expects: it records and answers. Set-up of `reference/egress.md` (e).

mod accept;
mod gate;
mod handler;
mod script;
mod transcript;

pub mod echo;
pub mod stream;
pub mod websocket;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::TestCa;

pub use echo::Coding;
pub use gate::Gate;
pub use handler::{Handler, Reply, ReplyBody, RequestBody, reply};
pub use script::{Script, Step};
pub use stream::streamed;
pub use transcript::{ConnectionRecord, RecordedRequest, Snapshot};

use transcript::Log;

/// A running origin; dropping it closes the listener and all connections.
pub struct Origin {
    address: SocketAddr,
    log: Log,
    runtime: Option<Runtime>,
}

/// What an origin is to be. Starts from [`OriginOptions::tls`] or [`OriginOptions::cleartext`].
pub struct OriginOptions {
    tls: Option<(TestCa, Vec<String>, Validity)>,
    listen: SocketAddr,
    alpn: Alpn,
    behaviour: Behaviour,
    keep: usize,
    workers: usize,
    max_streams: u32,
}

/// The HTTP versions that an origin offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// `h2` and `http/1.1`, as the client likes.
    Both,
    /// `http/1.1` only.
    Http1,
    /// `h2` only; on cleartext, with prior knowledge.
    Http2,
    /// No ALPN extension in the answer, HTTP/1.1 on the wire.
    Silent,
}

#[derive(Clone, Copy)]
enum Validity {
    Current,
    Expired,
}

/// How connections are answered.
pub(crate) enum Behaviour {
    Http(Handler),
    Scripted(Script),
}

impl OriginOptions {
    /// An HTTPS origin whose certificate of `ca` is valid for `names`; it answers as [`Handler::standard`].
    pub fn tls(ca: &TestCa, names: &[impl AsRef<str>]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { tls: Some((ca.clone(), names, Validity::Current)), ..Self::cleartext() }
    }

    /// An HTTP origin; it answers as [`Handler::standard`].
    pub fn cleartext() -> Self {
        Self {
            tls: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            alpn: Alpn::Both,
            behaviour: Behaviour::Http(Handler::standard()),
            keep: 4 << 20,
            workers: 1,
            max_streams: 200,
        }
    }

    /// Offers these versions. Default: [`Alpn::Both`].
    #[must_use]
    pub fn alpn(self, alpn: Alpn) -> Self {
        Self { alpn, ..self }
    }

    /// Answers with `handler`.
    #[must_use]
    pub fn handler(self, handler: Handler) -> Self {
        Self { behaviour: Behaviour::Http(handler), ..self }
    }

    /// Plays `script` on every connection instead of speaking HTTP.
    #[must_use]
    pub fn script(self, script: Script) -> Self {
        Self { behaviour: Behaviour::Scripted(script), ..self }
    }

    /// Presents a certificate that ran out in 2025.
    #[must_use]
    pub fn expired(mut self) -> Self {
        if let Some((_, _, validity)) = &mut self.tls {
            *validity = Validity::Expired;
        }
        self
    }

    /// Listens on `address`. Default: 127.0.0.1 on a free port.
    #[must_use]
    pub fn listen(self, address: SocketAddr) -> Self {
        Self { listen: address, ..self }
    }

    /// Keeps at most `bytes` per direction of a connection and per request body; the rest is counted
    /// only. Default: 4 MiB.
    #[must_use]
    pub fn keep(self, bytes: usize) -> Self {
        Self { keep: bytes, ..self }
    }

    /// Takes so many requests at once over one HTTP/2 connection. Default: 200.
    #[must_use]
    pub fn max_streams(self, max_streams: u32) -> Self {
        Self { max_streams, ..self }
    }

    /// Serves with this many threads. Default: 1.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }
}

impl Alpn {
    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Self::Both => &[b"h2", b"http/1.1"],
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Silent => &[],
        }
    }
}

impl Origin {
    /// Starts an origin; it accepts connections when this returns.
    ///
    /// # Errors
    /// When a name is no name, the address is taken, or a thread can't be started.
    pub fn start(options: OriginOptions) -> io::Result<Self> {
        let tls = match &options.tls {
            None => None,
            Some((ca, names, validity)) => {
                let leaf = match validity {
                    Validity::Current => ca.issue(names)?,
                    Validity::Expired => ca.issue_expired(names)?,
                };
                Some(Arc::new(leaf.server_config(options.alpn.protocols())?))
            }
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.workers.max(1))
            .thread_name("origin")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind(options.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let log = Log::new(options.keep);
        let server = accept::Server {
            tls,
            prior_knowledge: options.alpn == Alpn::Http2,
            behaviour: options.behaviour,
            max_streams: options.max_streams,
            log: log.clone(),
        };
        runtime.spawn(Arc::new(server).run(listener));
        Ok(Self { address, log, runtime: Some(runtime) })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the plaintext that clients sent, all connections one after the other, as it stood on the
    /// wire. HTTP/2 packs header text (HPACK): to look for a value use [`Origin::everything_received`].
    pub fn recorded(&self) -> Vec<u8> {
        self.snapshot().received()
    }

    /// Returns [`Origin::recorded`] and then every parsed request as text: what to search for a value.
    pub fn everything_received(&self) -> Vec<u8> {
        self.snapshot().everything_received()
    }

    /// Returns the requests so far, in the order their heads arrived.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.snapshot().requests
    }

    /// Returns the connections so far, in the order they were accepted.
    pub fn connections(&self) -> Vec<ConnectionRecord> {
        self.snapshot().connections
    }

    /// Returns a copy of the whole record.
    pub fn snapshot(&self) -> Snapshot {
        self.log.snapshot()
    }

    /// Blocks until the record satisfies `done` or `patience` is over; tells whether it does.
    pub fn wait_until(&self, patience: Duration, done: impl Fn(&Snapshot) -> bool) -> bool {
        self.log.wait_until(patience, done)
    }

    /// Forgets everything recorded so far.
    pub fn clear(&self) {
        self.log.clear();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A plain drop would panic inside another runtime.
            runtime.shutdown_background();
        }
    }
}
