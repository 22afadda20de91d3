//! What may be reached, and where it really is: policy, zones, the operator's exact words.
//!
//! One such set is in force at a time. A reload puts another in its place; what is open already is
//! judged again by it, without a second look-up: a tunnel that may not go on is cut, a kept
//! connection's next request is refused. Source: reference/egress.md (c) 7, 8 and 28.

use std::sync::Arc;

use keyless_core::{Authority, Code, Destination, Error, Host, SafeText};
use parking_lot::Mutex;

use crate::{
    Engine, EngineConfig, Session,
    dial::{Dialer, Pinned},
    engine::EgressPolicy,
    pool::Pool,
    uncarried::is_refused,
};

/// What may be reached, at one moment.
pub(crate) struct Reach {
    pub(crate) dialer: Dialer,
    policy: EgressPolicy,
    pass_through: Vec<Destination>,
}

/// Why a destination may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// An exact route or internal exception of the operator's.
    Exact,
    /// The allowlist.
    Listed,
    /// A secret of the session may go there.
    OwnSecret,
    /// Nothing is confined.
    Unconfined,
}

/// The judged addresses of a connection's destination. Judged anew when the session's secrets or
/// what may be reached have changed since.
pub(crate) struct Standing(Mutex<Judged>);

#[derive(Clone)]
struct Judged {
    /// The session's version at which it was judged.
    as_of: u64,
    pinned: Result<Pinned, Error>,
}

impl Reach {
    /// What may be reached by way of `pool`, which gives up idle connections where no descriptor is free.
    pub(crate) fn new(config: &EngineConfig, pool: &Arc<Pool>) -> Self {
        let EngineConfig { connect_to, internal_allowlist, policy, limits, .. } = config;
        let proxy = config.upstream_proxy.clone();
        let internal = internal_allowlist.iter().cloned();
        let pool = Arc::clone(pool);
        Self {
            dialer: Dialer::new(connect_to.clone(), internal, proxy, limits)
                .with_room(Arc::new(move || pool.make_room())),
            policy: policy.clone(),
            pass_through: config.pass_through.clone(),
        }
    }

    /// Whether policy lets a connection to `authority` begin. Zones come later, with the addresses.
    pub(crate) fn check(&self, session: &Session, authority: &Authority) -> Result<(), Error> {
        self.reason(session, authority).map(drop)
    }

    /// As [`Reach::check`], with the reason. An address counts as a destination only where its very
    /// text and port are listed: the rules are about names, and whoever dials past these dials past
    /// the rules.
    pub(crate) fn reason(&self, session: &Session, authority: &Authority) -> Result<Reason, Error> {
        if self.dialer.is_named(authority) {
            return Ok(Reason::Exact);
        }
        if is_refused(authority.port) {
            let detail = SafeText::words("port ").and(authority.port);
            return Err(Error::with(Code::PortRefused, detail));
        }
        let is_name = matches!(authority.host, Host::Name(_));
        if is_name && matches!(self.policy, EgressPolicy::Allow) {
            return Ok(Reason::Unconfined);
        }
        if session.is_destination(authority) {
            return Ok(Reason::OwnSecret);
        }
        if self.policy_lists(authority) {
            return Ok(Reason::Listed);
        }
        let code = if is_name { Code::DestinationNotListed } else { Code::RawAddress };
        Err(Error::with(code, SafeText::default().and(authority)))
    }

    /// Whether a connection that was opened to these addresses may go on.
    pub(crate) fn still_allows(
        &self,
        session: &Session,
        authority: &Authority,
        pinned: &Pinned,
    ) -> Result<(), Error> {
        self.check(session, authority)?;
        self.dialer.judge_again(authority, pinned)
    }

    /// Whether the operator keeps this host's TLS untouched: its clients pin the certificate.
    pub(crate) fn passes_through(&self, host: &Host) -> bool {
        self.pass_through.iter().any(|pinned| pinned.names(host))
    }

    fn policy_lists(&self, authority: &Authority) -> bool {
        match &self.policy {
            EgressPolicy::Allow => false,
            EgressPolicy::Allowlist(destinations) => destinations
                .iter()
                .any(|to| to.names(&authority.host) && to.port() == authority.port),
        }
    }
}

impl Judged {
    /// A name that was not to be had then may be by now, and its client goes on asking.
    fn is_stale(&self, session: &Session) -> bool {
        let passes = |error: &Error| {
            matches!(
                error.code(),
                Code::NameNotFound | Code::NameTimeout | Code::UpstreamProxyFailed
            )
        };
        self.as_of != session.version() || self.pinned.as_ref().is_err_and(passes)
    }
}

impl Standing {
    /// Looks the destination up and judges its addresses.
    pub(crate) async fn judge(engine: &Engine, session: &Session, authority: &Authority) -> Self {
        // Read first: a change in between is then seen as one.
        let as_of = session.version();
        let pinned = engine.reach().dialer.pin(authority).await;
        Self(Mutex::new(Judged { as_of, pinned }))
    }

    /// The addresses, with the session's version that they hold for.
    pub(crate) fn pinned(&self) -> Result<(Pinned, u64), Error> {
        let Judged { as_of, pinned } = self.0.lock().clone();
        pinned.map(|pinned| (pinned, as_of))
    }

    /// The addresses as they may be used now.
    pub(crate) async fn renewed(
        &self,
        engine: &Engine,
        session: &Session,
        authority: &Authority,
    ) -> Result<(Pinned, u64), Error> {
        if self.0.lock().is_stale(session) {
            let as_of = session.version();
            let reach = engine.reach();
            let pinned = match reach.check(session, authority) {
                Ok(()) => reach.dialer.pin(authority).await,
                Err(error) => Err(error),
            };
            *self.0.lock() = Judged { as_of, pinned };
        }
        self.pinned()
    }

    /// One that never stood.
    #[cfg(test)]
    pub(crate) fn refused(error: Error) -> Self {
        Self(Mutex::new(Judged { as_of: 0, pinned: Err(error) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionSpec, swap::testing::Bench};

    /// Its client's connection stays, and asks again.
    #[tokio::test]
    async fn a_name_that_was_not_to_be_had_is_looked_up_again() {
        let authority = Authority::parse("late.test:443").unwrap();
        let found = Authority::parse("127.0.0.1:443").unwrap();
        let connect_to = [(authority.clone(), found)].into();
        let engine = Engine::new(EngineConfig { connect_to, ..EngineConfig::default() }).unwrap();
        let (id, secrets, broker) = ("s".to_owned(), Vec::new(), Bench::one().broker as _);
        let session = engine.open(SessionSpec { id, secrets, broker, ca: None, token: None });
        let session = session.unwrap();
        let is_back = async |code: Code| {
            let judged = Judged { as_of: session.version(), pinned: Err(code.into()) };
            let standing = Standing(Mutex::new(judged));
            standing.renewed(&engine, &session, &authority).await.is_ok()
        };
        assert!(is_back(Code::NameNotFound).await && is_back(Code::NameTimeout).await);
        assert!(!is_back(Code::InternalDestination).await, "that is judged once");
    }
}
