//! That the store was opened and closed is on record, and that somebody tried with a wrong factor. The log needs
//! no open vault for that.

use keyless_core::{
    Code, Error,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_store::{AuditLog, Store};
use keyless_vault::{Factor, Vault};

use crate::broker::{agent, plain_entry};

/// Opens the vault of `store`, as [`Vault::unlock`] does. A factor that does not open it is on record.
pub async fn open_vault(store: Store, factor: Factor) -> Result<Vault, Error> {
    let opened = Vault::unlock(store.clone(), factor).await;
    if let Err(error) = &opened {
        record_refusal(&AuditLog::start(&store, None), unproven(), error.code()).await;
    }
    opened
}

/// Somebody of whom nothing is known but that they tried.
pub(crate) fn unproven() -> Agent {
    agent("operator", "unproven")
}

/// Writes down that a factor was not the one, and whose; other faults are none of the log's. Where nothing can be
/// written, the store stays closed all the same.
pub(crate) async fn record_refusal(log: &AuditLog, who: Agent, code: Code) {
    let is_guess = matches!(
        code,
        Code::TotpClosed
            | Code::TotpReplayed
            | Code::TotpWrong
            | Code::WrongFactor
            | Code::WrongPassphrase
            | Code::WrongRecoveryPhrase
    );
    if is_guess {
        let draft = plain_entry(who, Action::Unlock, Outcome::Denied, Target::Session);
        let _ = log.append(Draft { error_code: Some(code), ..draft }).await;
    }
}

/// Writes down that the store was opened or closed, by whom, and why. Where nothing can be written, no value can
/// be had either, so that this may go on.
pub(crate) async fn record(log: &AuditLog, action: Action, who: Agent, why: &str) {
    let draft = plain_entry(who, action, Outcome::Success, Target::Session);
    let detail = Detail { note: Some(why.to_owned()), ..Detail::default() };
    let _ = log.append(Draft { detail, ..draft }).await;
}
