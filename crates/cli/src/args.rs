//! The command line, as data. Parsing validates words and does nothing else.

mod action;
mod agent;
mod audit;
mod broker;
mod catalog;
mod grant;
mod guard;
mod hooks;
mod import;
mod revoke;
mod setup;
mod upkeep;
mod use_args;
mod vault;

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use keyless_core::{Destination, Location, OnForeign, SecretPath, SessionId, approval::RequestId};
use keyless_daemon::{FleetListen, ForwardListen, Link};

use crate::commands::pack::PackArgs;

pub(crate) use self::{
    action::{ActionCommand, ExecArgs, SubmitArgs, TermArgs},
    agent::{AgentAttestArgs, AgentChangeArgs, AgentCommand, AgentRegisterArgs, AgentShowArgs},
    audit::{
        AuditCommand, CheckpointArgs, ExportArgs, ExportFormat, QueryArgs, ResultWord, TailArgs,
        VerifyArgs,
    },
    broker::{BrokerArgs, BrokerCommand, BrokerInstallArgs},
    catalog::{
        CatalogAddUrlArgs, CatalogCommand, CatalogListArgs, CatalogPinArgs, CatalogRefreshArgs,
        CatalogShowArgs, CatalogUrlArgs, CatalogValidateArgs,
    },
    grant::{
        DelegationCommand, GrantCommand, GrantCreateArgs, GrantExplainArgs, GrantRevokeArgs,
        GrantShowArgs,
    },
    guard::{GuardCheckArgs, GuardCommand, GuardInstallArgs},
    hooks::{HooksCheckArgs, HooksCommand, HooksInstallArgs},
    import::{ImportArgs, LeaveWord},
    revoke::RevokeArgs,
    setup::SetupArgs,
    upkeep::UpkeepArgs,
    use_args::{GrantWord, InjectionWord, SealingWord, SignerWord, UseArgs},
    vault::{
        EnvelopeAddArgs, EnvelopeCommand, EnvelopeListArgs, EnvelopeRemoveArgs, EnvelopeWord,
        ExportVaultArgs, ImportVaultArgs, VaultCommand,
    },
};

const EXAMPLES: &str = "\
Examples:
  keyless demo                                        the whole story, offline, in half a minute
  keyless init                                        make a store, protected by a passphrase
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  keyless run --secret team/github/token -- claude    run an agent that never holds the token
  keyless audit tail                                  see what was used, where and when

Exit statuses:
  0 done   1 failed   2 a word, file or value can't be used   3 not there   4 policy says no
  5 locked, or a wrong factor   6 the store can't be used   7 this machine lacks something
  keyless run and exec: the command's own; 126 it can't be run, 127 it is not there";

/// Lets AI coding agents use credentials without ever holding them.
#[derive(Debug, Parser)]
#[command(name = "keyless", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Answer with one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Take values from the environment alone, and ask nobody (or KEYLESS_CI=1)
    #[arg(long, global = true)]
    pub(crate) ci: bool,
    /// Say results and errors only: no warnings, no progress
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, for the life of the process")]
pub(crate) enum Command {
    /// Show the whole story offline, with a random secret and real tools
    #[command(after_help = "Examples:\n  keyless demo")]
    Demo,
    /// Make a store: a sealed vault and an audit log
    #[command(after_help = "\
Examples:
  keyless init
  KEYLESS_HOME=/srv/ci keyless init --passphrase-file /run/secrets/pass --recovery-file phrase")]
    Init(InitArgs),
    /// Open the store for a while, so that `run` needs no passphrase
    #[command(
        after_help = "Examples:\n  keyless unlock\n  keyless unlock --for 30m\n  keyless unlock --code\n  keyless unlock --recovery"
    )]
    Unlock(UnlockArgs),
    /// Close the store again, and end all sessions that stand on it
    #[command(after_help = "Examples:\n  keyless lock")]
    Lock,
    /// Say what is there: the store, the broker, its sessions
    #[command(after_help = "Examples:\n  keyless status\n  keyless status --json")]
    Status,
    /// Bring a project to Keyless: find its variables, propose paths, take the values in
    #[command(after_help = setup::SETUP_EXAMPLES)]
    Setup(SetupArgs),
    /// Look whether everything is in order, and say what helps
    #[command(
        after_help = "Examples:\n  keyless doctor\n  keyless doctor --json        exit status 1 when something is at fault"
    )]
    Doctor,
    /// Keep secrets: add, set, list, show, rotate, remove
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Look at where values come from
    #[command(subcommand)]
    Source(SourceCommand),
    /// Look at what is known of the tokens of well-known services
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Look at what opens the store, and change it
    #[command(subcommand)]
    Vault(VaultCommand),
    /// Run a command that uses secrets without holding them
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one shell command with `{{nl:…}}` in it: values never become arguments, and come back redacted
    #[command(after_help = action::EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Submit an NL action request, or check it
    #[command(subcommand)]
    Action(ActionCommand),
    /// Answer what agents ask: a value, a rotation, a proposal, the use of a secret
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(ApproveArgs),
    /// Answer on a page in your browser: requests, sessions, approvals, the log
    #[command(after_help = "\
Examples:
  keyless web                                         prints a link that opens one visit
  keyless web --open                                  and follows it")]
    Web(WebArgs),
    /// Answer in this terminal, full screen: what waits as it comes in, and what holds
    #[command(after_help = "Examples:\n  keyless ui\n  NO_COLOR=1 keyless ui")]
    Ui(UiArgs),
    /// Serve tools for agents over the Model Context Protocol, on stdin and stdout
    #[command(after_help = "\
Examples:
  keyless mcp                                         what an agent's configuration names as the command
  claude mcp add keyless -- keyless mcp
  keyless mcp --http 127.0.0.1:7070 --credential-file ~/mcp-credential")]
    Mcp(McpArgs),
    /// Serve a fleet's guests: egress alone, values from mounted files
    #[command(after_help = "\
Examples:
  keyless proxy --catalog catalog.yaml --secrets-dir /run/secrets --listen 127.0.0.1:8888
  keyless proxy --catalog catalog.yaml --secrets-dir /run/secrets --listen forward:unix:/run/keyless/forward.sock")]
    Proxy(ProxyArgs),
    /// Pass a guest's connections on to the sidecar, and say whose they are; holds no secret
    #[command(after_help = "\
Examples:
  keyless forward --listen unix:/run/vm7/v.sock_1025 --to unix:/run/keyless/forward.sock --session thread-7
  keyless forward --listen vsock:7:1025 --to 127.0.0.1:8889 --token-file forward.token --session thread-7")]
    Forward(ForwardArgs),
    /// Ask the egress rules
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Print the placeholders of a session, for the guest's environment
    #[command(after_help = "\
Examples:
  keyless placeholders --catalog catalog.yaml --key-file proxy.key --session thread-7
  keyless placeholders --catalog catalog.yaml --key-file proxy.key --session thread-7 --format json")]
    Placeholders(PlaceholdersArgs),
    /// Register agents that act through the NL Protocol, and end them
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Read and verify the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Say what agents may do with which secrets
    #[command(subcommand)]
    Grant(GrantCommand),
    /// Look at what agents have handed on to others
    #[command(subcommand)]
    Delegation(DelegationCommand),
    /// Say what agents may not run, and let them ask
    #[command(subcommand)]
    Guard(GuardCommand),
    /// Keep secrets out of git, and aliases that nothing resolves
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// Deploy agent configuration as code: plan, review, apply, roll back
    Pack(PackArgs),
    /// Print what makes a shell complete commands, options and the paths of your secrets
    #[command(after_help = "\
Examples:
  echo 'source <(keyless completions bash)' >> ~/.bashrc
  echo 'source <(keyless completions zsh)' >> ~/.zshrc
  keyless completions fish > ~/.config/fish/completions/keyless.fish")]
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(after_help = "Examples:\n  keyless manual ~/.local/share/man/man1")]
    Manual(ManualArgs),
    /// Serve sessions in the foreground (`unlock` starts one in the background)
    #[command(after_help = broker::BROKER_EXAMPLES)]
    Broker(BrokerArgs),
    /// Serve the NL Protocol over HTTP, or join an agent's stdin and stdout with the broker
    #[command(after_help = "\
Examples:
  keyless serve
  keyless serve --http 127.0.0.1:9741 --for 12h
  NL_AGENT_URI=nl://acme.corp/bot/1.0.0 NL_INSTANCE_ID=… NL_AGENT_CREDENTIAL=nlk_… keyless serve --stdio")]
    Serve(ServeArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  keyless run -- claude                               every secret that names hosts and a variable
  keyless run --secret team/github/token -- gh api user
  keyless run --passphrase-file F --secret team/github/token -- make release
  keyless run --no-secrets -- npm install             just the jail

The command's exit status, signals, terminal and streams pass through.";

const APPROVE_EXAMPLES: &str = "\
Examples:
  keyless approve                                     everything that waits, one after the other
  keyless approve prov-1f9b3a2c5e7d                   one request
  keyless approve prov-1f9b3a2c5e7d --once            without a question
  gen-token | keyless approve prov-1f9b3a2c5e7d --accept --value-stdin --to api.example.com
  keyless approve --list                              what waits, what holds, what was denied
  keyless approve --take-back prov-1f9b3a2c5e7d       revoke an approval, or lift a denial";

/// How the store is opened.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FactorArgs {
    /// Read the passphrase from a file that is yours and 0600 (or KEYLESS_PASSPHRASE_FILE)
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Open it with a key file that is yours and 0600 (keyless vault envelope add keyfile)
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub(crate) keyfile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// Write the recovery phrase to a new 0600 file in place of showing it
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct UnlockArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// How long the store stays open, such as 30m; as `unlock` in config.toml says when absent (8h)
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub(crate) window: Option<std::time::Duration>,
    /// Use the 24-word recovery phrase in place of the passphrase
    #[arg(long)]
    pub(crate) recovery: bool,
    /// Open a store that has locked itself with a code of your authenticator app; sessions go on
    #[arg(long, conflicts_with_all = ["recovery", "passphrase_file", "keyfile"])]
    pub(crate) code: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Add a secret; its value comes from a prompt, stdin or a file, never from an argument
    #[command(after_help = "\
Examples:
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  pass show ci/npm | keyless secret add team/npm/token --to registry.npmjs.org --env NPM_TOKEN --value-stdin
  keyless secret add team/openai/key --to api.openai.com --env OPENAI_API_KEY --source env:OPENAI_API_KEY
  keyless secret add team/github/site --preset github-read=acme/site --env GITHUB_TOKEN
  keyless secret add team/search/key --to api.search.test --inject header:X-Api-Key --allow 'GET /v1/**'")]
    Add(AddArgs),
    /// Take values out of a .env file or the environment, into the vault
    #[command(after_help = import::IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Change where a secret may go and how it is offered; the value stays
    #[command(
        after_help = "Examples:\n  keyless secret set team/github/token --to api.github.com --locations header,basic"
    )]
    Set(SetArgs),
    /// List secrets: paths, destinations, variables; never values
    #[command(after_help = "Examples:\n  keyless secret list\n  keyless secret list --json")]
    List,
    /// Show everything about a secret but its value
    #[command(after_help = "Examples:\n  keyless secret show team/github/token")]
    Show(OnePath),
    /// Show a value to you, at your terminal or in your clipboard, and nowhere else
    #[command(after_help = "\
Examples:
  keyless secret reveal team/github/token                     on a screen of its own, until Enter
  keyless secret reveal team/github/token --clipboard         for 30 seconds, for one paste
  keyless secret reveal team/github/token --clipboard --for 2m")]
    Reveal(RevealArgs),
    /// Give a secret a new value
    #[command(
        after_help = "Examples:\n  keyless secret rotate team/github/token\n  gen-token | keyless secret rotate team/github/token --value-stdin"
    )]
    Rotate(RotateArgs),
    /// Remove a secret; it can be restored until it is purged
    #[command(after_help = "\
Examples:
  keyless secret remove team/github/token
  keyless secret remove team/github/token --yes")]
    Remove(RemoveArgs),
    /// Bring a removed secret back, or put an older version in use
    #[command(
        after_help = "Examples:\n  keyless secret restore team/github/token\n  keyless secret restore team/github/token --version 2"
    )]
    Restore(RestoreArgs),
    /// Forget a secret with all its versions, or one version, for good
    #[command(after_help = "\
Examples:
  keyless secret purge team/github/token
  keyless secret purge team/github/token --version 2 --yes")]
    Purge(PurgeArgs),
    /// Refuse every use of a secret whose value others may know
    #[command(after_help = "Examples:\n  keyless secret revoke team/github/token --compromised")]
    Revoke(RevokeArgs),
    /// List a secret's versions; never values
    #[command(after_help = "Examples:\n  keyless secret versions team/github/token")]
    Versions(VersionsArgs),
    /// Ask services whether they take your values: the catalog's checks, over https, to hosts that a secret names
    #[command(after_help = "\
Examples:
  keyless secret check                    every secret whose service can be asked
  keyless secret check team/github/token")]
    Check(CheckArgs),
    /// Say what this project needs, and what of it is there
    #[command(after_help = "\
Examples:
  keyless secret validate                 by .keyless/secrets.toml, here or above
  keyless secret validate --values        and fetch each value once, without showing it")]
    Validate(ValidateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OnePath {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
}

/// `--unsafe-expose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchWord {
    Off,
    On,
}

/// Where a secret may go and how it is offered.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// A host that may receive the value: api.github.com, *.example.com, host:8443, http://host:80
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Vec<Destination>,
    /// The variable that holds the placeholder
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// Where it is swapped: header, basic, path, query, body, password of a database (these when absent), websocket
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_location)]
    pub(crate) locations: Vec<Location>,
    /// How often it may stand in one request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_occurrences: Option<u32>,
    /// What happens to the placeholder toward another host
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_foreign: Option<OnForeignWord>,
    /// The placeholder's form: default, colon, or PREFIX:LENGTH of the real format (ghp_:40)
    #[arg(long, value_name = "FORM")]
    pub(crate) placeholder: Option<String>,
    /// Whether actions get the value itself though it names hosts: `on` gives up what placeholders are for
    #[arg(long, value_name = "WORD")]
    pub(crate) unsafe_expose: Option<SwitchWord>,
    /// A line about what it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) uses: UseArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The project's root; found from here when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Fetch each value once as well, which opens the store
    #[arg(long)]
    pub(crate) values: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    #[command(flatten)]
    pub(crate) upkeep: UpkeepArgs,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
    /// Make it bait: nobody has a reason to use it, and an agent that names it is stopped. Its value is drawn
    /// at random when none is given
    #[arg(long)]
    pub(crate) honeypot: bool,
    /// Where the value is kept: local, env:NAME (the broker's environment), file:PATH, routed (as
    /// sources.toml says) or source:NAME, source:NAME:REFERENCE of sources.toml
    #[arg(long, value_name = "SOURCE", default_value = "local", conflicts_with_all = ["value_stdin", "from_file"])]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    #[command(flatten)]
    pub(crate) upkeep: UpkeepArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RevealArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// Put it into the clipboard in place of showing it
    #[arg(long)]
    pub(crate) clipboard: bool,
    /// How long it stays in the clipboard
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "30s", requires = "clipboard")]
    pub(crate) life: std::time::Duration,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// The version to put in use
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// This version alone, which must not be in use
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// Where a value comes from. There is no option that takes the value itself.
#[derive(Debug, Default, Args)]
pub(crate) struct ValueArgs {
    /// Read the value from stdin
    #[arg(long)]
    pub(crate) value_stdin: bool,
    /// Read the value from a file
    #[arg(long, value_name = "FILE", conflicts_with = "value_stdin")]
    pub(crate) from_file: Option<PathBuf>,
    /// Take a value also if it looks like none, such as one under 12 characters
    #[arg(long)]
    pub(crate) allow_weak: bool,
}

/// What is asked before a value is saved.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SaveArgs {
    /// Ask its service whether it takes the value, and don't save one that is refused
    #[arg(long, conflicts_with = "allow_weak")]
    pub(crate) check: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    /// List the kinds of sources and how many secrets stand on each
    #[command(after_help = "Examples:\n  keyless source list\n  keyless source list --declared")]
    List(SourceListArgs),
    /// Try to fetch each secret's value, without showing it
    #[command(after_help = "\
Examples:
  keyless source check
  keyless source check team/github/token")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SourceListArgs {
    /// Also those of sources.toml: what they can do, what they may, and how they are
    #[arg(long)]
    pub(crate) declared: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The secrets to try; all when absent
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<SecretPath>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// The operator's exact routes and roots.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RouteArgs {
    /// Where a destination really is; repeatable
    #[arg(long, value_name = "HOST:PORT=ADDR:PORT", value_parser = parse_route)]
    pub(crate) connect_to: Vec<String>,
    /// A PEM file with a private root for upstream certificates; repeatable
    #[arg(long, value_name = "PEM")]
    pub(crate) extra_root: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A secret that the command may use; repeatable. All that name hosts and a variable when absent
    #[arg(long, value_name = "PATH")]
    pub(crate) secret: Vec<SecretPath>,
    /// No secrets at all: just the jail
    #[arg(long, conflicts_with = "secret")]
    pub(crate) no_secrets: bool,
    /// Hide one more file or directory from the command; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) hide: Vec<PathBuf>,
    /// Show a file or directory that is hidden by default; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) show: Vec<PathBuf>,
    /// Only proxy variables, no isolation; says what is lost
    #[arg(long)]
    pub(crate) no_jail: bool,
    #[command(flatten)]
    pub(crate) routes: RouteArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ApproveArgs {
    /// The request, as prov-1f9b3a2c5e7d; all that wait when absent
    #[arg(value_name = "ID", value_parser = parse_request)]
    pub(crate) id: Option<RequestId>,
    /// Show what waits, what still holds and what was denied
    #[arg(long, conflicts_with_all = ["id", "take_back"])]
    pub(crate) list: bool,
    /// Revoke an approval, or lift a denial
    #[arg(long, value_name = "ID", value_parser = parse_request, conflicts_with = "id")]
    pub(crate) take_back: Option<RequestId>,
    /// Allow one use
    #[arg(long, group = "word")]
    pub(crate) once: bool,
    /// Allow every use until the session ends
    #[arg(long, group = "word")]
    pub(crate) session: bool,
    /// Refuse
    #[arg(long, group = "word")]
    pub(crate) deny: bool,
    /// Accept: all proposed fields, the path, or a value that is read as the other options say
    #[arg(long, group = "word")]
    pub(crate) accept: bool,
    /// With --accept, another name for a new path
    #[arg(long, value_name = "PATH", requires = "accept")]
    pub(crate) path: Option<SecretPath>,
    /// With --accept, a host that may receive the value; repeatable
    #[arg(long, value_name = "HOST", requires = "accept")]
    pub(crate) to: Vec<Destination>,
    /// With --accept, the variable that holds the placeholder
    #[arg(long, value_name = "NAME", requires = "accept")]
    pub(crate) env: Option<String>,
    /// With --accept, let a rotation overwrite the present value
    #[arg(long, requires = "accept")]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: ShellWord,
}

/// A shell that can be taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellWord {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Where they go; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Open the link in your browser
    #[arg(long)]
    pub(crate) open: bool,
}

/// An answer that is given by option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerWord {
    /// `--accept`.
    Accept,
    /// `--deny`.
    Deny,
    /// `--once`.
    Once,
    /// `--session`.
    Session,
}

impl ApproveArgs {
    /// The answer that the options give, if they give one.
    pub(crate) fn word(&self) -> Option<AnswerWord> {
        let words = [
            (self.accept, AnswerWord::Accept),
            (self.deny, AnswerWord::Deny),
            (self.once, AnswerWord::Once),
            (self.session, AnswerWord::Session),
        ];
        words.into_iter().find_map(|(given, word)| given.then_some(word))
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// Where HTTP is served; loopback only where there is no TLS
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9741")]
    pub(crate) http: std::net::SocketAddr,
    /// Serve HTTPS with this certificate, a chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Take only clients that show a certificate of these roots, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Join stdin and stdout with the broker that runs, as the agent that the environment names
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Answer discovery over HTTP without TLS, which the protocol forbids; for tests
    #[arg(long)]
    pub(crate) plaintext_discovery: bool,
    /// How long the store stays open, such as 30m; as `unlock` in config.toml says when absent (8h)
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub(crate) window: Option<std::time::Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The tools to serve; secrets,nl serves both together
    #[arg(long, value_name = "SET", default_value = "secrets", value_delimiter = ',')]
    pub(crate) toolset: Vec<ToolsetWord>,
    /// Serve streamable HTTP at http://ADDR/mcp in place of stdin and stdout; loopback only
    #[arg(long, value_name = "ADDR", requires = "credential_file")]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// The bearer credential that a client shows (made, 0600, when it is not there)
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) credential_file: Option<PathBuf>,
}

/// `--toolset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsetWord {
    /// Actions with secrets that the agent never sees; NL_AGENT_URI, NL_INSTANCE_ID and NL_AGENT_CREDENTIAL say who it is, or else the session.
    Nl,
    /// Agent configuration as code: plan, review, apply, roll back.
    Pack,
    /// What agents may know of secrets, and ask of a person.
    Secrets,
}

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// The catalog, YAML (kind: SecretProxy)
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: PathBuf,
    /// Where the values are mounted, as DIR/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_dir: PathBuf,
    /// ADDR:PORT for an explicit proxy, unix:PATH, vsock:PORT or vsock:CID:PORT for connections with a
    /// preamble, forward:unix:PATH or forward:ADDR:PORT for forwarders; repeatable
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:0")]
    pub(crate) listen: Vec<Listen>,
    /// The key that placeholders are derived from (made when it is not there)
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// The certificate that guests trust (made with its key when neither is there)
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// The key of that certificate, PKCS #8 in PEM
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    pub(crate) ca_key: Option<PathBuf>,
    /// The token that admits forwarders over TCP: one line of 16 to 256 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) forward_token: Option<PathBuf>,
    /// The session of all listeners but `forward:` and `vsock:PORT`, where each guest is its own
    #[arg(long, value_name = "ID", default_value = "default")]
    pub(crate) session: SessionId,
    /// Show Prometheus metrics and health here: /metrics, /healthz, /readyz
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics_listen: Option<std::net::SocketAddr>,
    /// Send a trace of each request to this collector (OTLP over HTTP), as in http://127.0.0.1:4318
    #[arg(long, value_name = "URL", value_parser = keyless_daemon::CollectorUrl::parse)]
    pub(crate) otlp_endpoint: Option<keyless_daemon::CollectorUrl>,
    /// What stderr is told while it runs: words, or every request as a JSON line
    #[arg(long, value_name = "FORMAT", default_value = "words")]
    pub(crate) log_format: LogFormat,
    /// How long what is under way may take to end after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub(crate) drain: std::time::Duration,
    #[command(flatten)]
    pub(crate) routes: RouteArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// Say what would happen to a request and why, rule by rule; sends nothing
    #[command(after_help = "\
Examples:
  keyless egress explain https://api.github.com/user
  keyless egress explain https://10.0.0.7:8443 --catalog catalog.yaml --json")]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Where the request would go
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The request's method
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// By a fleet's catalog in place of the store
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// With the secrets of this session of the store only
    #[arg(long, value_name = "ID", conflicts_with = "catalog")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) routes: RouteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PlaceholdersArgs {
    /// The catalog, YAML (kind: SecretProxy)
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: PathBuf,
    /// The key of the proxy that will serve the session
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Lines of NAME=placeholder, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "env")]
    pub(crate) format: PlaceholderFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ForwardArgs {
    /// unix:PATH, which is the hypervisor's socket and `_1025`, or vsock:CID:PORT; repeatable
    #[arg(long, value_name = "WHERE", required = true)]
    pub(crate) listen: Vec<GuestSide>,
    /// Where `keyless proxy --listen forward:...` is: unix:PATH or ADDR:PORT
    #[arg(long, value_name = "WHERE")]
    pub(crate) to: Link,
    /// Whose connections they are; the guest can't say it
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// The token of a sidecar on TCP
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The mode of Unix sockets, for a hypervisor that runs as another user
    #[arg(long, value_name = "OCTAL", default_value = "600", value_parser = parse_mode)]
    pub(crate) socket_mode: u32,
}

/// `--on-foreign`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnForeignWord {
    /// The request is refused.
    Block,
    /// The placeholder leaves as it is, useless.
    Pass,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceholderFormat {
    /// NAME=placeholder lines.
    Env,
    /// One JSON object.
    Json,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line, requests and all.
    Json,
    /// What an operator should know.
    Words,
}

/// `proxy --listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) FleetListen);

/// `forward --listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestSide(pub(crate) ForwardListen);

impl From<OnForeignWord> for OnForeign {
    fn from(word: OnForeignWord) -> Self {
        match word {
            OnForeignWord::Block => Self::Block,
            OnForeignWord::Pass => Self::Pass,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let neither = "none of ADDRESS:PORT, unix:PATH, vsock:[CID:]PORT, forward:unix:PATH and \
                       forward:ADDRESS:PORT";
        if let Some(port) = text.strip_prefix("vsock:").and_then(|port| port.parse().ok()) {
            return Ok(Self(FleetListen::Vsock { port, only: None }));
        }
        let (forwarders, place) = match text.strip_prefix("forward:") {
            Some(place) => (true, place),
            None => (false, text),
        };
        let listen = match (forwarders, place.parse().map_err(|_| neither)?) {
            (true, Link::Tcp(address)) => FleetListen::ForwardTcp(address),
            (true, Link::Unix(path)) => FleetListen::ForwardUnix(path),
            (true, Link::Vsock(_)) => return Err(neither.to_owned()),
            (false, Link::Tcp(address)) => FleetListen::Tcp(address),
            (false, Link::Unix(path)) => FleetListen::Unix(path),
            (false, Link::Vsock(from)) => {
                FleetListen::Vsock { port: from.port, only: Some(from.cid) }
            }
        };
        Ok(Self(listen))
    }
}

impl FromStr for GuestSide {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(Link::Unix(path)) => Ok(Self(ForwardListen::Unix(path))),
            Ok(Link::Vsock(from)) => {
                Ok(Self(ForwardListen::Vsock { cid: from.cid, port: from.port }))
            }
            _ => Err("neither unix:PATH nor vsock:CID:PORT".to_owned()),
        }
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("an octal mode such as 660".to_owned()),
    }
}

fn parse_location(word: &str) -> Result<Location, String> {
    Location::parse(word)
        .ok_or_else(|| "one of header, basic, path, query, body, password, websocket".to_owned())
}

fn parse_request(text: &str) -> Result<RequestId, String> {
    RequestId::parse(text).ok_or_else(|| "prov- and 12 hexadecimal digits".to_owned())
}

fn parse_route(text: &str) -> Result<String, String> {
    keyless_daemon::parse_route(text).map(|_| text.to_owned())
}

fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    keyless_daemon::Span::parse(text).map(keyless_daemon::Span::duration)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command's help shows how it is called.
    #[test]
    fn every_command_has_examples() {
        fn walk(command: &clap::Command, without: &mut Vec<String>) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_bin_name().unwrap_or_default();
            let is_leaf = !command.has_subcommands() && !command.is_hide_set();
            if is_leaf && !help.contains(name) {
                without.push(name.to_owned());
            }
            command.get_subcommands().for_each(|inner| walk(inner, without));
        }
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let mut without = Vec::new();
        walk(&command, &mut without);
        assert_eq!(without, [""; 0]);
    }

    /// The help says what every exit status means.
    #[test]
    fn every_exit_status_is_in_the_help() {
        let (_, statuses) = EXAMPLES.split_once("Exit statuses:").unwrap();
        for code in keyless_core::Code::ALL {
            let status = format!(" {} ", code.exit() as u8);
            assert!(statuses.replace('\n', " ").contains(&status), "{status}");
        }
    }

    #[test]
    fn listeners_read() {
        let read = |text: &str| text.parse::<Listen>().map(|listen| listen.0);
        let vsock = |only| FleetListen::Vsock { port: 1025, only };
        assert_eq!(read("unix:/a"), Ok(FleetListen::Unix("/a".into())));
        assert_eq!(read("forward:unix:/a"), Ok(FleetListen::ForwardUnix("/a".into())));
        assert_eq!(read("vsock:1025"), Ok(vsock(None)));
        assert_eq!(read("vsock:7:1025"), Ok(vsock(Some(7))));
        assert!(matches!(read("127.0.0.1:0"), Ok(FleetListen::Tcp(_))));
        assert!(matches!(read("forward:127.0.0.1:0"), Ok(FleetListen::ForwardTcp(_))));
        for bad in ["localhost", "unix:", "vsock:", "forward:", "forward:vsock:1:2", "vsock:a:b"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!("127.0.0.1:1".parse::<GuestSide>().is_err());
    }

    #[test]
    fn modes_read() {
        assert_eq!(parse_mode("660"), Ok(0o660));
        for bad in ["", "8", "1777", "rw"] {
            assert!(parse_mode(bad).is_err(), "{bad}");
        }
    }
}
