//! The fleet's sidecar, its placeholders, and the forwarder beside it.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use keyless_core::SessionId;
use keyless_daemon::{FleetListen, ForwardListen, Link};

use super::{RouteArgs, parse_time};

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
    /// Lines of NAME=placeholder, as without it, or one JSON object
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<PlaceholderFormat>,
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

#[cfg(test)]
mod tests {
    use super::*;

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
