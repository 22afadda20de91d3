//! Arguments of `keyless agent`.

use std::{convert::Infallible, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Subcommand};
use keyless_core::{
    ActionType, SecretPath,
    agent::{AgentType, AgentUri, InstanceId, Risk, TrustLevel},
    grant::SecretPattern,
};

use super::{FactorArgs, parse_time};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Let a provisioned or suspended agent act
    #[command(after_help = "\
Examples:
  keyless agent activate nl://acme.corp/bot/1.0.0
  keyless agent activate 550e8400-e29b-41d4-a716-446655440000")]
    Activate(AgentChangeArgs),
    /// Sign an attestation for an agent with a key of the store
    #[command(after_help = "\
Examples:
  keyless secret add acme/attestor/key --value-stdin < attestor.pem
  keyless agent attest 550e8400-e29b-41d4-a716-446655440000 --key acme/attestor/key --for 8h
  keyless agent attest 550e8400-e29b-41d4-a716-446655440000 --key acme/attestor/key --keys > attestation-keys.json")]
    Attest(AgentAttestArgs),
    /// List the agents
    #[command(after_help = "Examples:\n  keyless agent list")]
    List(AgentListArgs),
    /// Register an agent; its credential is shown once
    #[command(after_help = "\
Examples:
  keyless agent register nl://acme.corp/deploy-bot/2.1.0 --type ci_cd_pipeline --for 2h
  keyless agent register nl://anthropic.com/claude-code/1.5.2 --can exec --can inject_stdin --project team
  keyless agent register nl://acme.corp/bot/1.0.0 --credential-file bot.credential --json
  keyless agent register nl://acme.corp/onboarding/1.0.0 --organization acme --administrator --for 168h")]
    Register(Box<AgentRegisterArgs>),
    /// Forget an agent's incidents: its threat score is 0 again
    #[command(after_help = "\
Examples:
  keyless agent reset bfa19f0f-00bc-4b01-82e4-a5a44f1ea054 --reason 'a test of ours'")]
    Reset(AgentChangeArgs),
    /// End an agent for good
    #[command(after_help = "\
Examples:
  keyless agent revoke 550e8400-e29b-41d4-a716-446655440000 --reason 'project is over'")]
    Revoke(AgentChangeArgs),
    /// Give an agent a new credential, shown once; the old one is refused from then on
    #[command(after_help = "\
Examples:
  keyless agent rotate nl://acme.corp/bot/1.0.0 --reason 'it was in a log'
  keyless agent rotate 550e8400-e29b-41d4-a716-446655440000 --credential-file bot.credential")]
    Rotate(AgentRotateArgs),
    /// Show one agent
    #[command(after_help = "Examples:\n  keyless agent show 550e8400-e29b-41d4-a716-446655440000")]
    Show(AgentShowArgs),
    /// Keep an agent from acting for now
    #[command(after_help = "\
Examples:
  keyless agent suspend 550e8400-e29b-41d4-a716-446655440000 --reason 'looks odd'")]
    Suspend(AgentChangeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AgentRegisterArgs {
    /// The software, nl://VENDOR/TYPE/VERSION
    pub(crate) uri: AgentUri,
    /// coding_assistant, autonomous_executor, orchestrator, ci_cd_pipeline, human, custom or custom:ORG/NAME
    #[arg(long = "type", value_name = "TYPE", default_value = "coding_assistant")]
    pub(crate) kind: AgentType,
    /// How much could go wrong with an agent of a custom type: low, medium, high or very_high
    #[arg(long, value_name = "LEVEL", value_parser = parse_risk)]
    pub(crate) risk: Option<Risk>,
    /// A type of action that it may ever ask for; repeatable, all when absent
    #[arg(long = "can", value_name = "ACTION")]
    pub(crate) can: Vec<ActionType>,
    /// Whose agent it is
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) organization: String,
    /// How well its origin is proven, L0 or L1; the others take an attestation
    #[arg(long, value_name = "LEVEL", default_value = "L1")]
    pub(crate) trust: TrustLevel,
    /// A project that it may ever be granted secrets of; repeatable, any when absent
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Vec<String>,
    /// An environment of these; repeatable, any when absent
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Vec<String>,
    /// A category of these; repeatable, any when absent
    #[arg(long, value_name = "NAME")]
    pub(crate) category: Vec<String>,
    /// A pattern of secrets of these, such as api/*; repeatable, any when absent
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    pub(crate) pattern: Vec<SecretPattern>,
    /// The agent whose sub-agent it is: it has no more than that one, and acts for as long
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) parent: Option<InstanceId>,
    /// It may register, revoke and audit agents of its organization by message, within its own bounds
    #[arg(long)]
    pub(crate) administrator: bool,
    /// Where it runs, as KEY=VALUE, for conditions of grants such as repository=…; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) context: Vec<(String, String)>,
    /// How long it lives
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "12h")]
    pub(crate) life: Duration,
    /// Write the credential to this new file, 0600, in place of showing it
    #[arg(long, value_name = "FILE")]
    pub(crate) credential_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentChangeArgs {
    /// Its instance, or its URI where one agent has it
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,
    /// Why, for the log
    #[arg(long, value_name = "TEXT", default_value = "by the operator")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentRotateArgs {
    /// Its instance, or its URI where one agent has it
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,
    /// Why, for the log
    #[arg(long, value_name = "TEXT", default_value = "by the operator")]
    pub(crate) reason: String,
    /// Write the credential to this new file, 0600, in place of showing it
    #[arg(long, value_name = "FILE")]
    pub(crate) credential_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentAttestArgs {
    /// Its instance, or its URI where one agent has it
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,
    /// The secret that is the key: PKCS #8 PEM, for ES256, ES384 or EdDSA
    #[arg(long, value_name = "PATH")]
    pub(crate) key: SecretPath,
    /// How long it holds, a day at most
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "8h")]
    pub(crate) life: Duration,
    /// Show what attestation-keys.json has to have, in place of the attestation
    #[arg(long)]
    pub(crate) keys: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentListArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentShowArgs {
    /// Its instance, or its URI where one agent has it
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// How a person names an agent that is registered.
#[derive(Clone, Debug)]
pub(crate) enum AgentName {
    /// By its instance.
    Instance(InstanceId),
    /// By its URI, or by what is none: who looks for it says that there is no such agent.
    Uri(String),
}

impl FromStr for AgentName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let instance = InstanceId::parse(text).map(Self::Instance);
        Ok(instance.unwrap_or_else(|| Self::Uri(text.to_owned())))
    }
}

fn parse_risk(text: &str) -> Result<Risk, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "it is low, medium, high or very_high".to_owned())
}

fn parse_pattern(text: &str) -> Result<SecretPattern, String> {
    SecretPattern::parse(text).map_err(|error| error.to_string())
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
