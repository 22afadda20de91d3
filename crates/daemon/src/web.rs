//! The approvals page: what `keyless web` opens in a browser, for the operator alone.
//!
//! ```text
//! keyless web ──operator.sock──► link, good once ──► GET /open/LINK ──► a visit: its own path and cookie
//!                                                                           │
//!                          passphrase or code ──► proven, for a while ◄─────┘
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
#[cfg(test)]
mod scene;
mod visitors;
mod words;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use keyless_core::Error;
use tokio::sync::OnceCell;

pub(crate) use self::desk::Desk;
use self::{
    factor::FactorGate,
    visitors::{LINK_LIFE, Visitors},
};
use crate::run::loopback_listener;

/// The page of one broker.
pub(crate) struct Web {
    desk: Desk,
    visitors: Visitors,
    factor: FactorGate,
    address: OnceCell<SocketAddr>,
}

/// A way to the page.
pub(crate) struct Link {
    pub(crate) url: String,
    /// How long it is good for.
    pub(crate) life: Duration,
}

impl Web {
    /// A page that does not listen yet.
    pub(crate) fn new(desk: Desk) -> Self {
        let (visitors, factor) = (Visitors::default(), FactorGate::default());
        Self { desk, visitors, factor, address: OnceCell::new() }
    }

    /// A link that opens one visit. From the first one on the page listens.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Link, Error> {
        let address = self.address.get_or_try_init(|| self.listen()).await?;
        let token = self.visitors.new_link()?;
        Ok(Link { url: format!("http://{address}/open/{token}"), life: LINK_LIFE })
    }

    async fn listen(self: &Arc<Self>) -> Result<SocketAddr, Error> {
        let (listener, address) = loopback_listener().await?;
        tokio::spawn(door::serve(listener, door::routes(Arc::clone(self), address)));
        Ok(address)
    }
}
