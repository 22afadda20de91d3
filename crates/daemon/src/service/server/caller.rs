//! Who is at the other end of a connection, and for how long.

use keyless_core::{Code, Error, SecretPath, agent::Aid};
use std::sync::Arc;
use tokio::sync::watch;

use super::sessions::Held;
use crate::session_book::Entered;

/// What a connection stands for.
pub(super) struct Caller {
    /// The run that lives as long as it.
    pub(super) session: Option<Held>,
    /// The session of an agent's tools.
    pub(super) agent: Option<String>,
    /// Its place among the open sessions.
    pub(super) entered: Option<Entered>,
    /// The run in whose jail it is; then it is that session's tools and nothing else.
    pub(super) bound: Option<Arc<Bound>>,
    pub(super) peer: Option<i32>,
}

/// The run whose jail shows a socket, and the agent that it is.
pub(super) struct Bound {
    pub(super) session: String,
    pub(super) agent: Aid,
    /// The secrets that it was given.
    pub(super) secrets: Vec<SecretPath>,
    /// What the project declares in which it began.
    pub(super) declared: Vec<SecretPath>,
    pub(super) over: watch::Sender<bool>,
}

impl Bound {
    /// Returns when the run is over.
    pub(super) async fn ended(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

impl Caller {
    /// Returns when the operator ends the session, or when the run is over in whose jail it is.
    pub(super) async fn ended(&mut self) {
        match (&mut self.entered, &self.bound) {
            (Some(entered), _) => entered.ended().await,
            (None, Some(bound)) => bound.ended().await,
            (None, None) => std::future::pending().await,
        }
    }

    /// What `asked` comes to; [`Code::SessionEnded`] if the session ends before.
    pub(super) async fn while_it_lasts<T>(
        &mut self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.ended() => Err(Code::SessionEnded.into()),
            done = asked => done,
        }
    }
}
