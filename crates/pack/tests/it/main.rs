//! The engine over real directories, one [`scene::Scene`] per test. "Weakness N" is the N-th of
//! shared/reference/agentpack.md, section 18, shown to be closed.
#![expect(clippy::unwrap_used, reason = "what can't be set up is a failed test")]

/// One home, one config repo, one project.
mod scene;

/// What agents work the pack with.
mod bootstrap;
/// Manifests and modules that can't be used.
mod config;
/// Confirm tokens.
mod confirm;
/// From nothing to deployed, and on.
mod deploy;
/// Status, explain, doctor.
mod drift;
/// Edits taken over, missing files put back.
mod evolve;
/// Who else has to let something be written.
mod gate;
/// Strangers' repositories.
mod hostile;
/// What agents have already, as modules.
mod import;
/// Overlays and their rebase.
mod overlays;
/// Rules about repos.
mod policy;
/// Invariants, over random histories.
mod properties;
/// Going back.
mod rollback;
/// MCP servers in files that others write too.
mod servers;
/// Git modules, the lockfile, commands that edit the repo.
mod sources;
