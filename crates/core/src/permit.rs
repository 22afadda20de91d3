//! The right to open one value for one use, for a short time.

use std::{ops::Add, time::Duration};

use crate::{Authority, SecretPath, action::ActionType, audit::Recorded};

/// Opens one value. Comes only from a recorded verdict; not `Clone`, so it can't be handed round.
#[derive(Debug)]
pub struct Permit {
    path: SecretPath,
    usage: Usage,
    until: Uptime,
}

/// A time by the clock that permits are measured by: since the machine was started, with what it slept. Nobody sets it
/// back, as the clock on the wall may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(Duration);

/// What a value is released for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// To enter the execution of one action.
    Action {
        /// The action's type.
        kind: ActionType,
    },
    /// To be put on the wire toward this authority.
    Egress {
        /// Where it goes.
        authority: Authority,
    },
    /// To be seen by the operator.
    Reveal,
}

impl Permit {
    /// The permit that a recorded verdict gives, until then; `None` when the entry recorded
    /// something else than an allowed use.
    pub fn from_recorded(recorded: Recorded, until: Uptime) -> Option<Self> {
        let allowed = recorded.into_allowed()?;
        Some(Self { path: allowed.path, usage: allowed.usage, until })
    }

    /// The secret whose value it opens.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }

    /// The use that it opens the value for.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether its value may be put on the wire toward `authority`.
    pub fn is_toward(&self, authority: &Authority) -> bool {
        matches!(&self.usage, Usage::Egress { authority: allowed } if allowed == authority)
    }

    /// When it is over.
    pub fn until(&self) -> Uptime {
        self.until
    }

    /// Whether it still opens at `now`.
    pub fn is_valid_at(&self, now: Uptime) -> bool {
        now < self.until
    }
}

impl Uptime {
    /// The moment `time` after the machine was started.
    pub fn since_start(time: Duration) -> Self {
        Self(time)
    }
}

impl Add<Duration> for Uptime {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }
}
