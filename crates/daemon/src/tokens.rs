//! Access tokens that are got on the host with a stored grant, one request at a time.
//!
//! A source of values over another one: for a secret with an OAuth grant it gives the access token,
//! for all others what the source below gives. The stored value goes to the token URL alone, under
//! a permit of its own that is on record first. All sessions of a broker share the tokens, since two
//! that refreshed by themselves would invalidate each other's. Source: design.md, section 5.

mod fetcher;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use keyless_core::{ApproveOnUse, Code, EgressRule, Error, SecretPath, SecretValue, audit::Agent};
use keyless_egress::Engine;
use keyless_store::AuditLog;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use zeroize::Zeroizing;

use self::fetcher::Fetcher;
use crate::values::Values;

/// A refused token that was renewed so shortly before is not renewed again: the refusal has another
/// reason.
const RESPITE: Duration = Duration::from_secs(10);

/// A source of values, with access tokens in the place of grants.
pub(crate) struct Tokens {
    fetcher: Arc<Fetcher>,
    slots: Mutex<HashMap<SecretPath, Arc<Slot>>>,
}

/// One secret with a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) rule: EgressRule,
    /// The secret with the client's own secret.
    pub(crate) client_secret: Option<(SecretPath, EgressRule)>,
}

struct Slot {
    grant: Arc<Grant>,
    /// Held during a token request, so that there is one at a time. Outlives a change of the grant.
    state: Arc<AsyncMutex<State>>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// A newer refresh token than the stored one.
    newer: Option<Newer>,
    /// When and why the last request failed: an answer for those who were waiting then.
    failed: Option<(Instant, Error)>,
    /// When a token was last given up because it was refused.
    given_up: Option<Instant>,
}

/// A refresh token that came with an access token.
struct Newer {
    refresh: Zeroizing<Vec<u8>>,
    /// What the source has, and is spent. Once it has something else, that is to be used.
    stored: SecretValue,
    /// It was not handed to the source yet; one that can't be written has had its turn.
    is_owed: bool,
}

struct Token {
    /// What it was got with.
    grant: Arc<Grant>,
    value: Zeroizing<Vec<u8>>,
    obtained: Instant,
    until: Instant,
}

impl Tokens {
    pub(crate) fn over(
        inner: Arc<dyn Values>,
        engine: Arc<Engine>,
        log: AuditLog,
        agent: Agent,
    ) -> Self {
        let fetcher = Arc::new(Fetcher { inner, engine, log, agent: Arc::new(agent) });
        Self { fetcher, slots: Mutex::default() }
    }

    /// From now on this secret gives access tokens. The same grant as before keeps its token; another one has
    /// the refresh token that the last answer brought, since the one before it is spent.
    pub(crate) fn learn(&self, path: &SecretPath, grant: Grant) {
        let mut slots = self.slots.lock();
        let known = slots.get(path);
        if known.is_none_or(|slot| *slot.grant != grant) {
            let state = known.map(|slot| Arc::clone(&slot.state)).unwrap_or_default();
            let slot = Slot { grant: Arc::new(grant), state };
            slots.insert(path.clone(), Arc::new(slot));
        }
    }

    /// From now on only these give access tokens.
    pub(crate) fn forget_all_but(&self, grants: &[(SecretPath, Grant)]) {
        self.slots.lock().retain(|path, _| grants.iter().any(|(granted, _)| granted == path));
    }
}

impl Values for Tokens {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        let slot = self.slots.lock().get(path).cloned();
        Box::pin(async move {
            match slot {
                Some(slot) => {
                    // A token that was fetched earlier is no way round what its credential has become.
                    self.fetcher.inner.policy(path).await?;
                    let (fetcher, path) = (Arc::clone(&self.fetcher), path.clone());
                    // Who asked may leave; the answer is kept all the same.
                    let fetching = tokio::spawn(async move { fetcher.token(&path, &slot).await });
                    fetching.await.unwrap_or_else(|_| Err(Code::Internal.into()))
                }
                None => self.fetcher.inner.open(path).await,
            }
        })
    }

    fn policy<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<ApproveOnUse, Error>> {
        self.fetcher.inner.policy(path)
    }

    fn closings(&self) -> u64 {
        self.fetcher.inner.closings()
    }

    /// An answer that is on its way may have the next refresh token in it; and one that could not be stored has
    /// another chance.
    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let slots: Vec<_> = self
                .slots
                .lock()
                .iter()
                .map(|(path, slot)| (path.clone(), Arc::clone(slot)))
                .collect();
            for (path, slot) in slots {
                // Whoever uses it next is told; here nobody is left who could be.
                let _ = self.fetcher.hand_over(&path, &mut *slot.state.lock().await).await;
            }
        })
    }

    fn expire<'a>(&'a self, path: &'a SecretPath, since: Instant) -> BoxFuture<'a, bool> {
        let slot = self.slots.lock().get(path).cloned();
        Box::pin(async move {
            let Some(slot) = slot else { return false };
            let mut state = slot.state.lock().await;
            let is_newer = state.token.as_ref().is_none_or(|token| token.obtained > since);
            if is_newer {
                return true;
            }
            if state.given_up.is_some_and(|when| when.elapsed() < RESPITE) {
                return false;
            }
            state.given_up = Some(Instant::now());
            state.token = None;
            true
        })
    }
}
