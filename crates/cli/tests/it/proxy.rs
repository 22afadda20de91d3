//! `keyless proxy`: the fleet's sidecar, with curl and a guest's forwarder as its clients.

use std::{fs, process::Command};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    invocation::{Background, KEYLESS},
    world::{ALLOWED, EVIL, World, wait_until},
};

pub(crate) const CATALOG: &str = "\
apiVersion: keyless.dev/v1alpha1
kind: SecretProxy
spec:
  secrets:
    - env: API_TOKEN
      secretRef: { name: api, key: token }
      egressTo: [api.allowed.test]
";

/// A running sidecar with one secret, and what it said when it was ready.
pub(crate) struct Sidecar<'w> {
    world: &'w World,
    pub(crate) process: Background<'w>,
    pub(crate) ready: Value,
}

impl<'w> Sidecar<'w> {
    fn start(world: &'w World) -> Self {
        world.home.write("operator/catalog.yaml", CATALOG).unwrap();
        world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
        Self::start_with(world, &[])
    }

    /// With a catalog and values that are there already; stderr goes to the operator's file `log`.
    pub(crate) fn start_with(world: &'w World, options: &[&str]) -> Self {
        let socket = format!("unix:{}", world.home.root().join("run/guest.sock").display());
        let place = |name: &str| world.operator_file(name).display().to_string();
        let (catalog, mounted, key) = (place("catalog.yaml"), place("mounted"), place("key"));
        let routes = world.route_options();
        let mut arguments = vec![
            "proxy",
            "--json",
            "--catalog",
            &catalog,
            "--secrets-dir",
            &mounted,
            "--key-file",
            &key,
            "--session",
            "thread-7",
            "--listen",
            "127.0.0.1:0",
            "--listen",
            &socket,
        ];
        arguments.extend(routes.iter().map(String::as_str));
        arguments.extend(options);
        let log = world.operator_file("log").display().to_string();
        let script = "exec 2>\"$1\"; shift; exec \"$@\"";
        let whole = [&["sh", "-c", script, "sh", &log, KEYLESS][..], &arguments].concat();
        let mut process = world.keyless(&[]).instead(&whole).start();
        let ready = serde_json::from_str(&process.line()).unwrap();
        Self { world, process, ready }
    }

    pub(crate) fn word(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    /// What an orchestrator puts into the guest's environment.
    pub(crate) fn placeholder(&self) -> String {
        let catalog = self.world.operator_file("catalog.yaml").display().to_string();
        let placeholders = |form: &[&str]| {
            let arguments = ["placeholders", "--catalog", &catalog, "--session", "thread-7"];
            let key = ["--key-file", self.word("key_file")];
            self.world.keyless(&[&arguments[..], &key, form].concat()).run()
        };
        let object = placeholders(&["--format", "json"]).json();
        let placeholder = object["API_TOKEN"].as_str().unwrap().to_owned();
        let lines = placeholders(&["--format", "env"]).ok();
        assert_eq!(lines, format!("API_TOKEN={placeholder}\n"));
        assert_eq!(placeholders(&[]).ok(), lines);
        assert_eq!(placeholders(&["--json"]).data()["placeholders"], object);
        placeholders(&["--json", "--format", "env"]).exits(2);
        placeholder
    }

    /// A client outside: curl by the proxy's URL, or Python over the socket.
    pub(crate) fn client(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(self.world.home.environment());
        let output = command.output().unwrap();
        self.world.saw("a client's stdout", &output.stdout);
        self.world.saw("a client's stderr", &output.stderr);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text + &String::from_utf8_lossy(&output.stderr)
    }

    pub(crate) fn curl(&self, proxy: &str, arguments: &[&str]) -> String {
        let common = ["-sS", "-i", "-x", proxy, "--cacert", self.word("ca")];
        self.client("curl", &[&common, arguments].concat())
    }
}

#[test]
fn an_explicit_proxy_swaps() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = Sidecar::start(&world);
    let listening = sidecar.ready["listening"].as_array().unwrap();
    assert_eq!(listening.len(), 2, "{listening:?}");
    assert!(listening[1].as_str().unwrap().starts_with("unix:/"), "{listening:?}");
    let header = format!("authorization: Bearer {}", sidecar.placeholder());
    let url = sidecar.word("proxy_url");
    assert!(url.starts_with("http://thread-7:"), "{url}");
    let answer = sidecar.curl(url, &["-H", &header, "https://api.allowed.test/"]);
    assert!(answer.contains(&header), "{answer}");
    let expected = format!("Bearer {}", world.canary.value());
    assert_eq!(origin.requests()[0].header("authorization"), Some(expected));
}

#[test]
fn a_wrong_credential_is_407() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = Sidecar::start(&world);
    let address = sidecar.ready["listening"][0].as_str().unwrap();
    for who in ["", "thread-7:wrong@", "thread-8:wrong@"] {
        let proxy = format!("http://{who}{address}");
        let answer = sidecar.curl(&proxy, &["https://api.allowed.test/"]);
        assert!(answer.starts_with("HTTP/1.1 407"), "{who} {answer}");
        assert!(
            answer.to_lowercase().contains("x-keyless-refused: proxy_auth_required"),
            "{answer}"
        );
    }
    assert_eq!(origin.connections().len(), 0);
}

/// What a microVM's forwarder does: `host:port\n`, then TLS, over the Unix socket.
#[test]
fn the_preamble_door_swaps() {
    let mut world = World::empty();
    let (origin, evil) = (world.origin(ALLOWED), world.origin(EVIL));
    let sidecar = Sidecar::start(&world);
    let script = r"
import socket, ssl, sys
path, ca, token = sys.argv[1:]
for host, roots in (('api.allowed.test', ca), ('evil.test', None)):
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(30)
    raw.connect(path)
    raw.sendall(host.encode() + b':443\n')
    context = ssl.create_default_context(cafile=roots)
    if roots is None:
        context = ssl._create_unverified_context()
    tls = context.wrap_socket(raw, server_hostname=host)
    tls.sendall(f'GET / HTTP/1.1\r\nHost: {host}\r\nX-Key: {token}\r\nConnection: close\r\n\r\n'.encode())
    answer = b''
    while chunk := tls.recv(65536):
        answer += chunk
    print(answer.decode())
";
    let placeholder = sidecar.placeholder();
    let socket = world.home.root().join("run/guest.sock").display().to_string();
    let arguments = ["-c", script, &socket, sidecar.word("ca"), &placeholder];
    let answers = sidecar.client("python3", &arguments);
    assert_eq!(answers.matches("200 OK").count(), 2, "{answers}");
    assert_eq!(origin.requests()[0].header("x-key"), Some(world.canary.value().to_owned()));
    assert_eq!(evil.requests()[0].header("x-key"), Some(placeholder));
}

#[test]
fn a_rotated_mount_is_taken_up_and_the_end_is_clean() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let mut sidecar = Sidecar::start(&world);
    let header = format!("X-Key: {}", sidecar.placeholder());
    let fresh = world.another_value();
    world.home.write("operator/mounted/api/token", &fresh).unwrap();
    let log = world.operator_file("log");
    wait_until("it is taken up", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.to_lowercase().contains("reloaded"))
    });
    sidecar.curl(sidecar.word("proxy_url"), &["-H", &header, "https://api.allowed.test/"]);
    assert_eq!(origin.requests()[0].header("x-key"), Some(fresh));
    sidecar.process.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().code(), Some(0));
    assert!(!world.home.root().join("run/guest.sock").exists());
    let kinds: Vec<_> = world.log().iter().map(|entry| entry["action"].clone()).collect();
    // The server echoes, which is an incident.
    assert_eq!(kinds, ["session_start", "egress", "incident", "egress", "session_end"]);
}

#[test]
fn placeholders_do_not_change_with_the_process() {
    let world = World::empty();
    let first = Sidecar::start(&world).placeholder();
    assert_eq!(Sidecar::start(&world).placeholder(), first);
    fs::remove_file(world.operator_file("key")).unwrap();
    assert_ne!(Sidecar::start(&world).placeholder(), first);
}
