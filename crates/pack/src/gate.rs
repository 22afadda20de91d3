//! Who else has to let a plan be carried out: a port, since this crate knows nobody to ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;

use crate::{
    apply::Step,
    desired::Place,
    error::{Code, Result},
    paths::shown,
    plan::{Change, Op, Plan, UpdateKind},
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

/// Entries by the file that others write too, where only these are this program's.
pub(crate) type Entries = BTreeMap<Place, BTreeSet<String>>;

/// The caller's gate, as a command that is about to write sees it.
pub(crate) type Pass<'g> = dyn Fn(&Pending<'_>) -> Result<()> + 'g;

/// What a command is about to write into targets. The manifest files of roots are left out: agents read nothing there.
pub(crate) struct Pending<'p> {
    /// The command, as a sentence names it.
    pub(crate) command: &'static str,
    /// Where the text comes from.
    pub(crate) source: PathBuf,
    pub(crate) changes: &'p [Change],
    /// One for each change, in the same order.
    pub(crate) steps: &'p [Step],
    pub(crate) entries: Entries,
    /// Whether the text may be a user's own, in which nobody has looked for credentials.
    pub(crate) may_hold_credentials: bool,
    /// What else a person's word is bound to.
    pub(crate) subject: Value,
}

/// A plan that is about to be carried out, for the gate that has to allow it.
pub struct Review<'p> {
    site: &'p Site,
    pending: &'p Pending<'p>,
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
    /// Where the text comes from: the config repo, or the snapshot that a rollback goes back to.
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
        pending: &Pending<'_>,
        hash: impl FnOnce() -> String,
    ) -> Result<()> {
        match &self.0 {
            Some(gate) if !pending.changes.is_empty() => {
                gate.pass(&Review { site, pending, plan_hash: &hash() })
            }
            _ => Ok(()),
        }
    }

    /// As [`Self::pass`], for a command that has no confirm token: a refusal advises to call that command again.
    pub(crate) fn pass_command(
        &self,
        site: &Site,
        pending: &Pending<'_>,
        hash: impl FnOnce() -> String,
    ) -> Result<()> {
        self.pass(site, pending, hash).map_err(|error| {
            let code = error.code();
            match code {
                Code::ApprovalRequired => {
                    error.reason(code.reason(), &["wait_for_approval", "retry_command"])
                }
                Code::ApprovalUnavailable => {
                    error.reason(code.reason(), &["unlock_keyless", "retry_command"])
                }
                _ => error,
            }
        })
    }
}

impl fmt::Debug for ApplyGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "ApplyGate" } else { "ApplyGate(open)" })
    }
}

impl<'p> Pending<'p> {
    /// What a deploy of this plan writes.
    pub(crate) fn deploy(site: &Site, plan: &'p Plan) -> Self {
        Self {
            command: "deploy",
            source: site.repo.clone(),
            changes: &plan.changes,
            steps: &plan.steps,
            entries: plan.entries(),
            may_hold_credentials: false,
            subject: Value::Null,
        }
    }
}

impl Review<'_> {
    /// What would write, as a sentence names it: `bootstrap`, `deploy`, `restore` or `rollback`.
    pub fn command(&self) -> &'static str {
        self.pending.command
    }

    /// The plan with its diffs; what holds a credential has none.
    pub fn shown(&self) -> Result<ReviewedPlan> {
        let diffs = preview::diffs(self.site, self.pending)?;
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
            repo: shown(&self.pending.source),
            profile: self.site.profile.clone(),
            machine: self.site.machine().to_owned(),
            files: self.pending.changes.iter().zip(diffs).map(file).collect(),
        })
    }
}
