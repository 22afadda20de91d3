//! Work that agents hand on: whoever it is for proves that, and nobody else can.

use super::*;

const THIRD: &str = "nl://acme.corp/third/1.0.0";

/// Three agents, of whom the first may use the secret.
fn three(world: &World) -> Served<'_> {
    let mut served = Served::start(world);
    let data = world.keyless(&["agent", "register", THIRD, "--json"]).run().data();
    served.agents["third"] = json!({
        "agent_uri": THIRD,
        "instance_id": data["aid"]["instance_id"],
        "credential": data["credential"]["value"],
    });
    granted(world, AGENT, &["db/*"]);
    served
}

/// The id of a token that `who` makes for an agent, under one of its own if it shows one.
fn token(served: &Served<'_>, who: &str, to: &str, shown: Option<&Value>) -> Value {
    let actions = if shown.is_none() { json!(["delegate", "exec"]) } else { json!(["exec"]) };
    let scope = json!({ "secrets": ["db/PASSWORD"], "actions": actions, "max_uses": 3 });
    let payload = json!({ "delegate_to": to, "delegation_scope": scope });
    let mut step = json!({ "door": "unix", "as": who, "send": ["delegation_request", payload] });
    if let Some(shown) = shown {
        step["delegation"] = shown.clone();
    }
    let made = served.client(&json!([step])).remove(0);
    assert!(made["token_id"].is_string(), "{made}");
    made["token_id"].clone()
}

fn act(who: &str, shown: &Value) -> Value {
    let action = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    json!({ "door": "unix", "as": who, "action": action, "delegation": shown, "tell_proof": true })
}

#[test]
fn only_whom_a_token_is_for_can_prove_it() {
    let world = with_secrets();
    let served = three(&world);
    let token = token(&served, "agent", HELPER, None);
    let shown = json!({ "token_id": token });
    let code = |answer: &Value| answer[0]["error"]["code"].clone();
    let first = served.client(&json!([act("helper", &shown)])).remove(0);
    assert_eq!(first[0]["status"], "success", "{first}");
    let replayed = json!({ "token_id": token, "binding_proof": first[1] });
    let unproven = json!({ "token_id": token, "unproven": true });
    let refused = served.client(&json!([
        // What was seen on the wire, the name alone, and whoever else has heard it.
        act("helper", &replayed),
        act("third", &replayed),
        act("helper", &unproven),
        act("third", &shown),
        // Who made it can't use it either.
        act("agent", &shown),
    ]));
    for (number, answer) in refused.iter().enumerate() {
        assert_eq!(code(answer), "NL-E704", "{number}: {answer}");
    }
    let message = refused[2][0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("x_keyless_accept_delegation"), "{message}");
    // Proofs are told apart by their second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let again = served.client(&json!([act("helper", &shown)])).remove(0);
    assert_eq!(again[0]["status"], "success", "{again}");
    let log = world.log();
    let accepted: Vec<&Value> =
        log.iter().filter(|entry| entry["action"] == "delegation_accept").collect();
    assert!(accepted.iter().all(|entry| entry["agent"]["uri"] == HELPER), "{accepted:?}");
}

#[test]
fn what_names_secrets_does_not_pass_between_agents() {
    let world = with_secrets();
    let served = three(&world);
    // An agent is active once it has shown its credential.
    let instance = served.agents["helper"]["instance_id"].clone();
    let hello = json!(["agent_get", { "instance_id": instance }]);
    served.client(&json!([{ "door": "unix", "as": "helper", "send": hello }]));
    let handed = |template: &str| {
        let inner = json!({ "type": "exec", "template": template });
        let answer = served.act(&json!({
            "type": "delegate", "delegate_to": HELPER, "delegated_action": inner,
            "delegation_scope": { "secrets": ["team/db/password"], "max_uses": 1 },
        }));
        answer["body"].clone()
    };
    let passed = handed("printf '{{n l:db/PASSWORD}}'; true {{nl:db/PASSWORD}}");
    assert_eq!(passed["result"]["stdout"], "{{n l:db/PASSWORD}}", "{passed}");
    let withheld = handed("printf '{{%s:db/PASSWORD}}' nl; true {{nl:db/PASSWORD}}");
    assert_eq!(withheld["status"], "denied", "{withheld}");
    assert_eq!(withheld["error"]["keyless_code"], "reference_in_result", "{withheld}");
    assert!(!withheld.to_string().contains("{{nl:db/PASSWORD"), "{withheld}");
    let log = world.log();
    assert!(
        log.iter().any(|entry| entry["action"] == "incident" && entry["detail"]["kind"] == "T8")
    );
}

#[test]
fn what_was_handed_on_ends_with_what_it_came_of() {
    let world = with_secrets();
    let served = three(&world);
    let first = token(&served, "agent", HELPER, None);
    let proven = |token: &Value| json!({ "token_id": token });
    let second = token(&served, "helper", THIRD, Some(&proven(&first)));
    let worked = served.client(&json!([act("third", &proven(&second))])).remove(0);
    assert_eq!(worked[0]["status"], "success", "{worked}");
    let told = served.client(&json!([
        { "door": "http", "send": ["delegation_revoke", { "token_id": first }] },
        act("third", &json!({ "token_id": second, "unproven": true })),
        { "door": "http", "as": "third", "send": ["x_keyless_accept_delegation", { "token_id": second }] },
    ]));
    assert_eq!((&told[0]["status"], &told[0]["cascade_count"]), (&json!("revoked"), &json!(1)));
    assert_eq!(told[2]["error"]["nl_code"], "NL-E707", "{}", told[2]);
    let ended: Vec<Value> = world
        .log()
        .into_iter()
        .filter(|entry| entry["action"] == "delegation_revoke")
        .map(|entry| entry["detail"]["note"].clone())
        .collect();
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended[1].as_str().unwrap().starts_with("cascade_from_parent"), "{ended:?}");
    let below = json!({
        "cascade_depth": 0, "reason": "cascade_from_parent", "root_revocation_id": first,
    });
    assert!(world.log().iter().any(|entry| entry["detail"]["revocation"] == below));
}

#[test]
fn what_was_handed_to_an_agent_ends_when_it_is_stopped() {
    let world = with_secrets();
    let served = three(&world);
    for (who, uri, verb) in [("helper", HELPER, "suspend"), ("third", THIRD, "revoke")] {
        let token = token(&served, "agent", uri, None);
        let accept = json!(["x_keyless_accept_delegation", { "token_id": token }]);
        served.client(&json!([{ "door": "unix", "as": who, "send": accept }]));
        let instance = served.agents[who]["instance_id"].as_str().unwrap();
        world.keyless(&["agent", verb, instance, "--reason", "test"]).run().ok();
        let shown = world.keyless(&["delegation", "list", "--json"]).run().data();
        let listed = shown["delegations"].as_array().unwrap();
        let found = listed.iter().find(|one| one["token"]["token_id"] == token).unwrap();
        assert_eq!(found["token"]["subject_instance"], instance, "{found}");
        assert_eq!(found["token"]["signature"]["kid"], shown["signing_key"]["kid"], "{shown}");
        assert_eq!(found["token"]["revoked"]["reason"], "agent_not_in_force", "{found}");
    }
}

#[test]
fn the_operator_says_how_often_work_is_handed_on() {
    let world = with_secrets();
    let served = Served::with(&world, "max_delegation_depth = 0");
    granted(&world, AGENT, &["db/*"]);
    let scope = json!({ "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 1 });
    let wanted = json!({ "delegate_to": HELPER, "delegation_scope": scope });
    let told = served.client(&json!([
        { "door": "unix", "send": ["delegation_request", wanted] },
        { "over": "http", "method": "GET", "path": "/.well-known/nl-protocol" },
    ]));
    assert_eq!(told[0]["error"]["code"], "NL-E703", "{}", told[0]);
    let message = told[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("max_delegation_depth is 0"), "{message}");
    let can = &told[1]["body"]["capabilities"];
    assert_eq!(
        (&can["supports_delegation"], &can["max_delegation_depth"]),
        (&json!(false), &json!(0))
    );
}

#[test]
fn tools_prove_for_the_agent_that_they_are_of() {
    let world = with_secrets();
    let served = three(&world);
    let token = token(&served, "agent", HELPER, None);
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "nl_execute_action", "arguments": {
            "type": "exec", "template": "true {{nl:db/PASSWORD}}", "delegation_token_id": token,
        } },
    });
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" },
        },
    });
    for (who, is_theirs) in [("helper", true), ("third", false)] {
        let text = |key: &str| served.agents[who][key].as_str().unwrap().to_owned();
        let mut tools = world
            .keyless(&["mcp", "--toolset", "nl"])
            .without_passphrase()
            .env("NL_AGENT_URI", text("agent_uri"))
            .env("NL_INSTANCE_ID", text("instance_id"))
            .env("NL_AGENT_CREDENTIAL", text("credential"))
            .start();
        tools.say(&hello.to_string());
        tools.line();
        tools.say(&call.to_string());
        let told: Value = serde_json::from_str(&tools.line()).unwrap();
        let text = told["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.contains("\"status\":\"success\""), is_theirs, "{who}: {text}");
        assert_eq!(text.contains("NL-E704"), !is_theirs, "{who}: {text}");
    }
}

/// As `grant list` has it.
#[test]
fn the_list_says_where_each_token_stands() {
    let world = with_secrets();
    let served = three(&world);
    let [used, open, gone] = [(); 3].map(|()| token(&served, "agent", HELPER, None));
    let shown = json!({ "token_id": used });
    for done in served.client(&json!(vec![act("helper", &shown); 3])) {
        assert_eq!(done[0]["status"], "success", "{done}");
    }
    world.keyless(&["delegation", "revoke", gone.as_str().unwrap()]).run().ok();
    let listed = world.keyless(&["delegation", "list", "--json"]).run().data();
    let state = |id: &Value| {
        let mut all = listed["delegations"].as_array().unwrap().iter();
        all.find(|one| one["token"]["token_id"] == *id).unwrap()["state"].clone()
    };
    assert_eq!([state(&used), state(&open), state(&gone)], ["exhausted", "active", "revoked"]);
    let table = world.keyless(&["delegation", "list"]).run().ok();
    assert!(table.contains("exhausted"), "{table}");
    // Times are those of messages, and what is shown is what was signed.
    let made = listed["delegations"][0]["token"]["issued_at"].as_str().unwrap();
    let fraction = made.split_once('.').map_or("", |(_, fraction)| fraction);
    assert!(fraction.len() <= "000Z".len(), "{made}");
}
