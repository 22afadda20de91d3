//! What can go wrong in a pack command: agentpack's stable codes, each with its reason and next actions.
//!
//! Every error carries what happened, where, and what to do next. `E_UNEXPECTED` is left for faults of the
//! operating system that have no code, and then its message holds the whole chain of causes.
//! Source: shared/reference/agentpack.md, section 11.

use std::{fmt, io, path::Path};

use serde_json::{Map, Value, json};

/// The outcome of anything in this crate that can fail.
pub type Result<T> = std::result::Result<T, PackError>;

/// One error, as the envelope shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct PackError {
    code: Code,
    message: String,
    details: Map<String, Value>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $reason:literal, [$($action:literal),*];)*) => {
        /// A stable code. Each variant's text is its wire form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable text, such as `E_CONFIRM_REQUIRED`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The stable reason that goes into `details.reason_code`.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$variant => $reason,)* }
            }

            /// The stable actions that go into `details.next_actions`.
            pub fn next_actions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($action),*],)* }
            }
        }
    };
}

codes! {
    /// An apply would overwrite files that nobody deployed.
    AdoptConfirmRequired = "E_ADOPT_CONFIRM_REQUIRED", "adopt_confirm_required", ["retry_with_adopt"];
    /// A person was asked about this plan and has refused it.
    ApprovalDenied = "E_APPROVAL_DENIED", "approval_denied", ["ask_the_operator"];
    /// A person has to allow this plan, and is asked.
    ApprovalRequired = "E_APPROVAL_REQUIRED", "approval_required", ["wait_for_approval", "retry_deploy_apply"];
    /// A person has to allow this plan, and can't be asked.
    ApprovalUnavailable = "E_APPROVAL_UNAVAILABLE", "approval_unavailable", ["unlock_keyless", "retry_deploy_apply"];
    /// The arguments of a tool can't be read.
    ArgumentsInvalid = "E_ARGUMENTS_INVALID", "arguments_invalid", ["fix_arguments", "retry_command"];
    /// Another process is applying.
    Busy = "E_BUSY", "busy", ["wait", "retry_command"];
    /// The caller withdrew the command; what was written has been undone.
    Cancelled = "E_CANCELLED", "cancelled", ["retry_command"];
    /// The manifest or a module can't be used.
    ConfigInvalid = "E_CONFIG_INVALID", "config_invalid", ["fix_config", "retry_command"];
    /// There is no manifest.
    ConfigMissing = "E_CONFIG_MISSING", "config_missing", ["run_init", "retry_with_repo", "retry_command"];
    /// The manifest is of another version.
    ConfigUnsupportedVersion = "E_CONFIG_UNSUPPORTED_VERSION", "config_unsupported_version",
        ["upgrade_agentpack", "fix_config_version", "retry_command"];
    /// A command that writes, without the caller's yes.
    ConfirmRequired = "E_CONFIRM_REQUIRED", "confirm_required", ["retry_with_yes"];
    /// The confirm token is too old.
    ConfirmTokenExpired = "E_CONFIRM_TOKEN_EXPIRED", "confirm_token_expired", ["call_deploy", "retry_deploy_apply"];
    /// The confirm token is not for this plan.
    ConfirmTokenMismatch = "E_CONFIRM_TOKEN_MISMATCH", "confirm_token_mismatch", ["call_deploy", "retry_deploy_apply"];
    /// No confirm token.
    ConfirmTokenRequired = "E_CONFIRM_TOKEN_REQUIRED", "confirm_token_required", ["call_deploy", "retry_deploy_apply"];
    /// Two modules want different bytes at one place.
    DesiredStateConflict = "E_DESIRED_STATE_CONFLICT", "desired_state_conflict",
        ["resolve_desired_state_conflict", "retry_command"];
    /// HEAD is on no branch.
    GitDetachedHead = "E_GIT_DETACHED_HEAD", "git_detached_head", ["checkout_branch", "retry_command"];
    /// Git failed or did not answer.
    GitFailed = "E_GIT_FAILED", "git_failed", ["check_git_remote", "retry_command"];
    /// There is no git.
    GitNotFound = "E_GIT_NOT_FOUND", "git_not_found", ["install_git", "retry_command"];
    /// The remote is not configured.
    GitRemoteMissing = "E_GIT_REMOTE_MISSING", "git_remote_missing", ["set_git_remote", "retry_command"];
    /// The config repo is no git repository.
    GitRepoRequired = "E_GIT_REPO_REQUIRED", "git_repo_required", ["init_git_repo", "retry_command"];
    /// The config repo has changes that are not committed.
    GitWorktreeDirty = "E_GIT_WORKTREE_DIRTY", "git_worktree_dirty", ["commit_or_stash", "retry_command"];
    /// An import would overwrite something.
    ImportConflict = "E_IMPORT_CONFLICT", "import_conflict", ["resolve_import_conflict", "retry_import_apply"];
    /// The disk or quota is full; what was written has been undone.
    IoDiskFull = "E_IO_DISK_FULL", "io_disk_full", ["free_disk_space", "retry_command"];
    /// A path that can't be written: a link or directory in the way, or a name the system refuses.
    IoInvalidPath = "E_IO_INVALID_PATH", "io_invalid_path", ["fix_path", "retry_command"];
    /// A path that is too long.
    IoPathTooLong = "E_IO_PATH_TOO_LONG", "io_path_too_long", ["shorten_path", "enable_long_paths", "retry_command"];
    /// Permission denied.
    IoPermissionDenied = "E_IO_PERMISSION_DENIED", "io_permission_denied", ["fix_permissions", "retry_command"];
    /// The lockfile can't be read, or what was fetched is not what it promises.
    LockfileInvalid = "E_LOCKFILE_INVALID", "lockfile_invalid_json", ["regenerate_lockfile", "retry_command"];
    /// There is no lockfile.
    LockfileMissing = "E_LOCKFILE_MISSING", "lockfile_missing", ["run_lock", "run_update", "retry_command"];
    /// The lockfile is of another version.
    LockfileUnsupportedVersion = "E_LOCKFILE_UNSUPPORTED_VERSION", "lockfile_unsupported_version",
        ["upgrade_agentpack", "regenerate_lockfile", "retry_command"];
    /// No baseline to rebase from.
    OverlayBaselineMissing = "E_OVERLAY_BASELINE_MISSING", "overlay_baseline_missing",
        ["run_overlay_edit", "retry_command"];
    /// The baseline's content can't be found any more.
    OverlayBaselineUnsupported = "E_OVERLAY_BASELINE_UNSUPPORTED", "overlay_baseline_unsupported",
        ["init_git_repo", "commit_or_stash", "run_overlay_edit", "retry_command"];
    /// No such overlay.
    OverlayNotFound = "E_OVERLAY_NOT_FOUND", "overlay_not_found", ["run_overlay_edit", "retry_command"];
    /// An overlay's patch does not fit.
    OverlayPatchApplyFailed = "E_OVERLAY_PATCH_APPLY_FAILED", "overlay_patch_apply_failed",
        ["regenerate_patch", "switch_to_dir_overlay", "retry_command"];
    /// Upstream and overlay changed the same lines.
    OverlayRebaseConflict = "E_OVERLAY_REBASE_CONFLICT", "overlay_rebase_conflict",
        ["resolve_overlay_conflicts", "retry_overlay_rebase"];
    /// Something changed between the plan that was shown and the write; nothing stays written.
    PlanChanged = "E_PLAN_CHANGED", "plan_changed", ["call_deploy", "retry_command"];
    /// The policy file can't be used.
    PolicyConfigInvalid = "E_POLICY_CONFIG_INVALID", "policy_config_invalid", ["fix_policy_config", "retry_command"];
    /// There is no policy file.
    PolicyConfigMissing = "E_POLICY_CONFIG_MISSING", "policy_config_missing", ["create_policy_config", "retry_command"];
    /// The policy file is of another version.
    PolicyConfigUnsupportedVersion = "E_POLICY_CONFIG_UNSUPPORTED_VERSION", "policy_config_unsupported_version",
        ["upgrade_agentpack", "fix_policy_config_version", "retry_command"];
    /// The repo breaks its policy.
    PolicyViolations = "E_POLICY_VIOLATIONS", "policy_violations", ["fix_policy_violations", "retry_policy_lint"];
    /// A module holds what looks like a credential.
    SecretInModule = "E_SECRET_IN_MODULE", "secret_in_module", ["move_secret_to_vault", "retry_command"];
    /// The snapshot's files are damaged or name places that are not a target's.
    SnapshotInvalid = "E_SNAPSHOT_INVALID", "snapshot_invalid", ["choose_another_snapshot", "retry_command"];
    /// No such snapshot.
    SnapshotNotFound = "E_SNAPSHOT_NOT_FOUND", "snapshot_not_found", ["choose_another_snapshot", "retry_command"];
    /// No such target.
    TargetUnsupported = "E_TARGET_UNSUPPORTED", "target_filter_unsupported",
        ["inspect_help_json", "retry_with_supported_target"];
    /// A terminal is needed.
    TtyRequired = "E_TTY_REQUIRED", "tty_required", ["retry_in_tty", "retry_without_guided"];
    /// The vault did not take what was to be moved into it.
    VaultRefused = "E_VAULT_REFUSED", "vault_refused", ["unlock_vault", "retry_command"];
    /// A fault without a code of its own.
    Unexpected = "E_UNEXPECTED", "unexpected", ["retry_command"];
}

impl PackError {
    /// An error with words about this case.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// A fault of the manifest or a module.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Code::ConfigInvalid, message)
    }

    /// What the operating system said when this path was to be read, written, …
    pub(crate) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        let code = code_of(error);
        let message = format!("can't {verb} {}: {error}", path.display());
        let error_code = error.raw_os_error();
        let posix = path.display().to_string();
        Self::new(code, message)
            .with("path", posix.clone())
            .with("path_posix", posix)
            .with("io_kind", format!("{:?}", error.kind()))
            .with("raw_os_error", error_code.map_or(Value::Null, Value::from))
            .hint(hint_of(code))
    }

    /// Adds a field to `details`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Says what to do, in words.
    #[must_use]
    pub fn hint(self, text: &str) -> Self {
        if text.is_empty() { self } else { self.with("hint", text) }
    }

    /// Takes another reason and other actions than the code's own.
    #[must_use]
    pub(crate) fn reason(self, reason: &str, actions: &[&str]) -> Self {
        self.with("reason_code", reason).with("next_actions", json!(actions))
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened, in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, in words, where the place that failed knows.
    pub fn hint_text(&self) -> Option<&str> {
        self.details.get("hint").and_then(Value::as_str)
    }

    /// The details with reason and next actions.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = self.details.clone();
        details.entry("reason_code").or_insert_with(|| self.code.reason().into());
        details.entry("next_actions").or_insert_with(|| json!(self.code.next_actions()));
        details
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PackError {}

fn code_of(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Code::IoPermissionDenied
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::IoDiskFull,
        io::ErrorKind::InvalidFilename => Code::IoPathTooLong,
        io::ErrorKind::InvalidInput
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::CrossesDevices => Code::IoInvalidPath,
        _ => Code::Unexpected,
    }
}

fn hint_of(code: Code) -> &'static str {
    match code {
        Code::IoDiskFull => "free some space and run the command again; nothing was left half done",
        Code::IoInvalidPath => "something else stands where the file belongs; move it away",
        Code::IoPathTooLong => "shorten the file's name or move the root to a shorter path",
        Code::IoPermissionDenied => "check who owns the path and its mode",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_stable_words() {
        let texts: HashSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.as_str().starts_with("E_"), "{code:?}");
            assert!(!code.next_actions().is_empty(), "{code:?}");
        }
    }

    #[test]
    fn a_full_disk_and_a_forbidden_path_have_their_codes() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(PackError::io("write", Path::new("/x"), &full).code(), Code::IoDiskFull);
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = PackError::io("write", Path::new("/x"), &denied);
        assert_eq!(error.code(), Code::IoPermissionDenied);
        assert_eq!(error.details()["reason_code"], "io_permission_denied");
    }
}
