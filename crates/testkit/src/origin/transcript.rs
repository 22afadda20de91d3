//! What an origin remembers: raw plaintext per connection, parsed requests, and a lock around both.
//!
//! Recording never changes bytes or their timing; beyond the limit bytes are counted, not kept.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use http::{HeaderMap, Version, request::Parts};
use parking_lot::{Condvar, Mutex};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One connection, after TLS.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRecord {
    /// The server name of the ClientHello, if any.
    pub server_name: Option<String>,
    /// The protocol agreed by ALPN, if any.
    pub alpn: Option<String>,
    /// Why the TLS handshake failed, if it did.
    pub handshake_error: Option<String>,
    /// Plaintext from the client, up to the limit.
    pub received: Vec<u8>,
    /// Plaintext to the client, up to the limit.
    pub sent: Vec<u8>,
    /// All plaintext bytes from the client, also those beyond the limit.
    pub received_bytes: u64,
    /// All plaintext bytes to the client, also those beyond the limit.
    pub sent_bytes: u64,
    /// Whether the connection is over.
    pub closed: bool,
}

/// One parsed request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The target as it was sent: origin form on HTTP/1.1, `scheme://authority/path` on HTTP/2.
    pub target: String,
    /// The HTTP version.
    pub version: Version,
    /// Names in lower case and values, in the order of arrival (equal names stand together).
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body so far, up to the limit.
    pub body: Vec<u8>,
    /// All bytes of the body so far.
    pub body_bytes: u64,
    /// The trailers.
    pub trailers: Vec<(String, Vec<u8>)>,
    /// Whether the body arrived to its end.
    pub complete: bool,
}

/// A copy of everything an origin recorded.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// In the order of acceptance.
    pub connections: Vec<ConnectionRecord>,
    /// In the order in which their heads arrived.
    pub requests: Vec<RecordedRequest>,
}

/// The shared record of one origin.
#[derive(Clone)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    keep: usize,
}

#[derive(Default)]
struct State {
    next: u64,
    connections: BTreeMap<u64, ConnectionRecord>,
    requests: BTreeMap<u64, RecordedRequest>,
}

/// The key of one connection or request in the [`Log`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(u64);

/// A stream that notes what passes through it.
pub(crate) struct Recording<S> {
    inner: S,
    log: Log,
    entry: Entry,
}

impl RecordedRequest {
    /// Returns the first value of the header `name` (lower case) as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(header, _)| header == name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Returns the request as text in the manner of HTTP/1.1: head, body, trailers.
    pub fn render(&self) -> Vec<u8> {
        let mut text =
            format!("{} {} {:?}\r\n", self.method, self.target, self.version).into_bytes();
        render_fields(&self.headers, &mut text);
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&self.body);
        render_fields(&self.trailers, &mut text);
        text
    }
}

impl Snapshot {
    /// Returns the plaintext of all clients, connection after connection.
    pub fn received(&self) -> Vec<u8> {
        self.connections.iter().flat_map(|connection| connection.received.iter().copied()).collect()
    }

    /// Returns [`Snapshot::received`], then every request rendered as text.
    pub fn everything_received(&self) -> Vec<u8> {
        let mut all = self.received();
        for request in &self.requests {
            all.extend(request.render());
        }
        all
    }
}

impl Log {
    pub(crate) fn new(keep: usize) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), keep };
        Self { shared: Arc::new(shared) }
    }

    /// Opens the record of a connection that was just accepted.
    pub(crate) fn connection(&self) -> Entry {
        self.change(|state| {
            state.next += 1;
            state.connections.insert(state.next, ConnectionRecord::default());
            Entry(state.next)
        })
    }

    /// Opens the record of a request whose head has arrived.
    pub(crate) fn request(&self, parts: &Parts) -> Entry {
        let request = RecordedRequest {
            method: parts.method.to_string(),
            target: parts.uri.to_string(),
            version: parts.version,
            headers: fields(&parts.headers),
            body: Vec::new(),
            body_bytes: 0,
            trailers: Vec::new(),
            complete: false,
        };
        self.change(|state| {
            state.next += 1;
            state.requests.insert(state.next, request);
            Entry(state.next)
        })
    }

    /// Changes the record of a connection, unless it was cleared meanwhile.
    pub(crate) fn on_connection(&self, entry: Entry, edit: impl FnOnce(&mut ConnectionRecord)) {
        self.change(|state| state.connections.get_mut(&entry.0).map(edit));
    }

    pub(crate) fn body_chunk(&self, entry: Entry, chunk: &[u8]) {
        let keep = self.shared.keep;
        self.on_request(entry, |request| {
            note(&mut request.body, &mut request.body_bytes, chunk, keep);
        });
    }

    pub(crate) fn body_trailers(&self, entry: Entry, trailers: &HeaderMap) {
        self.on_request(entry, |request| request.trailers = fields(trailers));
    }

    pub(crate) fn body_end(&self, entry: Entry) {
        self.on_request(entry, |request| request.complete = true);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.state.lock().snapshot()
    }

    pub(crate) fn wait_until(&self, patience: Duration, done: impl Fn(&Snapshot) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        while !done(&state.snapshot()) {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                return done(&state.snapshot());
            }
        }
        true
    }

    pub(crate) fn clear(&self) {
        self.change(|state| {
            // Live connections keep their record: what they receive from now on is still wanted.
            state.connections.retain(|_, connection| !connection.closed);
            for connection in state.connections.values_mut() {
                connection.received.clear();
                connection.sent.clear();
                (connection.received_bytes, connection.sent_bytes) = (0, 0);
            }
            state.requests.clear();
        });
    }

    fn on_request(&self, entry: Entry, edit: impl FnOnce(&mut RecordedRequest)) {
        self.change(|state| state.requests.get_mut(&entry.0).map(edit));
    }

    fn change<T>(&self, edit: impl FnOnce(&mut State) -> T) -> T {
        let result = edit(&mut self.shared.state.lock());
        self.shared.changed.notify_all();
        result
    }
}

impl State {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            connections: self.connections.values().cloned().collect(),
            requests: self.requests.values().cloned().collect(),
        }
    }
}

impl<S> Recording<S> {
    pub(crate) fn new(inner: S, log: Log, entry: Entry) -> Self {
        Self { inner, log, entry }
    }

    fn sent(&self, bytes: &[u8]) {
        let keep = self.log.shared.keep;
        self.log.on_connection(self.entry, |connection| {
            note(&mut connection.sent, &mut connection.sent_bytes, bytes, keep);
        });
    }
}

impl<S> Drop for Recording<S> {
    fn drop(&mut self) {
        self.log.on_connection(self.entry, |connection| connection.closed = true);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Recording<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let keep = self.log.shared.keep;
        self.log.on_connection(self.entry, |connection| {
            let chunk = &buffer.filled()[before..];
            note(&mut connection.received, &mut connection.received_bytes, chunk, keep);
        });
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recording<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.sent(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // One slice at a time: the count of written bytes then belongs to one slice.
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[], |slice| slice))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn note(kept: &mut Vec<u8>, count: &mut u64, chunk: &[u8], keep: usize) {
    *count += chunk.len() as u64;
    let room = keep.saturating_sub(kept.len()).min(chunk.len());
    kept.extend_from_slice(&chunk[..room]);
}

fn fields(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

fn render_fields(fields: &[(String, Vec<u8>)], text: &mut Vec<u8>) {
    for (name, value) in fields {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
}
