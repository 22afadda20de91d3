//! Who is at the other end of a connection, and for how long.

use std::{collections::BTreeMap, sync::Arc};

use keyless_core::{Code, Error, Placeholder, SafeText, SecretPath, agent::Aid};
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
    /// What stands for each.
    pub(super) placeholders: BTreeMap<SecretPath, Placeholder>,
    /// What the project declares in which it began.
    pub(super) declared: Vec<SecretPath>,
    pub(super) over: watch::Sender<bool>,
}

impl Bound {
    /// What stands for these secrets; [`Code::SessionUnfit`] for one that the run was not given.
    pub(super) fn placeholders(&self, of: &[SecretPath]) -> Result<Vec<String>, Error> {
        let one = |path: &SecretPath| {
            let given = self.placeholders.get(path).map(ToString::to_string);
            let words = SafeText::words("this session was not given ").and(path);
            given.ok_or_else(|| Error::with(Code::SessionUnfit, words))
        };
        of.iter().map(one).collect()
    }

    /// Returns when the run is over.
    pub(super) async fn ended(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

impl Caller {
    /// The session that it speaks for, if it has greeted as one or is in a run's jail.
    pub(super) fn session_id(&self) -> Option<&str> {
        let bound = self.bound.as_ref().map(|bound| bound.session.as_str());
        bound.or(self.agent.as_deref())
    }

    /// What stands for these secrets in the run in whose jail it is.
    pub(super) fn placeholders(&self, of: &[SecretPath]) -> Result<Vec<String>, Error> {
        let outside =
            || Error::with(Code::BadRequest, SafeText::words("this socket is no session's"));
        self.bound.as_ref().ok_or_else(outside)?.placeholders(of)
    }

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
