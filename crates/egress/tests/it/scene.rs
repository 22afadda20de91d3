//! One scene for all tests: an engine with a session, two origins that it has routes to, a secret
//! for one of them, and the ways in.

use std::{
    collections::HashMap,
    future::{pending, ready},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use data_encoding::BASE64;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Binding, Code, Consent, Destination, EgressRule, Error, Held, Locations,
    Permit, Placeholder, PlaceholderForm, SecretPath, SecretValue, SessionKey, Uptime,
    approval::RequestId,
    audit::{
        Action, Agent, Chain, Detail, Draft, Durable, Noted, Outcome, Outline, Target,
        portable_sha256,
    },
};
use keyless_egress::{
    Allowance, Broker, Engine, EngineConfig, Event, Finished, Incident, Kept, Limits, Minted,
    Recording, Released, RequestInfo, Session, SessionSecret, SessionSpec,
};
use keyless_testkit::{Canary, Origin, OriginOptions, TestCa};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long something may take that happens at once on a machine with nothing else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The secret's only destination.
pub(crate) const ALLOWED: &str = "allowed.test";
/// A host that no secret names.
pub(crate) const OTHER: &str = "other.test";

pub(crate) struct Scene {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) proxy: SocketAddr,
    pub(crate) allowed: Origin,
    pub(crate) other: Origin,
    pub(crate) canary: Canary,
    pub(crate) placeholder: String,
    pub(crate) broker: Arc<TestBroker>,
    pub(crate) folder: TempDir,
    /// What the engine was set up with.
    pub(crate) config: EngineConfig,
    /// The session's one secret.
    pub(crate) secret: SessionSecret,
    /// Who vouches for the origins.
    pub(crate) ca: TestCa,
}

/// What a scene is made of; change what a test is about.
pub(crate) struct Setting {
    pub(crate) ca: TestCa,
    pub(crate) allowed: OriginOptions,
    pub(crate) other: OriginOptions,
    pub(crate) destinations: Vec<&'static str>,
    pub(crate) locations: Locations,
    /// What else the secret's rule says.
    pub(crate) rule: fn(EgressRule) -> EgressRule,
    pub(crate) config: EngineConfig,
    pub(crate) allowance: Allowance,
}

impl Default for Setting {
    fn default() -> Self {
        Self::with(TestCa::new())
    }
}

impl Setting {
    pub(crate) fn with(ca: TestCa) -> Self {
        Self {
            allowed: OriginOptions::tls(&ca, &[ALLOWED]),
            other: OriginOptions::tls(&ca, &[OTHER]),
            destinations: vec![ALLOWED],
            locations: Locations::ALL,
            rule: |rule| rule,
            config: EngineConfig::default(),
            allowance: Allowance::default(),
            ca,
        }
    }
}

/// An in-memory broker made of the real chain and permits.
pub(crate) struct TestBroker {
    pub(crate) values: Mutex<HashMap<SecretPath, String>>,
    chain: Mutex<Chain>,
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) releases: Mutex<Vec<RequestInfo>>,
    /// The operator's answer to every question.
    pub(crate) consents: Mutex<bool>,
    /// The operator answers nothing.
    pub(crate) hesitant_operator: Mutex<bool>,
    /// Questions whose client was still there.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// Requests that were asked about, as `METHOD path`.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) finished: Mutex<Vec<Finished>>,
    pub(crate) incidents: Mutex<Vec<Incident>>,
    /// Requests whose path has this word make it panic.
    pub(crate) stumbles_over: Mutex<Option<&'static str>>,
    /// How many minted tokens came to be kept.
    pub(crate) kept: Mutex<usize>,
    /// Nothing about minted tokens comes to be on record.
    pub(crate) log_stands: Mutex<bool>,
    /// How long it takes to release something.
    pub(crate) hesitates: Mutex<Duration>,
    /// How long what was released may be opened.
    pub(crate) permits_last: Mutex<Duration>,
}

pub(crate) struct Answer {
    /// The heads of the interim answers that came before it.
    pub(crate) interim: Vec<String>,
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(Setting::default())
    }

    pub(crate) fn of(setting: Setting) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let allowed = Origin::start(setting.allowed).unwrap();
        let other = Origin::start(setting.other).unwrap();
        let mut config = setting.config;
        config.allowance = setting.allowance;
        config.extra_roots_pem.push(setting.ca.pem().as_bytes().to_vec());
        for (name, origin) in [(ALLOWED, &allowed), (OTHER, &other)] {
            for port in [80, 443] {
                let to = Authority::parse(&origin.address().to_string()).unwrap();
                let from = Authority::parse(&format!("{name}:{port}")).unwrap();
                config.connect_to.entry(from).or_insert(to);
            }
        }
        let canary = Canary::new();
        let path = SecretPath::parse("team/test/token").unwrap();
        let key = SessionKey::from_random([7; 32]);
        let placeholder = Placeholder::derive(&key, &path, &PlaceholderForm::Default);
        let broker = Arc::new(TestBroker {
            values: Mutex::new(HashMap::from([(path.clone(), canary.value().to_owned())])),
            chain: Mutex::new(Chain::genesis()),
            events: Mutex::default(),
            releases: Mutex::default(),
            consents: Mutex::default(),
            hesitant_operator: Mutex::default(),
            waiting: Arc::default(),
            asked: Mutex::default(),
            finished: Mutex::default(),
            incidents: Mutex::default(),
            stumbles_over: Mutex::default(),
            kept: Mutex::default(),
            log_stands: Mutex::default(),
            hesitates: Mutex::default(),
            permits_last: Mutex::new(Duration::from_mins(1)),
        });
        let to = setting.destinations.iter().map(|to| Destination::parse(to).unwrap()).collect();
        let rule = EgressRule { locations: setting.locations, ..EgressRule::to(to) };
        let rule = (setting.rule)(rule);
        let secret = SessionSecret { path, placeholder: placeholder.clone(), rule };
        let spec = SessionSpec {
            id: "session-1".to_owned(),
            secrets: vec![secret.clone()],
            broker: Arc::clone(&broker) as Arc<dyn Broker>,
            ca: None,
            token: None,
        };
        let engine = Engine::new(config.clone()).unwrap();
        engine.log_strangers(Arc::clone(&broker) as _);
        let session = engine.open(spec).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("session.pem"), session.ca_pem()).unwrap();
        std::fs::write(folder.path().join("origin.pem"), setting.ca.pem()).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let proxy = listener.local_addr().unwrap();
        runtime.spawn(Arc::clone(&engine).serve_proxy(listener));
        Self {
            runtime,
            engine,
            session,
            proxy,
            allowed,
            other,
            canary,
            placeholder: placeholder.as_str().to_owned(),
            broker,
            folder,
            config,
            secret,
            ca: setting.ca,
        }
    }

    /// Opens another session, without secrets of its own but named for the same host.
    pub(crate) fn open_session(&self, id: &str) -> Arc<Session> {
        let path = SecretPath::parse("team/test/second").unwrap();
        let key = SessionKey::from_random([8; 32]);
        let secret = SessionSecret {
            placeholder: Placeholder::derive(&key, &path, &PlaceholderForm::Default),
            rule: EgressRule::to(vec![Destination::parse(ALLOWED).unwrap()]),
            path,
        };
        let broker = Arc::clone(&self.broker) as Arc<dyn Broker>;
        let secrets = vec![secret];
        let spec = SessionSpec { id: id.to_owned(), secrets, broker, ca: None, token: None };
        self.engine.open(spec).unwrap()
    }

    /// Reloads the engine with a changed configuration.
    pub(crate) fn reload(&self, change: impl FnOnce(&mut EngineConfig)) {
        let mut config = self.config.clone();
        change(&mut config);
        self.engine.reload(config).unwrap();
    }

    /// Runs curl through the proxy, trusting the session's authority alone.
    pub(crate) fn curl(&self, arguments: &[&str]) -> Answer {
        self.curl_as(&self.session.proxy_credential(), "session.pem", arguments)
    }

    pub(crate) fn curl_as(&self, credential: &str, trust: &str, arguments: &[&str]) -> Answer {
        let output = Command::new("curl")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .args(["--silent", "--show-error", "--max-time", "90", "--include"])
            .args(["--suppress-connect-headers", "--proxy"])
            .arg(format!("http://{credential}@{}", self.proxy))
            .arg("--cacert")
            .arg(self.folder.path().join(trust))
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Answer::parse(&text)
        } else {
            Answer {
                interim: Vec::new(),
                status: 0,
                head: text,
                body: String::from_utf8_lossy(&output.stderr).into_owned(),
            }
        }
    }

    /// Sends a CONNECT and returns its answer's head with the connection.
    pub(crate) fn connect(&self, target: &str) -> (String, TcpStream) {
        let credential = BASE64.encode(self.session.proxy_credential().as_bytes());
        let mut stream = self.plain();
        // In one piece: a proxy that is full answers to the first and closes.
        let head = format!(
            "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: Basic {credential}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_head(&mut stream);
        (head, stream)
    }

    /// A connection to the proxy's own port.
    pub(crate) fn plain(&self) -> TcpStream {
        let stream = TcpStream::connect(self.proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A TLS connection through the proxy to the allowed host.
    pub(crate) fn tls(
        &self,
        name: &str,
        alpn: &[&[u8]],
    ) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
        let (head, stream) = self.connect(&format!("{name}:443"));
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        rustls::StreamOwned::new(self.tls_client(name, alpn), stream)
    }

    pub(crate) fn tls_client(&self, name: &str, alpn: &[&[u8]]) -> rustls::ClientConnection {
        let name = name.to_owned().try_into().unwrap();
        rustls::ClientConnection::new(Arc::new(self.tls_config(alpn)), name).unwrap()
    }

    pub(crate) fn tls_config(&self, alpn: &[&[u8]]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.session.ca_pem().as_bytes()).unwrap())
            .unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut config = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }

    /// Sends bytes verbatim over TLS to the allowed host and returns everything that comes back.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.tls(ALLOWED, &[b"http/1.1"]);
        stream.write_all(bytes).unwrap();
        read_rest(&mut stream)
    }

    /// The codes of everything that was refused so far.
    pub(crate) fn refused(&self) -> Vec<Code> {
        self.broker.events.lock().iter().filter_map(|event| event.code).collect()
    }

    /// Whether a refusal comes to be logged: some are right after what the client sees.
    pub(crate) fn waits_for(&self, code: Code) -> bool {
        comes_true(|| self.refused().contains(&code))
    }

    /// What was refused so far is this and nothing else.
    #[track_caller]
    pub(crate) fn assert_refused(&self, codes: &[Code]) {
        comes_true(|| self.refused().len() >= codes.len());
        assert_eq!(self.refused(), codes);
    }

    /// Nothing that the client or another origin saw has the value.
    pub(crate) fn assert_sealed(&self, answer: &Answer) {
        self.canary
            .assert_absent("the answer", format!("{}{}", answer.head, answer.body).as_bytes());
        self.canary.assert_absent("the other origin", &self.other.everything_received());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Answer {
    /// Reads what curl printed: the last head and the body.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut rest, mut interim) = (text, Vec::new());
        loop {
            let (head, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
            let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
            if (100..200).contains(&status) && status != 101 {
                interim.push(head.to_owned());
                rest = body;
                continue;
            }
            return Self { interim, status, head: head.to_owned(), body: body.to_owned() };
        }
    }

    pub(crate) fn refusal(&self) -> Option<&str> {
        let line = self
            .head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("x-keyless-refused"));
        line.and_then(|line| line.split_once(": ")).map(|(_, code)| code)
    }
}

impl Broker for TestBroker {
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        self.releases.lock().push(request.clone());
        let word = *self.stumbles_over.lock();
        assert!(!word.is_some_and(|word| request.path.contains(word)), "stumbled, as it should");
        let release = |allowed| {
            let draft = Draft {
                at: Timestamp::now(),
                agent: Agent {
                    uri: "nl://keyless.dev/test/0".to_owned(),
                    organization_id: "local".to_owned(),
                    session_id: "session-1".to_owned(),
                    delegated_by: "human:operator".to_owned(),
                }
                .into(),
                action: Action::Egress,
                target: Target::Authority(request.authority.clone()),
                outcome: Outcome::Success,
                secrets_used: Vec::new(),
                correlation_id: request.correlation_id.clone(),
                error_code: None,
                detail: Detail::default(),
                metadata: Noted::default(),
                allowed: Some(allowed),
            };
            let recorded = self
                .chain
                .lock()
                .append(Outline::new(draft, "entry"), portable_sha256, None)
                .recorded(&Durable::after_commit());
            let until = uptime() + *self.permits_last.lock();
            let permit = Permit::from_recorded(recorded, until).expect("the draft was allowed");
            let value = self.values.lock()[permit.path()].clone().into_bytes();
            let is_pem = value.starts_with(b"-----BEGIN ");
            let binding = if is_pem { Binding::Tls } else { Binding::Destinations };
            let value = SecretValue::new(permit.path().clone(), value, binding);
            Arc::new(Released::new(value.expect("canaries are fit"), permit, uptime))
        };
        let hesitates = *self.hesitates.lock();
        Box::pin(async move {
            tokio::time::sleep(hesitates).await;
            Ok(uses.into_iter().map(release).collect())
        })
    }

    fn ask<'a>(
        &'a self,
        request: &'a RequestInfo,
        held: &'a Held,
    ) -> BoxFuture<'a, Result<Consent, Error>> {
        self.asked.lock().push(format!("{} {}", request.method, request.path));
        let answer = if *self.consents.lock() {
            Ok(Consent::to(held, RequestId::parse("prov-010101010101").unwrap()))
        } else {
            Err(Error::with(Code::RuleDenied, "the operator said no".into()))
        };
        let hesitates = *self.hesitant_operator.lock();
        let waits = Waits::of(&self.waiting);
        Box::pin(async move {
            let _waits = waits;
            if hesitates { pending().await } else { answer }
        })
    }

    /// All under the placeholder of the secret that has them sealed.
    fn keep(&self, minted: Minted) -> Result<(Kept, Recording<'_>), Error> {
        *self.kept.lock() += 1;
        let recording: Recording<'_> =
            if *self.log_stands.lock() { Box::pin(pending()) } else { Box::pin(ready(Ok(()))) };
        Ok((Kept { slot: minted.parents[0].clone(), younger: None }, recording))
    }

    fn record(&self, event: Event) -> Result<(), Error> {
        self.events.lock().push(event);
        Ok(())
    }

    fn incident(&self, incident: Incident) {
        self.incidents.lock().push(incident);
    }

    fn finished(&self, finished: Finished) {
        self.finished.lock().push(finished);
    }
}

/// A question, for as long as somebody waits for its answer.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn of(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Limits short enough to wait for.
pub(crate) fn hasty() -> Limits {
    Limits {
        head_time: Duration::from_secs(2),
        preamble_time: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Whether something that nobody is told of comes true while a machine may reasonably be busy with something else.
pub(crate) fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

pub(crate) fn read_rest(stream: &mut impl Read) -> String {
    let mut rest = Vec::new();
    // A connection that is cut without a goodbye ends the text as well.
    let _ = stream.read_to_end(&mut rest);
    String::from_utf8_lossy(&rest).into_owned()
}

/// A clock that nobody sets.
fn uptime() -> Uptime {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Uptime::since_start(START.elapsed())
}
