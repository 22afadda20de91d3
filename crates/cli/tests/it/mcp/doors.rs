//! Over HTTP, and the story of the spec as two official SDKs play it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Agent, HttpDoor, unlock, unlocked};
use crate::{
    terminal_ui::tmux::Window,
    world::{ALLOWED, TOKEN, VARIABLE, World, global_packages},
};

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } })
}

/// Over HTTP: only with the credential, under this machine's name, and for no page of a browser.
#[test]
fn http_serves_who_has_the_credential() {
    let world = unlocked();
    let door = HttpDoor::open(&world, &[]);
    let credential = door.credential(&world);
    let hello = hello();
    let post_text = |headers: &[&str], body: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "-i", "--noproxy", "*", "-H", "Content-Type: application/json"]);
        curl.args(["-H", "Accept: application/json, text/event-stream", "-d", body]);
        curl.args(headers.iter().flat_map(|header| ["-H", header])).arg(&door.url);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    let post = |headers: &[&str], body: &Value| post_text(headers, &body.to_string());
    let bearer = format!("Authorization: Bearer {credential}");
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let refused = post(&[], &hello).to_lowercase();
    assert!(status(&refused) == "401" && refused.contains("connection: close"), "{refused}");
    assert_eq!(status(&post(&["Authorization: Bearer 0123"], &hello)), "401");
    assert_eq!(status(&post(&[&bearer, "Origin: https://evil.test"], &hello)), "403");
    assert_eq!(status(&post(&["Origin: http://localhost:3000"], &hello)), "401");
    assert_eq!(status(&post(&[&bearer, "Origin: http://localhost:3000"], &hello)), "200");
    assert_eq!(status(&post(&[&bearer, "Host: evil.test"], &hello)), "403");
    let lacking = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    let words = "wants a string at params.protocolVersion";
    for (none, code) in
        [(json!([hello]), "-32600"), (json!({ "id": 1 }), "-32600"), (lacking, words)]
    {
        let answer = post(&[&bearer], &none);
        assert!(status(&answer) == "400" && answer.contains(code), "{answer}");
    }
    // Two members of one name: nobody can say which of them is meant.
    let twice = hello.to_string().replacen(r#""id":1"#, r#""id":1,"id":2"#, 1);
    let answer = post_text(&[&bearer], &twice);
    assert!(status(&answer) == "400" && answer.contains("-32600"), "{answer}");
    let greeted = post(&[&bearer], &hello);
    assert!(status(&greeted) == "200" && greeted.contains("keyless-secrets"), "{greeted}");
    let session =
        greeted.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:")).unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "secrets_list", "arguments": {} } });
    let version = "MCP-Protocol-Version: 2025-06-18";
    let listed = post(&[&bearer, session.trim_end(), version], &list);
    assert!(listed.contains(TOKEN), "{listed}");
    // Who lost the connection comes back for the answer, however long it has been there.
    let first = listed.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let mut again = std::process::Command::new("curl");
    again.args(["-sS", "--noproxy", "*", "--max-time", "20", "-H", "Accept: text/event-stream"]);
    for header in [&bearer, session.trim_end(), version, &format!("Last-Event-ID: {first}")] {
        again.args(["-H", header]);
    }
    let again = again.arg(&door.url).output().unwrap();
    let again = String::from_utf8(again.stdout).unwrap();
    assert!(again.contains(TOKEN) && again.contains("\"id\":2"), "{again}");
}

/// Any address of the loopback network, by that address.
#[test]
fn http_is_served_at_the_address_that_was_asked_for() {
    let world = unlocked();
    let file = world.operator_file("credential");
    let serve = ["mcp", "--http", "127.0.0.2:0", "--credential-file", file.to_str().unwrap()];
    let door = HttpDoor::start(world.keyless(&serve), file);
    let bearer = format!("Authorization: Bearer {}", door.credential(&world));
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", "-H", &bearer]);
    curl.args(["-H", "Content-Type: application/json", "-d", &hello().to_string()]);
    let seen = curl.args(["-H", "Accept: application/json, text/event-stream"]).arg(&door.url);
    assert_eq!(String::from_utf8(seen.output().unwrap().stdout).unwrap(), "200");
}

/// Who names no file for the credential is told where it is: among Keyless's own, which no jail shows.
#[test]
fn http_makes_a_credential_of_its_own_where_none_is_named() {
    let world = unlocked();
    let serve = || {
        let mut server =
            world.keyless(&["mcp", "--http", "127.0.0.1:0"]).without_passphrase().start();
        let line = server.line();
        let (_, file) = line.split_once("the credential is in ").unwrap();
        std::path::PathBuf::from(file.trim_end_matches('.'))
    };
    let file = serve();
    assert!(file.starts_with(world.home.keyless_home()), "{file:?}");
    let bits = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(bits & 0o777, 0o600);
    let made = std::fs::read_to_string(&file).unwrap();
    world.watch(keyless_testkit::Canary::of(made.trim_end()));
    // Clients that were told it once go on with it.
    assert_eq!((serve(), std::fs::read_to_string(&file).unwrap()), (file.clone(), made));
    std::fs::remove_file(file).unwrap();
}

/// Without TLS, nobody but this machine: refused before a credential is made or anything listens.
#[test]
fn http_is_served_on_loopback_alone() {
    let world = World::empty();
    let file = world.operator_file("credential");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.7:8080", "[::ffff:192.0.2.7]:0"] {
        let serve = ["mcp", "--http", address, "--credential-file", file.to_str().unwrap()];
        let refused = world.keyless(&serve).without_passphrase().run();
        assert!(refused.exits(2).errors().contains("127.0.0.1"), "{}", refused.errors());
        assert!(!file.exists(), "{address}");
    }
}

/// A client that asks for log messages hears which tools are called and how that ends, from the level that it names on.
#[test]
fn a_client_hears_what_it_asked_for() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let list = json!({ "name": "secrets_list", "arguments": {} });
    let none = json!({ "name": "secrets_describe", "arguments": { "path": "team/no/such" } });
    // Nothing, until it says so: its answer comes first.
    agent.call("tools/call", &list);
    let mut heard = |level: &str, call: &Value, messages: usize| {
        assert_eq!(agent.call("logging/setLevel", &json!({ "level": level }))["result"], json!({}));
        let request =
            json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": call });
        agent.server.say(&request.to_string());
        let lines: Vec<Value> =
            (0..messages).map(|_| serde_json::from_str(&agent.server.line()).unwrap()).collect();
        let answer: Value = serde_json::from_str(&agent.server.line()).unwrap();
        assert_eq!(answer["id"], json!("x"), "{answer}");
        lines.iter().map(|line| line["params"].clone()).collect::<Vec<_>>()
    };
    let message = |level: &str, tool: &str, outcome: &str| {
        let data = json!({ "tool": tool, "outcome": outcome });
        json!({ "level": level, "logger": "keyless", "data": data })
    };
    let both =
        [message("debug", "secrets_list", "called"), message("info", "secrets_list", "answered")];
    assert_eq!(heard("debug", &list, 2), both);
    assert_eq!(heard("info", &list, 1), both[1..]);
    assert!(heard("warning", &list, 0).is_empty());
    let refused = message("warning", "secrets_describe", "refused");
    assert_eq!(heard("warning", &none, 1), [refused]);
    assert!(heard("error", &none, 0).is_empty());
}

/// The scenario of the spec, played by an official SDK: `command` runs `file` in the agent's folder.
fn an_sdk_plays_the_story(command: &[&str], file: &str, client: &str) {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.declares(format!("required = [\"{TOKEN}\"]\n"));
    unlock(&world);
    world.home.write(&format!("work/{file}"), client).unwrap();
    let keyless = crate::invocation::KEYLESS;
    let command = [command, &[file, keyless, TOKEN]].concat();
    let mut agent =
        world.keyless(&[]).instead(&command).env("NODE_PATH", global_packages()).start();
    let id = agent.line();
    assert!(id.starts_with("prov-"), "{id}");
    // A person at a terminal of their own: tmux, so that what stood on the screen is seen as well.
    let stay = "\"$0\" approve \"$1\"; echo \"status $?\"; read _";
    let approve = world.keyless(&[]).instead(&["sh", "-c", stay, keyless, &id]);
    let window = Window::open(&world, approve, (100, 40));
    window.seen(&[TOKEN, "may receive it"]);
    window.say(ALLOWED);
    window.press("Enter");
    window.seen(&["any part of a request", "empty refuses):"]);
    window.say(world.canary.value());
    window.press("Enter");
    window.seen(&["[API_TOKEN]:"]);
    window.say(VARIABLE);
    window.press("Enter");
    window.seen(&["done.", "status 0"]);
    window.press("Enter");
    window.closed();
    assert_eq!(agent.line(), "ok");
    assert_eq!(agent.line(), "200");
    assert!(agent.wait().success());
    world.assert_received(&origin);
}

#[test]
fn the_python_sdk_plays_the_whole_story() {
    an_sdk_plays_the_story(&["python3"], "client.py", include_str!("client.py"));
}

#[test]
fn the_typescript_sdk_plays_the_whole_story() {
    an_sdk_plays_the_story(&["node"], "client.js", include_str!("client.js"));
}
