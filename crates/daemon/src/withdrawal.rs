//! Keeps a session's secrets in step with the vault: one that is removed, or bound otherwise, is so
//! within a second for what is open too, whichever process changed the store.

use std::{sync::Arc, time::Duration};

use keyless_core::{SecretPath, SessionKey};
use keyless_egress::{Engine, Session, SessionSecret};
use keyless_vault::{Looked, Secret, Vault};

use crate::{
    broker::{minted_slots, session_secret},
    session_broker::SessionBroker,
};

/// Between two looks at the store; one that did not change costs one small query.
const INTERVAL: Duration = Duration::from_millis(400);

/// What a session was opened with, to be kept in step.
pub(crate) struct Follower {
    pub(crate) vault: Arc<Vault>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) broker: Arc<SessionBroker>,
    pub(crate) key: SessionKey,
    pub(crate) chosen: Vec<Secret>,
}

impl Follower {
    /// Follows the store until it is dropped.
    pub(crate) async fn follow(mut self) {
        let mut looked = Looked::default();
        loop {
            tokio::time::sleep(INTERVAL).await;
            // A store that can't be read releases nothing, so there is nothing to withdraw.
            if let Ok(Some(all)) = self.vault.list_changed(&mut looked).await {
                self.take_up(&all);
            }
        }
    }

    fn take_up(&mut self, all: &[Secret]) {
        let now: Vec<Secret> = self.chosen.iter().filter_map(|old| find(all, &old.path)).collect();
        for (old, new) in both(&self.chosen, &now) {
            // Its times as well: what another source keeps has no version here, and one that was removed and added
            // again may say the same of itself.
            if old != new {
                self.broker.forget(&old.path);
            }
        }
        let (before, after) = (self.bound(&self.chosen), self.bound(&now));
        if before != after {
            self.engine.replace_secrets(&self.session, &after);
        }
        // Those that are gone stay chosen: one that is added again is in force again.
        for new in now {
            let place = self.chosen.iter_mut().find(|old| old.path == new.path);
            if let Some(place) = place {
                *place = new;
            }
        }
        for gone in &mut self.chosen {
            if find(all, &gone.path).is_none() {
                gone.metadata.egress = None;
            }
        }
    }

    fn bound(&self, secrets: &[Secret]) -> Vec<SessionSecret> {
        let bound = secrets.iter().filter_map(|secret| session_secret(secret, &self.key));
        let mut bound: Vec<SessionSecret> = bound.collect();
        // Tokens whose names don't fit stay unsealed slots: answers with such are refused.
        bound.extend(minted_slots(&bound, &self.key).unwrap_or_default());
        bound
    }
}

fn find(all: &[Secret], path: &SecretPath) -> Option<Secret> {
    all.iter().find(|secret| secret.path == *path).cloned()
}

fn both<'a>(
    old: &'a [Secret],
    new: &'a [Secret],
) -> impl Iterator<Item = (&'a Secret, &'a Secret)> {
    new.iter().filter_map(|new| Some((old.iter().find(|old| old.path == new.path)?, new)))
}
