//! Who waits for the answer to the question of a held use. The last one to leave takes it along: an answer that comes later
//! would be about nothing, and a word for once would wait for the next request that is the same.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Code, Error,
    approval::{Asked, Request, RequestId, Status},
};
use tokio::runtime::Handle;

use super::Requests;
use crate::approvals::WantedUse;

/// One who waits for an answer, until this is dropped.
pub(crate) struct Waiter {
    requests: Arc<Requests>,
    id: RequestId,
}

/// What comes of waiting for a question that stands already.
pub(crate) enum Joined {
    /// No held use has asked it, but an agent ahead of one: it stays, whoever leaves.
    AskedAhead,
    /// It is one more who waits.
    Waits(Waiter),
    /// The last who waited has left, and it is being withdrawn.
    Withdrawn,
}

impl Requests {
    /// Waits along for the question `id`.
    pub(crate) fn join(self: &Arc<Self>, id: &RequestId) -> Joined {
        match self.held.lock().get_mut(id) {
            None => return Joined::AskedAhead,
            Some(0) => return Joined::Withdrawn,
            Some(waiting) => *waiting += 1,
        }
        Joined::Waits(Waiter { requests: Arc::clone(self), id: id.clone() })
    }

    /// Asks for a use that is held. A task of its own asks: who leaves meanwhile leaves no question that nobody withdraws.
    pub(crate) async fn ask_held(
        self: &Arc<Self>,
        wanted: &WantedUse<'_>,
        asked: &Asked,
    ) -> Result<(Request, Waiter), Error> {
        let (session, path) = (wanted.session.to_owned(), wanted.path.clone());
        let (requests, asked) = (Arc::clone(self), asked.clone());
        let asking = tokio::spawn(async move {
            let request = requests.ask(&session, Some(&path), asked, None).await?;
            *requests.held.lock().entry(request.id.clone()).or_default() += 1;
            let waiter = Waiter { requests, id: request.id.clone() };
            Ok((request, waiter))
        });
        asking.await.map_err(|_| Error::new(Code::Internal))?
    }

    #[cfg(test)]
    pub(crate) fn holders(&self, id: &RequestId) -> Option<usize> {
        self.held.lock().get(id).copied()
    }

    /// Ends the question `id`, and a word for once that came too late; for the session stays what was said for it.
    async fn withdraw(&self, id: &RequestId) -> Result<(), Error> {
        let (row, now) = (self.row(id).await?, Timestamp::now());
        if matches!(row.request.status(now), Status::Pending | Status::Once) {
            self.put_over(&row, &row.request.abandoned(now)).await?;
        }
        Ok(())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut held = self.requests.held.lock();
        let Some(waiting) = held.get_mut(&self.id) else { return };
        *waiting = waiting.saturating_sub(1);
        if *waiting > 0 {
            return;
        }
        drop(held);
        // Outside a runtime everything is being torn down anyway, and its session ended.
        let Ok(runtime) = Handle::try_current() else { return };
        let (requests, id) = (Arc::clone(&self.requests), self.id.clone());
        runtime.spawn(async move {
            // What can't be written is over here all the same.
            let _ = requests.withdraw(&id).await;
            requests.held.lock().remove(&id);
            requests.changed.notify_waiters();
        });
    }
}
