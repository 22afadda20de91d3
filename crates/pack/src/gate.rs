//! Who else has to let a plan be carried out: a port, since this crate knows nobody to ask.

use std::{fmt, sync::Arc};

use crate::{
    error::Result,
    paths::shown,
    plan::{Op, Plan, UpdateKind},
    preview,
    site::Site,
};

/// Somebody to ask, beside the caller's own yes. Object-safe.
pub trait Gate: Send + Sync {
    /// Returns when the plan may be carried out now. It does not wait: fails with
    /// [`Code::ApprovalRequired`](crate::Code::ApprovalRequired) while somebody is asked.
    fn pass(&self, review: &Review<'_>) -> Result<()>;
}

/// The gate of a caller; open unless it names one.
#[derive(Clone, Default)]
pub struct ApplyGate(Option<Arc<dyn Gate>>);

/// A plan that is about to be carried out, for who has to allow it.
pub struct Review<'p> {
    pub(crate) site: &'p Site,
    pub(crate) plan: &'p Plan,
    /// The plan's digest, which also a confirm token is bound to.
    pub plan_hash: &'p str,
}

/// What somebody needs to see of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewedPlan {
    /// The plan's digest, in hexadecimal.
    pub plan_hash: String,
    /// The project's directory.
    pub project: String,
    /// The config repo.
    pub repo: String,
    /// The profile.
    pub profile: String,
    /// The machine.
    pub machine: String,
    /// One for each change.
    pub files: Vec<ReviewedFile>,
}

/// One change of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewedFile {
    /// What is done.
    pub op: Op,
    /// The absolute path.
    pub path: String,
    /// It was not deployed, and would be overwritten.
    pub adopted: bool,
    /// It was changed by hand since it was deployed.
    pub edited: bool,
    /// The unified diff, where there is one to show.
    pub diff: Option<String>,
}

impl ApplyGate {
    /// Nothing is carried out that this one has not let pass.
    pub fn new(gate: Arc<dyn Gate>) -> Self {
        Self(Some(gate))
    }

    /// A plan that changes nothing passes; `hash` is asked for only when somebody is.
    pub(crate) fn pass(
        &self,
        site: &Site,
        plan: &Plan,
        hash: impl FnOnce() -> String,
    ) -> Result<()> {
        match &self.0 {
            Some(gate) if !plan.changes.is_empty() => {
                gate.pass(&Review { site, plan, plan_hash: &hash() })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for ApplyGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "ApplyGate" } else { "ApplyGate(open)" })
    }
}

impl Review<'_> {
    /// The plan with its diffs; what holds a credential has none.
    pub fn shown(&self) -> Result<ReviewedPlan> {
        let diffs = preview::diffs(self.site, self.plan)?;
        let file = |(change, diff): (&crate::Change, preview::Unified)| ReviewedFile {
            op: change.op,
            path: change.path.clone(),
            adopted: change.update_kind == Some(UpdateKind::AdoptUpdate),
            edited: change.edited,
            diff: diff.ok(),
        };
        Ok(ReviewedPlan {
            plan_hash: self.plan_hash.to_owned(),
            project: shown(&self.site.project_root),
            repo: shown(&self.site.repo),
            profile: self.site.profile.clone(),
            machine: self.site.machine().to_owned(),
            files: self.plan.changes.iter().zip(diffs).map(file).collect(),
        })
    }
}
