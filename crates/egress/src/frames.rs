//! The frames of a WebSocket, once its handshake is done.
//!
//! Toward the client, messages are scrubbed like any body. Toward the destination, text messages
//! are swapped where some secret asks for it (`locations: [websocket]`) and pass as they are
//! elsewhere. A frame of up to [`MAX_WHOLE`] bytes stays one frame; a longer one that may change
//! leaves as several, which RFC 6455 (section 5.4) lets intermediaries do as no extension was
//! negotiated: the handshake offers none, so that messages can be read. There is no bound on a
//! message's size, and a refusal is a Close frame to both sides.
//!
//! Deliberately not here: the handshake (`pipeline/websocket.rs`), and what a swap or a scrub is.
//! Source: RFC 6455; reference/egress.md (c) 22; (e) 74 to 77.

mod head;
mod relay;
mod whole;

use std::{future::ready, sync::Arc};

use futures_util::FutureExt as _;
use keyless_core::{Code, Error};
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::Notify,
};

use self::relay::{Kind, Line, Relay};
pub use self::whole::relayed;
use crate::{
    account::Account,
    scrub::MessageScrub,
    swap::MessageSwap,
    tunnel::{self, Metered},
    withdrawal::Ground,
};

/// Carries the frames of both sides until one of them has ended or it may not go on.
pub(crate) async fn carry<A, B>(
    ground: Ground,
    account: Arc<Account>,
    swap: MessageSwap,
    client: A,
    upstream: B,
) where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite,
{
    let scrub = MessageScrub::new(&ground.table, account.taken());
    let (from_client, to_client) = split(Metered::new(client, Arc::clone(&account)));
    let (from_upstream, to_upstream) = split(upstream);
    let (to_client, to_upstream) = (Line::new(to_client), Line::new(to_upstream));
    let up = Relay::new(from_client, &to_upstream, &to_client, Masking::FromClient);
    let down = Relay::new(from_upstream, &to_client, &to_upstream, Masking::FromServer);
    let answered = Notify::new();
    let both = async {
        let swapped = |kind, beginning: &[u8]| swap.begin(kind == Kind::Text, beginning);
        let scrubbed = |kind, _: &[u8]| Some(scrub.begin(kind == Kind::Text));
        let control = |payload: &mut [u8]| scrub.control(payload);
        tokio::try_join!(
            up.run(swapped, |_| {}, answered.notified()),
            down.run(scrubbed, control, ready(())).inspect(|_| answered.notify_one()),
        )
    };
    let end = tokio::select! {
        ended = both => ended.err(),
        error = ground.withdrawn() => {
            relay::close(&to_client, &to_upstream, &error).await;
            Some(error)
        }
    };
    tunnel::log_end(&account, end);
}

/// Which side a frame comes from, and so whether it is masked (RFC 6455, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking {
    FromClient,
    FromServer,
}

impl Masking {
    /// A frame that breaks the protocol is the fault of its side.
    fn fault(self, words: &'static str) -> Error {
        let code = match self {
            Self::FromClient => Code::BadRequest,
            Self::FromServer => Code::UpstreamProtocol,
        };
        Error::with(code, words.into())
    }
}
