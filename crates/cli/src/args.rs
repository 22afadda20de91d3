//! The command line, as data. Parsing validates words and does nothing else.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use keyless_core::{Destination, Location, OnForeign, SecretPath};

const EXAMPLES: &str = "\
Examples:
  keyless demo                                        the whole story, offline, in half a minute
  keyless init                                        make a store, protected by a passphrase
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  keyless run --secret team/github/token -- claude    run an agent that never holds the token
  keyless audit tail                                  see what was used, where and when";

/// Lets AI coding agents use credentials without ever holding them.
#[derive(Debug, Parser)]
#[command(name = "keyless", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Answer with one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the whole story offline, with a random secret and real tools
    Demo,
    /// Make a store: a sealed vault and an audit log
    #[command(after_help = "\
Examples:
  keyless init
  KEYLESS_HOME=/srv/ci keyless init --passphrase-file /run/secrets/pass --recovery-file phrase")]
    Init(InitArgs),
    /// Open the store for a while, so that `run` needs no passphrase
    #[command(
        after_help = "Examples:\n  keyless unlock\n  keyless unlock --for 30m\n  keyless unlock --recovery"
    )]
    Unlock(UnlockArgs),
    /// Close the store again, and end all sessions that stand on it
    Lock,
    /// Say what is there: the store, the broker, its sessions
    Status,
    /// Keep secrets: add, set, list, show, rotate, remove
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Look at where values come from
    #[command(subcommand)]
    Source(SourceCommand),
    /// Run a command that uses secrets without holding them
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Serve a fleet's guests: egress alone, values from mounted files
    #[command(after_help = "\
Examples:
  keyless proxy --catalog catalog.yaml --secrets-dir /run/secrets --listen 127.0.0.1:8888
  keyless proxy --catalog catalog.yaml --secrets-dir /run/secrets --listen unix:/run/guest.sock_1025")]
    Proxy(ProxyArgs),
    /// Print the placeholders of a session, for the guest's environment
    #[command(after_help = "\
Examples:
  keyless placeholders --catalog catalog.yaml --key-file proxy.key --session thread-7
  keyless placeholders --catalog catalog.yaml --key-file proxy.key --session thread-7 --format json")]
    Placeholders(PlaceholdersArgs),
    /// Read and verify the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Serve sessions in the foreground (`unlock` starts one in the background)
    Broker(BrokerArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  keyless run -- claude                               every secret that names hosts and a variable
  keyless run --secret team/github/token -- gh api user
  keyless run --passphrase-file F --secret team/github/token -- make release
  keyless run --no-secrets -- npm install             just the jail

The command's exit status, signals, terminal and streams pass through.";

/// How the store is opened.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FactorArgs {
    /// Read the passphrase from a file that is yours and 0600 (or KEYLESS_PASSPHRASE_FILE)
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
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
    /// How long the store stays open, such as 30m or 8h
    #[arg(long = "for", value_name = "TIME", default_value = "8h", value_parser = parse_time)]
    pub(crate) window: std::time::Duration,
    /// Use the 24-word recovery phrase in place of the passphrase
    #[arg(long)]
    pub(crate) recovery: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// How long the store stays open, such as 30m or 8h
    #[arg(long = "for", value_name = "TIME", default_value = "8h", value_parser = parse_time)]
    pub(crate) window: std::time::Duration,
    /// Read the factor from stdin: one line, `passphrase …` or `recovery …` (what `unlock` does)
    #[arg(long, hide = true)]
    pub(crate) factor_stdin: bool,
    /// A file that no agent may see, such as the one with the passphrase; repeatable
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) conceal: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Add a secret; its value comes from a prompt, stdin or a file, never from an argument
    #[command(after_help = "\
Examples:
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  pass show ci/npm | keyless secret add team/npm/token --to registry.npmjs.org --env NPM_TOKEN --value-stdin
  keyless secret add team/openai/key --to api.openai.com --env OPENAI_API_KEY --source env:OPENAI_API_KEY")]
    Add(AddArgs),
    /// Change where a secret may go and how it is offered; the value stays
    #[command(
        after_help = "Examples:\n  keyless secret set team/github/token --to api.github.com --locations header,basic"
    )]
    Set(SetArgs),
    /// List secrets: paths, destinations, variables; never values
    List,
    /// Show everything about a secret but its value
    Show(OnePath),
    /// Give a secret a new value
    #[command(
        after_help = "Examples:\n  keyless secret rotate team/github/token\n  gen-token | keyless secret rotate team/github/token --value-stdin"
    )]
    Rotate(RotateArgs),
    /// Remove a secret and all its versions
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OnePath {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
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
    /// Where in a request it is swapped: header, basic, path, query, body (all when absent)
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
    /// A line about what it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    /// Where the value is kept: local, env:NAME (the broker's environment) or file:PATH
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

/// Where a value comes from. There is no option that takes the value itself.
#[derive(Debug, Default, Args)]
pub(crate) struct ValueArgs {
    /// Read the value from stdin
    #[arg(long)]
    pub(crate) value_stdin: bool,
    /// Read the value from a file
    #[arg(long, value_name = "FILE", conflicts_with = "value_stdin")]
    pub(crate) from_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    /// List the kinds of sources and how many secrets stand on each
    List,
    /// Try to fetch each secret's value, without showing it
    Check(CheckArgs),
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
pub(crate) struct ProxyArgs {
    /// The catalog, YAML (kind: SecretProxy)
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: PathBuf,
    /// Where the values are mounted, as DIR/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_dir: PathBuf,
    /// 127.0.0.1:PORT for an explicit proxy, unix:PATH for connections with a preamble; repeatable
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:0")]
    pub(crate) listen: Vec<Listen>,
    /// The key that placeholders are derived from (made when it is not there)
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// The session that the listeners serve
    #[arg(long, value_name = "ID", default_value = "default", value_parser = parse_session)]
    pub(crate) session: String,
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
    #[arg(long, value_name = "ID", value_parser = parse_session)]
    pub(crate) session: String,
    /// Lines of NAME=placeholder, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "env")]
    pub(crate) format: PlaceholderFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest entries
    Tail(TailArgs),
    /// Verify the whole chain
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// How many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) lines: u32,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
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

/// `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// An explicit proxy.
    Tcp(std::net::SocketAddr),
    /// Connections with a preamble.
    Unix(PathBuf),
}

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
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs a path".to_owned()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let address: std::net::SocketAddr =
            text.parse().map_err(|_| "neither ADDRESS:PORT nor unix:PATH".to_owned())?;
        Ok(Self::Tcp(address))
    }
}

fn parse_location(word: &str) -> Result<Location, String> {
    Location::parse(word).ok_or_else(|| "one of header, basic, path, query, body".to_owned())
}

fn parse_route(text: &str) -> Result<String, String> {
    keyless_daemon::parse_route(text).map(|_| text.to_owned())
}

fn parse_session(text: &str) -> Result<String, String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=128).contains(&text.len()) && text.bytes().all(fine) {
        Ok(text.to_owned())
    } else {
        Err("1 to 128 letters, digits, `-`, `_` and `.`".to_owned())
    }
}

/// Reads `90s`, `30m`, `8h`.
fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let fault = || "a number and s, m or h, such as 30m".to_owned();
    let unit = text.chars().next_back().ok_or_else(fault)?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| fault())?;
    let seconds = match unit {
        's' => number,
        'm' => number.saturating_mul(60),
        'h' => number.saturating_mul(3600),
        _ => return Err(fault()),
    };
    match seconds {
        1..=604_800 => Ok(std::time::Duration::from_secs(seconds)),
        _ => Err("from 1s to 168h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_read() {
        assert_eq!(parse_time("30m").unwrap().as_secs(), 1800);
        for bad in ["", "30", "m", "0s", "8d", "9999h", "1é"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn listeners_read() {
        assert_eq!("unix:/a".parse(), Ok(Listen::Unix("/a".into())));
        assert!("127.0.0.1:0".parse::<Listen>().is_ok());
        assert!("localhost".parse::<Listen>().is_err() && "unix:".parse::<Listen>().is_err());
    }
}
