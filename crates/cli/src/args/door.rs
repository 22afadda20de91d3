//! The doors for agents: `keyless serve` and `keyless mcp`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};

use super::{FactorArgs, parse_time};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// Where HTTP is served; loopback only where there is no TLS
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9741", value_parser = parse_address)]
    pub(crate) http: SocketAddr,
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
    #[arg(long, conflicts_with_all = ["http", "tls_cert", "tls_key", "client_ca", "plaintext_discovery", "window"])]
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
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) http: Option<SocketAddr>,
    /// The bearer credential that a client shows (made, 0600, when it is not there); one among Keyless's own files, whose
    /// place is told, when absent
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) credential_file: Option<PathBuf>,
}

/// `127.0.0.1:9741`, `[::1]:9741` or `localhost:9741`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    match port {
        Some(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        None => text
            .parse()
            .map_err(|_| "give an address and a port, such as 127.0.0.1:9741".to_owned()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_this_machine_by_name() {
        let shown = |text: &str| parse_address(text).map(|address| address.to_string());
        assert_eq!(shown("localhost:0").as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(shown("[::1]:9741").as_deref(), Ok("[::1]:9741"));
        for bad in ["localhost", "localhost:x", "example.com:80", "127.0.0.1"] {
            assert!(shown(bad).is_err_and(|why| why.contains("127.0.0.1:9741")), "{bad}");
        }
    }
}
