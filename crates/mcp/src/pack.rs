//! The toolset `pack`: agent configuration as code, for agents. Plans, and deploys what was reviewed.
//!
//! The tools, their schemas and the rule that nothing is written without an explicit yes are here; what a tool
//! does, and the envelope that it answers with, is behind a port ([`Packs`]). It needs neither vault nor broker.
//! Source: spec/agentpack-mcp.md.

mod arguments;
mod serving;
mod table;

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde_json::Value;

pub(crate) use self::{
    serving::serve,
    table::{Row as TableRow, TOOLS},
};

/// What the tools do. Object-safe.
pub trait Packs: Send + Sync + 'static {
    /// Does what a tool asks. Calls that write take turns.
    fn call(&self, call: Call, watch: Box<dyn Watch>) -> BoxFuture<'_, Answered>;

    /// The envelope of a call that goes no further.
    fn refuse(&self, tool: Tool, refusal: Refusal) -> Answered;
}

/// The client that waits for a call: it hears how far the call is, and may have gone away.
pub trait Watch: Send + Sync {
    /// `done` of `total` places are written.
    fn progress(&self, done: usize, total: usize);
    /// Whether the caller withdrew the call.
    fn is_cancelled(&self) -> bool;
}

/// An envelope.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Whether the call did what it was asked.
    pub ok: bool,
    /// The envelope, its keys in declared order.
    pub text: String,
    /// The envelope as a value.
    pub envelope: Value,
}

/// Why a call goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its arguments can't be read; in words.
    Arguments(String),
    /// It may write, and nobody said yes.
    Unconfirmed,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where it works.
    pub place: Place,
    /// What it asks.
    pub ask: Ask,
}

/// Where a call works. What is absent has the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory whose project is meant; absolute.
    pub cwd: Option<PathBuf>,
    /// The config repo.
    pub repo: Option<PathBuf>,
    /// The profile.
    pub profile: Option<String>,
    /// The target.
    pub target: Option<String>,
    /// The machine.
    pub machine: Option<String>,
}

/// What a call asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A plan, and a token to apply it.
    Deploy,
    /// To apply the plan that the token is for.
    DeployApply {
        /// Also over files that nobody deployed.
        adopt: bool,
        /// Only the plan after all.
        dry_run: bool,
        /// The token.
        confirm_token: Option<String>,
    },
    /// The plan, as `diff` names it.
    Diff,
    /// Whether everything is in order.
    Doctor,
    /// To take edits over as overlays on a branch.
    EvolvePropose {
        /// Only this module's.
        module_id: Option<String>,
        /// The overlay to write into.
        scope: Scope,
        /// The branch's name.
        branch: Option<String>,
        /// Only say what would be proposed.
        dry_run: bool,
    },
    /// To put missing files back.
    EvolveRestore {
        /// Only this module's.
        module_id: Option<String>,
        /// Only say what would be put back.
        dry_run: bool,
    },
    /// Where something comes from.
    Explain(Explained),
    /// What a deploy would change.
    Plan,
    /// The plan, with diffs when they are asked for.
    Preview {
        /// Whether they are.
        diff: bool,
    },
    /// To go back to a snapshot.
    Rollback {
        /// Its id, or `before:` its id.
        to: String,
    },
    /// Drift of these kinds, or of all when there is none.
    Status(Vec<Drift>),
}

/// What `explain` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// The diff.
    Diff,
    /// The plan.
    Plan,
    /// The drift.
    Status,
}

/// A kind of drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Nobody wants it.
    Extra,
    /// It is not there.
    Missing,
    /// It is otherwise.
    Modified,
}

/// An overlay's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// On this machine.
    Machine,
    /// In this project.
    Project,
}

/// The tools, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `deploy`
    Deploy,
    /// `deploy_apply`
    DeployApply,
    /// `diff`
    Diff,
    /// `doctor`
    Doctor,
    /// `evolve_propose`
    EvolvePropose,
    /// `evolve_restore`
    EvolveRestore,
    /// `explain`
    Explain,
    /// `plan`
    Plan,
    /// `preview`
    Preview,
    /// `rollback`
    Rollback,
    /// `status`
    Status,
}
