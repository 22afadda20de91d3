//! A node of a fleet: the sidecar with its mounted value, and one forwarder for each guest.

use std::{path::PathBuf, process::Command};

use serde_json::Value;

use crate::{invocation::Background, proxy::CATALOG, world::World};

/// Where the sidecar takes forwarders, below the world's root.
const DOOR: &str = "run/forward.sock";

/// What a guest's funnel and a client in it do together: a preamble, then TLS, then one request with
/// the token. Prints the answer, or the error's name.
const GUEST: &str = r"
import socket, ssl, sys
path, ca, token, preamble, host = sys.argv[1:]
raw = socket.socket(socket.AF_UNIX)
raw.settimeout(30)
raw.connect(path)
try:
    raw.sendall(preamble.encode().decode('unicode_escape').encode())
    context = ssl.create_default_context(cafile=ca)
    if host == 'evil.test':
        context = ssl._create_unverified_context()
    tls = context.wrap_socket(raw, server_hostname=host)
    tls.sendall(f'GET / HTTP/1.1\r\nHost: {host}\r\nX-Key: {token}\r\nConnection: close\r\n\r\n'.encode())
    answer = b''
    while chunk := tls.recv(65536):
        answer += chunk
    print(answer.decode())
except OSError as error:
    print(type(error).__name__)
";

/// The sidecar, as an operator starts it.
pub(crate) struct Node<'w> {
    world: &'w World,
    pub(crate) sidecar: Background<'w>,
    pub(crate) ready: Value,
}

/// A forwarder, and the socket that a hypervisor connects to for one guest.
pub(crate) struct Forwarder<'w> {
    world: &'w World,
    pub(crate) process: Background<'w>,
    pub(crate) socket: PathBuf,
    ca: PathBuf,
}

impl<'w> Node<'w> {
    /// A sidecar that takes forwarders on a Unix socket.
    pub(crate) fn start(world: &'w World) -> Self {
        let door = format!("forward:unix:{}", world.home.root().join(DOOR).display());
        Self::start_with(world, &["--listen", &door])
    }

    pub(crate) fn start_with(world: &'w World, more: &[&str]) -> Self {
        world.home.write("operator/catalog.yaml", CATALOG).unwrap();
        world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
        let place = |name: &str| world.operator_file(name).display().to_string();
        let (mounted, ca, ca_key) =
            (place("mounted"), place("fleet-ca.pem"), place("fleet-ca.key"));
        let (catalog, key, routes) = (place("catalog.yaml"), place("key"), world.route_options());
        let files = ["--catalog", &catalog, "--secrets-dir", &mounted, "--key-file", &key];
        let authority = ["--ca-cert", &ca, "--ca-key", &ca_key];
        let mut arguments = vec!["proxy", "--json"];
        arguments.extend(files.iter().chain(&authority).chain(more));
        arguments.extend(routes.iter().map(String::as_str));
        let mut sidecar = world.keyless(&arguments).start();
        let ready = serde_json::from_str(&sidecar.line()).unwrap();
        Self { world, sidecar, ready }
    }

    /// What an orchestrator puts into a guest's environment at assign time.
    pub(crate) fn placeholder(&self, session: &str) -> String {
        let place = |name: &str| self.world.operator_file(name).display().to_string();
        let (catalog, key) = (place("catalog.yaml"), place("key"));
        let files = ["--catalog", &catalog, "--key-file", &key];
        let arguments = [&["placeholders", "--session", session][..], &files].concat();
        let text = self.world.keyless(&arguments).run().ok();
        text.trim().strip_prefix("API_TOKEN=").unwrap().to_owned()
    }

    /// A forwarder for the guest of `session`.
    pub(crate) fn forwarder(&self, session: &str) -> Forwarder<'w> {
        let door = format!("unix:{}", self.world.home.root().join(DOOR).display());
        self.forwarder_to(session, &["--to", &door])
    }

    pub(crate) fn forwarder_to(&self, session: &str, to: &[&str]) -> Forwarder<'w> {
        let socket = self.world.home.root().join(format!("run/{session}.sock_1025"));
        let listen = format!("unix:{}", socket.display());
        let arguments = ["forward", "--json", "--listen", &listen, "--session", session];
        let mut process = self.world.keyless(&[&arguments[..], to].concat()).start();
        let ready: Value = serde_json::from_str(&process.line()).unwrap();
        assert_eq!((&ready["session"], &ready["listening"][0]), (&session.into(), &listen.into()));
        Forwarder { world: self.world, process, socket, ca: self.ca() }
    }

    /// The certificate that is baked into guests.
    pub(crate) fn ca(&self) -> PathBuf {
        self.world.operator_file("fleet-ca.pem")
    }
}

impl Forwarder<'_> {
    /// A guest's request to `host` with `token` in a header; what the guest sees.
    pub(crate) fn get(&self, host: &str, token: &str) -> String {
        self.get_with_preamble(host, token, &format!("{host}:443\\n"))
    }

    pub(crate) fn get_with_preamble(&self, host: &str, token: &str, preamble: &str) -> String {
        let mut python = Command::new("python3");
        python.args(["-c", GUEST]).arg(&self.socket).arg(&self.ca).args([token, preamble, host]);
        let output = python.env_clear().envs(self.world.home.environment()).output().unwrap();
        self.world.saw("the guest's stdout", &output.stdout);
        self.world.saw("the guest's stderr", &output.stderr);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What its process holds in memory.
    pub(crate) fn memory(&self) -> Vec<u8> {
        self.process.memory().unwrap()
    }
}
