//! agentpack's command line, as data.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use keyless_pack::{
    AddOptions, BootstrapScope, CommandId, DriftKind, ModuleKind, OverlayKind, OverlayScope,
    Request,
};

use super::{
    adopt::AdoptWords,
    policy::PolicyCommand,
    share::{RemoteCommand, SyncWords},
};

/// The whole command line when the binary is called `agentpack`.
#[derive(Debug, Parser)]
#[command(
    name = "agentpack",
    about = "Agent configuration as code: plan, review, apply, roll back",
    max_term_width = 100
)]
#[command(disable_help_subcommand = true)]
pub(crate) struct AgentpackCli {
    /// Machine-readable JSON output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) pack: PackArgs,
}

/// What stands behind `keyless pack`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: PackCommand,
}

/// Where and how a command works.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Path to the config repo (default: $AGENTPACK_HOME/repo)
    #[arg(long, global = true, value_name = "REPO")]
    repo: Option<PathBuf>,
    /// Profile name (default: "default")
    #[arg(long, global = true, value_name = "PROFILE")]
    profile: Option<String>,
    /// Target name: codex|claude_code|cursor|vscode|jetbrains|zed|export_dir|all (default: "all")
    #[arg(long, global = true, value_name = "TARGET")]
    target: Option<String>,
    /// Machine id for machine overlays (default: auto-detect)
    #[arg(long, global = true, value_name = "MACHINE")]
    machine: Option<String>,
    /// Skip confirmations
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Never write, even if --apply is set; what can't say beforehand what it would do is refused
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
}

/// The commands, by name.
#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// Add a module to agentpack.yaml
    #[command(after_help = "\
Examples:
  keyless pack add skill local:modules/review --id skill:review")]
    Add(AddWords),
    /// Move a credential out of a module into the vault, and leave an alias
    #[command(
        after_help = "Examples:\n  keyless pack adopt-secret skill:review --path team/github/token"
    )]
    AdoptSecret(AdoptWords),
    /// Install the skill and slash commands with which agents work this program
    #[command(after_help = "Examples:\n  keyless pack bootstrap --target claude_code")]
    Bootstrap(BootstrapWords),
    /// Generate shell completion scripts
    #[command(after_help = "Examples:\n  keyless pack completions bash")]
    Completions(ShellWords),
    /// Plan, and with --apply write
    #[command(after_help = "Examples:\n  keyless pack deploy\n  keyless pack deploy --apply")]
    Deploy(DeployWords),
    /// Show diffs for planned changes
    #[command(after_help = "Examples:\n  keyless pack diff")]
    Diff,
    /// Check the environment and the targets' directories
    #[command(after_help = "Examples:\n  keyless pack doctor")]
    Doctor(DoctorWords),
    /// Take edits of deployed files over, or put missing files back
    #[command(subcommand)]
    Evolve(EvolveCommand),
    /// Explain why plan, diff or status look as they do
    #[command(subcommand)]
    Explain(ExplainCommand),
    /// Bring locked git modules into the cache
    #[command(after_help = "Examples:\n  keyless pack fetch")]
    Fetch,
    /// Describe the command line (supports --json)
    #[command(after_help = "Examples:\n  keyless pack help --json\n  keyless pack help --markdown")]
    Help(HelpWords),
    /// Take what agents have already into the config repo
    #[command(after_help = "Examples:\n  keyless pack import\n  keyless pack import --apply")]
    Import(ImportWords),
    /// Make a config repo
    #[command(after_help = "Examples:\n  keyless pack init\n  keyless pack init --git")]
    Init(InitWords),
    /// Write agentpack.lock.json
    #[command(after_help = "Examples:\n  keyless pack lock")]
    Lock,
    /// Serve tools for agents (Model Context Protocol)
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Manage overlays
    #[command(subcommand)]
    Overlay(OverlayCommand),
    /// Show planned changes without applying
    #[command(after_help = "\
Examples:
  keyless pack plan
  keyless pack plan --target claude_code --json")]
    Plan,
    /// An organisation's rules about config repos (agentpack.org.yaml)
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Plan, and optionally its diffs
    #[command(after_help = "Examples:\n  keyless pack preview --diff")]
    Preview(PreviewWords),
    /// Record an event of an agent (JSON on stdin) in the local log
    #[command(after_help = "Examples:\n  keyless pack record < event.json")]
    Record,
    /// Say where the config repo is pushed to
    #[command(subcommand)]
    Remote(RemoteCommand),
    /// Remove a module from agentpack.yaml
    #[command(after_help = "Examples:\n  keyless pack remove skill:review")]
    Remove(RemoveWords),
    /// Roll back to a snapshot
    #[command(after_help = "\
Examples:
  keyless pack rollback --to 1795256109604220361           as that deploy left its targets
  keyless pack rollback --to before:1795256109604220361    as they were before it")]
    Rollback(RollbackWords),
    /// Describe the JSON output (supports --json)
    #[command(after_help = "Examples:\n  keyless pack schema --json")]
    Schema,
    /// Rank modules by how often they failed
    #[command(after_help = "Examples:\n  keyless pack score")]
    Score,
    /// Compare what is wanted with what is there
    #[command(after_help = "Examples:\n  keyless pack status")]
    Status(StatusWords),
    /// Pull the config repo, then push it
    #[command(after_help = "Examples:\n  keyless pack sync")]
    Sync(SyncWords),
    /// Lock where needed, then fetch
    #[command(after_help = "Examples:\n  keyless pack update")]
    Update(UpdateWords),
}

#[derive(Debug, Args)]
pub(crate) struct AddWords {
    module_type: KindWord,
    /// Source spec: local:... or git:...
    source: String,
    /// Explicit module id (default: derived from type and source)
    #[arg(long)]
    id: Option<String>,
    /// Comma-separated tags (for profiles)
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// Comma-separated target names; all when empty
    #[arg(long, value_delimiter = ',')]
    targets: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BootstrapWords {
    /// Whose directories get them
    #[arg(long, default_value = "both")]
    pub(crate) scope: BootstrapScopeWord,
    /// Allow overwriting existing unmanaged files
    #[arg(long)]
    pub(crate) adopt: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShellWords {
    shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct DeployWords {
    /// Write to the targets
    #[arg(long)]
    pub(crate) apply: bool,
    /// Allow overwriting existing unmanaged files
    #[arg(long)]
    pub(crate) adopt: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorWords {
    /// Add `.agentpack.manifest*.json` to .gitignore files, and undo an interrupted apply
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvolveCommand {
    /// Commit edits of deployed files as overlays on a branch
    #[command(after_help = "Examples:\n  keyless pack evolve propose --module-id skill:review")]
    Propose(ProposeWords),
    /// Put missing files back; nothing that exists is touched
    #[command(after_help = "Examples:\n  keyless pack evolve restore")]
    Restore(RestoreWords),
}

#[derive(Debug, Args)]
pub(crate) struct ProposeWords {
    /// Only this module
    #[arg(long)]
    pub(crate) module_id: Option<String>,
    /// Overlay scope to write into
    #[arg(long, default_value = "global")]
    pub(crate) scope: ScopeWord,
    /// Branch name to create (default: evolve/propose-SCOPE-MODULE-TIMESTAMP)
    #[arg(long)]
    pub(crate) branch: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreWords {
    /// Only files of this module
    #[arg(long)]
    pub(crate) module_id: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// The current diff (same as plan)
    #[command(after_help = "Examples:\n  keyless pack explain diff")]
    Diff,
    /// The current plan: modules and overlay layers
    #[command(after_help = "Examples:\n  keyless pack explain plan")]
    Plan,
    /// The current drift: modules
    #[command(after_help = "Examples:\n  keyless pack explain status")]
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct HelpWords {
    /// Print a Markdown reference
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportWords {
    /// Write the modules and the manifest
    #[arg(long)]
    pub(crate) apply: bool,
    /// The home to look in (default: yours)
    #[arg(long)]
    pub(crate) home_root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct InitWords {
    /// Ask for targets and scope (terminal only)
    #[arg(long)]
    pub(crate) guided: bool,
    /// Also make it a git repository
    #[arg(long)]
    pub(crate) git: bool,
    /// Also install what agents work this program with (as `bootstrap` does)
    #[arg(long)]
    pub(crate) bootstrap: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Serve on stdin and stdout until stdin ends
    #[command(after_help = "Examples:\n  claude mcp add agentpack -- keyless pack mcp serve")]
    Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    /// Make an overlay, or add to one
    #[command(after_help = "Examples:\n  keyless pack overlay edit skill:review")]
    Edit(OverlayEditWords),
    /// Print where an overlay is
    #[command(after_help = "Examples:\n  keyless pack overlay path skill:review")]
    Path(OverlayPathWords),
    /// Move an overlay onto the newer upstream
    #[command(after_help = "Examples:\n  keyless pack overlay rebase skill:review")]
    Rebase(OverlayRebaseWords),
}

#[derive(Debug, Args)]
pub(crate) struct OverlayEditWords {
    pub(crate) module_id: String,
    /// Overlay scope to write into
    #[arg(long, default_value = "global")]
    pub(crate) scope: ScopeWord,
    /// Whole files or patches
    #[arg(long, default_value = "dir")]
    pub(crate) kind: OverlayKindWord,
    /// Deprecated: use --scope project
    #[arg(long)]
    pub(crate) project: bool,
    /// Don't copy upstream's files
    #[arg(long, conflicts_with = "materialize")]
    pub(crate) sparse: bool,
    /// Copy those of upstream's files that the overlay lacks
    #[arg(long)]
    pub(crate) materialize: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OverlayPathWords {
    pub(crate) module_id: String,
    /// Overlay scope
    #[arg(long, default_value = "global")]
    pub(crate) scope: ScopeWord,
}

#[derive(Debug, Args)]
pub(crate) struct OverlayRebaseWords {
    pub(crate) module_id: String,
    /// Overlay scope to rebase
    #[arg(long, default_value = "global")]
    pub(crate) scope: ScopeWord,
    /// Drop files that end up as upstream has them
    #[arg(long)]
    pub(crate) sparsify: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PreviewWords {
    /// Include diffs
    #[arg(long)]
    pub(crate) diff: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveWords {
    pub(crate) module_id: String,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackWords {
    /// Snapshot id, or before:ID
    #[arg(long)]
    pub(crate) to: String,
}

#[derive(Debug, Args)]
pub(crate) struct StatusWords {
    /// Only drift of these kinds (repeatable or comma-separated)
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<DriftWord>,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of agentpack's command line")]
pub(crate) struct UpdateWords {
    /// Write the lockfile again
    #[arg(long, conflicts_with = "no_lock")]
    pub(crate) lock: bool,
    /// Fetch
    #[arg(long, conflicts_with = "no_fetch")]
    pub(crate) fetch: bool,
    /// Don't lock
    #[arg(long)]
    pub(crate) no_lock: bool,
    /// Don't fetch
    #[arg(long)]
    pub(crate) no_fetch: bool,
}

/// A module's type.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KindWord {
    Instructions,
    Skill,
    Prompt,
    Command,
}

/// An overlay's scope.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeWord {
    Global,
    Machine,
    Project,
}

/// Whose directories.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BootstrapScopeWord {
    User,
    Project,
    Both,
}

/// An overlay's kind.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverlayKindWord {
    Dir,
    Patch,
}

/// A kind of drift.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DriftWord {
    Missing,
    Modified,
    Extra,
}

impl GlobalArgs {
    pub(crate) fn request(&self) -> Request {
        Request {
            repo: self.repo.clone(),
            profile: self.profile.clone(),
            target: self.target.clone(),
            machine: self.machine.clone(),
        }
    }
}

impl ShellWords {
    /// Prints the shell's script for this command line.
    pub(crate) fn print(&self, command: &mut clap::Command) {
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, command, name, &mut std::io::stdout());
    }
}

impl AddWords {
    pub(crate) fn options(&self) -> AddOptions {
        let words =
            |list: &[String]| list.iter().filter(|word| !word.is_empty()).cloned().collect();
        AddOptions {
            kind: self.module_type.into(),
            source: self.source.clone(),
            id: self.id.clone(),
            tags: words(&self.tags),
            targets: words(&self.targets),
        }
    }
}

impl PackCommand {
    /// Whether it writes nothing, or has a way to only say what it would.
    pub(crate) fn heeds_dry_run(&self) -> bool {
        match self {
            Self::Bootstrap(_)
            | Self::Completions(_)
            | Self::Deploy(_)
            | Self::Diff
            | Self::Doctor(_)
            | Self::Evolve(EvolveCommand::Propose(_) | EvolveCommand::Restore(_))
            | Self::Explain(ExplainCommand::Diff | ExplainCommand::Plan | ExplainCommand::Status)
            | Self::Help(_)
            | Self::Import(_)
            | Self::Overlay(OverlayCommand::Path(_) | OverlayCommand::Rebase(_))
            | Self::Plan
            | Self::Policy(PolicyCommand::Audit | PolicyCommand::Lint)
            | Self::Preview(_)
            | Self::Rollback(_)
            | Self::Schema
            | Self::Score
            | Self::Status(_)
            | Self::Sync(_) => true,
            // What `mcp serve` offers writes when an agent asks it to.
            Self::Add(_)
            | Self::AdoptSecret(_)
            | Self::Fetch
            | Self::Init(_)
            | Self::Lock
            | Self::Mcp(McpCommand::Serve)
            | Self::Overlay(OverlayCommand::Edit(_))
            | Self::Policy(PolicyCommand::Lock)
            | Self::Record
            | Self::Remote(RemoteCommand::Set(_))
            | Self::Remove(_)
            | Self::Update(_) => false,
        }
    }

    /// The command's name in envelopes; `dry_run` takes the flag that writes away from it.
    pub(crate) fn id(&self, dry_run: bool) -> CommandId {
        const fn id(words: &'static [&'static str]) -> CommandId {
            CommandId::new(words)
        }
        match self {
            Self::Add(_) => id(&["add"]),
            Self::AdoptSecret(_) => id(&["adopt-secret"]),
            Self::Bootstrap(_) => id(&["bootstrap"]),
            Self::Completions(_) => id(&["completions"]),
            Self::Deploy(deploy) if deploy.apply && !dry_run => id(&["deploy", "--apply"]),
            Self::Deploy(_) => id(&["deploy"]),
            Self::Diff => id(&["diff"]),
            Self::Doctor(doctor) if doctor.fix => id(&["doctor", "--fix"]),
            Self::Doctor(_) => id(&["doctor"]),
            Self::Evolve(EvolveCommand::Propose(_)) => id(&["evolve", "propose"]),
            Self::Evolve(EvolveCommand::Restore(_)) => id(&["evolve", "restore"]),
            Self::Explain(ExplainCommand::Diff) => id(&["explain", "diff"]),
            Self::Explain(ExplainCommand::Status) => id(&["explain", "status"]),
            Self::Explain(_) => id(&["explain", "plan"]),
            Self::Fetch => id(&["fetch"]),
            Self::Help(_) => id(&["help"]),
            Self::Import(import) if import.apply && !dry_run => id(&["import", "--apply"]),
            Self::Import(_) => id(&["import"]),
            Self::Init(_) => id(&["init"]),
            Self::Lock => id(&["lock"]),
            Self::Mcp(McpCommand::Serve) => id(&["mcp", "serve"]),
            Self::Overlay(OverlayCommand::Edit(_)) => id(&["overlay", "edit"]),
            Self::Overlay(OverlayCommand::Path(_)) => id(&["overlay", "path"]),
            Self::Overlay(OverlayCommand::Rebase(_)) => id(&["overlay", "rebase"]),
            Self::Plan => id(&["plan"]),
            Self::Policy(PolicyCommand::Audit) => id(&["policy", "audit"]),
            Self::Policy(PolicyCommand::Lint) => id(&["policy", "lint"]),
            Self::Policy(PolicyCommand::Lock) => id(&["policy", "lock"]),
            Self::Preview(_) => id(&["preview"]),
            Self::Record => id(&["record"]),
            Self::Remote(RemoteCommand::Set(_)) => id(&["remote", "set"]),
            Self::Remove(_) => id(&["remove"]),
            Self::Rollback(_) => id(&["rollback"]),
            Self::Schema => id(&["schema"]),
            Self::Score => id(&["score"]),
            Self::Status(_) => id(&["status"]),
            Self::Sync(_) => id(&["sync"]),
            Self::Update(_) => id(&["update"]),
        }
    }
}

impl From<KindWord> for ModuleKind {
    fn from(word: KindWord) -> Self {
        match word {
            KindWord::Command => Self::Command,
            KindWord::Instructions => Self::Instructions,
            KindWord::Prompt => Self::Prompt,
            KindWord::Skill => Self::Skill,
        }
    }
}

impl From<ScopeWord> for OverlayScope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Global => Self::Global,
            ScopeWord::Machine => Self::Machine,
            ScopeWord::Project => Self::Project,
        }
    }
}

impl From<BootstrapScopeWord> for BootstrapScope {
    fn from(word: BootstrapScopeWord) -> Self {
        match word {
            BootstrapScopeWord::Both => Self::Both,
            BootstrapScopeWord::Project => Self::Project,
            BootstrapScopeWord::User => Self::User,
        }
    }
}

impl From<OverlayKindWord> for OverlayKind {
    fn from(word: OverlayKindWord) -> Self {
        match word {
            OverlayKindWord::Dir => Self::Dir,
            OverlayKindWord::Patch => Self::Patch,
        }
    }
}

impl From<DriftWord> for DriftKind {
    fn from(word: DriftWord) -> Self {
        match word {
            DriftWord::Extra => Self::Extra,
            DriftWord::Missing => Self::Missing,
            DriftWord::Modified => Self::Modified,
        }
    }
}
