//! An identity's life: provisioned, active, suspended, revoked. Nothing comes back from revoked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an identity's life stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// It may act.
    Active,
    /// It is registered and has not acted yet.
    Provisioned,
    /// It is over.
    Revoked,
    /// It may not act for now.
    Suspended,
}

/// The party that changes an agent's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A party above the agent: an administrator of its organization, or its parent.
    Administrator,
    /// The agent itself, by its first successful authentication.
    Authentication,
    /// The detection of attacks, with the score that it has come to.
    Detection {
        /// 0 to 100.
        score: u8,
    },
    /// The operator.
    Operator,
    /// Keyless, when an identity expires or is idle.
    Upkeep,
}

/// A change of state that this authority can't make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.why())]
pub struct RefusedTransition {
    from: AgentState,
    to: AgentState,
}

/// From this score on detection may suspend.
const SUSPENDS: u8 = 60;
/// From this score on detection may revoke.
const REVOKES: u8 = 80;

impl AgentState {
    /// NL's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Provisioned => "provisioned",
            Self::Revoked => "revoked",
            Self::Suspended => "suspended",
        }
    }

    /// The state after a change, if `by` may make it.
    pub fn change_to(self, to: Self, by: Authority) -> Result<Self, RefusedTransition> {
        use Authority::{Administrator, Authentication, Detection, Operator, Upkeep};
        let may = match (self, to) {
            (Self::Provisioned, Self::Active) => matches!(by, Authentication | Operator),
            (Self::Active, Self::Suspended) => match by {
                Detection { score } => score >= SUSPENDS,
                Operator | Upkeep => true,
                Administrator | Authentication => false,
            },
            (Self::Active, Self::Revoked) => match by {
                Detection { score } => score >= REVOKES,
                Administrator | Operator => true,
                Authentication | Upkeep => false,
            },
            (Self::Suspended, Self::Active) => by == Operator,
            (Self::Provisioned | Self::Suspended, Self::Revoked) => {
                matches!(by, Administrator | Operator)
            }
            _ => false,
        };
        if may { Ok(to) } else { Err(RefusedTransition { from: self, to }) }
    }
}

impl RefusedTransition {
    fn why(self) -> String {
        match (self.from, self.to) {
            (from, to) if from == to => format!("it is {from} already"),
            (AgentState::Revoked, _) => "it is revoked, which is for good".to_owned(),
            (AgentState::Provisioned, AgentState::Suspended) => {
                "it has not acted yet, so there is nothing to suspend; it can be revoked".to_owned()
            }
            (from, to) => format!("{from} can't become {to} this way"),
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
