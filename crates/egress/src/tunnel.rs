//! Bytes from one side to the other, untouched, until both have ended or it may not go on.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use keyless_core::{
    Authority, Error, SafeText,
    audit::{Action, Outcome},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};

use crate::{
    account::{Account, Way},
    door::Cut,
    ports::Event,
    refusal,
    session::Session,
    withdrawal::Ground,
};

/// Bytes in flight per direction: fast enough for a download, small enough for 2,000 idle tunnels.
const BUFFER: usize = 16 << 10;

/// Joins the two sides. An end on one side is passed on and the other goes on (half-close); whatever else ends the
/// tunnel, both sides see that it was cut.
pub(crate) async fn join<A, B>(ground: Ground, account: Arc<Account>, client: A, mut upstream: B)
where
    A: AsyncRead + AsyncWrite + Unpin + Cut,
    B: AsyncRead + AsyncWrite + Unpin + Cut,
{
    let mut client = Metered::new(client, account);
    let (whole, end) = tokio::select! {
        // A broken side ends the tunnel.
        copied = copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER) => {
            (copied.is_ok(), copied.err().and_then(|error| refusal::find(&error)))
        }
        error = ground.withdrawn() => (false, Some(error)),
    };
    if !whole {
        client.inner.cut();
        upstream.cut();
    }
    log_end(&client.account, end);
}

/// Logs why a tunnel ended, if neither side has ended it.
pub(crate) fn log_end(account: &Account, end: Option<Error>) {
    if let Some(error) = end {
        account.refused(&error);
    }
}

/// The client's side of a tunnel, counted; broken off when the session's quota is used up.
pub(crate) struct Metered<S> {
    inner: S,
    account: Arc<Account>,
}

impl<S> Metered<S> {
    pub(crate) fn new(inner: S, account: Arc<Account>) -> Self {
        Self { inner, account }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let count = into.filled().len() - before;
        Poll::Ready(self.account.pass(Way::Sent, count).map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        let passed = self.account.pass(Way::Received, count);
        Poll::Ready(passed.map(|()| count).map_err(io::Error::other))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Writes into the log that a tunnel is opened; without that it is not.
pub(crate) fn record(
    session: &Session,
    correlation_id: &str,
    authority: &Authority,
    note: &'static str,
) -> Result<(), Error> {
    session.record(Event {
        correlation_id: correlation_id.to_owned(),
        action: Action::Egress,
        outcome: Outcome::Success,
        authority: Some(authority.clone()),
        secrets: Vec::new(),
        named: Vec::new(),
        code: None,
        note: SafeText::words(note),
        request: None,
        so_far: None,
    })
}
