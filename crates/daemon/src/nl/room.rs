//! How many actions are done at the same time: each may hold all of its output in memory.

use std::{collections::HashMap, sync::Arc};

use keyless_core::{Code, agent::InstanceId, nl_message::NlFault};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Actions of all agents.
const AT_ONCE: usize = 32;
/// Actions of one agent, so that none takes every place.
const AT_ONCE_OF_ONE: usize = 8;

/// The places; who comes first gets the next.
pub(super) struct Room {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<InstanceId, Arc<Semaphore>>>,
}

/// A place, until this is dropped.
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl Default for Room {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

impl Room {
    /// Waits for a place.
    pub(super) async fn enter(&self, agent: &InstanceId) -> Result<Place, NlFault> {
        let own = {
            let mut each = self.each.lock();
            let own = each.entry(agent.clone());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_OF_ONE))))
        };
        let own = own.acquire_owned().await.map_err(|_| Code::Internal)?;
        let shared = Arc::clone(&self.all).acquire_owned().await.map_err(|_| Code::Internal)?;
        Ok(Place { _own: own, _shared: shared })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::nl::scene::aid;

    #[test]
    fn one_agent_does_not_take_every_place() {
        let (room, busy, other) =
            (Room::default(), aid("busy").instance_id, aid("other").instance_id);
        let enter = |agent: &InstanceId| room.enter(agent).now_or_never().map(Result::unwrap);
        let mut places: Vec<Place> = (0..AT_ONCE_OF_ONE).filter_map(|_| enter(&busy)).collect();
        assert_eq!(places.len(), AT_ONCE_OF_ONE);
        assert!(enter(&busy).is_none() && enter(&other).is_some());
        places.pop();
        assert!(enter(&busy).is_some());
    }
}
