//! Which sessions are open, so that the operator can see them and end one.
//!
//! A session stands here as long as the connection that it lives by. Ending one breaks that
//! connection; an agent's tools can't go on with it by showing their ticket again.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, SecretPath};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The sessions of one broker.
#[derive(Default)]
pub(crate) struct SessionBook {
    open: Mutex<BTreeMap<String, Open>>,
    ended: Mutex<HashSet<String>>,
}

/// An open session, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its name.
    pub id: String,
    /// What it is.
    pub kind: SessionKind,
    /// When it was opened.
    pub since: Timestamp,
    /// What it may use.
    pub secrets: Vec<SecretPath>,
}

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionKind {
    /// A command of `keyless run`.
    Run,
    /// An agent's tools, outside a jail.
    Tools,
}

/// A session's place in the book, given up when this is dropped.
pub(crate) struct Entered {
    book: Arc<SessionBook>,
    id: String,
    ended: watch::Receiver<bool>,
}

struct Open {
    row: SessionRow,
    /// Several connections may go on with one session of tools.
    connections: usize,
    end: watch::Sender<bool>,
}

/// There is no open session of that name.
pub(crate) fn not_open() -> Error {
    Error::with(Code::SessionEnded, SafeText::words("there is no open session of that name"))
}

impl SessionKind {
    /// What it is, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "keyless run",
            Self::Tools => "Tools of an agent",
        }
    }
}

impl SessionBook {
    /// Enters a session, or one more connection of it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: &str,
        kind: SessionKind,
        secrets: Vec<SecretPath>,
    ) -> Entered {
        let mut all = self.open.lock();
        let open = all.entry(id.to_owned()).or_insert_with(|| {
            let row = SessionRow { id: id.to_owned(), kind, since: Timestamp::now(), secrets };
            Open { row, connections: 0, end: watch::Sender::new(false) }
        });
        open.connections += 1;
        let ended = open.end.subscribe();
        Entered { book: Arc::clone(self), id: id.to_owned(), ended }
    }

    /// The open sessions, the newest first. One that was told to end is open no more.
    pub(crate) fn rows(&self) -> Vec<SessionRow> {
        let all = self.open.lock();
        let lives = all.values().filter(|open| !*open.end.borrow());
        let mut rows: Vec<_> = lives.map(|open| open.row.clone()).collect();
        drop(all);
        rows.sort_by(|a, b| b.since.cmp(&a.since).then_with(|| a.id.cmp(&b.id)));
        rows
    }

    /// Ends a session; `false` when it is not open, or was told to end already.
    pub(crate) fn end(&self, id: &str) -> bool {
        let all = self.open.lock();
        let Some(open) = all.get(id).filter(|open| !*open.end.borrow()) else { return false };
        self.ended.lock().insert(id.to_owned());
        open.end.send_replace(true);
        true
    }

    /// Whether the operator has ended it.
    pub(crate) fn has_ended(&self, id: &str) -> bool {
        self.ended.lock().contains(id)
    }
}

impl Entered {
    /// Gives the place up; whether it was the session's last.
    pub(crate) fn leave(self) -> bool {
        let (book, id) = (Arc::clone(&self.book), self.id.clone());
        drop(self);
        !book.open.lock().contains_key(&id)
    }

    /// Returns when the operator ends the session.
    pub(crate) async fn ended(&mut self) {
        // The sender lives as long as this place in the book.
        let _ = self.ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.book.open.lock();
        let Some(open) = all.get_mut(&self.id) else { return };
        open.connections -= 1;
        if open.connections == 0 {
            all.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_is_listed_until_its_last_connection_is_gone() {
        let book = Arc::new(SessionBook::default());
        let first = book.enter("m-1", SessionKind::Tools, Vec::new());
        let mut second = book.enter("m-1", SessionKind::Tools, Vec::new());
        assert!(!first.leave());
        assert_eq!(book.rows().len(), 1);
        assert!(book.end("m-1") && !book.end("m-2") && book.rows().is_empty());
        assert!(!book.end("m-1"), "once");
        second.ended().await;
        assert!(second.leave());
        assert!(book.rows().is_empty() && book.has_ended("m-1") && !book.has_ended("m-2"));
    }
}
