//! Bytes from one side to the other, untouched, until both have ended or the session has.

use keyless_core::{
    Authority, Error, SafeText,
    audit::{Action, Outcome},
};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

use crate::{ports::Event, session::Session};

/// Bytes in flight per direction: fast enough for a download, small enough for 2,000 idle tunnels.
const BUFFER: usize = 16 << 10;

/// Joins the two sides. An end on one side is passed on and the other goes on (half-close).
pub(crate) async fn join<A, B>(session: &Session, mut client: A, mut upstream: B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    tokio::select! {
        // A broken side ends the tunnel; there is nobody to tell.
        _ = copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER) => {}
        () = session.ended() => {}
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
        code: None,
        note: SafeText::words(note),
        request: None,
    })
}
