//! The person who answers for deploys, where the operator's config wants one: the engine's port, led to the broker.

use keyless_core::{
    Code, Error,
    approval::{FileOp, PackVerb, WantedDeploy, WantedFile},
};
use keyless_daemon::{DeployBy, DeployGate, DeployWord, Places};
use keyless_pack::{ApplyGate, Gate, Op, PackError, Review, ReviewedFile, ReviewedPlan};
use tokio::runtime::Builder;

/// When it is worth another try, in seconds.
const AGAIN: u64 = 5;

/// Asks the broker, as the config is at the time of the deploy.
struct Asking(DeployBy);

/// The gate of deploys that this would carry out.
pub(super) fn gate(by: DeployBy) -> ApplyGate {
    ApplyGate::new(std::sync::Arc::new(Asking(by)))
}

impl Gate for Asking {
    fn pass(&self, review: &Review<'_>) -> Result<(), PackError> {
        let places = Places::from_environment().map_err(|error| unavailable(&error))?;
        let gate = DeployGate::new(&places, self.0).map_err(|error| unavailable(&error))?;
        if gate.is_open() {
            return Ok(());
        }
        let command = review.command();
        let wanted = wanted(verb(command), review.shown()?);
        let hash = wanted.plan_hash.clone();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
            PackError::new(
                keyless_pack::Code::Unexpected,
                format!("no thread to ask from: {error}"),
            )
        })?;
        match runtime.block_on(gate.pass(wanted)) {
            Ok(DeployWord::Go) => Ok(()),
            Ok(DeployWord::Waits { id, seconds_left }) => {
                let message = format!("a person has to allow this {command}; it waits as {id}");
                let hint = format!(
                    "keyless approve {id}, keyless web or keyless ui answers it; then {} once more",
                    if command == "deploy" { "apply" } else { command }
                );
                Err(PackError::new(keyless_pack::Code::ApprovalRequired, message)
                    .with("approval_id", id.as_str())
                    .with("expires_in_seconds", seconds_left)
                    .with("retry_after_seconds", AGAIN)
                    .with("confirm_plan_hash", hash)
                    .hint(&hint))
            }
            Err(error) if error.code() == Code::ApprovalDenied => {
                let message = format!("a person has refused this {command}");
                Err(PackError::new(keyless_pack::Code::ApprovalDenied, message)
                    .with("confirm_plan_hash", hash)
                    .hint("the refusal is remembered for ten minutes; ask the operator, or change the plan"))
            }
            Err(error) => Err(unavailable(&error)),
        }
    }
}

fn unavailable(error: &Error) -> PackError {
    let message =
        format!("a person has to allow this deploy and can't be asked: {}", error.message());
    PackError::new(keyless_pack::Code::ApprovalUnavailable, message).hint(
        "keyless unlock lets it be asked; config.toml, `approve_apply` under [pack], says when",
    )
}

fn verb(command: &str) -> PackVerb {
    match command {
        "bootstrap" => PackVerb::Bootstrap,
        "restore" => PackVerb::Restore,
        "rollback" => PackVerb::Rollback,
        _ => PackVerb::Deploy,
    }
}

fn wanted(verb: PackVerb, plan: ReviewedPlan) -> WantedDeploy {
    let ReviewedPlan { plan_hash, project, repo, profile, machine, files } = plan;
    let files = files.into_iter().map(wanted_file).collect();
    WantedDeploy { verb, plan_hash, project, repo, profile, machine, files, more_files: 0 }
}

fn wanted_file(file: ReviewedFile) -> WantedFile {
    let ReviewedFile { op, path, adopted, edited, diff } = file;
    let op = match op {
        Op::Create => FileOp::Create,
        Op::Delete => FileOp::Delete,
        Op::Update => FileOp::Update,
    };
    WantedFile { op, path, adopted, edited, diff }
}
