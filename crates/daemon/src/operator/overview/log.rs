//! The log's newest entries, what fits a search, what one session did, and whether the chain holds.

use keyless_core::{
    Error,
    audit::{Action, Entry, Outcome},
};
use keyless_store::{AuditQuery, LogError};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::Overview;

/// How far back is looked, and how much is given of what fits.
const LOOKED: u32 = 5000;
const GIVEN: usize = 150;
/// What is given of a session's entries.
const OF_SESSION: u32 = 200;

/// The outcomes that can be asked for.
pub const LOG_OUTCOMES: [Outcome; 5] =
    [Outcome::Success, Outcome::Denied, Outcome::Blocked, Outcome::Error, Outcome::Timeout];
/// The acts that can be asked for.
pub const LOG_ACTIONS: [Action; 26] = [
    Action::Egress,
    Action::Exec,
    Action::Template,
    Action::InjectStdin,
    Action::InjectTempfile,
    Action::SdkProxy,
    Action::Blocked,
    Action::Denied,
    Action::Incident,
    Action::Ask,
    Action::Answer,
    Action::SessionStart,
    Action::SessionEnd,
    Action::Unlock,
    Action::Lock,
    Action::Create,
    Action::Update,
    Action::Rotate,
    Action::Reveal,
    Action::Validate,
    Action::Delete,
    Action::Export,
    Action::Import,
    Action::GrantCreate,
    Action::GrantRevoke,
    Action::Verify,
];

/// Which entries are wanted; what is empty fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogWanted {
    /// Entries with this in their target, their session or a secret's path.
    pub text: String,
    /// Entries of this action, by its word.
    pub action: String,
    /// Entries with this outcome, by its word.
    pub outcome: String,
}

/// What fits.
#[derive(Clone, Debug)]
pub struct LogView {
    /// The newest first.
    pub entries: Vec<Entry>,
    /// Whether more of those looked at fit.
    pub more: bool,
}

/// Whether the log is what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainState {
    /// It is not, and why.
    Changed(String),
    /// It is, but for breaks that the operator has seen.
    Holds {
        /// How many entries it has.
        entries: u64,
        /// How many breaks.
        breaks: usize,
    },
    /// It could not be read, which says nothing of it.
    Unread,
}

impl Overview {
    /// The newest entries that fit.
    pub async fn log(&self, wanted: &LogWanted) -> Result<LogView, Error> {
        self.log.flush().await?;
        let mut entries = self.vault.store().audit_tail(LOOKED).await?;
        entries.retain(|entry| wanted.fits(entry));
        entries.reverse();
        let more = entries.len() > GIVEN;
        entries.truncate(GIVEN);
        Ok(LogView { entries, more })
    }

    /// What one session did last, the newest first.
    pub async fn session_log(&self, session: &str) -> Result<Vec<Entry>, Error> {
        self.log.flush().await?;
        let (session, limit) = (Some(session.to_owned()), Some(OF_SESSION));
        let wanted = AuditQuery { session, limit, newest: true, ..AuditQuery::default() };
        let mut entries = self.vault.store().audit_query(&wanted).await?;
        entries.reverse();
        Ok(entries)
    }

    /// Reads the whole log over and sees whether its chain holds.
    pub async fn chain(&self) -> ChainState {
        let (store, sealer) = (self.vault.store().clone(), self.vault.head_sealer());
        let here = Handle::current();
        // It hashes for a while, and what it borrows keeps it from moving between threads.
        let verified = spawn_blocking(move || here.block_on(store.audit_verify(Some(&*sealer))));
        match verified.await {
            Ok(Ok(chains)) => ChainState::Holds {
                entries: chains.iter().map(|chain| chain.entries).sum(),
                breaks: chains.iter().map(|chain| chain.breaks.len()).sum(),
            },
            Ok(Err(error)) => ChainState::of_fault(&error),
            Err(_) => ChainState::Unread,
        }
    }
}

impl LogWanted {
    /// Whether an entry does.
    pub fn fits(&self, entry: &Entry) -> bool {
        let is = |wanted: &str, word: &str| wanted.is_empty() || wanted == word;
        let named = entry.target.contains(&self.text)
            || entry.agent.session_id.contains(&self.text)
            || entry.secrets_used.iter().any(|path| path.as_str().contains(&self.text));
        named && is(&self.action, entry.action.as_str()) && is(&self.outcome, entry.result.as_str())
    }
}

impl ChainState {
    fn of_fault(error: &LogError) -> Self {
        match error {
            LogError::Store(_) => Self::Unread,
            other => Self::Changed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use keyless_store::StoreError;

    use super::*;

    #[test]
    fn a_store_that_is_not_read_is_no_changed_log() {
        let damaged = LogError::Store(StoreError::DamagedRow { table: "audit" });
        assert_eq!(ChainState::of_fault(&damaged), ChainState::Unread);
        assert!(matches!(ChainState::of_fault(&LogError::Head), ChainState::Changed(_)));
    }
}
