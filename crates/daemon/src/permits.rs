//! The one step from a verdict to the right to open a value: its entry is durable in the log, and a permit comes of it.
//!
//! A permit's life is measured by a clock that nobody sets: on the wall's it would open its value for as long as that is
//! set back.

use std::time::Duration;

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, Permit, Uptime, audit::Draft};
use keyless_store::AuditLog;
use keyless_vault::Moment;

/// How long a permit opens its value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PermitLife {
    /// Nothing is waited for before it opens, but what else one request or action has to have on record.
    AtOnce,
    /// What it goes into has to be made first.
    InRequest,
}

impl PermitLife {
    fn time(self) -> Duration {
        match self {
            Self::AtOnce => Duration::from_secs(5),
            Self::InRequest => Duration::from_secs(30),
        }
    }
}

/// Records an allowed use, and gives the permit for it. [`Code::Internal`] where the draft is of something else.
pub(crate) fn permit(
    log: &AuditLog,
    draft: Draft,
    life: PermitLife,
) -> BoxFuture<'_, Result<Permit, Error>> {
    Box::pin(async move {
        let recorded = log.append(draft).await?;
        let until = uptime() + life.time();
        Permit::from_recorded(recorded, until).ok_or_else(|| Code::Internal.into())
    })
}

/// Now, by the clock that permits are measured by.
pub(crate) fn uptime() -> Uptime {
    Moment::now().into()
}
