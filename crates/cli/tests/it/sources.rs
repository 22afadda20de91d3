//! Sources beside the store, each with its real program or a server of its documented interface:
//! a value that is kept there reaches the origin and nobody else.

mod kept;
mod plugins;
mod programs;
mod told;
mod variables;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use keyless_testkit::Canary;
use serde_json::json;

use crate::world::{ALLOWED, TOKEN, VARIABLE, World, global_packages, wait_until};

const USE: &str = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;

/// The key-value engine version 2 and AppRole, as their documentation has them.
const KV2: &str = r#"
import json, sys, http.server
store, token, namespace = {}, sys.argv[1], "team-a"
class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, status, body=None):
        text = json.dumps(body or {"errors": []}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def body(self):
        return json.loads(self.rfile.read(int(self.headers["content-length"])))
    def allowed(self):
        ours = self.headers["x-vault-namespace"] == namespace
        return ours and self.headers["x-vault-token"] in (token, "by-approle")
    def do_GET(self):
        if self.path == "/v1/sys/health":
            return self.answer(200, {"initialized": True, "sealed": False})
        if not self.allowed():
            return self.answer(403)
        if self.path == "/v1/auth/token/lookup-self":
            return self.answer(200, {"data": {}})
        if self.path.startswith("/v1/kv/metadata/") and self.path.endswith("?list=true"):
            return self.list(self.path[len("/v1/kv/metadata/"):-len("?list=true")])
        versions = store.get(self.path)
        if not versions:
            return self.answer(404)
        # The last version may be deleted: then there is metadata, under 404.
        gone = versions[-1] is None
        data = {"data": versions[-1], "metadata": {"version": len(versions), "destroyed": False}}
        self.answer(404 if gone else 200, {"request_id": "r", "lease_duration": 0, "data": data})
    def list(self, folder):
        below = "/v1/kv/data/" + folder
        if folder == "closed/":
            return self.answer(403)
        rest = [path[len(below):] for path in store if path.startswith(below)]
        keys = sorted({first + slash for first, slash, _ in (path.partition("/") for path in rest)})
        self.answer(200, {"data": {"keys": keys}}) if keys else self.answer(404)
    def do_DELETE(self):
        store[self.path].append(None) if self.allowed() else None
        self.answer(204)
    def do_POST(self):
        if self.path == "/v1/auth/approle/login":
            login = self.body()
            right = login == {"role_id": "role", "secret_id": token}
            auth = {"client_token": "by-approle", "lease_duration": 3600}
            return self.answer(200, {"auth": auth}) if right else self.answer(400)
        if not self.allowed():
            return self.answer(403)
        sent, versions = self.body(), store.setdefault(self.path, [])
        if sent.get("options", {}).get("cas", len(versions)) != len(versions):
            return self.answer(400)
        versions.append(sent["data"])
        self.answer(200, {"data": {"version": len(versions)}})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// `op`, as far as reading goes: its arguments, its output, its complaints.
const OP: &str = r#"#!/bin/sh
[ "$OP_SERVICE_ACCOUNT_TOKEN" = "OPTOKEN" ] || { echo "[ERROR] account is not currently signed in" >&2; exit 1; }
[ -z "$HOME_LEAK" ] || exit 9
case "$1 $2 $3" in
  "whoami  ") echo "URL: https://my.1password.com" ;;
  "read --no-newline op://Team/api/token") printf %s "OPVALUE" ;;
  "read --no-newline op://Team/gone/a") echo "[ERROR] could not read secret '$3': could not find item gone in vault Team" >&2; exit 1 ;;
  "read --no-newline op://Team/gone/b") echo "[ERROR] could not read secret '$3': no item found" >&2; exit 1 ;;
  "read --no-newline "*) echo "[ERROR] \"x\" isn't an item in the \"Team\" vault" >&2; exit 1 ;;
  *) echo "[ERROR] unknown command" >&2; exit 1 ;;
esac
"#;

/// A child that ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Runs a Python script that prints the port that it listens on.
    fn python(world: &World, script: &str, arguments: &[&str]) -> Self {
        let file = world.operator_file("server.py");
        fs::write(&file, script).unwrap();
        let mut child = Command::new("python3")
            .arg(&file)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap(), child }
    }

    /// What somebody else does there, past Keyless.
    fn vault(&self, method: &str, place: &str, token: &str, body: &str) {
        let url = format!("http://127.0.0.1:{}/v1/kv/data/{place}", self.port);
        let token = format!("x-vault-token: {token}");
        let words = [
            "-fsS",
            "-X",
            method,
            "-H",
            &token,
            "-H",
            "x-vault-namespace: team-a",
            "-d",
            body,
            &url,
        ];
        assert!(Command::new("curl").args(words).stdout(Stdio::null()).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn sources(world: &World, text: &str) {
    world.home.write("keyless/sources.toml", text).unwrap();
}

fn add_routed(world: &World, source: &str) {
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--source", source];
    world.keyless(&add).run().ok();
}

/// Adds a secret of the store, such as a source's credential.
fn add_local(world: &World, path: &str, value: &str) {
    let add = ["secret", "add", path, "--value-stdin", "--allow-weak"];
    world.keyless(&add).stdin(value).run().ok();
}

pub(crate) fn state(world: &World, name: &str) -> serde_json::Value {
    let listed = world.keyless(&["source", "list", "--json"]).run().data();
    let declared = listed["declared"].as_array().unwrap().clone();
    declared.into_iter().find(|source| source["name"] == name).unwrap()
}

pub(crate) fn executable(path: &Path, text: &str) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
}

/// Three places, which call what they keep by the same name: each secret's value comes from its own, at each use, and
/// where one of them is gone the others give theirs.
#[test]
fn several_sources_are_each_asked_for_their_own() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let token = world.another_value();
    let [first, second, here] = [(); 3].map(|()| world.another_value());
    let servers = [&first, &second].map(|value| {
        let server = Server::python(&world, KV2, &[&token]);
        let body = format!("{{\"data\":{{\"value\":\"{value}\"}}}}");
        server.vault("POST", "api/token", &token, &body);
        server
    });
    add_local(&world, "sources/both/token", &token);
    let declared = |name: &str, server: &Server| {
        format!(
            "[[source]]\nname = \"{name}\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{}\"\nmount = \"kv\"\n\
             namespace = \"team-a\"\n[[route]]\nprefix = \"{name}/\"\nsource = \"{name}\"\n",
            server.port
        )
    };
    let credentials =
        "[source_credentials]\none = \"sources/both/token\"\ntwo = \"sources/both/token\"\n";
    let [one, two] = servers;
    sources(&world, &(declared("one", &one) + &declared("two", &two) + credentials));
    let add = |path: &str, variable: &str| {
        let words = ["secret", "add", path, "--to", ALLOWED, "--env", variable];
        world.keyless(&[&words[..], &["--source", "routed"]].concat()).run().ok();
    };
    add("one/api/token", "ONE");
    add("two/api/token", "TWO");
    let own = ["secret", "add", "here/api/token", "--to", ALLOWED, "--env", "HERE"];
    let own = [&own[..], &["--value-stdin"]].concat();
    world.keyless(&own).stdin(&here[..]).run().ok();
    let script = r#"for value in "$ONE" "$TWO" "$HERE"; do curl -sS -o /dev/null -w '%{http_code} ' -H "X: $value" https://api.allowed.test/; done"#;
    let secrets = ["one/api/token", "two/api/token", "here/api/token"];
    let given: Vec<&str> = secrets.iter().flat_map(|path| ["--secret", path]).collect();
    let used = || world.agent_with(&given, &["sh", "-c", script]).run();
    assert_eq!(used().ok(), "200 200 200 ");
    let arrived = || origin.requests().iter().filter_map(|one| one.header("x")).collect::<Vec<_>>();
    assert_eq!(arrived(), [&first[..], &second, &here]);
    // One is given another value, past Keyless, and the other goes away.
    let newer = world.another_value();
    let body = format!("{{\"data\":{{\"value\":\"{newer}\"}}}}");
    one.vault("POST", "api/token", &token, &body);
    drop(two);
    let seen = used().text();
    assert!(
        seen.starts_with("200 ") && seen.ends_with(" 200 ") && seen != "200 200 200 ",
        "{seen}"
    );
    assert_eq!(arrived()[3..], [&newer[..], &here]);
}

/// A sidecar mounts the token and renews it: one step, from a source that is asked with nothing, and no second one.
#[test]
fn a_credential_may_come_from_a_source_that_needs_none() {
    let world = World::with_store();
    let (token, value) = (world.another_value(), world.another_value());
    let server = Server::python(&world, KV2, &[&token]);
    let body = format!("{{\"data\":{{\"value\":\"{value}\"}}}}");
    server.vault("POST", "api/token", &token, &body);
    let folder = world.operator_file("mount");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tok"), &token).unwrap();
    let declare = |mounted: &str| {
        let text = format!(
            "[[source]]\nname = \"mnt\"\n{mounted}\n[[route]]\nprefix = \"creds/v/\"\nsource = \"mnt\"\n\
             [[source]]\nname = \"corp\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{}\"\nmount = \"kv\"\n\
             namespace = \"team-a\"\ncache_ttl_seconds = 0\n[[route]]\nprefix = \"team/\"\nsource = \"corp\"\n\
             [source_credentials]\ncorp = \"creds/v/tok\"\n",
            server.port
        );
        sources(&world, &text);
    };
    declare(&format!("type = \"files\"\nfolder = {folder:?}"));
    world.keyless(&["secret", "add", "creds/v/tok", "--source", "routed"]).run().ok();
    add_routed(&world, "routed");
    let check = || world.keyless(&["source", "check", TOKEN]).run();
    check().ok();
    let doctor = || world.keyless(&["doctor"]).run().text();
    assert!(!doctor().contains("sources.credentials"), "{}", doctor());
    assert_eq!(state(&world, "corp")["state"], json!("available"));
    // It is asked for at each use.
    fs::write(folder.join("tok"), "another-token").unwrap();
    check().exits(1);
    fs::write(folder.join("tok"), &token).unwrap();
    check().ok();
    // One that has a credential itself is not asked for another's.
    declare("type = \"1password\"\nprogram = \"/bin/true\"");
    assert!(check().exits(1).text().contains("asked with no secret"), "{}", check().text());
    assert!(doctor().contains("is kept at a source itself"), "{}", doctor());
}

#[test]
fn hashicorp_vault_by_token_and_by_approle() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let token = world.another_value();
    let server = Server::python(&world, KV2, &[&token]);
    add_local(&world, "sources/corp/token", &token);
    add_routed(&world, "routed");
    let declare = |more: &str| {
        sources(
            &world,
            &format!(
                "schema_version = 1\n[[source]]\nname = \"corp\"\ntype = \"vault\"\n\
                 addr = \"http://127.0.0.1:{}\"\nmount = \"kv\"\nnamespace = \"team-a\"\n\
                 cache_ttl_seconds = 0\n{more}\n[[route]]\nprefix = \"team/\"\nsource = \"corp\"\n\
                 [source_credentials]\ncorp = \"__sources/corp/token\"\n",
                server.port
            ),
        );
    };
    // Read alone is the rule; writing has to be allowed.
    declare("");
    let rotate = |value: &str| {
        let words = ["secret", "rotate", TOKEN, "--value-stdin", "--json"];
        world.keyless(&words).stdin(value).run()
    };
    let refused = rotate(world.canary.value());
    assert!(refused.exits(2).text().contains("may only read"), "{}", refused.text());
    world.keyless(&["source", "check"]).run().exits(1);
    declare("access = \"readwrite\"");
    assert_eq!(rotate(world.canary.value()).data()["version"], json!(null), "it is the source's");
    assert_eq!(state(&world, "corp")["state"], json!("available"));
    let may = json!(["read", "list", "write", "rotate", "audit"]);
    assert_eq!(state(&world, "corp")["effective"], may);
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    // Keys are told folder by folder, fields are those of a secret, and a folder that the policy closes hides no other.
    // What was deleted is written over, counting on from there.
    for place in ["deep/er/one", "closed/two"] {
        let body = format!("{{\"data\":{{\"value\":\"{}\"}}}}", world.canary.value());
        server.vault("POST", place, &token, &body);
    }
    let held = |words: &[&str]| {
        let browse = [&["source", "browse", "corp", "--json"], words].concat();
        world.keyless(&browse).run().data()["held"].clone()
    };
    let one = |reference: &str, path: Option<&str>| json!({ "reference": reference, "name": null, "path": path });
    let (token_there, deep) = (one("api/token", Some(TOKEN)), one("deep/er/one", None));
    assert_eq!(held(&[]), json!([token_there, deep]));
    declare("access = \"readwrite\"\nbrowse_below = \"/deep\"");
    assert_eq!(held(&[]), json!([deep]));
    server.vault("DELETE", "api/token", &token, "");
    let missing = world.keyless(&["source", "check", TOKEN]).run();
    assert!(missing.exits(1).text().contains("has no value"), "{}", missing.text());
    rotate(world.canary.value()).data();
    declare("access = \"read\"\nrole_id = \"role\"");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(world.canary.value().into()));
    // References may name it by its place there, by the source's name or by what its kind is usually called.
    let both =
        "curl -H 'A: {{nl:vault://api/token}}' -H 'B: {{nl:corp://api/token}}' https://x.test/";
    let found = world.keyless(&["exec", "--dry-run", "--", both]).run().ok();
    assert!(found.contains("Secrets: vault://api/token\n"), "one place, named once: {found}");
    world.keyless(&["exec", "--dry-run", "--", "true {{nl:vault://api/other}}"]).run().exits(3);
    world.keyless(&["exec", "--dry-run", "--", "true {{nl:none://api/token}}"]).run().exits(4);
    // Nothing of it is in the store.
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!((&shown["version"], &shown["source"]), (&json!(null), &json!("routed")));
    let wrong = ["secret", "rotate", "sources/corp/token", "--value-stdin", "--allow-weak"];
    world.keyless(&wrong).stdin(world.another_value()).run().ok();
    assert_eq!(state(&world, "corp")["state"], json!("locked"));
    // Listing is no contact; what the agent's use came to stands there until a value is asked for again.
    assert_eq!(state(&world, "corp")["last_contact"]["outcome"], json!("available"));
    world.keyless(&["source", "check", TOKEN]).run().exits(1);
    drop(server);
    let gone = state(&world, "corp");
    assert_eq!(
        (&gone["state"], &gone["last_contact"]["outcome"]),
        (&json!("unavailable"), &json!("locked"))
    );
    let table = world.keyless(&["source", "list"]).run().ok();
    assert!(table.contains("LAST CONTACT"), "{table}");
}

#[test]
fn pass_with_real_gnupg() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    // Short: a socket of the agent has to fit.
    let gnupg = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap();
    fs::set_permissions(gnupg.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let store = world.operator_file("password-store");
    let run = |program: &str, arguments: &[&str], input: &str| {
        let mut child = Command::new(program)
            .args(arguments)
            .env("GNUPGHOME", gnupg.path())
            .env("PASSWORD_STORE_DIR", &store)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{program} {arguments:?}");
    };
    let key = ["--batch", "--passphrase", "", "--quick-gen-key", "ada@example.test", "default"];
    run("gpg", &key, "");
    run("pass", &["init", "ada@example.test"], "");
    let entry = format!("{}\nuser: ada\n", world.canary.value());
    run("pass", &["insert", "-m", "work/team/api/token"], &entry);
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"mine\"\ntype = \"pass\"\nfolder = \"work\"\naccess = \"readwrite\"\n\
             cache_ttl_seconds = 0\n\
             [source.environment]\nGNUPGHOME = {:?}\nPASSWORD_STORE_DIR = {store:?}\n\
             [default]\nsource = \"mine\"\n",
            gnupg.path()
        ),
    );
    add_routed(&world, "routed");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(state(&world, "mine")["state"], json!("available"));
    let fresh = world.another_value();
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    let said = world.keyless(&rotate).stdin(&fresh[..]).run().ok();
    assert!(said.contains("has a new value at its source"), "{said}");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(fresh));
    // A folder is no entry: `pass` prints what is in it, and that is no value, nor the rest of one.
    let folder = ["secret", "add", "team/api/folder", "--source", "source:mine:work/team/api"];
    world.keyless(&[&folder[..], &["--expires", "2099-12-01"]].concat()).run().ok();
    let check = ["source", "check", "team/api/folder"];
    let none = world.keyless(&check).run();
    assert!(none.exits(1).text().contains("has no value"), "{}", none.text());
    let put = ["secret", "rotate", "team/api/folder", "--value-stdin"];
    let seen = world.keyless(&put).stdin(world.another_value()).run();
    seen.ok();
    assert!(!seen.errors().contains("date is forgotten"), "{}", seen.errors());
    // The day was said of the first value, and says nothing of the next one.
    let day =
        || world.keyless(&["secret", "show", "team/api/folder"]).run().ok().contains("2099-12-01");
    assert!(day());
    let seen = world.keyless(&put).stdin(world.another_value()).run();
    seen.ok();
    assert!(seen.errors().contains("date is forgotten") && !day(), "{}", seen.errors());
    let shown = Command::new("pass")
        .args(["show", "work/team/api"])
        .env("GNUPGHOME", gnupg.path())
        .env("PASSWORD_STORE_DIR", &store)
        .output()
        .unwrap();
    assert_eq!(
        shown.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(),
        1
    );
    world.keyless(&["secret", "remove", "team/api/folder", "--yes"]).run().ok();
    run("pass", &["rm", "-f", "work/team/api/token"], "");
    let gone = world.keyless(&["source", "check", "--json"]).run();
    assert!(gone.exits(1).text().contains("has no value"), "{}", gone.text());
    let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", gnupg.path()).status();
}

#[test]
fn onepassword_by_its_tool() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let token = world.another_value();
    let op = world.operator_file("op");
    executable(&op, &OP.replace("OPTOKEN", &token).replace("OPVALUE", world.canary.value()));
    let checksum = sha256(&op);
    let declare = |checksum: &str| {
        sources(
            &world,
            &format!(
                "[[source]]\nname = \"op\"\ntype = \"1password\"\nprogram = {op:?}\n\
                 checksum_sha256 = {checksum:?}\n\
                 [[route]]\nprefix = \"team/\"\nsource = \"op\"\nvault = \"Team\"\n\
                 [source_credentials]\nop = \"sources/op/token\"\n"
            ),
        );
    };
    declare(&checksum);
    add_local(&world, "sources/op/token", &token);
    add_routed(&world, "routed");
    world.agent_sh(USE).env("HOME_LEAK", "1").run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(state(&world, "op")["state"], json!("available"));
    // Whatever words its version has for it: that says nothing of the source.
    for path in ["team/none/x", "team/gone/a", "team/gone/b"] {
        let other = ["secret", "add", path, "--to", "b.test", "--source", "routed"];
        world.keyless(&other).run().ok();
        let checked = world.keyless(&["source", "check", path]).run();
        assert!(checked.exits(1).text().contains("has no value"), "{}", checked.text());
        assert_eq!(state(&world, "op")["last_contact"]["outcome"], json!("available"), "{path}");
    }
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    world.keyless(&rotate).stdin(world.another_value()).run().exits(2);
    // Signed out, and another program in its place.
    let wrong = ["secret", "rotate", "sources/op/token", "--value-stdin"];
    world.keyless(&wrong).stdin(world.another_value()).run().ok();
    assert_eq!(state(&world, "op")["state"], json!("locked"));
    declare(&"0".repeat(64));
    assert_eq!(state(&world, "op")["state"], json!("unavailable"));
    fs::remove_file(&op).unwrap();
    assert_eq!(state(&world, "op")["state"], json!("not-installed"));
}

/// What the real one does without its servers: it says that nobody is logged in.
#[test]
fn the_real_bitwarden_tool_as_far_as_it_goes_without_a_network() {
    let world = World::with_store();
    let program = Path::new(&global_packages()).join("@bitwarden/cli/build/bw.js");
    let data = world.operator_file("bitwarden");
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"bw\"\ntype = \"bitwarden\"\nprogram = {program:?}\n\
             [source.environment]\nBITWARDENCLI_APPDATA_DIR = {data:?}\n[default]\nsource = \"bw\"\n"
        ),
    );
    add_routed(&world, "routed");
    let seen = world.keyless(&["source", "check", "--json"]).run().exits(1).json();
    let told = seen["data"]["secrets"][0]["state"].as_str().unwrap();
    assert!(told.contains("nobody is logged in to bw"), "{told}");
    let bw = state(&world, "bw");
    assert_eq!(
        (&bw["state"], &bw["declared"]),
        (&json!("needs-credential"), &json!(["read", "list"]))
    );
    assert_eq!(bw["last_contact"]["outcome"], json!("needs-credential"));
    assert!(bw["hint"].as_str().unwrap().contains("bw login"), "{bw}");
    assert!(data.is_dir(), "it ran with the environment that it was given");
}

#[test]
fn a_plugin_is_a_source() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let program = world.operator_file("keyless-source-probe");
    let script = format!(
        r#"#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"].split(".")[1]
    result = {{
        "init": {{"source_name": "probe", "capabilities_bits": 9, "plugin_version": "1"}},
        "is_available": {{"status": "available"}},
        "put": {{"replaced": True}},
        "get": {{"value": {:?}, "lease_seconds": 0}},
    }}[method]
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
"#,
        world.canary.value()
    );
    executable(&program, &script);
    let declare = |access: &str| {
        sources(
            &world,
            &format!(
                "[[source]]\nname = \"probe\"\ntype = \"plugin\"\nprogram = {program:?}\n{access}\n\
                 checksum_sha256 = {:?}\nenvironment = {{ PATH = {:?} }}\n",
                sha256(&program),
                std::env::var("PATH").unwrap()
            ),
        );
    };
    declare("");
    add_routed(&world, "source:probe:any");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(state(&world, "probe")["state"], json!("available"));
    // It lists nothing, as it says; a value is put there once the operator lets Keyless write.
    let refused = world.keyless(&["source", "browse", "probe"]).run();
    assert!(refused.exits(2).errors().contains("can't say what it holds"), "{}", refused.errors());
    let put = || {
        let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
        world.keyless(&rotate).stdin(world.another_value()).run()
    };
    assert!(put().exits(2).errors().contains("may only read"));
    declare("access = \"readwrite\"");
    put().ok();
    executable(&program, &(script + "# changed\n"));
    let checked = world.keyless(&["source", "check"]).run();
    assert!(checked.exits(1).text().contains("checksum"), "{}", checked.text());
    // The list says the same of it as a fetch.
    let probe = state(&world, "probe");
    let outcome = &probe["last_contact"]["outcome"];
    assert_eq!((&probe["state"], outcome), (&json!("unavailable"), &json!("unavailable")));
    assert!(probe["hint"].as_str().unwrap().contains("checksum_sha256"), "{probe}");
}

/// The two of AWS, over their real wire, against moto's server.
#[test]
fn aws_secrets_manager_and_parameter_store() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let script = r"
import sys
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
app = DomainDispatcherApplication(create_backend_app)
server = make_server('127.0.0.1', 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
";
    let server = Server::python(&world, script, &[]);
    let secret_key = world.another_value();
    add_local(&world, "sources/aws/key", &secret_key);
    let below = std::cell::Cell::new("");
    let declare = |prefix: &str, source: &str| {
        let one = |name: &str| {
            let below = below.get();
            format!(
                "[[source]]\nname = \"{name}\"\ntype = \"aws-{name}\"\nregion = \"eu-central-1\"\n\
                 access_key_id = \"AKIAEXAMPLE\"\nendpoint = \"http://127.0.0.1:{}\"\n\
                 access = \"readwrite\"\ncache_ttl_seconds = 0\n{below}",
                server.port
            )
        };
        let both = one("secrets-manager") + &one("ssm");
        let route = format!("[[route]]\nprefix = \"{prefix}\"\nsource = \"{source}\"\n");
        let credentials = "[source_credentials]\nsecrets-manager = \"sources/aws/key\"\nssm = \"sources/aws/key\"\n";
        sources(&world, &(both + &route + credentials));
    };
    declare("team/", "ssm");
    add_routed(&world, "routed");
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    world.keyless(&rotate).stdin(world.canary.value()).run().ok();
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    // A secret is made with its first value.
    declare("team/", "secrets-manager");
    let fresh = world.another_value();
    let missing = world.keyless(&["source", "check", TOKEN]).run();
    assert!(missing.exits(1).text().contains("has no value"), "{}", missing.text());
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    world.keyless(&["source", "check", TOKEN]).run().ok();
    let create = format!(
        "import boto3\nboto3.client('secretsmanager', region_name='eu-central-1', \
         endpoint_url='http://127.0.0.1:{}', aws_access_key_id='a', aws_secret_access_key='b')\
         .create_secret(Name='api/json', SecretString='{{\"key\": \"{fresh}\"}}')",
        server.port
    );
    assert!(Command::new("python3").args(["-c", &create]).status().unwrap().success());
    let by_key = [
        "secret",
        "add",
        "team/json/token",
        "--to",
        "c.test",
        "--env",
        "OTHER",
        "--source",
        "source:secrets-manager:api/json#key",
    ];
    world.keyless(&by_key).run().ok();
    world.keyless(&["source", "check", "team/json/token"]).run().ok();
    // One key of it can't be written alone, which is nothing that access would mend.
    let put = ["secret", "rotate", "team/json/token", "--value-stdin"];
    let refused = world.keyless(&put).stdin(world.another_value()).run();
    let told = refused.exits(1).errors();
    assert!(told.contains("can't be written alone") && !told.contains("access"), "{told}");
    assert!(told.contains("change the value where it is kept"), "{told}");
    // A handle and a grant may name it by where it is kept, with the region as the protocol's own example has it.
    let checked = |place: &str| {
        let command = format!("true {{{{nl:aws-sm://{place}}}}}");
        world.keyless(&["exec", "--dry-run", "--", &command]).run()
    };
    for place in ["api/json/key", "eu-central-1/api/json/key"] {
        checked(place).ok();
    }
    checked("us-east-1/api/json/key").exits(3);
    let agent = ["--agent", "nl://acme.corp/bot/1.0.0"];
    let there = ["--secret", "aws-sm://eu-central-1/api/json/*", "--for", "1h"];
    let granted = world.keyless(&[&["grant", "create"], &agent[..], &there].concat()).run();
    assert!(!granted.errors().contains("names no secret"), "{}", granted.errors());
    world.keyless(&[&["grant", "explain", "team/json/token"], &agent[..]].concat()).run().ok();
    world.keyless(&[&["grant", "explain", TOKEN], &agent[..]].concat()).run().exits(4);
    world.keyless(&rotate).stdin(&fresh[..]).run().ok();
    world.agent_with(&["--secret", TOKEN], &["sh", "-c", USE]).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(fresh));
    assert_eq!(state(&world, "ssm")["state"], json!("available"));
    what_is_written_over_stays_what_it_is(&world, server.port);
    // Page by page, by name alone.
    create_many(server.port);
    let held = |source: &str| {
        let browse = ["source", "browse", source, "--json"];
        let held = world.keyless(&browse).run().data()["held"].clone();
        let pair = |one: &serde_json::Value| (one["reference"].to_string(), one["path"].clone());
        held.as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    let (secrets, parameters) = (held("secrets-manager"), held("ssm"));
    assert_eq!((secrets.len(), parameters.len()), (124, 123), "{secrets:?} {parameters:?}");
    assert!(secrets.contains(&("\"api/token\"".to_owned(), json!(TOKEN))), "{secrets:?}");
    assert!(parameters.contains(&("\"/many/p7\"".to_owned(), json!(null))), "{parameters:?}");
    below.set("browse_below = \"many\"\n");
    declare("team/", "ssm");
    assert_eq!((held("secrets-manager").len(), held("ssm").len()), (120, 120));
}

/// Parameters keep their type and key; a binary secret is left alone.
fn what_is_written_over_stays_what_it_is(world: &World, port: u16) {
    let boto = |script: &str| {
        let connect = format!(
            "import boto3\nconnect = lambda service: boto3.client(service, region_name='eu-central-1', \
             endpoint_url='http://127.0.0.1:{port}', aws_access_key_id='a', aws_secret_access_key='b')\n"
        );
        Command::new("python3").args(["-c", &(connect + script)]).status().unwrap().success()
    };
    let there = "connect('ssm').put_parameter(Name='/plain', Value='x', Type='String')\n\
                 connect('ssm').put_parameter(Name='/own', Value='x', Type='SecureString', KeyId='alias/own')\n\
                 connect('secretsmanager').create_secret(Name='bytes', SecretBinary=b'\\0\\1')";
    assert!(boto(there));
    for (path, source) in [
        ("team/a/plain", "ssm:/plain"),
        ("team/a/own", "ssm:/own"),
        ("team/a/bytes", "secrets-manager:bytes"),
    ] {
        let source = format!("source:{source}");
        world.keyless(&["secret", "add", path, "--source", &source]).run().ok();
    }
    let put = |path: &str| {
        let rotate = ["secret", "rotate", path, "--value-stdin"];
        world.keyless(&rotate).stdin(world.another_value()).run()
    };
    put("team/a/plain").ok();
    put("team/a/own").ok();
    let refused = put("team/a/bytes");
    assert!(refused.exits(1).errors().contains("binary"), "{}", refused.errors());
    let stays = "all = {one['Name']: one for one in connect('ssm').describe_parameters()['Parameters']}\n\
                 assert all['/plain']['Type'] == 'String', all\n\
                 assert all['/own']['KeyId'] == 'alias/own', all\n\
                 assert all['/own']['Version'] == 2, all";
    assert!(boto(stays));
}

/// More than a page of each.
fn create_many(port: u16) {
    let create = format!(
        "import boto3\nconnect = lambda service: boto3.client(service, region_name='eu-central-1', \
         endpoint_url='http://127.0.0.1:{port}', aws_access_key_id='a', aws_secret_access_key='b')\n\
         secrets, parameters = connect('secretsmanager'), connect('ssm')\n\
         secrets.create_secret(Name='manyother', SecretString='x')\n\
         for n in range(120):\n\
         \x20   secrets.create_secret(Name=f'many/s{{n}}', SecretString='x')\n\
         \x20   parameters.put_parameter(Name=f'/many/p{{n}}', Value='x', Type='SecureString')\n"
    );
    assert!(Command::new("python3").args(["-c", &create]).status().unwrap().success());
}

/// A server that takes connections and never answers, and a program that waits for ever: each costs its own secrets its
/// own deadline and nobody else anything.
#[test]
fn a_source_that_hangs_is_given_up_and_the_others_go_on() {
    let world = World::with_store();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    thread::spawn(move || silent.incoming().map_while(Result::ok).collect::<Vec<_>>());
    let (op, child) = (world.operator_file("op"), world.operator_file("op.pid"));
    executable(&op, &format!("#!/bin/sh\nsleep 600 &\necho $! > {child:?}\nwait\n"));
    let mount = world.operator_file("mount");
    fs::create_dir(&mount).unwrap();
    fs::write(mount.join("token"), world.canary.value()).unwrap();
    add_local(&world, "sources/corp/token", &world.another_value());
    let hangs = "timeout_seconds = 1\ncache_ttl_seconds = 0\n";
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"corp\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{port}\"\n{hangs}\
             [[source]]\nname = \"op\"\ntype = \"1password\"\nprogram = {op:?}\n{hangs}\
             [[source]]\nname = \"here\"\ntype = \"files\"\nfolder = {mount:?}\n\
             [source_credentials]\ncorp = \"sources/corp/token\"\n"
        ),
    );
    for (path, reference) in
        [("team/a/corp", "corp:a"), ("team/a/op", "op:op://a/b/c"), ("team/a/here", "here:token")]
    {
        let source = format!("source:{reference}");
        world.keyless(&["secret", "add", path, "--to", ALLOWED, "--source", &source]).run().ok();
    }
    let begun = Instant::now();
    let checked = world.keyless(&["source", "check", "--json"]).run().exits(1).json();
    // Two values and, all at once, three states.
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    let data = &checked["data"];
    let told = |path: &str| {
        let mut secrets = data["secrets"].as_array().unwrap().iter();
        secrets.find(|secret| secret["path"] == path).unwrap()["state"].as_str().unwrap().to_owned()
    };
    for path in ["team/a/corp", "team/a/op"] {
        assert!(told(path).contains("is unavailable: it did not answer in time"), "{}", told(path));
    }
    assert_eq!(told("team/a/here"), "ok");
    let source = |name: &str| {
        let mut declared = data["declared"].as_array().unwrap().iter();
        declared.find(|source| source["name"] == name).unwrap()
    };
    for (name, outcome) in [("corp", "unavailable"), ("op", "unavailable"), ("here", "available")] {
        assert_eq!(source(name)["state"], json!(outcome), "{name}");
        assert_eq!(source(name)["last_contact"]["outcome"], json!(outcome), "{name}");
    }
    assert_eq!(source("corp")["hint"], json!("see whether it is up and reachable"));
    assert_eq!(source("env")["last_contact"], json!(null));
    let child: i32 = fs::read_to_string(&child).unwrap().trim().parse().unwrap();
    let runs =
        || fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|s| !s.contains(") Z "));
    wait_until("what the program started is gone", || !runs());
}

/// The operator's word on a variable goes before the one that the path gives.
#[test]
fn the_environment_is_looked_at_under_the_name_that_the_index_gives() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    sources(&world, "[default]\nsource = \"env\"\n");
    let index = format!("[secret.{TOKEN:?}]\nenv_var = \"MYTOK\"\n");
    world.home.write("keyless/index.toml", index).unwrap();
    add_routed(&world, "routed");
    let none = world.keyless(&["source", "check", TOKEN]).run();
    assert!(none.exits(1).text().contains("has no value"), "{}", none.text());
    let (derived, other) = ("KEYLESS_SECRET__TEAM__API__TOKEN", world.another_value());
    let used = |set: &[(&str, &str)]| {
        let asked = world.agent_sh(USE);
        let asked =
            set.iter().fold(asked, |asked, (name, value)| asked.env_with_value(name, value));
        asked.run().ok();
        origin.requests().last().unwrap().header("x")
    };
    let value = world.canary.value();
    assert_eq!(used(&[(derived, value)]), Some(value.into()));
    assert_eq!(used(&[(derived, &other), ("MYTOK", value)]), Some(value.into()));
}

#[test]
fn the_fallback_is_asked_when_a_source_is_not_installed_and_then_alone() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    add_routed(&world, "routed");
    let program = world.operator_file("pass");
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"mine\"\ntype = \"pass\"\nprogram = {program:?}\n\
             [default]\nsource = \"mine\"\nfallback = \"env\"\n"
        ),
    );
    let name = "KEYLESS_SECRET__TEAM__API__TOKEN";
    world.agent_sh(USE).env_with_value(name, world.canary.value()).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    let check = || world.keyless(&["source", "check"]).env_with_value(name, world.canary.value());
    let told = check().run().ok();
    assert!(told.contains("mine: ") && told.contains("ok, from env in its stead"), "{told}");
    executable(&program, "#!/bin/sh\necho 'gpg: decryption failed: No secret key' >&2\nexit 2\n");
    let check = world.keyless(&["source", "check", "--json"]);
    let seen = check.env_with_value(name, world.canary.value()).run();
    assert!(seen.exits(1).text().contains("locked"), "{}", seen.text());
}

/// The store has what was put there while it was the default; another source asks for its own credential.
#[test]
fn the_fallback_may_be_the_store_or_a_source_with_a_credential() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    sources(&world, "[default]\nsource = \"local\"\n");
    add_routed(&world, "routed");
    let put = ["secret", "rotate", TOKEN, "--value-stdin"];
    world.keyless(&put).stdin(world.canary.value()).run().ok();
    let (pass, op) = (world.operator_file("pass"), world.operator_file("op"));
    let declare = |fallback: &str| {
        let mine = format!("[[source]]\nname = \"mine\"\ntype = \"pass\"\nprogram = {pass:?}\n");
        let other = format!("[[source]]\nname = \"op\"\ntype = \"1password\"\nprogram = {op:?}\n");
        let default = format!("[default]\nsource = \"mine\"\nfallback = \"{fallback}\"\n");
        let credential = "[source_credentials]\nop = \"sources/op/token\"\n";
        sources(&world, &[&mine, &other, &default, credential].concat());
    };
    declare("local");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));

    let (token, other) = (world.another_value(), world.another_value());
    let script = OP.replace("OPTOKEN", &token).replace("OPVALUE", &other);
    executable(&op, &script.replace("op://Team/api/token\")", "\"*)"));
    add_local(&world, "sources/op/token", &token);
    declare("op");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(other.as_str().into()));
}

/// What stands there for nothing is told, and stops nobody: another tool's file works as it is.
#[test]
fn what_would_go_wrong_at_the_first_use_is_told_before() {
    let world = World::with_store();
    let doctor = |id: &str| {
        let checks = world.keyless(&["doctor", "--json"]).run().json()["data"]["checks"].clone();
        let mut checks = checks.as_array().unwrap().clone();
        checks.retain(|check| check["id"] == id);
        serde_json::to_string(&checks).unwrap()
    };
    let text = "[[sorce]]\nname = \"a\"\n[[source]]\nname = \"mine\"\ntype = \"1password\"\nfodler = \"x\"\n\
                [source_credentials]\nmine = \"sources/mine/token\"\n";
    sources(&world, text);
    let add = ["secret", "add", "sources/mine/token", "--source", "source:mine:op://a/b/c"];
    world.keyless(&add).run().ok();
    let listed = world.keyless(&["source", "list"]).run();
    for key in ["sorce", "fodler"] {
        assert!(
            listed.errors().contains(&format!("{key:?}, which nothing reads")),
            "{}",
            listed.errors()
        );
        assert!(doctor("files.sources").contains(key), "{key}");
    }
    let chained = doctor("sources.credentials");
    assert!(chained.contains("its credential sources/mine/token is kept at a source"), "{chained}");
    world
        .home
        .write("keyless/index.toml", format!("[secret.{TOKEN:?}]\nformat_regex = \"(\"\n"))
        .unwrap();
    assert!(doctor("files.index").contains("format_regex is no regular expression"));
}

#[test]
fn a_source_file_that_is_wrong_is_told() {
    let world = World::with_store();
    for (text, expected) in [
        ("[[source]]\nname = \"a\"\ntype = \"nonsense\"", "is unknown"),
        (
            "[[source]]\nname = \"a\"\ntype = \"vault\"\naddr = \"x\"\ntoken = \"t\"",
            "does not stand",
        ),
        ("[default]\nsource = \"gone\"", "no source"),
        ("[[source]]\nname = \"a\"\ntype = \"plugin\"\nprogram = \"x\"", "absolute"),
    ] {
        sources(&world, text);
        let seen = world.keyless(&["source", "check", "--json"]).run();
        let error = seen.exits(2).json()["errors"][0].clone();
        assert_eq!(error["code"], json!("sources_invalid"), "{error}");
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
    // A source's credential is not kept by a source.
    sources(
        &world,
        "[[source]]\nname = \"a\"\ntype = \"1password\"\nprogram = \"/bin/true\"\n[default]\nsource = \"a\"\n\
         [source_credentials]\na = \"sources/a/token\"",
    );
    let add = ["secret", "add", "sources/a/token", "--source", "routed"];
    world.keyless(&add).run().ok();
    let seen = world.keyless(&["source", "check"]).run();
    assert!(seen.exits(1).text().contains("kept by another source"), "{}", seen.text());
}

pub(crate) fn sha256(file: &PathBuf) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// A folder of plain values is none that an agent may look into.
#[test]
fn a_mounted_folder_is_hidden_from_the_agent() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let mount = world.home.home().join("agent-may-look-here");
    fs::create_dir(&mount).unwrap();
    fs::write(mount.join("token"), world.canary.value()).unwrap();
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"here\"\ntype = \"files\"\nfolder = {mount:?}\n\
             [[route]]\nprefix = \"team/api/\"\nsource = \"here\"\n"
        ),
    );
    add_routed(&world, "routed");
    let look = format!("! cat {}/token && {USE}", mount.display());
    world.agent_sh(&look).run().ok();
    world.assert_received(&origin);
    // Nor one whose session has no secret.
    let seen =
        world.agent_with(&["--no-secrets"], &["cat", mount.join("token").to_str().unwrap()]).run();
    assert!(!seen.status.success() && seen.stdout.is_empty(), "{}", seen.text());
    fs::remove_dir_all(&mount).unwrap();
}

/// What a source writes when it fails never comes out.
#[test]
fn what_a_source_complains_of_is_not_repeated() {
    let world = World::with_store();
    let program = world.operator_file("pass");
    let leak = Canary::new();
    executable(
        &program,
        &format!("#!/bin/sh\necho {} >&2\necho {} \nexit 7\n", leak.value(), leak.value()),
    );
    world.watch(leak);
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"mine\"\ntype = \"pass\"\nprogram = {program:?}\n[default]\nsource = \"mine\"\n"
        ),
    );
    add_routed(&world, "routed");
    let seen = world.keyless(&["source", "check"]).run();
    assert!(seen.exits(1).text().contains("ended with 7"), "{}", seen.text());
}
