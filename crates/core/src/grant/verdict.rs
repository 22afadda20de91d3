//! The answers about an action.

use super::{GrantId, PermissionRef, Subject};
use crate::{Code, Destination, SafeText, SecretPath, Usage, action::ActionType, policy::Allowed};

/// The answer about one action and all of its secrets.
#[derive(Debug)]
pub enum Verdict {
    /// It may be done.
    Allow(Allowance),
    /// It may be done once a person has allowed it.
    Ask(Needed),
    /// It may not be done.
    Deny(Denial),
}

/// Proof that grants allow an action. Made by [`evaluate`](super::evaluate) alone.
#[derive(Debug)]
pub struct Allowance {
    pub(super) action: ActionType,
    pub(super) subjects: Vec<Subject>,
    pub(super) permissions: Vec<PermissionRef>,
    pub(super) allowed_hosts: Vec<Destination>,
}

/// The permissions that an action would have, had a person allowed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Each secret and what permits it.
    pub each: Vec<(Subject, PermissionRef)>,
}

/// Why an action may not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The first secret that nothing permits; nothing for an action without secrets.
    pub subject: Option<Subject>,
    /// The reason of the permission that came nearest.
    pub reason: DenyReason,
    /// That permission.
    pub at: Option<PermissionRef>,
}

/// A reason, in the order in which conditions are looked at: a later one came nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenyReason {
    /// No permission names the secret and the action.
    NoGrant,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// The agent's origin is not proven well enough.
    TrustLevel,
    /// The agent's surroundings are not those that it is for.
    Context,
    /// The secret is of another environment.
    Environment,
    /// The request comes from elsewhere.
    Address,
    /// It would change something, and may only read.
    Writes,
    /// As many as may are under way.
    Concurrency,
    /// As many as may have begun within the last minute.
    Rate,
    /// All uses were had.
    Exhausted,
}

impl Allowance {
    /// The permissions, each once: of each one use is had. A secret has several where they name several hosts.
    pub fn permissions(&self) -> &[PermissionRef] {
        &self.permissions
    }

    /// The grants, each once.
    pub fn grants(&self) -> Vec<GrantId> {
        let mut grants: Vec<GrantId> = self.permissions.iter().map(|at| at.grant.clone()).collect();
        grants.dedup();
        grants
    }

    /// The hosts that the action may reach: those that its permissions name for each of its secrets, any of them.
    pub fn allowed_hosts(&self) -> &[Destination] {
        &self.allowed_hosts
    }

    /// The right to have one value recorded and then opened, for each secret of this vault.
    pub fn into_allowed(self) -> Vec<(SecretPath, Allowed)> {
        let Self { action, subjects, .. } = self;
        let of = |subject: Subject| {
            let path = subject.path().clone();
            (path.clone(), Allowed::new(path, Usage::Action { kind: action }))
        };
        subjects.into_iter().map(of).collect()
    }
}

impl Denial {
    /// The code that an agent is told.
    pub fn code(&self) -> Code {
        match self.reason {
            DenyReason::NoGrant | DenyReason::Writes => Code::GrantMissing,
            DenyReason::Expired => Code::GrantExpired,
            DenyReason::NotYetValid => Code::GrantNotYetValid,
            DenyReason::TrustLevel => Code::TrustTooLow,
            DenyReason::Context | DenyReason::Address => Code::ContextMismatch,
            DenyReason::Environment => Code::EnvironmentRestricted,
            DenyReason::Concurrency => Code::ConcurrencyExceeded,
            DenyReason::Rate => Code::RateLimited,
            DenyReason::Exhausted => Code::GrantExhausted,
        }
    }

    /// What an agent is told beside the code. `written` is the secret's name as the agent wrote it.
    pub fn words(&self, written: &str, action: ActionType) -> SafeText {
        let about = SafeText::words(self.reason.words()).and(": secret '");
        about.as_they_wrote(written).and("', action type '").and(action.as_str()).and("'")
    }
}

impl DenyReason {
    /// What is the matter.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoGrant => "no active Scope Grant covers it",
            Self::Expired => "the Scope Grant has expired",
            Self::NotYetValid => "the Scope Grant is not valid yet",
            Self::TrustLevel => "the Scope Grant asks for a higher trust level",
            Self::Context => "the Scope Grant is for other surroundings",
            Self::Environment => "the Scope Grant is for other environments",
            Self::Address => "the Scope Grant is for other addresses",
            Self::Writes => "the Scope Grant lets it read and change nothing",
            Self::Concurrency => "as many actions as the Scope Grant allows are under way",
            Self::Rate => "as many actions as the Scope Grant allows began within a minute",
            Self::Exhausted => "the Scope Grant's uses are exhausted",
        }
    }
}
