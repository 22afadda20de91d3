//! The world of one test: a home with a store, origins on loopback, and a value that nobody on the
//! agent's side may ever see.
//!
//! ```text
//! root/home, work, tmp, run   the agent's side: searched when the test ends
//! root/keyless                the store: searched too
//! root/operator               the operator's own files: passphrase, mounted values, CA; not searched
//! ```

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use keyless_store::Store;
use keyless_testkit::{Canary, Handler, Origin, OriginOptions, ScratchHome, TestCa};
use keyless_vault::{KdfCost, Passphrase, Vault};
use serde_json::Value;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use crate::invocation::{Invocation, Seen};

/// How long a test waits for something that is certain to happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The secret that most tests are about: its path, its variable and its only destination.
pub(crate) const TOKEN: &str = "team/api/token";
pub(crate) const VARIABLE: &str = "TOKEN";
pub(crate) const ALLOWED: &str = "api.allowed.test";
/// A host that no secret names.
pub(crate) const EVIL: &str = "evil.test";

pub(crate) struct World {
    pub(crate) home: ScratchHome,
    pub(crate) ca: TestCa,
    /// The real value of [`TOKEN`].
    pub(crate) canary: Canary,
    /// Everything else that must stay unseen: what opens the store, further values.
    others: RefCell<Vec<Canary>>,
    routes: BTreeMap<String, String>,
    seen: RefCell<Vec<(String, Vec<u8>)>>,
}

impl World {
    /// A home without a store.
    pub(crate) fn empty() -> Self {
        let (home, ca) = (ScratchHome::new().unwrap(), TestCa::new());
        let passphrase = Canary::new();
        home.write("operator/passphrase", format!("{}\n", passphrase.value())).unwrap();
        let others = RefCell::new(vec![passphrase]);
        home.write("operator/ca.pem", ca.pem()).unwrap();
        let (routes, seen) = (BTreeMap::new(), RefCell::default());
        Self { home, ca, canary: Canary::new(), others, routes, seen }
    }

    /// A home with an empty store.
    pub(crate) fn with_store() -> Self {
        let world = Self::empty();
        world.make_store();
        world
    }

    /// What `keyless init` makes, with a passphrase that is cheap to try: a third of all that the tests computed was
    /// the cost of guessing. `init` itself is run by the tests that are about it.
    pub(crate) fn make_store(&self) {
        let phrase = Runtime::new().unwrap().block_on(async {
            let place = self.home.keyless_home().join("store.db");
            let store = Store::create_or_open(&place).await.unwrap();
            let passphrase = fs::read_to_string(self.operator_file("passphrase")).unwrap();
            let passphrase = Passphrase::new(Zeroizing::new(passphrase.trim_end().to_owned()));
            let cost = KdfCost::dangerously_cheap();
            Vault::create_with(store, passphrase, cost).await.unwrap().1
        });
        self.home
            .write("operator/recovery", format!("{}\n", *phrase.expose_to_operator()))
            .unwrap();
    }

    /// A store with [`TOKEN`], which may go to [`ALLOWED`].
    pub(crate) fn with_token() -> Self {
        let world = Self::with_store();
        world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok();
        world
    }

    /// Writes the manifest of the agent's project.
    pub(crate) fn declares(&self, manifest: impl AsRef<[u8]>) -> PathBuf {
        self.home.write("work/.keyless/secrets.toml", manifest).unwrap()
    }

    /// Adds a secret with the canary as its value.
    pub(crate) fn add(&self, path: &str, rule: &[&str]) -> Seen {
        let arguments = [&["secret", "add", path, "--value-stdin"], rule].concat();
        self.keyless(&arguments).stdin(self.canary.value()).run()
    }

    /// An HTTPS origin that echoes, reached at `https://NAME`.
    pub(crate) fn origin(&mut self, name: &str) -> Origin {
        self.origin_with(name, |options| options)
    }

    /// An HTTPS origin that answers with `handler`.
    pub(crate) fn origin_of(&mut self, name: &str, handler: Handler) -> Origin {
        self.origin_with(name, |options| options.handler(handler))
    }

    pub(crate) fn origin_with(
        &mut self,
        name: &str,
        options: impl FnOnce(OriginOptions) -> OriginOptions,
    ) -> Origin {
        let origin = Origin::start(options(OriginOptions::tls(&self.ca, &[name]))).unwrap();
        self.route(&format!("{name}:443"), &origin.address().to_string());
        origin
    }

    /// From now on `HOST:PORT` is really at `ADDR:PORT`.
    pub(crate) fn route(&mut self, from: &str, to: &str) {
        self.routes.insert(from.to_owned(), to.to_owned());
    }

    /// `keyless` with these arguments; the passphrase is in a file that the environment names.
    pub(crate) fn keyless(&self, arguments: &[&str]) -> Invocation<'_> {
        let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
        Invocation::new(self, &arguments)
            .env("KEYLESS_PASSPHRASE_FILE", self.operator_file("passphrase"))
    }

    /// `keyless run -- COMMAND`, with routes to all origins.
    pub(crate) fn agent(&self, command: &[&str]) -> Invocation<'_> {
        self.agent_with(&[], command)
    }

    /// `keyless run -- sh -c SCRIPT`.
    pub(crate) fn agent_sh(&self, script: &str) -> Invocation<'_> {
        self.agent(&["sh", "-c", script])
    }

    /// `keyless run -- python3 -c SCRIPT`.
    pub(crate) fn agent_python(&self, script: &str) -> Invocation<'_> {
        self.agent(&["python3", "-c", script])
    }

    /// `keyless run OPTIONS -- COMMAND`, with routes to all origins.
    pub(crate) fn agent_with(&self, options: &[&str], command: &[&str]) -> Invocation<'_> {
        let routes = self.route_options();
        let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
        self.keyless(&[&["run"], options, &routes[..], &["--"], command].concat())
    }

    /// The routes and the origins' root, as options.
    pub(crate) fn route_options(&self) -> Vec<String> {
        let root = self.operator_file("ca.pem").to_str().unwrap().to_owned();
        let mut options = vec!["--extra-root".to_owned(), root];
        for (from, to) in &self.routes {
            options.extend(["--connect-to".to_owned(), format!("{from}={to}")]);
        }
        options
    }

    /// The routes and the origins' root, in config.toml.
    pub(crate) fn write_config(&self) {
        let root = self.operator_file("ca.pem").display().to_string();
        let mut text = format!("[egress]\nextra_roots = [{root:?}]\n[egress.connect_to]\n");
        for (from, to) in &self.routes {
            writeln!(text, "{from:?} = {to:?}").unwrap();
        }
        self.home.write("keyless/config.toml", text).unwrap();
    }

    /// A file of the operator's.
    pub(crate) fn operator_file(&self, name: &str) -> PathBuf {
        self.home.root().join("operator").join(name)
    }

    /// What somebody who may write the store's file does with Python's sqlite3.
    pub(crate) fn sqlite(&self, statements: &str) {
        self.python_sqlite("db.executescript(sys.argv[2])", statements);
    }

    /// What this query says, one row.
    pub(crate) fn sqlite_says(&self, query: &str) -> String {
        self.python_sqlite("print(*db.execute(sys.argv[2]).fetchone())", query).trim().to_owned()
    }

    fn python_sqlite(&self, act: &str, statements: &str) -> String {
        let script =
            format!("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n{act}\ndb.commit()");
        let store = self.home.keyless_home().join("store.db");
        let mut python = Command::new("python3");
        let output = python.args(["-c", &script]).arg(store).arg(statements).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The store as bytes, with everything in the one file.
    pub(crate) fn store_bytes(&self) -> Vec<u8> {
        self.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
        fs::read(self.home.keyless_home().join("store.db")).unwrap()
    }

    /// Puts these bytes in the store's place.
    pub(crate) fn replace_store(&self, bytes: &[u8]) {
        let store = self.home.keyless_home().join("store.db");
        for leftover in ["store.db-wal", "store.db-shm"] {
            let _ = fs::remove_file(store.with_file_name(leftover));
        }
        fs::write(&store, bytes).unwrap();
    }

    /// All entries of the log, oldest first.
    pub(crate) fn log(&self) -> Vec<Value> {
        let data = self.keyless(&["audit", "tail", "-n", "1000", "--json"]).run().data();
        data["entries"].as_array().unwrap().clone()
    }

    /// The log's entries with this error code.
    pub(crate) fn log_of(&self, code: &str) -> Vec<Value> {
        self.log().into_iter().filter(|entry| entry["error_code"] == code).collect()
    }

    /// A value of the format of GitHub's classic tokens, which nobody may see.
    pub(crate) fn github_token(&self) -> String {
        let text: String =
            Canary::new().value().chars().filter(char::is_ascii_alphanumeric).collect();
        self.watch(Canary::of(format!("ghp_{}", text.repeat(4).split_at(36).0)))
    }

    /// One more value that nobody may see.
    pub(crate) fn another_value(&self) -> String {
        self.watch(Canary::new())
    }

    /// From now on nobody may see this either.
    pub(crate) fn watch(&self, canary: Canary) -> String {
        let value = canary.value().to_owned();
        self.others.borrow_mut().push(canary);
        value
    }

    /// Notes bytes of the agent's side, to be searched when the test ends.
    pub(crate) fn saw(&self, what: &str, bytes: &[u8]) {
        self.seen.borrow_mut().push((what.to_owned(), bytes.to_vec()));
    }

    /// The request with the value reached this origin.
    #[track_caller]
    pub(crate) fn assert_received(&self, origin: &Origin) {
        let found = self.canary.find(&origin.everything_received());
        assert!(found.is_some(), "the origin got no value: {:?}", origin.requests());
    }

    /// This origin got something, and nothing of the value.
    #[track_caller]
    pub(crate) fn assert_received_placeholder_only(&self, origin: &Origin) {
        let received = origin.everything_received();
        self.canary.assert_absent("what the origin received", &received);
        let text = String::from_utf8_lossy(&received);
        assert!(text.contains("kloak_"), "no placeholder arrived: {text}");
    }

    fn search(&self) {
        for canary in self.others.borrow().iter().chain([&self.canary]) {
            for (what, bytes) in self.seen.borrow().iter() {
                canary.assert_absent(what, bytes);
            }
            for folder in ["home", "keyless", "run", "tmp", "work"] {
                canary.assert_absent_under(&self.home.root().join(folder));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let socket = self.home.keyless_home().join("run/agent.sock");
        if socket.exists() {
            self.keyless(&["lock"]).run();
            wait_until("the broker is gone", || !socket.exists());
        }
        if !thread::panicking() {
            self.search();
        }
    }
}

/// Where npm puts what `cargo xtask setup` installed.
pub(crate) fn global_packages() -> String {
    let root = Command::new("npm").args(["root", "-g"]).output().unwrap();
    String::from_utf8(root.stdout).unwrap().trim().to_owned()
}

/// Polls until `done`; fails the test when it never comes true.
#[track_caller]
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[should_panic(expected = "the canary is in stdout: hex")]
fn the_search_finds_what_a_command_printed() {
    let world = World::empty();
    let script = "od -An -tx1 | tr -d ' \\n'";
    let leaking = world.agent_with(&["--no-secrets"], &["sh", "-c", script]);
    leaking.stdin(world.canary.value()).run();
}

#[test]
#[should_panic(expected = "the canary is in /")]
fn the_search_finds_what_an_agent_wrote() {
    let world = World::empty();
    world.home.write("work/notes.txt", world.canary.value()).unwrap();
}
