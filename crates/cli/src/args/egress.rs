//! `keyless egress`, and the operator's exact routes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The operator's exact routes and roots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RouteArgs {
    /// Where a destination really is; repeatable
    #[arg(long, value_name = "HOST:PORT=ADDR:PORT", value_parser = parse_route)]
    pub(crate) connect_to: Vec<String>,
    /// A PEM file with a private root for upstream certificates; repeatable
    #[arg(long, value_name = "PEM")]
    pub(crate) extra_root: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// Say what would happen to a request and why, rule by rule; sends nothing
    #[command(after_help = "\
Examples:
  keyless egress explain https://api.github.com/user
  keyless egress explain https://10.0.0.7:8443 --catalog catalog.yaml --json
  keyless egress explain postgres://db.example.com")]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Where the request would go; postgres://HOST:PORT for a login
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

fn parse_route(text: &str) -> Result<String, String> {
    keyless_daemon::parse_route(text).map(|_| text.to_owned())
}
