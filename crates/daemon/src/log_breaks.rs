//! The way on after a log that was cut or changed: the operator has seen it, and says so.

use std::path::PathBuf;

use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Detail, Draft, Outcome, Target},
};
use keyless_store::AcceptedBreak;
use keyless_vault::Vault;

use crate::{
    broker::{agent, plain_entry},
    checkpoints::{missed_ends, sign_log, told},
    operator::audit_log,
    places::Places,
};

/// What the operator says of breaks that they have seen.
#[derive(Debug, Default)]
pub struct BreaksSeen {
    /// Checkpoints that were kept elsewhere, which may tell of one; those beside the store when absent.
    pub checkpoints: Option<PathBuf>,
    /// What they know of them.
    pub reason: Option<String>,
}

/// Has the log go on behind everything in it that is not what was written: an entry names each break, and each verification
/// tells them from then on. The end is then signed.
///
/// Fails with [`Code::StateUnfit`] when the log is whole.
pub async fn accept_log_breaks(
    vault: &Vault,
    places: &Places,
    seen: &BreaksSeen,
) -> Result<Vec<AcceptedBreak>, Error> {
    let missed = missed_ends(vault, places, seen.checkpoints.as_deref()).await?;
    let reason = seen
        .reason
        .as_ref()
        .map(|reason| SafeText::default().as_they_wrote_in_full(reason).as_str().to_owned());
    let marker = |note: String| {
        let entry = plain_entry(
            agent("operator", "operator"),
            Action::LogBreakAccepted,
            Outcome::Success,
            Target::Log,
        );
        let detail = Detail { note: Some(note), purpose: reason.clone(), ..Detail::default() };
        Draft { detail, ..entry }
    };
    let sealer = vault.head_sealer();
    let breaks =
        vault.store().audit_accept_breaks(&marker, &missed, &*sealer).await.map_err(told)?;
    if breaks.is_empty() {
        let words = "the log is what was written: there is no break to accept";
        return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
    }
    sign_log(vault, &audit_log(vault), places).await?;
    Ok(breaks)
}
