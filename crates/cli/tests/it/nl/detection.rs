//! Agents that look like attackers, and secrets that others know.

use super::*;

/// Bait, of a category that nobody is granted.
const BAIT: &str = "team/ops/master-key";

fn exec(template: &str) -> Value {
    json!({ "type": "exec", "template": template, "timeout_ms": 90_000 })
}

fn code(answer: &Value) -> &str {
    answer["body"]["error"]["nl_code"].as_str().unwrap_or_default()
}

fn instance(served: &Served<'_>) -> String {
    served.agents["agent"]["instance_id"].as_str().unwrap().to_owned()
}

fn threat(world: &World, instance: &str) -> Value {
    world.keyless(&["agent", "show", instance, "--json"]).run().data()["threat"].clone()
}

#[test]
fn bait_stops_who_takes_it() {
    let world = with_secrets();
    world.keyless(&["secret", "add", BAIT, "--honeypot"]).run().ok();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let honest = exec("true {{nl:db/PASSWORD}}");
    assert_eq!(served.act(&honest)["body"]["status"], "success");
    let taken = served.act(&exec("true {{nl:ops/MASTER_KEY}}"));
    assert_eq!((&taken["status"], code(&taken)), (&json!(403), "NL-E602"), "{taken}");
    assert_eq!(code(&served.act(&honest)), "NL-E103");
    let instance = instance(&served);
    let red = threat(&world, &instance);
    assert_eq!((&red["score"], &red["level"]), (&json!(80), &json!("red")));
    let log = world.log();
    let entry = |action: &str| log.iter().find(|entry| entry["action"] == action).unwrap();
    assert_eq!(entry("incident")["target"], BAIT);
    assert_eq!(entry("incident")["detail"]["note"], "direct_exfiltration, honeypot");
    assert_eq!(entry("response_level_change")["detail"]["kind"], "red");
    assert_eq!(entry("response_level_change")["detail"]["threat_score"], 80);
    // Being let in again is not being trusted again.
    let said = world.keyless(&["agent", "activate", &instance]).run().ok();
    let next = format!("does nothing until you say: keyless agent reset {instance}");
    assert!(said.contains("is 80 (red)") && said.contains(&next), "{said}");
    assert_eq!(code(&served.act(&honest)), "NL-E600");
    world.keyless(&["agent", "reset", &instance, "--reason", "a test"]).run().ok();
    assert_eq!(threat(&world, &instance)["score"], 0);
    assert_eq!(served.act(&honest)["body"]["status"], "success");
    // Nor does it come out for anybody else.
    world.keyless(&["exec", "--", "true {{nl:ops/MASTER_KEY}}"]).run().exits(4);
}

#[test]
fn values_in_outputs_bring_a_person_in_and_then_end_it() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let shown = served.act(&exec("printf %s {{nl:db/PASSWORD}}"));
    assert_eq!(shown["body"]["result"]["stdout"], "[REDACTED:db/PASSWORD]", "{shown}");
    assert_eq!(threat(&world, &instance(&served))["level"], "orange");
    let again = exec("printf %s {{nl:db/PASSWORD}} | cat");
    let asked = served.act(&again);
    assert_eq!(code(&asked), "NL-E204", "{asked}");
    let id = asked["body"]["error"]["details"]["approval_id"].as_str().unwrap().to_owned();
    let always = world.keyless(&["approve", "--session", &id]).run().exits(2).errors();
    assert!(always.contains("--once allows it"), "{always}");
    world.keyless(&["approve", "--once", &id]).run().ok();
    let ended = served.act(&again);
    assert_eq!((code(&ended), &ended["body"]["result"]), ("NL-E600", &Value::Null), "{ended}");
    assert_eq!(code(&served.act(&exec("true"))), "NL-E103");
}

/// It was no agent that said it.
#[test]
fn a_service_that_sends_its_credential_back_makes_nobody_suspect() {
    let mut world = with_secrets();
    let _echo = world.origin("api.github.com");
    world.add("team/github/token", &["--to", "api.github.com"]).ok();
    let served = Served::start(&world);
    granted(&world, AGENT, &["github/*"]);
    let call = json!({
        "type": "sdk_proxy", "provider": "github", "service": "users", "parameters": {},
        "operation": "get_authenticated", "credentials_ref": "{{nl:github/TOKEN}}",
    });
    for _ in 0..2 {
        let answered = served.act(&call);
        assert_eq!(answered["body"]["status"], "success", "{answered}");
        assert_eq!(answered["body"]["redacted"], true, "{answered}");
    }
    assert_eq!(threat(&world, &instance(&served))["score"], 0);
}

/// What the guard stops is told and written down as that, be it what turns the agent red.
#[test]
fn a_block_that_turns_an_agent_red_is_a_block() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let first = served.act(&exec("cat .env"));
    let last = served.act(&exec("vault get prod/db"));
    assert_eq!(threat(&world, &instance(&served))["level"], "red");
    for answer in [&first, &last] {
        assert_eq!(answer["body"]["error"]["code"], "X_ACTION_BLOCKED", "{answer}");
    }
    let blocked = |entry: &&Value| entry["action"] == "blocked";
    assert_eq!(world.log().iter().filter(blocked).count(), 2);
    assert_eq!(code(&served.act(&exec("true"))), "NL-E103");
}

#[test]
fn what_an_agent_hands_on_counts_against_it_and_not_against_who_does_it() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    served.client(&json!([{ "over": "unix", "as": "helper", "messages": [] }]));
    let handed = |template: &str| {
        served.act(&json!({
            "type": "delegate", "delegate_to": HELPER, "delegated_action": exec(template),
            "delegation_scope": { "secrets": ["db/PASSWORD"], "max_uses": 1, "ttl_seconds": 300 },
        }))
    };
    let shown = handed("printf %s {{nl:db/PASSWORD}}");
    assert_eq!(shown["body"]["result"]["stdout"], "[REDACTED:db/PASSWORD]", "{shown}");
    assert_eq!(threat(&world, &instance(&served))["level"], "orange");
    let helper = served.agents["helper"]["instance_id"].as_str().unwrap();
    assert_eq!(threat(&world, helper)["score"], 0);
    assert_eq!(code(&handed("true {{nl:db/PASSWORD}}")), "NL-E204");
}

#[test]
fn a_secret_that_others_know_is_used_by_nobody() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let action = exec("sleep 60; true {{nl:db/PASSWORD}}");
    let mut running = served.invocation(&json!([{ "over": "http", "action": action }])).start();
    let released = |entry: &Value| entry["detail"]["kind"] == "released";
    while !world.log().iter().any(released) {
        thread::sleep(Duration::from_millis(50));
    }
    let revoke = ["secret", "revoke", BOXED, "--compromised", "--yes", "--json"];
    let told = world.keyless(&revoke).run().data();
    let [user] = &told["used_by"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!(user["agent_uri"], AGENT);
    let ended: Vec<Value> = serde_json::from_str(&running.line()).unwrap();
    let ended = &ended[0];
    assert_eq!(code(ended), "NL-E302", "{ended}");
    let again = exec("true {{nl:db/PASSWORD}}");
    assert_eq!(code(&served.act(&again)), "NL-E302");
    let shown = world.keyless(&["secret", "show", BOXED, "--json"]).run().data();
    assert_eq!(shown["compromised"]["through"], 1, "{shown}");
    world.keyless(&["secret", "restore", BOXED, "--version", "1"]).run();
    assert_eq!(code(&served.act(&again)), "NL-E302");
    let rotate = ["secret", "rotate", BOXED, "--value-stdin"];
    let same = [&rotate[..], &["--allow-weak"]].concat();
    let refused = world.keyless(&same).stdin(world.canary.value()).run().exits(2).errors();
    assert!(refused.contains("revoked as compromised"), "{refused}");
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    assert_eq!(served.act(&again)["body"]["status"], "success");
}

/// A client that asks too often is told to wait, and is no attacker.
#[test]
fn who_sends_too_much_for_a_minute_is_as_good_as_before() {
    let world = with_secrets();
    let served = Served::start(&world);
    let instance = instance(&served);
    let me = format!("/nl/v1/agents/{instance}");
    let get = json!({ "over": "http", "method": "GET", "path": me });
    let answers = served.client(&json!(vec![get; 140]));
    let refused = answers.iter().filter(|answer| answer["status"] == 429).count();
    assert!(refused >= 20, "{refused}");
    let threat = threat(&world, &instance);
    assert_eq!((&threat["score"], &threat["level"]), (&json!(2), &json!("green")), "{threat}");
}

/// A grant's own limit, met by quick calls, calls nobody in.
#[test]
fn a_grants_limit_brings_no_person_in() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted_with(&world, AGENT, &["db/*"], &["--max-per-minute", "1"]);
    let action = exec("true {{nl:db/PASSWORD}}");
    let answers: Vec<_> = (0..14).map(|_| served.act(&action)).collect();
    assert_eq!(
        answers.iter().filter(|answer| code(answer) == "NL-E202").count(),
        13,
        "{answers:#?}"
    );
    let threat = threat(&world, &instance(&served));
    assert_eq!((&threat["score"], &threat["level"]), (&json!(30), &json!("yellow")), "{threat}");
}
