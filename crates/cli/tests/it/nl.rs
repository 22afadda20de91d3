//! The NL Protocol from outside: a client in Python that knows the specification alone.

/// What an organization's administrator does.
mod administration;
/// Who vouches for agents.
mod attestations;
/// Work that agents hand on.
mod delegations;
/// Agents that look like attackers.
mod detection;
/// The whole story, at every door.
mod doors;
/// Agents written in Rust.
mod framework;
/// Values while an action has them, and after.
mod lifetimes;
/// Places of sources that no secret stands for.
mod places;
/// Many actions.
mod scale;
/// Sessions as agents.
pub(crate) mod sessions;
/// HTTPS.
mod tls;
/// The same as tools, over the Model Context Protocol.
mod tools;
/// Values that were replaced.
mod versions;
/// Word to the operator's receivers.
mod webhooks;
/// Chapter 08 to the letter.
mod wire;

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{
    invocation::{Background, Invocation, KEYLESS},
    mcp::pending,
    schemas,
    world::{ALLOWED, TOKEN, World, wait_until},
};

/// A secret without destinations: its value enters a jail.
pub(crate) const BOXED: &str = "team/db/password";
pub(crate) const AGENT: &str = "nl://acme.corp/bot/1.0.0";
pub(crate) const HELPER: &str = "nl://acme.corp/deploy-bot/2.1.0";

/// A broker that serves NL, and registered agents.
pub(crate) struct Served<'w> {
    world: &'w World,
    broker: Background<'w>,
    base: String,
    agents: Value,
}

impl<'w> Served<'w> {
    pub(crate) fn start(world: &'w World) -> Self {
        Self::with(world, "")
    }

    /// With these lines under `[nl]` of config.toml.
    pub(crate) fn with(world: &'w World, nl: &str) -> Self {
        Self::serving(world, &["serve", "--http", "127.0.0.1:0", "--plaintext-discovery"], nl)
    }

    /// By this command.
    fn serving(world: &'w World, arguments: &[&str], nl: &str) -> Self {
        world.write_config();
        let config = world.home.keyless_home().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}[nl]\n{nl}\n")).unwrap();
        let mut agents = json!({});
        for (name, uri) in [("agent", AGENT), ("helper", HELPER)] {
            let data = world.keyless(&["agent", "register", uri, "--json"]).run().data();
            agents[name] = identity(&data);
        }
        let (broker, base) = Self::begin(world, arguments);
        Self { world, broker, base, agents }
    }

    fn begin(world: &'w World, arguments: &[&str]) -> (Background<'w>, String) {
        let mut broker = world.keyless(arguments).start();
        let line = broker.line();
        let base = line.split_once("on ").and_then(|(_, rest)| rest.split_once("/nl/v1"));
        let base = base.unwrap_or_else(|| panic!("{line}")).0.to_owned();
        (broker, base)
    }

    /// Kills the broker, and begins another in its place.
    pub(crate) fn kill_and_begin_again(&mut self) {
        self.broker.signal(rustix::process::Signal::KILL);
        self.broker.wait();
        (self.broker, self.base) = Self::begin(self.world, &["serve", "--http", "127.0.0.1:0"]);
    }

    /// One more agent, as its registration was answered.
    pub(crate) fn know(&mut self, name: &str, registered: &Value) {
        self.agents[name] = identity(registered);
    }

    /// What the client is told, step by step.
    pub(crate) fn client(&self, steps: &Value) -> Vec<Value> {
        let text = self.invocation(steps).run().ok();
        serde_json::from_str(&text).unwrap()
    }

    fn invocation(&self, steps: &Value) -> Invocation<'w> {
        let script = json!({
            "agents": self.agents,
            "base": self.base,
            "socket": self.world.home.keyless_home().join("run/nl.sock"),
            "stdio": [KEYLESS, "serve", "--stdio"],
            "said": self.world.operator_file(schemas::SAID),
            "steps": steps,
        });
        self.world.home.write("operator/script.json", script.to_string()).unwrap();
        // As it was when this was built: a checkout meanwhile takes the file away for a moment.
        self.world.home.write("operator/client.py", include_str!("nl/client.py")).unwrap();
        let (client, script) =
            (self.world.operator_file("client.py"), self.world.operator_file("script.json"));
        let command = [python(), client.to_str().unwrap(), script.to_str().unwrap()];
        self.world.keyless(&[]).without_passphrase().instead(&command)
    }

    /// What is at an address.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.client(&json!([{ "over": "http", "method": "GET", "path": path }])).remove(0)
    }

    /// What an action over HTTP is answered.
    pub(crate) fn act(&self, action: &Value) -> Value {
        self.client(&json!([{ "over": "http", "action": action }])).remove(0)
    }

    /// The same of one that is still under way.
    fn acting(&self, action: &Value) -> Background<'w> {
        self.invocation(&json!([{ "over": "http", "action": action }])).start()
    }
}

/// A Python with the standard library: the program itself, and none of the scripts that lead to one by the way of several
/// more, any of which may fail when much is going on.
fn python() -> &'static str {
    let system = "/usr/bin/python3";
    if std::path::Path::new(system).exists() { system } else { "python3" }
}

/// What the client needs of a registered agent.
fn identity(registered: &Value) -> Value {
    json!({
        "agent_uri": registered["aid"]["agent_uri"],
        "instance_id": registered["aid"]["instance_id"],
        "credential": registered["credential"]["value"],
    })
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // Killed, it would leave its sockets.
        self.world.keyless(&["lock"]).run();
        let socket = self.world.home.keyless_home().join("run/agent.sock");
        for _ in 0..2400 {
            if !socket.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        // All that was said by then, at whichever door.
        if !thread::panicking() {
            assert_eq!(schemas::misfits(self.world), "");
        }
    }
}

fn granted(world: &World, uri: &str, secrets: &[&str]) {
    granted_with(world, uri, secrets, &[]);
}

/// With these options beside.
pub(crate) fn granted_with(world: &World, uri: &str, secrets: &[&str], options: &[&str]) {
    let mut arguments = vec!["grant", "create", "--agent", uri, "--for", "1h", "--action", "*"];
    arguments.extend(options);
    for secret in secrets {
        arguments.extend(["--secret", secret]);
    }
    world.keyless(&arguments).run().ok();
}

pub(crate) fn with_secrets() -> World {
    let world = World::with_token();
    world.add(BOXED, &[]).ok();
    world
}

#[test]
fn an_outside_client_acts_and_never_sees_a_value() {
    let mut world = with_secrets();
    let origin = world.origin(ALLOWED);
    // It shows values on purpose, more than once.
    let served = Served::with(&world, "detection = 'record'");
    granted(&world, AGENT, &["api/*", "db/*"]);
    let call = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {{{{nl:api/TOKEN}}}}' https://{ALLOWED}/user"
    );
    let steps = json!([
        { "over": "http", "action": { "type": "exec", "template": call } },
        { "over": "http", "action": {
            "type": "exec", "template": "sh -c 'printf %s \"$1\" | tee /dev/stderr | wc -c' x {{nl:db/PASSWORD}}",
        } },
        { "over": "http", "action": {
            "type": "template", "template_content": "PASS={{nl:db/PASSWORD}}\n", "output_path": "app.env",
        } },
        { "over": "http", "action": {
            "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}",
        } },
        { "over": "http", "action": {
            "type": "inject_tempfile", "command": "stat -c %a {{nl:KEY}}", "file_refs": { "KEY": "{{nl:db/PASSWORD}}" },
        } },
        { "over": "http", "action": {
            "type": "exec", "template": "psql {{nl:db/PASSWORD}}", "dry_run": true,
        } },
    ]);
    let answers = served.client(&steps);
    let bodies: Vec<&Value> = answers.iter().map(|answer| &answer["body"]).collect();
    assert_eq!(bodies[0]["result"]["stdout"], "200", "{}", bodies[0]);
    world.assert_received(&origin);
    let length = world.canary.value().len();
    assert_eq!(bodies[1]["result"]["stdout"], format!("{length}\n"), "{}", bodies[1]);
    assert_eq!(bodies[1]["result"]["stderr"], "[REDACTED:db/PASSWORD]");
    assert_eq!((&bodies[1]["redacted"], &bodies[1]["redacted_count"]), (&json!(true), &json!(1)));
    assert_eq!(bodies[2]["result"]["resolved_count"], 1, "{}", bodies[2]);
    assert_eq!(bodies[2]["result"]["permissions"], "0600");
    assert_eq!(bodies[3]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", bodies[3]);
    assert_eq!(bodies[4]["result"]["stdout"], "400\n", "{}", bodies[4]);
    assert_eq!(bodies[5]["status"], "dry_run_ok", "{}", bodies[5]);
    assert_eq!(bodies[5]["secrets_validated"], json!(["db/PASSWORD"]));
    for (answer, body) in answers.iter().zip(&bodies) {
        assert_eq!((&answer["status"], &answer["limit"]), (&json!(200), &json!("120")), "{answer}");
        assert_eq!(answer["type"], "application/nl-protocol+json");
        assert_eq!(answer["request_id"], body["request_id"]);
        assert!(body["action_id"].as_str().unwrap().starts_with("act_"), "{body}");
        let entry = body["audit_ref"].as_str().unwrap().strip_prefix("aud_").unwrap().to_owned();
        let entry: usize = entry.parse().unwrap();
        assert_eq!(world.log()[entry - 1]["detail"]["action_id"], body["action_id"]);
    }
    let incident = world.log().into_iter().find(|entry| entry["action"] == "incident").unwrap();
    assert_eq!(incident["detail"]["redacted_count"], 1);
    assert_eq!(world.keyless(&["audit", "verify", "--json"]).run().data()["status"], "valid");
}

#[test]
fn what_may_not_be_is_denied_and_written_down() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let exec = |template: &str| json!({ "type": "exec", "template": template });
    let code = |answer: &Value| {
        let error = &answer["body"]["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        (answer["status"].as_u64().unwrap(), text("code"), text("nl_code"))
    };
    let cases = [
        (exec("psql {{nl:api/TOKEN}}"), (403, "SCOPE_VIOLATION", "NL-E200")),
        (exec("psql {{nl:none/THERE}}"), (403, "SCOPE_VIOLATION", "NL-E200")),
        (exec("psql {{nl:THERE}}"), (404, "SECRET_NOT_FOUND", "NL-E302")),
        (exec("cat .env"), (403, "X_ACTION_BLOCKED", "NL-E400")),
        (exec("psql {{nl:a b}}"), (400, "INVALID_PLACEHOLDER", "NL-E301")),
        (exec("psql {{nl:nowhere://a/b}}"), (400, "PROVIDER_NOT_CONFIGURED", "NL-E306")),
        (json!({ "type": "steal" }), (400, "X_ACTION_UNKNOWN", "NL-E300")),
        (exec("psql {{nl:db/PASSWORD@v9}}"), (404, "SECRET_NOT_FOUND", "NL-E302")),
        (exec("false {{nl:db/PASSWORD}}"), (200, "X_NONZERO_EXIT", "NL-EX01")),
    ];
    for (action, (status, name, nl)) in cases {
        let answer = served.act(&action);
        let expected = (status, name.to_owned(), nl.to_owned());
        assert_eq!(code(&answer), expected, "{action}: {answer}");
        assert!(answer["body"]["audit_ref"].as_str().unwrap().starts_with("aud_"), "{answer}");
    }
    let words = world.log();
    for (action, result) in [("denied", "denied"), ("blocked", "blocked"), ("exec", "error")] {
        let written = |entry: &&Value| entry["action"] == action && entry["result"] == result;
        let entry = words.iter().find(written).unwrap_or_else(|| panic!("no {action}"));
        assert_eq!(entry["metadata"]["nl_profile"], "seed", "{entry}");
    }
    let listed = world
        .keyless(&["audit", "query", "--agent", AGENT, "--result", "blocked", "--json"])
        .run()
        .data();
    let [incident, blocked, mistake] = &listed["entries"].as_array().unwrap()[..] else {
        panic!("{listed}")
    };
    // The reference with which it became yellow.
    assert_eq!(mistake["detail"]["kind"], "TX-1");
    assert_eq!(incident["detail"]["kind"], "T1");
    assert_eq!(blocked["detail"]["rule_id"], "NL-4-DENY-002");
    let export =
        world.keyless(&["audit", "export", "--format", "cef", "--agent", AGENT]).run().ok();
    assert!(export.lines().all(|line| line.starts_with("CEF:0|keyless.dev|Keyless|")), "{export}");
}

#[test]
fn messages_are_held_to_the_protocol_at_every_door() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let action = json!({ "type": "exec", "template": "date +%N; true {{nl:db/PASSWORD}}" });
    let other = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    let http = |action: &Value| json!({ "over": "http", "action": action, "request_id": "req_1" });
    let mut typed = http(&other);
    typed["headers"] = json!({ "Content-Type": "text/plain" });
    let later = json!({ "nl_version": "2.0", "request_id": "req_9" });
    let versioned =
        json!({ "over": "http", "method": "POST", "path": "/nl/v1/actions", "body": later });
    let wrong_place = json!({
        "nl_version": "1.0", "message_type": "audit_query", "message_id": "m-7",
        "timestamp": jiff::Timestamp::now().to_string(), "payload": { "request_id": "req_7" },
    });
    let misplaced =
        json!({ "over": "http", "method": "POST", "path": "/nl/v1/actions", "body": wrong_place });
    let page = json!({ "over": "http", "method": "GET", "path": "/nl/v1/health", "headers": { "Origin": "http://a.test" } });
    let get = |path: &str| json!({ "over": "http", "method": "GET", "path": path });
    let register = |body: Value| json!({ "over": "http", "method": "POST", "path": "/nl/v1/agents/register", "body": body });
    let of_somebody = json!({ "delegated_by": { "type": "human", "identifier": "ann" } });
    let answers = served.client(&json!([
        http(&action),
        http(&action),
        http(&other),
        typed,
        versioned,
        page,
        get("/nl/v1/health"),
        get("/.well-known/nl-protocol"),
        get("/nl/v1/audit"),
        get("/nl/v1/secrets/x/value"),
        // An agent of its own says too little; one of somebody else's is the administrators' to register.
        register(json!({})),
        register(of_somebody),
        misplaced,
    ]));
    let statuses: Vec<u64> =
        answers.iter().map(|answer| answer["status"].as_u64().unwrap()).collect();
    assert_eq!(
        statuses,
        [200, 200, 409, 415, 400, 421, 200, 200, 403, 404, 400, 403, 400],
        "{answers:#?}"
    );
    assert_eq!(answers[0]["body"], answers[1]["body"]);
    assert_eq!(answers[2]["body"]["error"]["nl_code"], "NL-E802");
    assert_eq!(answers[4]["body"]["error"]["details"]["supported_versions"], json!(["1.0"]));
    // Also what is refused outside of an action says which request that was.
    assert_eq!(
        (&answers[2]["body"]["request_id"], &answers[4]["body"]["request_id"]),
        (&json!("req_1"), &json!("req_9"))
    );
    assert_eq!(answers[4]["request_id"], "req_9");
    let misplaced = &answers[12]["body"];
    assert_eq!(
        (&misplaced["message_type"], &misplaced["payload"]["correlation_id"]),
        (&json!("error"), &json!("m-7"))
    );
    assert_eq!(misplaced["payload"]["request_id"], "req_7", "{misplaced}");
    assert_eq!(answers[7]["body"]["nl_protocol"]["versions"], json!(["1.0"]));
    let messages = json!([
        ["action_request", { "action": other }],
        ["x_keyless_list_secrets", {}],
        ["x_keyless_check_access", { "secret_name": "api/TOKEN" }],
        ["discovery_request", {}],
        ["agent_get", {}],
        ["audit_query", {}],
    ]);
    // More than 1 MiB, and what is no UTF-8.
    let (long, no_text) = ("x".repeat((1 << 20) + 1), "{\"message_id\":\"\u{ff}\"}");
    let answers = served.client(&json!([
        { "over": "unix", "raw": ["{", "[]", "{\"message_type\":\"x\",\"message_id\":\"m-8\"}"], "messages": messages },
        { "over": "stdio", "raw": [long, no_text], "messages": messages },
    ]));
    let (over_unix, over_stdio) = (answers[0].as_array().unwrap(), answers[1].as_array().unwrap());
    for bad in &over_stdio[..2] {
        assert_eq!(bad["payload"]["error"]["code"], "NL-E800", "{bad}");
    }
    assert_eq!(
        over_stdio[0]["payload"]["error"]["details"]["also"], "NL-E803",
        "{}",
        over_stdio[0]
    );
    assert_eq!(over_unix[0]["payload"]["status"], "authenticated", "{}", over_unix[0]);
    for bad in &over_unix[1..4] {
        assert_eq!(bad["message_type"], "error", "{bad}");
    }
    assert_eq!(over_unix[3]["payload"]["correlation_id"], "m-8", "{}", over_unix[3]);
    for told in [&over_unix[4..], &over_stdio[2..]] {
        assert_eq!(told[0]["payload"]["status"], "success", "{}", told[0]);
        assert_eq!(told[0]["message_type"], "action_response");
        assert_eq!(told[1]["payload"]["secrets"][0]["name"], BOXED, "{}", told[1]);
        assert_eq!(told[2]["payload"]["allowed"], false, "{}", told[2]);
        assert_eq!(told[3]["payload"]["provider"]["name"], "Keyless");
        assert_eq!(told[4]["payload"]["agent_uri"], AGENT, "{}", told[4]);
        assert_eq!(told[5]["payload"]["error"]["code"], "NL-E501", "{}", told[5]);
    }
}

/// NL-8.23.
#[test]
fn the_discovery_document_is_kept_by_its_tag() {
    let world = with_secrets();
    let served = Served::start(&world);
    let address = "/.well-known/nl-protocol";
    let tag = served.get(address)["etag"].clone();
    let ask = |tag: &Value| {
        let headers = json!({ "If-None-Match": tag });
        served
            .client(
                &json!([{ "over": "http", "method": "GET", "path": address, "headers": headers }]),
            )
            .remove(0)
    };
    let same = ask(&tag);
    assert_eq!((&same["status"], &same["body"], &same["etag"]), (&json!(304), &Value::Null, &tag));
    let other = ask(&json!("\"another\""));
    assert_eq!(other["status"], 200, "{other}");
}

/// `examples/agent_framework.rs`, as docs/nl.md shows it.
#[test]
fn a_framework_in_rust_acts_and_never_sees_a_value() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let example = std::path::Path::new(KEYLESS).with_file_name("examples/agent_framework");
    let agent = &served.agents["agent"];
    let run = |template: &str| {
        let mut command = world.keyless(&[]).without_passphrase();
        for (name, key) in [
            ("NL_AGENT_URI", "agent_uri"),
            ("NL_INSTANCE_ID", "instance_id"),
            ("NL_AGENT_CREDENTIAL", "credential"),
        ] {
            command = command.env(name, agent[key].as_str().unwrap());
        }
        let socket = world.home.keyless_home().join("run/nl.sock");
        let command = command.env("NL_SOCKET", socket.to_str().unwrap());
        command.instead(&[example.to_str().unwrap(), template]).run()
    };
    let text = run("sh -c 'printf %s \"$1\"' x {{nl:db/PASSWORD}}").ok();
    assert_eq!(text, "[REDACTED:db/PASSWORD]");
    let refused = run("true {{nl:api/TOKEN}}");
    assert!(refused.errors().contains("NL-E200"), "{refused:?}");
}

#[test]
fn several_actions_in_one_message_are_done_and_judged_one_by_one() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let exec = |template: &str| json!({ "type": "exec", "template": template });
    let some = [exec("true {{nl:db/PASSWORD}}"), exec("true {{nl:api/TOKEN}}"), exec("echo third")];
    let send = |actions: &[Value]| {
        let payload = json!({
            "request_id": format!("r-{}", actions.len()), "agent": served.agents["agent"], "actions": actions,
        });
        json!({ "door": "http", "send": ["action_request", payload] })
    };
    let many = vec![exec("true"); 21];
    let guard = world.home.keyless_home().join("guard.toml");
    std::fs::write(&guard, "rules = 'none'").unwrap();
    let health = json!({ "over": "http", "method": "GET", "path": "/nl/v1/health" });
    let answers = served.client(&json!([health.clone()]));
    assert_eq!(answers[0]["status"], 503, "{}", answers[0]);
    std::fs::remove_file(&guard).unwrap();
    world.home.write("keyless/providers/broken.json", "{").unwrap();
    let answers = served.client(&json!([send(&some), send(&many), health]));
    let responses = answers[0]["responses"].as_array().unwrap();
    let statuses: Vec<&Value> = responses.iter().map(|response| &response["status"]).collect();
    assert_eq!(statuses, ["success", "denied", "success"], "{}", answers[0]);
    assert_eq!(responses[2]["result"]["stdout"], "third\n");
    assert_eq!(answers[1]["error"]["nl_code"], "NL-E800", "{}", answers[1]);
    assert_eq!(answers[2]["status"], 200, "{}", answers[2]);
    let left_out = json!(["broken.json: keyless doctor tells the operator why"]);
    assert_eq!(answers[2]["body"]["left_out"], left_out, "{}", answers[2]);
}

#[test]
fn who_is_not_known_or_not_active_does_nothing() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let action = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    assert_eq!(served.act(&action)["body"]["status"], "success");
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap().to_owned();
    let told =
        |answer: &Value| (answer["status"].clone(), answer["body"]["error"]["nl_code"].clone());
    world.keyless(&["agent", "suspend", &instance]).run().ok();
    assert_eq!(told(&served.act(&action)), (json!(403), json!("NL-E103")));
    world.keyless(&["agent", "activate", &instance]).run().ok();
    assert_eq!(served.act(&action)["body"]["status"], "success");
    world.keyless(&["agent", "revoke", &instance]).run().ok();
    assert_eq!(told(&served.act(&action)), (json!(403), json!("NL-E104")));
    world.keyless(&["agent", "activate", &instance]).run().exits(2);
    let unknown = (json!(401), json!("NL-E100"));
    for (field, value) in [
        ("credential", "nlk_0123456789012345678901234567890123456789012"),
        ("instance_id", "550e8400-e29b-41d4-a716-446655440000"),
        ("agent_uri", HELPER),
    ] {
        let right = std::mem::replace(&mut served.agents["agent"][field], json!(value));
        assert_eq!(told(&served.act(&action)), unknown, "{field}");
        served.agents["agent"][field] = right;
    }
}

/// C-14: where an administrator activates agents, a credential alone lets nobody act.
#[test]
fn who_is_not_activated_does_nothing() {
    let world = with_secrets();
    let served = Served::with(&world, "activation = 'admin'");
    granted(&world, AGENT, &["db/*"]);
    let action = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    for _ in 0..2 {
        let answer = served.act(&action);
        let told = (&answer["status"], &answer["body"]["error"]["keyless_code"]);
        assert_eq!(told, (&json!(403), &json!("agent_not_active")), "{answer}");
    }
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let explain = ["grant", "explain", "--agent", AGENT, BOXED];
    let said = world.keyless(&explain).run();
    assert!(said.exits(4).text().contains("agent_not_active"), "{}", said.text());
    world.keyless(&["agent", "activate", instance]).run().ok();
    world.keyless(&explain).run().ok();
    assert_eq!(served.act(&action)["body"]["status"], "success");
    let told = world.keyless(&["agent", "register", "nl://acme.corp/third/1.0.0"]).run().ok();
    assert!(told.contains("It may not act until you say so: keyless agent activate "), "{told}");
}

#[test]
fn a_setting_that_is_none_is_named_with_what_there_is() {
    let world = World::with_store();
    for (setting, words) in [
        ("activation = 'always'", ["always", "`admin`", "`first_auth`"]),
        ("clock_skew = { attestations = 3600 }", ["attestations is 5 to 300", "3600", "NTP"]),
        ("clock_skew = { proofs = 0 }", ["proofs is 5 to 120", "and 0", "on its way"]),
    ] {
        world.home.write("keyless/config.toml", format!("[nl]\n{setting}\n")).unwrap();
        let seen = world.keyless(&["serve", "--http", "127.0.0.1:0"]).run();
        let said = seen.exits(2).errors();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn an_agent_hands_work_to_another_and_gets_the_result_alone() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let inner = json!({ "type": "exec", "template": "printf %s {{nl:db/PASSWORD}} | wc -c" });
    let delegate = |scope: Value| json!({ "type": "delegate", "delegate_to": HELPER, "delegated_action": inner, "delegation_scope": scope });
    // The other agent has to be there.
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1, "ttl_seconds": 300 });
    let nobody = served.act(&delegate(scope.clone()));
    assert_eq!(nobody["body"]["error"]["nl_code"], "NL-E704", "{nobody}");
    let hello = json!([{ "over": "unix", "as": "helper", "messages": [] }]);
    assert_eq!(served.client(&hello)[0][0]["payload"]["status"], "authenticated");
    let answer = served.act(&delegate(scope));
    let length = world.canary.value().len();
    assert_eq!(answer["body"]["result"]["stdout"], format!("{length}\n"), "{answer}");
    // Asked beforehand, of all of it or of what is handed on, it says what would be used.
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1 });
    let mut whole = delegate(scope.clone());
    whole["dry_run"] = json!(true);
    let mut part = delegate(scope);
    part["delegated_action"]["dry_run"] = json!(true);
    for checked in [whole, part] {
        let answer = &served.act(&checked)["body"];
        assert_eq!(answer["status"], "dry_run_ok", "{answer}");
        assert_eq!(answer["secrets_validated"], json!(["db/PASSWORD"]), "{answer}");
        assert_eq!(answer["grant_refs"].as_array().unwrap().len(), 1, "{answer}");
    }
    let wider = served.act(&delegate(json!({ "secrets": ["*"], "max_uses": 1 })));
    assert_eq!(wider["body"]["error"]["nl_code"], "NL-E702", "{wider}");
    // A token of its own, which is of use to nobody but the helper, and to it for its scope alone.
    let body = json!({ "delegate_to": HELPER, "delegation_scope": { "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 2 } });
    let made = served.client(&json!([
        { "over": "http", "method": "POST", "path": "/nl/v1/delegations", "body": body },
    ]));
    assert_eq!(made[0]["status"], 201, "{}", made[0]);
    let token = made[0]["body"]["token_id"].as_str().unwrap().to_owned();
    let shown = |who: &str, template: &str| {
        json!({
            "door": "unix", "as": who, "action": { "type": "exec", "template": template },
            "delegation": { "token_id": token },
        })
    };
    let revoke = json!({ "door": "http", "send": ["delegation_revoke", { "token_id": token }] });
    let answers = served.client(&json!([
        shown("helper", "true {{nl:db/PASSWORD}}"),
        shown("helper", "true {{nl:api/TOKEN}}"),
        shown("agent", "true {{nl:db/PASSWORD}}"),
        revoke,
        shown("helper", "true {{nl:db/PASSWORD}}"),
    ]));
    let code = |answer: &Value| answer["error"]["code"].clone();
    assert_eq!(answers[0]["status"], "success", "{}", answers[0]);
    assert_eq!(code(&answers[1]), "NL-E200", "{}", answers[1]);
    assert_eq!(code(&answers[2]), "NL-E704", "{}", answers[2]);
    assert_eq!(answers[3]["status"], "revoked", "{}", answers[3]);
    assert_eq!(code(&answers[4]), "NL-E707", "{}", answers[4]);
    let chain = world
        .log()
        .into_iter()
        .find(|entry| entry["detail"]["delegation"].is_array() && entry["action"] == "exec");
    assert_eq!(chain.unwrap()["detail"]["delegation"], json!(["human:operator", AGENT]));
}

#[test]
fn a_rendered_file_goes_with_what_it_was_made_of() {
    let world = with_secrets();
    let served = Served::start(&world);
    let grant = |id: &str, uri: &str| {
        let create = ["grant", "create", "--agent", uri, "--for", "1h", "--action", "*"];
        world.keyless(&[&create[..], &["--secret", "db/*", "--id", id]].concat()).run().ok();
    };
    grant("g1", AGENT);
    let render = json!({
        "type": "template", "template_content": "P={{nl:db/PASSWORD}}\n", "output_path": "app.conf",
    });
    let read = json!({
        "type": "exec",
        "template": "true {{nl:db/PASSWORD}}; wc -l < /tmp/nl-secure/app.conf || echo gone",
    });
    let seen = || served.act(&read)["body"]["result"]["stdout"].clone();
    assert_eq!(served.act(&render)["body"]["status"], "success");
    assert_eq!(seen(), "1\n");
    let rotate = ["secret", "rotate", BOXED, "--value-stdin"];
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    assert_eq!(seen(), "gone\n");
    assert_eq!(served.act(&render)["body"]["status"], "success");
    assert_eq!(seen(), "1\n");
    grant("g2", AGENT);
    world.keyless(&["grant", "revoke", "g1"]).run().ok();
    assert_eq!(seen(), "gone\n");
    // What the helper renders for another is not there for what it does on its own.
    grant("g3", HELPER);
    served.client(&json!([{ "over": "unix", "as": "helper", "messages": [] }]));
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1, "ttl_seconds": 300 });
    let handed = served.act(&json!({
        "type": "delegate", "delegate_to": HELPER, "delegated_action": render, "delegation_scope": scope,
    }));
    assert_eq!(handed["body"]["result"]["output_path"], "/tmp/nl-secure/app.conf", "{handed}");
    let own = json!([["action_request", { "action": read }]]);
    let own = served.client(&json!([{ "over": "unix", "as": "helper", "messages": own }]));
    assert_eq!(own[0][1]["payload"]["result"]["stdout"], "gone\n", "{}", own[0]);
}

#[test]
fn what_stands_in_a_rendered_file_is_used_by_the_command_that_has_it() {
    let world = with_secrets();
    let served = Served::start(&world);
    let grant = |kind: &str, uses: &str| {
        let create = ["grant", "create", "--agent", AGENT, "--for", "1h", "--secret", "db/*"];
        world.keyless(&[&create[..], &["--action", kind, "--max-uses", uses]].concat()).run().ok();
    };
    let code = |answer: &Value| answer["body"]["error"]["nl_code"].clone();
    let read = |dry: bool| {
        let template = "wc -l < /tmp/nl-secure/app.conf";
        served.act(&json!({ "type": "exec", "template": template, "dry_run": dry }))
    };
    grant("template", "1");
    let render = json!({
        "type": "template", "template_content": "P={{nl:db/PASSWORD}}\n", "output_path": "app.conf",
    });
    assert_eq!(served.act(&render)["body"]["status"], "success");
    let refused = read(false);
    let details = &refused["body"]["error"]["details"];
    assert_eq!((code(&refused), &details["secret_ref"]), (json!("NL-E200"), &json!("db/PASSWORD")));
    assert_eq!(details["rendered_file"], "/tmp/nl-secure/app.conf", "{refused}");
    assert_eq!(code(&read(true)), "NL-E200");
    grant("exec", "2");
    assert_eq!(read(true)["body"]["secrets_validated"], json!(["db/PASSWORD"]));
    for _ in 0..2 {
        let done = read(false);
        assert_eq!(done["body"]["result"]["stdout"], "1\n", "{done}");
        assert_eq!(done["body"]["secrets_used"], json!(["db/PASSWORD"]));
    }
    assert_eq!(code(&read(false)), "NL-E202");
    let ended = world.log().into_iter().filter(|entry| {
        entry["action"] == "exec" && entry["result"] == "success" && entry["target"] == BOXED
    });
    // The release of the value and the end, of each; and both dry runs that were allowed are one.
    let ended: Vec<Value> = ended.filter(|entry| entry["detail"]["kind"].is_null()).collect();
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|entry| entry["secrets_used"] == json!([BOXED])), "{ended:?}");
}

#[test]
fn a_person_is_asked_about_the_command_that_has_a_rendered_file() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted_with(&world, AGENT, &["db/*"], &["--approve"]);
    let approved = |action: &Value| {
        let waits = served.act(action);
        let error = &waits["body"]["error"];
        assert_eq!(error["nl_code"], "NL-E204", "{waits}");
        let id = error["details"]["approval_id"].as_str().unwrap().to_owned();
        let shown = world.keyless(&["approve", "--list", "--json"]).run().ok();
        world.keyless(&["approve", "--once", &id]).run().ok();
        shown
    };
    let done = |action: &Value| served.act(action)["body"]["status"].clone();
    let render = |text: &str| json!({ "type": "template", "template_content": text, "output_path": "app.conf" });
    let first = render("P={{nl:db/PASSWORD}}\n");
    approved(&first);
    assert_eq!(done(&first), "success");
    let read = json!({ "type": "exec", "template": "sh /tmp/nl-secure/app.conf" });
    let shown = approved(&read);
    assert!(shown.contains("with the rendered file /tmp/nl-secure/app.conf"), "{shown}");
    assert_eq!(done(&read), "success");
    // What is rendered anew, after the word was given, is not what it was given for.
    approved(&read);
    let other = render("echo {{nl:db/PASSWORD}}\n");
    approved(&other);
    assert_eq!(done(&other), "success");
    assert_eq!(done(&read), "denied");
}

#[test]
fn a_secret_that_is_asked_about_at_each_use_is_so_in_a_rendered_file() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    world.keyless(&["secret", "set", BOXED, "--approve-on-use", "per-call"]).run().ok();
    let allowed = |action: &Value| {
        let mut acting = served.acting(action);
        wait_until("a person is asked", || !pending(&world).is_empty());
        let id = pending(&world).remove(0)["id"].as_str().unwrap().to_owned();
        world.keyless(&["approve", "--once", &id]).run().ok();
        let answers: Value = serde_json::from_str(&acting.line()).unwrap();
        assert_eq!(answers[0]["body"]["status"], "success", "{answers}");
    };
    let render = json!({
        "type": "template", "template_content": "P={{nl:db/PASSWORD}}\n", "output_path": "app.conf",
    });
    allowed(&render);
    let read = json!({ "type": "exec", "template": "wc -c < /tmp/nl-secure/app.conf" });
    allowed(&read);
    allowed(&read);
}

/// They have seen the one command, and the other would have been done by their word.
#[test]
fn a_use_that_is_allowed_once_is_that_of_the_action_that_was_shown() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    world.keyless(&["secret", "set", BOXED, "--approve-on-use", "per-call"]).run().ok();
    let counting = |flag: &str| {
        let command = format!("wc {flag}");
        json!({ "type": "inject_stdin", "command": command, "secret_ref": "{{nl:db/PASSWORD}}" })
    };
    let mut lines = served.acting(&counting("-l"));
    wait_until("the one is asked about", || pending(&world).len() == 1);
    let mut bytes = served.acting(&counting("-c"));
    wait_until("so is the other", || pending(&world).len() == 2);
    let asked = pending(&world);
    let shows = |flag: &str| {
        let is_it = |one: &&Value| one.to_string().contains(&format!("wc {flag}"));
        asked.iter().find(is_it).unwrap()["id"].as_str().unwrap()
    };
    world.keyless(&["approve", "--once", shows("-l")]).run().ok();
    let answers: Value = serde_json::from_str(&lines.line()).unwrap();
    assert_eq!(answers[0]["body"]["status"], "success", "{answers}");
    world.keyless(&["approve", "--deny", shows("-c")]).run().ok();
    let answers: Value = serde_json::from_str(&bytes.line()).unwrap();
    assert_eq!(answers[0]["body"]["status"], "denied", "{answers}");
}

#[test]
fn a_file_with_a_value_lives_for_as_long_as_the_operator_says() {
    let world = with_secrets();
    let served = Served::with(&world, "tempfile_seconds = 1");
    granted(&world, AGENT, &["db/*"]);
    let answer = served.act(&json!({
        "type": "inject_tempfile", "command": "sleep 40; cat {{nl:F}}", "timeout_ms": 60_000,
        "file_refs": { "F": "{{nl:db/PASSWORD}}" },
    }));
    assert_eq!(answer["body"]["status"], "timeout", "{answer}");
    let warning = answer["body"]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("1 s at most"), "{warning}");
}

#[test]
fn the_operator_is_told_where_to_look_for_what_is_not_there() {
    let world = World::with_store();
    let unknown = "550e8400-e29b-41d4-a716-446655440000";
    for (noun, id) in [("agent", unknown), ("grant", "grant_none")] {
        let told = world.keyless(&[noun, "show", id]).run().exits(3).errors();
        assert!(told.contains(&format!("keyless {noun} list")) && told.contains(id), "{told}");
    }
    let told = world.keyless(&["delegation", "revoke", unknown]).run().exits(3).errors();
    assert!(told.contains("keyless delegation list"), "{told}");
}

#[test]
fn a_person_allows_one_action_once() {
    let world = with_secrets();
    let served = Served::start(&world);
    let grant =
        ["grant", "create", "--agent", AGENT, "--secret", "db/*", "--for", "1h", "--approve"];
    world.keyless(&grant).run().ok();
    let action = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    let other = json!({ "type": "exec", "template": "false {{nl:db/PASSWORD}}" });
    // The very same message, its id included, is asked again once the person has spoken.
    let ask = || {
        let step = json!([{ "over": "http", "action": action, "request_id": "ask-1" }]);
        served.client(&step).remove(0)
    };
    let told = ask();
    let error = &told["body"]["error"];
    assert_eq!(
        (&error["code"], &error["nl_code"]),
        (&json!("CONDITION_FAILED"), &json!("NL-E204"))
    );
    let id = error["details"]["approval_id"].as_str().unwrap().to_owned();
    world.keyless(&["approve", "--once", &id]).run().ok();
    assert_eq!(served.act(&other)["body"]["error"]["nl_code"], "NL-E204");
    assert_eq!(ask()["body"]["status"], "success");
    assert_eq!(served.act(&action)["body"]["error"]["nl_code"], "NL-E204");
}
