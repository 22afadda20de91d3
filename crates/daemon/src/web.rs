//! The approvals page: what `keyless web` opens in a browser, for the operator alone.
//!
//! ```text
//! keyless web ──operator.sock──► link, good once ──► GET /open/LINK ──► a visit: its own path and cookie
//!                                                                           │
//!                          passphrase, code, passkey ──► proven for a while ◄┘
//!                                                   │
//!                                 requests, secrets, sessions, log: /PLACE/…
//! ```
//!
//! It listens on loopback, and only once somebody asked for a link. Whoever may reach the port gets no further
//! than a refusal without the link, and no further than the question for the factor with it. Nothing is decided
//! here: answers go to the same [`Approver`](crate::operator::Approver) as those from a terminal.
//! Source: spec/secrets-through-mcp.md; reference/secrets.md, sections 12 and 13.

mod assets;
mod chart;
mod desk;
mod dialog;
mod door;
mod factor;
mod form;
mod frame;
mod handlers;
mod live;
mod pages;
mod passkeys;
#[cfg(test)]
mod scene;
mod visitors;
mod words;

use std::{io, sync::Arc, time::Duration};

use keyless_core::{Code, Error};
use tokio::{net::TcpListener, sync::OnceCell};

pub(crate) use self::desk::Desk;
use self::{
    factor::FactorGate,
    visitors::{LINK_LIFE, Visitors},
};
use crate::run::loopback_listener;

/// Ports that another program may have on the other address.
const PORTS_TRIED: usize = 16;

/// The page of one broker.
pub(crate) struct Web {
    desk: Arc<Desk>,
    visitors: Visitors,
    factor: FactorGate,
    port: OnceCell<u16>,
}

/// A way to the page.
pub(crate) struct Link {
    pub(crate) url: String,
    /// How long it is good for.
    pub(crate) life: Duration,
}

impl Web {
    /// A page that does not listen yet.
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let (visitors, factor) = (Visitors::default(), FactorGate::default());
        Self { desk, visitors, factor, port: OnceCell::new() }
    }

    /// A link that opens one visit. From the first one on the page listens.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Link, Error> {
        self.port.get_or_try_init(|| self.listen()).await?;
        let token = self.visitors.new_link()?;
        Ok(Link { url: format!("{}/open/{token}", self.origin()), life: LINK_LIFE })
    }

    /// The page's one name. Passkeys are for names, so it is no address.
    fn origin(&self) -> String {
        format!("http://{}", host(self.port.get().copied().unwrap_or_default()))
    }

    async fn listen(self: &Arc<Self>) -> Result<u16, Error> {
        let (listeners, port) = localhost_listeners().await?;
        for listener in listeners {
            let routes = door::routes(Arc::clone(self), &host(port));
            tokio::spawn(door::serve(listener, routes));
        }
        Ok(port)
    }
}

fn host(port: u16) -> String {
    format!("localhost:{port}")
}

/// One port on both addresses that browsers take `localhost` for: on one that were left free, somebody else could
/// stand in for us.
async fn localhost_listeners() -> Result<(Vec<TcpListener>, u16), Error> {
    for _ in 0..PORTS_TRIED {
        let (listener, address) = loopback_listener().await?;
        let port = address.port();
        match TcpListener::bind(("::1", port)).await {
            Ok(second) => return Ok((vec![listener, second], port)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // There is no IPv6 here, for nobody.
            Err(_) => return Ok((vec![listener], port)),
        }
    }
    Err(Code::PathUnusable.into())
}
