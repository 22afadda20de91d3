//! `keyless grant` and `keyless delegation`: what agents may do, and what they have handed on.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use keyless_core::{
    Destination,
    action::{ActionType, UnknownActionType},
    agent::{AgentUri, InstanceId, TrustLevel},
    delegation::TokenId,
    grant::{GrantId, GrantedAction, IpRange, SecretPattern},
};

use super::{FactorArgs, parse_time};

#[derive(Debug, Subcommand)]
pub(crate) enum GrantCommand {
    /// Let an agent use secrets in actions
    #[command(after_help = "\
Examples:
  keyless grant create --agent nl://acme.corp/bot/1.0.0 --secret 'api/*' --for 8h --max-uses 100
  keyless grant create --agent nl://acme.corp/bot/1.0.0 --action exec --secret 'team/production/**' --approve --trust L2
  keyless grant create --agent nl://acme.corp/bot/1.0.0 --secret db/password --host db.internal:5432
  keyless grant create --file grant.json              the whole object, as the NL Protocol writes it")]
    Create(Box<GrantCreateArgs>),
    /// List all grants and where they stand
    #[command(after_help = "Examples:\n  keyless grant list")]
    List,
    /// Show one grant as the NL Protocol writes it
    #[command(after_help = "Examples:\n  keyless grant show deploys")]
    Show(GrantShowArgs),
    /// Take a grant back, at once
    #[command(after_help = "Examples:\n  keyless grant revoke deploys")]
    Revoke(GrantRevokeArgs),
    /// Say which grant allows an action, or what the nearest lacks
    #[command(after_help = "\
Examples:
  keyless grant explain --agent nl://acme.corp/bot/1.0.0 --action exec team/api/token
  keyless grant explain --agent 550e8400-e29b-41d4-a716-446655440000 --action template team/api/token")]
    Explain(GrantExplainArgs),
}

/// What says of a grant what a file says as a whole.
const TERMS: [&str; 18] = [
    "agent",
    "instance",
    "organization",
    "secrets",
    "actions",
    "from",
    "life",
    "max_uses",
    "approve",
    "trust",
    "environments",
    "contexts",
    "addresses",
    "max_concurrent",
    "max_per_minute",
    "hosts",
    "writes",
    "id",
];

#[derive(Debug, Args)]
pub(crate) struct GrantCreateArgs {
    /// The software that it is for: nl://VENDOR/TYPE/VERSION
    #[arg(long, value_name = "URI", required_unless_present = "file")]
    pub(crate) agent: Option<AgentUri>,
    /// One instance of it; all when absent
    #[arg(long, value_name = "UUID")]
    pub(crate) instance: Option<InstanceId>,
    /// Whose agents these are
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) organization: String,
    /// Secrets: api/*, team/production/**, api/TOKEN, aws-sm://eu-central-1/*
    #[arg(long = "secret", value_name = "PATTERN", required_unless_present = "file")]
    pub(crate) secrets: Vec<SecretPattern>,
    /// Types of action, or '*'; exec, template, inject_stdin and inject_tempfile when absent
    #[arg(long = "action", value_name = "TYPE", value_parser = parse_granted)]
    pub(crate) actions: Vec<GrantedAction>,
    /// From when on; now when absent
    #[arg(long, value_name = "TIME", value_parser = parse_from)]
    pub(crate) from: Option<Timestamp>,
    /// For how long: 1s to 168h; 8h when absent. After that it permits nothing
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub(crate) life: Option<Duration>,
    /// How many actions; no limit when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_uses: Option<u64>,
    /// A person has to allow each action
    #[arg(long)]
    pub(crate) approve: bool,
    /// How well the agent's origin has to be proven: L0, L1 or L2
    #[arg(long, value_name = "LEVEL")]
    pub(crate) trust: Option<TrustLevel>,
    /// Only secrets of these environments
    #[arg(long = "environment", value_name = "NAME")]
    pub(crate) environments: Vec<String>,
    /// Only where the agent was registered with this, such as repository=github.com/acme/site
    #[arg(long = "context", value_name = "KEY=VALUE", value_parser = parse_context)]
    pub(crate) contexts: Vec<(String, String)>,
    /// Only from these addresses
    #[arg(long = "ip", value_name = "RANGE")]
    pub(crate) addresses: Vec<IpRange>,
    /// How many actions at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_concurrent: Option<u32>,
    /// How many actions may begin within a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_per_minute: Option<u32>,
    /// Hosts that an action may reach which has a value inside; none when absent
    #[arg(long = "host", value_name = "HOST", value_parser = parse_host)]
    pub(crate) hosts: Vec<Destination>,
    /// An action may change a database's rows; without it, it reads
    #[arg(long)]
    pub(crate) writes: bool,
    /// Its name; drawn when absent
    #[arg(long, value_name = "NAME", value_parser = parse_id)]
    pub(crate) id: Option<GrantId>,
    /// Read the whole object from a JSON file, or from stdin with -; nothing else is said of it then
    #[arg(long, value_name = "FILE", conflicts_with_all = TERMS)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GrantShowArgs {
    /// Which
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: GrantId,
}

#[derive(Debug, Args)]
pub(crate) struct GrantRevokeArgs {
    /// Which
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: GrantId,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GrantExplainArgs {
    /// The agent: its URI, or the UUID of an instance
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: String,
    /// The type of action
    #[arg(long, value_name = "TYPE", default_value = "exec")]
    pub(crate) action: keyless_core::ActionType,
    /// Where the request would come from
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<IpAddr>,
    /// It would change a database's rows
    #[arg(long)]
    pub(crate) writes: bool,
    /// The secrets: project/category/name, or as the agent writes them (api/TOKEN)
    #[arg(value_name = "SECRET", required = true)]
    pub(crate) secrets: Vec<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DelegationCommand {
    /// List what agents have handed on
    #[command(after_help = "Examples:\n  keyless delegation list")]
    List(DelegationListArgs),
    /// Revoke a delegation with all that came of it
    #[command(after_help = "\
Examples:
  keyless delegation revoke 550e8400-e29b-41d4-a716-446655440000")]
    Revoke(DelegationRevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DelegationListArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DelegationRevokeArgs {
    /// Which
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    pub(crate) id: TokenId,
    /// Why, for the log
    #[arg(long, value_name = "TEXT", default_value = "administrative")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// Nothing asks a grant about what leaves by the egress door.
fn parse_granted(text: &str) -> Result<GrantedAction, UnknownActionType> {
    let granted: GrantedAction = text.parse()?;
    let is_inert = granted == GrantedAction::Type(ActionType::Egress);
    if is_inert { Err(UnknownActionType) } else { Ok(granted) }
}

fn parse_from(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "a time such as 2026-02-08T10:00:00Z".to_owned())
}

/// An action's hosts are reached at a port, by whatever protocol: a scheme would be dropped.
fn parse_host(text: &str) -> Result<Destination, String> {
    if let Some((_, host)) = text.split_once("://") {
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        return Err(format!("a host and its port alone, 443 when absent: {host}"));
    }
    Destination::parse(text).map_err(|error| error.to_string())
}

fn parse_id(text: &str) -> Result<GrantId, String> {
    GrantId::parse(text).ok_or_else(|| "1 to 128 printable characters without spaces".to_owned())
}

fn parse_token(text: &str) -> Result<TokenId, String> {
    TokenId::parse(text).ok_or_else(|| "a UUID, as keyless delegation list shows".to_owned())
}

fn parse_context(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "KEY=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_file_has_nothing_beside_it_but_the_factor() {
        let all = GrantCreateArgs::augment_args(clap::Command::new("create"));
        let factor = FactorArgs::augment_args(clap::Command::new("factor"));
        let ids = |command: &clap::Command| -> BTreeSet<String> {
            command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
        };
        let mut beside = ids(&all);
        beside.retain(|id| id != "file" && !ids(&factor).contains(id));
        assert_eq!(beside, TERMS.map(str::to_owned).into());
    }
}
