//! Agent configuration as code: one config repo, deployed to every coding agent, with plan, diff and rollback.
//!
//! Formats, envelopes, codes and file names are agentpack 0.9.1's, so that its users can switch without
//! converting anything; `reference/agentpack.md` is the digest of them. What is done otherwise is done
//! for safety: an apply is one journalled transaction under a lock, carries out exactly the plan that was
//! reviewed, follows no link, and deploys no credential. This crate knows no secrets and no daemon.
//!
//! Start at [`commands`]: one function per command.

// What a caller needs
pub mod commands;
mod envelope;
mod error;
mod site;

pub use envelope::{Answer, CommandId, Envelope, Fault};
pub use error::{Code, PackError, Result};
pub use site::{Request, Site, Surroundings};

// Reading: config repo, sources, overlays
mod checkouts;
mod credentials;
mod git;
mod lockfile;
mod manifest;
mod module;
mod overlay;
mod tree;
mod workspace;
mod yaml;

pub use credentials::{
    AdoptData, Finding, Found, NOT_A_SECRET, TokenForm, TokenForms, Where, scan, utf16_text,
};
pub use git::reading as reading_git;
pub use manifest::ModuleKind;
pub use overlay::{OverlayKind, OverlayScope};

// Comparing: what is wanted, what was deployed, what is there
mod deployed;
mod desired;
mod explain;
mod next;
mod plan;
mod preview;
mod servers;
mod status;
mod targets;

pub use explain::{
    ExplainPlanData, ExplainStatusData, ExplainedChange, ExplainedDrift, ExplainedModule,
};
pub use next::NextAction;
pub use plan::{Change, Op, PlanData, Summary, UpdateKind};
pub use preview::{DiffFile, PreviewData, PreviewDiff, PreviewPlan};
pub use servers::{OutsideRun, outside_run};
pub use status::{DriftItem, DriftKind, DriftSummary, RootSummary, StatusData};
pub use targets::TargetId;

// Writing: one transaction at a time
mod apply;
mod confirm;
mod deploy;
mod doctor;
mod events;
mod evolve;
mod gate;
mod import;
mod init;
mod operator;
mod policy;
mod remote;
mod repo;
mod rollback;
mod snapshot;

pub use apply::{Unwatched, Watch};
pub use deploy::DeployData;
pub use doctor::{Doctor, DoctorData, DoctorRoot, GitignoreFix, PlaintextToken};
pub use events::{MAX_EVENT, ModuleScore, ReadStats, RecordData, ScoreData};
pub use evolve::{
    EvolveItem, ProposeData, ProposeOptions, ProposeSummary, RestoreData, RestoreSummary, Restored,
    Skipped, Suggestion,
};
pub use gate::{ApplyGate, Gate, Review, ReviewedFile, ReviewedPlan};
pub use import::{
    ImportConflict, ImportData, ImportItem, ImportOp, ImportOptions, ImportProject, ImportSummary,
};
pub use init::{InitData, InitGit, InitOptions};
pub use operator::{BootstrapData, BootstrapOptions, BootstrapScope};
pub use overlay::{
    edit::{EditOptions, OverlayEditData, OverlayPathData},
    rebase::{OverlayRebaseData, RebaseOptions, RebaseReport, RebaseSummary},
};
pub use policy::{
    AuditChange, AuditChanges, AuditData, AuditLockfile, AuditModule, AuditPack, BeforeAfter,
    LintData, LintIssue, LintSummary, PolicyLockData,
};
pub use remote::{RemoteData, SyncData, SyncOptions};
pub use repo::{
    AddOptions, FetchData, LockData, ModuleData, UpdateData, UpdateOptions, UpdateStep,
};
pub use rollback::{RollbackData, RollbackPreview};

// Words and bytes
mod beneath;
mod clock;
mod ids;
mod paths;
mod plain_file;
mod sha;

pub use ids::module_fs_key;
pub use paths::RelPath;
pub use sha::{Content, Sha};
