//! The command line, as data. Parsing validates words and does nothing else.

mod action;
mod agent;
mod audit;
mod broker;
mod catalog;
mod door;
mod egress;
mod fleet;
mod grant;
mod guard;
mod hooks;
mod import;
mod overview;
mod person;
mod revoke;
mod rule;
mod secret;
mod session;
mod setup;
mod shell;
mod source;
mod time;
mod upkeep;
mod use_args;
mod vault;
mod word;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use keyless_core::SecretPath;

use self::person::APPROVE_EXAMPLES;
use crate::commands::pack::PackArgs;

pub(crate) use self::{
    action::{ActionCommand, ExecArgs, SubmitArgs, TermArgs},
    agent::{
        AgentAttestArgs, AgentChangeArgs, AgentCommand, AgentName, AgentRegisterArgs,
        AgentRotateArgs, AgentShowArgs,
    },
    audit::{
        AcceptBreakArgs, AuditCommand, CheckpointArgs, ExportArgs, ExportFormat, QueryArgs,
        ResultWord, TailArgs, VerifyArgs,
    },
    broker::{BrokerArgs, BrokerCommand, BrokerInstallArgs},
    catalog::{
        CatalogAddUrlArgs, CatalogCommand, CatalogForgetArgs, CatalogListArgs, CatalogPinArgs,
        CatalogRefreshArgs, CatalogShowArgs, CatalogTrustArgs, CatalogUrlArgs, CatalogValidateArgs,
    },
    door::{McpArgs, ServeArgs, ToolsetWord},
    egress::{EgressCommand, ExplainArgs, RouteArgs},
    fleet::{ForwardArgs, LogFormat, PlaceholderFormat, PlaceholdersArgs, ProxyArgs},
    grant::{
        DelegationCommand, GrantCommand, GrantCreateArgs, GrantExplainArgs, GrantRevokeArgs,
        GrantShowArgs,
    },
    guard::{GuardCheckArgs, GuardCommand, GuardInstallArgs},
    hooks::{HooksCheckArgs, HooksCommand, HooksInstallArgs},
    import::{ImportArgs, LeaveWord},
    overview::grouped,
    person::{AnswerWord, ApproveArgs, UiArgs, WebArgs},
    revoke::RevokeArgs,
    rule::{RuleArgs, SwitchWord},
    secret::{
        AddArgs, PurgeArgs, RemoveArgs, RestoreArgs, RevealArgs, RotateArgs, SaveArgs,
        SecretCheckArgs, SecretCommand, SetArgs, ValidateArgs, ValueArgs, VersionsArgs,
    },
    session::{SessionCommand, SessionEndArgs, SessionListArgs, SessionShowArgs},
    setup::SetupArgs,
    shell::{CompletionsArgs, ManualArgs, SchemaArgs, ShellWord},
    source::{
        AccessWord, BrowseArgs, CheckArgs, SourceAddArgs, SourceCommand, SourceListArgs,
        SourceRemoveArgs,
    },
    upkeep::UpkeepArgs,
    use_args::UseArgs,
    vault::{
        EnvelopeAddArgs, EnvelopeCommand, EnvelopeRemoveArgs, EnvelopeWord, ExportVaultArgs,
        ImportVaultArgs, OpenerArgs, VaultCommand,
    },
    word::Word,
};

const EXAMPLES: &str = "\
Examples:
  keyless demo                                        the whole story, offline, in seconds
  keyless init                                        make a store, protected by a passphrase
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  keyless run --secret team/github/token -- claude    run an agent that never holds the token
  keyless audit tail                                  see what was used, where and when

Exit statuses:
  0 done   1 failed   2 a word, file or value can't be used   3 not there   4 policy says no
  5 locked, or a wrong factor   6 the store can't be used   7 this machine lacks something
  keyless run and exec: the command's own; 126 it can't be run, 127 it is not there
  keyless exec: 124 when its time was over";

/// Lets AI coding agents use credentials without ever holding them.
#[derive(Debug, Parser)]
#[command(name = "keyless", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Answer with one JSON object
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Take values from the environment alone, and ask nobody (or KEYLESS_CI=1)
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) ci: bool,
    /// Say results and errors only: no warnings, no progress
    #[arg(long, global = true, help_heading = "Everywhere")]
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
    /// Keep secrets: add, import, list, rotate, check, reveal, revoke
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Look at where values come from
    #[command(subcommand)]
    Source(SourceCommand),
    /// Look at what is known of the tokens of well-known services
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Look at what opens the store and change it; copy secrets out and in
    #[command(subcommand)]
    Vault(VaultCommand),
    /// Run a command that uses secrets without holding them
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one shell command with references to secrets in it; what comes back is redacted
    #[command(after_help = action::EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Submit an NL action request, or check it
    #[command(subcommand)]
    Action(ActionCommand),
    /// Answer what agents ask: a value, a rotation, a proposal, the use of a secret
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(ApproveArgs),
    /// Answer on a page in your browser: requests, secrets, sessions, approvals, the log
    #[command(after_help = "\
Examples:
  keyless web                                         prints a link that opens one visit
  keyless web --open                                  and follows it")]
    Web(WebArgs),
    /// See and answer everything full screen in this terminal: requests, secrets, sessions, grants, the log
    #[command(after_help = "Examples:\n  keyless ui\n  NO_COLOR=1 keyless ui")]
    Ui(UiArgs),
    /// Serve tools for agents over the Model Context Protocol, on stdin and stdout
    #[command(after_help = "\
Examples:
  keyless mcp                                         what an agent's configuration names as the command
  claude mcp add keyless -- keyless mcp
  keyless mcp --http 127.0.0.1:7070
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
    /// Read and verify the audit log; close parts of it
    #[command(subcommand)]
    Audit(AuditCommand),
    /// See who is at work now, what they did, and end it
    #[command(subcommand)]
    Session(SessionCommand),
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
    /// Print the JSON Schema of an object of the NL Protocol
    #[command(after_help = "\
Examples:
  keyless schema
  keyless schema action-request > action-request.json")]
    Schema(SchemaArgs),
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
  keyless run -- claude                               what the project declares; else every secret that has a use
  keyless run --secret team/github/token -- gh api user
  keyless run --passphrase-file F --secret team/github/token -- make release
  keyless run --no-secrets -- npm install             just the jail

The command's exit status, signals, terminal and streams pass through.";

/// How the store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
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
    /// Write the recovery phrase to a new 0600 file in place of showing it. Without a terminal, or with --json, it is never
    /// shown: it goes to recovery-phrase.txt beside the store when no FILE is given
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

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A secret that the command may use; repeatable. When absent, what the project declares; where it declares nothing, all
    /// that name hosts and have a variable, sign or are injected
    #[arg(long, value_name = "PATH")]
    pub(crate) secret: Vec<SecretPath>,
    /// No secrets at all: just the jail, without variables that look like credentials
    #[arg(long, conflicts_with = "secret")]
    pub(crate) no_secrets: bool,
    /// A variable that --no-secrets leaves to the command, whatever it looks like; repeatable
    #[arg(long, value_name = "NAME", requires = "no_secrets")]
    pub(crate) keep_env: Vec<String>,
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
            if !command.is_hide_set() && !help.contains(name) {
                without.push(name.to_owned());
            }
            command.get_subcommands().for_each(|inner| walk(inner, without));
        }
        let mut command = grouped().disable_help_subcommand(true);
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
}
