//! What the page and `operator.sock` need of the broker.

use std::sync::Arc;

use keyless_core::{
    Code, Error,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_store::AuditLog;
use keyless_vault::{Providers, Vault};
use tokio::{sync::watch, task::spawn_blocking};

use super::WebConfig;
use crate::{
    agreed::AgreedBy,
    broker::{agent, plain_entry},
    config::Config,
    operator::{Approver, Overview, ProveAgain},
    places::Places,
    requests::Requests,
    session_book::{SessionBook, not_open},
    window::Keeper,
};

/// How near the broker is to its end by an operator's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Locking {
    /// Nobody has locked.
    #[default]
    No,
    /// Its store is closed; who asked for that is told first.
    Asked,
    /// It ends.
    Now,
}

/// The broker's parts that the page shows and moves.
pub(crate) struct Desk {
    pub(crate) vault: Arc<Vault>,
    pub(crate) log: AuditLog,
    pub(crate) requests: Arc<Requests>,
    pub(crate) approver: Arc<Approver>,
    pub(crate) overview: Overview,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) book: Arc<SessionBook>,
    /// Ends the broker.
    pub(crate) lock: Arc<watch::Sender<Locking>>,
    pub(crate) places: Places,
}

impl Desk {
    /// `[web]` of config.toml as it is now.
    pub(super) async fn settings(&self) -> Result<WebConfig, Error> {
        let file = self.places.config_file();
        let read = spawn_blocking(move || Config::load(&file)).await;
        read.map_err(|_| Error::from(Code::Internal))?.map(|config| config.web)
    }

    /// Which answers take the factor once more. A file that can't be read may have asked for the most, and keeps nobody
    /// from an answer that gives nothing.
    pub(super) async fn prove_again(&self) -> ProveAgain {
        self.settings().await.map_or(ProveAgain::Always, |web| web.prove_again)
    }

    /// The token catalog; what can't be used of it is left out.
    pub(super) async fn providers(&self) -> Providers {
        let (places, voucher) = (self.places.clone(), self.vault.agreement_voucher());
        let read = move || crate::providers::providers(&places, AgreedBy::Vault(&voucher));
        let read = spawn_blocking(read).await;
        read.ok().and_then(Result::ok).unwrap_or_else(Providers::bundled)
    }

    /// Ends a session, with what was approved for it; on record, as `by`'s act.
    pub(crate) async fn end_session(&self, id: &str, by: Agent) -> Result<(), Error> {
        if !self.book.end(id) {
            return Err(not_open());
        }
        self.requests.end_session(id).await?;
        let draft = Draft {
            detail: Detail { note: Some("ended by the operator".to_owned()), ..Detail::default() },
            ..plain_entry(by, Action::SessionEnd, Outcome::Success, Target::Session)
        };
        self.log.append(draft).await.map(drop)
    }

    /// Closes the store and ends everything that stands on it.
    pub(super) fn lock_all(&self) {
        self.vault.lock();
        self.lock.send_replace(Locking::Now);
    }

    /// Puts something that was done at the page on record.
    pub(super) async fn record(
        &self,
        action: Action,
        outcome: Outcome,
        code: Option<Code>,
        note: &str,
    ) -> Result<(), Error> {
        let who = if code.is_some() { "unproven" } else { "operator" };
        let target = if code.is_some() { Target::Connection } else { Target::Session };
        let draft = Draft {
            error_code: code,
            detail: Detail { note: Some(note.to_owned()), ..Detail::default() },
            ..plain_entry(agent("web", who), action, outcome, target)
        };
        self.log.append(draft).await.map(drop)
    }
}
