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
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod crowd;
mod desk;
mod dialog;
mod door;
mod factor;
mod form;
mod frame;
mod handlers;
#[cfg(test)]
mod in_chromium;
mod keeping;
mod live;
mod pages;
mod passkeys;
#[cfg(test)]
mod scene;
mod settings;
mod visitors;
mod words;

use std::{io, sync::Arc, time::Duration};

use keyless_core::{Code, Error};
use keyless_sockets::Seats;
use tokio::{net::TcpListener, sync::OnceCell};

pub(crate) use self::desk::{Desk, Locking};
pub use self::settings::{WebConfig, WebTls};
use self::{
    factor::FactorGate,
    visitors::{LINK_LIFE, Visitors, Whose},
};
use crate::run::loopback_listener;

/// A browser opens six at a time, and each tab holds one more for the live list.
const MAX_CONNECTIONS: usize = 64;
/// Ports that another program may have on the other address.
const PORTS_TRIED: usize = 16;

/// The page of one broker.
pub(crate) struct Web {
    desk: Arc<Desk>,
    visitors: Visitors,
    factor: FactorGate,
    address: OnceCell<Address>,
}

/// Where the page is: at its one name, which is no address, since passkeys are for names.
#[derive(Clone)]
struct Address {
    /// `localhost:PORT`.
    host: String,
    /// Over HTTPS.
    secure: bool,
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
        Self { desk, visitors, factor, address: OnceCell::new() }
    }

    /// A link that opens one visit. From the first one on the page listens.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Link, Error> {
        let address = self.address.get_or_try_init(|| self.listen()).await?;
        let token = self.visitors.new_link(Whose::Operators)?;
        Ok(Link { url: format!("{}/open/{token}", address.origin()), life: LINK_LIFE })
    }

    /// As [`Web::link`] for a client of an agent to show; nothing while the operator has not opened the page. Such
    /// links and the visits that they open are counted by themselves, and crowd out none of the operator's.
    pub(crate) fn link_for_agent(&self) -> Result<Option<String>, Error> {
        let Some(address) = self.address.get() else { return Ok(None) };
        let token = self.visitors.new_link(Whose::Agents)?;
        Ok(Some(format!("{}/open/{token}", address.origin())))
    }

    /// The page's origin, as browsers name it.
    fn origin(&self) -> String {
        self.address.get().map(Address::origin).unwrap_or_default()
    }

    /// Whether everything travels encrypted, so that a cookie may say that it wants nothing less.
    fn is_secure(&self) -> bool {
        self.address.get().is_some_and(|address| address.secure)
    }

    async fn listen(self: &Arc<Self>) -> Result<Address, Error> {
        let tls = self.desk.settings().await?.tls.map(|tls| tls.load()).transpose()?.map(Arc::new);
        let (listeners, port) = localhost_listeners().await?;
        let address = Address { host: format!("localhost:{port}"), secure: tls.is_some() };
        let seats = Seats::of(MAX_CONNECTIONS);
        for listener in listeners {
            let routes = door::routes(Arc::clone(self), address.clone());
            tokio::spawn(door::serve(listener, tls.clone(), routes, Arc::clone(&seats)));
        }
        Ok(address)
    }
}

impl Address {
    fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }
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
