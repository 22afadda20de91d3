//! Every part in place: origin and relay as processes of their own, and the ways through them.
//!
//! A benchmark starts itself again for each part, with the part's name as its argument; the child
//! prints where it listens and serves until its stdin ends, which it does when the benchmark is gone.

use std::{
    env, fs,
    io::{self, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{Arc, OnceLock},
};

use keyless_testkit::TestCa;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{
    Result, Subject, keyless, origin,
    process::Child,
    relay::{Log, Relay},
};

/// The origin's name.
pub const ORIGIN: &str = "api.bench.test";
/// What it is called beside.
pub(crate) const NAMES: &str = "*.many.bench.test";

/// One of many names of the origin.
pub fn name(n: usize) -> String {
    format!("n{n}.many.bench.test")
}

/// The relay that keeps a log.
const LOGGING: &str = "logging";

const HTTP1: &[&[u8]] = &[b"http/1.1"];

/// A way to the origin.
#[derive(Clone)]
pub struct Route {
    /// Its name in the tables.
    pub name: &'static str,
    /// What to connect to.
    pub address: SocketAddr,
    /// The header for CONNECT, when it is a proxy.
    pub proxy_authorization: Option<String>,
    /// Trusts the certificate that is met on this way.
    pub tls: Arc<ClientConfig>,
    /// What the client sends as its bearer token.
    pub credential: String,
    /// Whether the origin is to get the value in its stead.
    pub swaps: bool,
}

/// A running origin and relay, and a directory for whatever else there is to start.
pub struct Stage {
    /// Deleted at the end.
    pub directory: TempDir,
    /// Where the origin listens.
    pub origin: SocketAddr,
    origin_process: Child,
    relay: (Child, SocketAddr),
    logging: OnceLock<(Child, SocketAddr)>,
    counts: Option<PathBuf>,
}

impl Stage {
    /// Starts origin and relay.
    pub fn set() -> Result<Self> {
        Self::new(tempfile::tempdir()?, None)
    }

    /// As [`Stage::set`], with the instructions of the relay and of each proxy counted.
    pub fn counted() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let counts = directory.path().to_owned();
        Self::new(directory, Some(counts))
    }

    fn new(directory: TempDir, counts: Option<PathBuf>) -> Result<Self> {
        let (origin_pem, relay_pem) = (pem(&directory, "origin"), pem(&directory, "relay"));
        let (origin_process, origin) = start("origin", [origin_pem.clone()], None)?;
        let of_relay = [relay_pem, origin_pem, PathBuf::from(origin.to_string())];
        let relay = start("relay", of_relay, counts.as_deref())?;
        let logging = OnceLock::new();
        Ok(Self { directory, origin, origin_process, relay, logging, counts })
    }

    /// Where instructions are counted, if they are.
    pub(crate) fn counts(&self) -> Option<&Path> {
        self.counts.as_deref()
    }

    /// The root of the origin's certificate.
    pub fn origin_root(&self) -> PathBuf {
        pem(&self.directory, "origin")
    }

    /// Straight to the origin.
    pub fn direct(&self) -> Result<Subject<'_>> {
        let route = self.route("direct", self.origin, None, "origin")?;
        Ok(Subject { route, process: &self.origin_process })
    }

    /// Through the relay.
    pub fn relay(&self) -> Result<Subject<'_>> {
        self.through(&self.relay, "relay", "relay")
    }

    /// Through a relay that keeps Keyless's log of the requests; started when it is first asked for.
    pub fn logging_relay(&self) -> Result<Subject<'_>> {
        if self.logging.get().is_none() {
            let log = self.directory.path().join("log.db");
            let origin = PathBuf::from(self.origin.to_string());
            let arguments = [pem(&self.directory, LOGGING), self.origin_root(), origin, log];
            let started = start("relay", arguments, self.counts.as_deref())?;
            // Nobody else sets it.
            let _ = self.logging.set(started);
        }
        let relay = self.logging.get().ok_or("it has been started")?;
        self.through(relay, "relay with the log", LOGGING)
    }

    fn through<'a>(
        &self,
        (process, address): &'a (Child, SocketAddr),
        name: &'static str,
        root: &str,
    ) -> Result<Subject<'a>> {
        let authorization = Some("Basic YmVuY2g6YmVuY2g=".to_owned());
        Ok(Subject { route: self.route(name, *address, authorization, root)?, process })
    }

    fn route(
        &self,
        name: &'static str,
        address: SocketAddr,
        proxy_authorization: Option<String>,
        root: &str,
    ) -> Result<Route> {
        let tls = trusting(&pem(&self.directory, root))?;
        let credential = keyless::stand_in();
        Ok(Route { name, address, proxy_authorization, tls, credential, swaps: false })
    }
}

/// A client that trusts the one root in this PEM file and speaks HTTP/1.1.
pub(crate) fn trusting(pem: &PathBuf) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pem)?)?;
    let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = HTTP1.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Plays a part and never returns, if this process was started for one. First thing in `main`.
pub fn play_if_asked() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => Ok(()),
        ["origin", root] => Runtime::new()?.block_on(play_origin(root)),
        ["relay", root, origin_root, origin, ref log @ ..] => {
            Runtime::new()?.block_on(play_relay(root, origin_root, origin.parse()?, log.first()))
        }
        _ => Err("benchmarks take no arguments".into()),
    }
}

async fn play_origin(root: &str) -> Result<()> {
    let ca = TestCa::new();
    let tls = ca.issue(&[ORIGIN, NAMES])?.server_config(HTTP1)?;
    let listener = listen().await?;
    ca.write_pem(root.as_ref())?;
    end_with_stdin();
    println!("{}", listener.local_addr()?);
    origin::serve(listener, tls).await.map(drop)
}

async fn play_relay(
    root: &str,
    origin_root: &str,
    origin: SocketAddr,
    log: Option<&&str>,
) -> Result<()> {
    let ca = TestCa::new();
    let tls = Arc::new(ca.issue(&[ORIGIN])?.server_config(HTTP1)?);
    let log = match log {
        Some(file) => Some(Log::begin(file.as_ref()).await?),
        None => None,
    };
    let relay = Relay { tls, upstream_tls: trusting(&origin_root.into())?, origin, log };
    let listener = listen().await?;
    ca.write_pem(root.as_ref())?;
    end_with_stdin();
    println!("{}", listener.local_addr()?);
    relay.serve(listener).await.map(drop)
}

async fn listen() -> Result<TcpListener> {
    Ok(TcpListener::bind("127.0.0.1:0").await?)
}

/// Ends this process with its parent, whatever became of that.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // Nothing is ever written there; an error is an end as well.
        let _ = io::stdin().read(&mut [0]);
        process::exit(0);
    });
}

fn start<const N: usize>(
    role: &str,
    arguments: [PathBuf; N],
    counts: Option<&Path>,
) -> Result<(Child, SocketAddr)> {
    let program = fs::canonicalize(env::current_exe()?)?;
    let mut command = Command::new(program);
    let child = Child::start_counted(command.arg(role).args(arguments), counts, role)?;
    let address = child.first_line().parse()?;
    Ok((child, address))
}

fn pem(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join(format!("{name}.pem"))
}
