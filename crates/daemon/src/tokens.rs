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

/// How many seconds after the last token was given up the next one may be, each time in a row. One may be refused just after it
/// came, by a provider that revokes them; the more are, the likelier it has another reason, and endpoints bear no storms.
const RESPITES_S: [u64; 6] = [0, 1, 2, 4, 8, 10];
/// A token that is refused so long after the last one is the first in a row.
const FORGOTTEN: Duration = Duration::from_mins(1);

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
    refusals: Refusals,
}

/// Tokens that were given up because they were refused.
#[derive(Default)]
struct Refusals {
    last: Option<Instant>,
    in_a_row: usize,
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
            let gives_up = state.refusals.take(Instant::now());
            if gives_up {
                state.token = None;
            }
            gives_up
        })
    }
}

impl Refusals {
    /// Whether a token that is refused now is given up.
    fn take(&mut self, now: Instant) -> bool {
        let since = self.last.map(|last| now.saturating_duration_since(last));
        let in_a_row = if since < Some(FORGOTTEN) { self.in_a_row } else { 0 };
        let respite = RESPITES_S[in_a_row.saturating_sub(1).min(RESPITES_S.len() - 1)];
        if since.is_some_and(|since| since < Duration::from_secs(respite)) {
            return false;
        }
        *self = Self { last: Some(now), in_a_row: in_a_row + 1 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_up_however_young_and_many_in_a_row_ever_more_slowly() {
        let (mut refusals, began) = (Refusals::default(), Instant::now());
        let mut at = |millis| refusals.take(began + Duration::from_millis(millis));
        assert!(at(0) && at(100), "two that were revoked");
        assert!(!at(200) && at(1_200));
        assert!(!at(2_000) && at(3_300));
        // An interface that refuses each of them, asked all the time.
        let an_hour = (3_300..3_600_000).step_by(100).filter(|millis| at(*millis)).count();
        assert!((355..365).contains(&an_hour), "{an_hour}");
        assert!(at(4_000_000) && at(4_000_100), "long ago");
    }
}
