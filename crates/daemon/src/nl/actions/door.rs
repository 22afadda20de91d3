//! The way out of one action's jail: an egress session with its placeholders, and the hosts it may reach.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use keyless_action::{Exchanged, Reach, WentOut};
use keyless_core::{Destination, Error, SessionKey, audit::Agent};
use keyless_egress::{Engine, Session, SessionSecret, SessionSpec};
use keyless_guest::{Carrier, Target};
use tokio::{net::TcpStream, task::AbortHandle};

use super::versions::AtVersions;
use crate::{
    broker::{Broker, Wanted, minted_slots, session_id, session_secret},
    caution::Caution,
    run::EngineCarrier,
    session_broker::{Outgoing, SessionBroker},
    withdrawal::Follower,
};

/// An open way out; closed when it is dropped.
pub(super) struct Door {
    engine: Arc<Engine>,
    session: Arc<Session>,
    trust_pem: String,
    only: Option<Vec<Destination>>,
    outgoing: Arc<Outgoing>,
    following: AbortHandle,
}

impl Door {
    /// Opens one; `None` where nothing may be reached.
    pub(super) async fn open(
        broker: &Broker,
        agent: &Agent,
        key: &[u8; 32],
        reach: Reach,
    ) -> Result<Option<Self>, Error> {
        if reach.placeholders.is_empty() && reach.only.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let pinned = |one: &Exchanged| one.version.map(|version| (one.path.clone(), version));
        let versions = reach.placeholders.iter().filter_map(pinned).collect();
        let paths = reach.placeholders.into_iter().map(|one| one.path).collect();
        let chosen = broker.choose(&Wanted::These(paths)).await?;
        broker.learn_grants(&chosen).await?;
        let (inner, vault) = (broker.session_values(), Arc::clone(broker.vault()));
        let values = Arc::new(AtVersions { inner, vault, versions });
        let session_broker = SessionBroker::new(values, broker.log().clone(), agent.clone());
        let gate = Arc::clone(broker.requests()) as _;
        let outgoing = Arc::<Outgoing>::default();
        let session_broker = session_broker.asking(gate, Caution::default());
        let session_broker = Arc::new(session_broker.noting(Arc::clone(&outgoing)));
        let key = || SessionKey::from_random(*key);
        let mut secrets: Vec<SessionSecret> =
            chosen.iter().filter_map(|secret| session_secret(secret, &key())).collect();
        secrets.extend(minted_slots(&secrets, &key())?);
        let engine = Arc::clone(broker.engine());
        let session = engine.open(SessionSpec {
            id: session_id("a"),
            secrets,
            broker: Arc::clone(&session_broker) as _,
            ca: None,
            token: None,
        })?;
        let follower = Follower {
            vault: Arc::clone(broker.vault()),
            engine: Arc::clone(&engine),
            session: Arc::clone(&session),
            broker: session_broker,
            key: key(),
            chosen,
        };
        let trust_pem = broker.door().trust_pem(&session);
        let following = tokio::spawn(follower.follow()).abort_handle();
        Ok(Some(Self { engine, session, trust_pem, only: reach.only, outgoing, following }))
    }

    /// The values that have gone out through it.
    pub(super) fn went_out(&self) -> Vec<WentOut> {
        self.outgoing.so_far()
    }

    /// What the programs inside have to trust, PEM.
    pub(super) fn trust_pem(&self) -> &str {
        &self.trust_pem
    }

    /// Takes the jail's connections on.
    pub(super) fn carrier(&self) -> Arc<dyn Carrier> {
        Arc::new(Confined {
            only: self.only.clone(),
            to: EngineCarrier {
                engine: Arc::clone(&self.engine),
                session: Arc::clone(&self.session),
            },
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.following.abort();
        self.engine.close(self.session.id());
    }
}

/// Drops connections to hosts that the grant does not name.
struct Confined {
    only: Option<Vec<Destination>>,
    to: EngineCarrier,
}

impl Carrier for Confined {
    fn carry(&self, stream: TcpStream, target: Target) -> BoxFuture<'static, ()> {
        if self.only.as_ref().is_some_and(|only| !names(only, &target)) {
            return Box::pin(async move { drop(stream) });
        }
        self.to.carry(stream, target)
    }
}

/// An address is never named: whoever dials past the names dials past the rules.
fn names(only: &[Destination], target: &Target) -> bool {
    match target {
        Target::Name(authority) => {
            only.iter().any(|to| to.names(&authority.host) && to.port() == authority.port)
        }
        Target::Raw(_) => false,
    }
}
