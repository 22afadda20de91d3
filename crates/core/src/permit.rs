//! The right to open one value for one use, for a short time.

use jiff::Timestamp;

use crate::{Authority, SecretPath, action::ActionType, audit::Recorded};

/// Opens one value. Comes only from a recorded verdict; not `Clone`, so it can't be handed round.
#[derive(Debug)]
pub struct Permit {
    path: SecretPath,
    usage: Usage,
    expires: Timestamp,
}

/// What a value is released for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// To enter the execution of one action.
    Action {
        /// Of which type.
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
    /// The permit that a recorded verdict gives, until `expires`; `None` when the entry recorded
    /// something else than an allowed use.
    pub fn from_recorded(recorded: Recorded, expires: Timestamp) -> Option<Self> {
        let allowed = recorded.into_allowed()?;
        Some(Self { path: allowed.path, usage: allowed.usage, expires })
    }

    /// Whose value it opens.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }

    /// What for.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether its value may be put on the wire toward `authority`.
    pub fn is_toward(&self, authority: &Authority) -> bool {
        matches!(&self.usage, Usage::Egress { authority: allowed } if allowed == authority)
    }

    /// Whether it still opens at `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now < self.expires
    }
}
