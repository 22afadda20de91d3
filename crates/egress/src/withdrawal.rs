//! Tells what is open that it may not go on: its session has ended, a secret that names its host
//! was withdrawn, or its destination may not be reached any more.
//!
//! A secret's withdrawal cuts whatever is under way toward its hosts, whichever secret that used:
//! what a stream was opened with can't be told from what it carries (a WebSocket that logs in by
//! its first frame). Source: reference/egress.md (c) 28; (e) 104.

use std::sync::Arc;

use keyless_core::{Authority, Code, Error, SafeText};

use crate::{Engine, Session, dial::Pinned, swap::SwapTable};

/// What something that is open stands on.
pub(crate) struct Ground {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    /// The session's secrets as they were when it began.
    pub(crate) table: Arc<SwapTable>,
    pub(crate) authority: Authority,
    pub(crate) pinned: Pinned,
    /// The session's version at which all of this held.
    pub(crate) as_of: u64,
}

impl Ground {
    /// The ground of something that begins now, by addresses that were judged at `as_of`.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        session: &Arc<Session>,
        authority: Authority,
        pinned: Pinned,
        as_of: u64,
    ) -> Self {
        let (engine, session) = (Arc::clone(engine), Arc::clone(session));
        Self { table: session.table(), engine, session, authority, pinned, as_of }
    }

    /// Resolves, with the reason, when it may not go on.
    pub(crate) async fn withdrawn(self) -> Error {
        let mut changes = self.session.changes();
        let mut seen = self.as_of;
        loop {
            let now = changes.borrow_and_update().version;
            if now != seen
                && let Err(error) = self.holds()
            {
                return error;
            }
            seen = now;
            if changes.changed().await.is_err() {
                return Code::SessionEnded.into();
            }
        }
    }

    /// Whether all of it still holds.
    pub(crate) fn holds(&self) -> Result<(), Error> {
        let Self { engine, session, table, authority, pinned, .. } = self;
        session.check_open()?;
        if !session.table().keeps(table, &authority.host) {
            let detail = SafeText::words("toward ").and(authority);
            return Err(Error::with(Code::SecretWithdrawn, detail));
        }
        engine.reach().still_allows(session, authority, pinned)
    }
}
