//! Other proxies that decrypt and swap: mitmproxy with a script, and hudsucker with a program of a few
//! lines (`benches/hudsucker`). `cargo xtask bench` installs both and says where they are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result, Route, Stage, Subject,
    keyless::{stand_in, value},
    process::Child,
    roles::trusting,
};

const MITMPROXY: &str = "KEYLESS_BENCH_MITMDUMP";
const HUDSUCKER: &str = "KEYLESS_BENCH_HUDSUCKER";

/// What mitmproxy is told: where the origin is, what is swapped in which header, and that bodies pass as
/// they come, which is how it does best.
const SCRIPT: &str = r#"
import os
from mitmproxy import ctx

host, port = os.environ["ORIGIN"].rsplit(":", 1)
placeholder, value = os.environ["PLACEHOLDER"], os.environ["VALUE"]


class Swap:
    def running(self):
        (address, port), *_ = ctx.master.addons.get("proxyserver").listen_addrs()
        print(f"{address}:{port}", flush=True)

    def server_connect(self, data):
        data.server.address = (host, int(port))

    def requestheaders(self, flow):
        header = flow.request.headers.get("authorization", "")
        if placeholder in header:
            flow.request.headers["authorization"] = header.replace(placeholder, value)
        flow.request.stream = True

    def responseheaders(self, flow):
        flow.response.stream = True


addons = [Swap()]
"#;

/// Another proxy, running.
pub struct Peer {
    route: Route,
    process: Child,
}

impl Peer {
    /// The peers that are installed.
    pub fn all(stage: &Stage) -> Result<Vec<Self>> {
        let mut peers = Vec::new();
        if let Some(program) = env::var_os(MITMPROXY) {
            peers.push(Self::mitmproxy(stage, &PathBuf::from(program))?);
        }
        if let Some(program) = env::var_os(HUDSUCKER) {
            peers.push(Self::hudsucker(stage, &PathBuf::from(program))?);
        }
        Ok(peers)
    }

    fn mitmproxy(stage: &Stage, program: &Path) -> Result<Self> {
        let folder = stage.directory.path().join("mitmproxy");
        fs::create_dir_all(&folder)?;
        let script = folder.join("swap.py");
        fs::write(&script, SCRIPT)?;
        let mut command = Command::new(program);
        command.args(["--quiet", "--listen-host", "127.0.0.1", "--listen-port", "0"]);
        command.arg("--scripts").arg(&script);
        let trusted = stage.origin_root();
        let settings = [("confdir", &folder), ("ssl_verify_upstream_trusted_ca", &trusted)];
        for (name, path) in settings {
            command.arg("--set").arg(format!("{name}={}", path.display()));
        }
        swapping(&mut command, stage);
        Self::start("mitmproxy", &mut command, &folder.join("mitmproxy-ca-cert.pem"))
    }

    fn hudsucker(stage: &Stage, program: &Path) -> Result<Self> {
        let pem = stage.directory.path().join("hudsucker.pem");
        let mut command = Command::new(program);
        command.arg(stage.origin_root()).arg(&pem);
        swapping(&mut command, stage);
        Self::start("hudsucker", &mut command, &pem)
    }

    fn start(name: &'static str, command: &mut Command, ca: &PathBuf) -> Result<Self> {
        let process = Child::start(command)?;
        let Ok(address) = process.first_line().parse() else {
            return Err(format!("{name}: {}", process.last_words()).into());
        };
        let route = Route {
            name,
            address,
            proxy_authorization: Some("Basic YmVuY2g6YmVuY2g=".to_owned()),
            tls: trusting(ca)?,
            credential: stand_in(),
            swaps: true,
        };
        Ok(Self { route, process })
    }

    /// As a subject of measurement.
    pub fn subject(&self) -> Subject<'_> {
        Subject { route: self.route.clone(), process: &self.process }
    }
}

fn swapping(command: &mut Command, stage: &Stage) {
    command.env("ORIGIN", stage.origin.to_string());
    command.env("PLACEHOLDER", stand_in()).env("VALUE", value(0));
}
