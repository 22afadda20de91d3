//! The published schemas: what the specification shows, and what the binary says, fits them.

use std::{fs, io::Write as _};

use keyless_core::{
    action::{Action, ActionRequest},
    agent::Aid,
    audit::Checkpoint,
    delegation::Token,
    deny::{Guard, GuardConfig},
    grant::Grant,
    nl_message::{SCHEMAS, all_schemas, schema},
};
use serde_json::{Value, json};

use crate::{
    nl::{AGENT, BOXED, HELPER, Served, granted_with, with_secrets},
    world::World,
};

const EXAMPLES: &str = include_str!("schemas/examples.json");

fn examples() -> Vec<Value> {
    serde_json::from_str(EXAMPLES).unwrap()
}

/// Has Python's jsonschema judge each case by what `keyless schema` prints. Empty when all are as said.
fn disagreements(world: &World, cases: &[Value]) -> String {
    let mut schemas = json!({});
    for name in SCHEMAS {
        let text = world.keyless(&["schema", name]).without_passphrase().run().ok();
        schemas[name] = serde_json::from_str(&text).unwrap();
        assert_eq!(schemas[name], schema(name).unwrap());
    }
    judged(world, &json!({ "schemas": schemas, "all": all_schemas(), "cases": cases }))
}

/// What `asked` has that its schemas do not judge as it says; empty when they do.
pub(crate) fn judged(world: &World, asked: &Value) -> String {
    // As it was when this was built: a checkout meanwhile takes the file away for a moment.
    world.home.write("operator/validate.py", include_str!("schemas/validate.py")).unwrap();
    let script = world.operator_file("validate.py");
    let command = ["python3", script.to_str().unwrap()];
    let python = world.keyless(&[]).without_passphrase().instead(&command);
    python.stdin(asked.to_string()).run().ok()
}

/// Where the client, and whoever else speaks to a broker, keeps what was said: a line of JSON for each message with its
/// answer.
pub(crate) const SAID: &str = "said";

/// What was said in a world since this was asked last and does not fit the published schemas; empty when all does. Messages
/// that were refused need not fit, their refusals do.
pub(crate) fn misfits(world: &World) -> String {
    let place = world.operator_file(SAID);
    let Ok(text) = fs::read_to_string(&place) else { return String::new() };
    fs::remove_file(place).unwrap();
    let said = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let cases: Vec<Value> = said.flat_map(|one| exchanged(&one)).collect();
    judged(world, &json!({ "all": all_schemas(), "cases": cases }))
}

/// Notes an object that somebody else than the client has seen.
pub(crate) fn note(world: &World, schema: &str, value: &Value) {
    let place = world.operator_file(SAID);
    let mut file = fs::File::options().create(true).append(true).open(place).unwrap();
    let line = json!({ "schema": schema, "value": value }).to_string() + "\n";
    file.write_all(line.as_bytes()).unwrap();
}

/// A payload as MCP's tools show it, in the envelope that it came in.
pub(crate) fn enveloped(kind: &str, payload: &Value) -> Value {
    let now = jiff::Timestamp::now().to_string();
    json!({
        "nl_version": "1.0", "message_type": kind, "message_id": "m-1", "timestamp": now, "payload": payload,
    })
}

/// A message and its answer, each with the schema that it has to fit.
fn exchanged(said: &Value) -> Vec<Value> {
    let case = |schema: &str, value: &Value| {
        let what: String = value.to_string().chars().take(2000).collect();
        json!({ "schema": schema, "valid": true, "what": what, "value": value })
    };
    if let Some(schema) = said["schema"].as_str() {
        return vec![case(schema, &said["value"])];
    }
    let (sent, told) = (&said["sent"], &said["told"]);
    let is_in_envelope = told.get("message_type").is_some();
    let Some(path) = said["path"].as_str().filter(|_| !is_in_envelope) else {
        let was_done = told["payload"].get("error").is_none() && !sent.is_null();
        let sent = was_done.then(|| case("envelope", sent));
        return sent.into_iter().chain([case("envelope", told)]).collect();
    };
    // A hidden answer, such as a 304's, has no body.
    if told.is_null() {
        return Vec::new();
    }
    // The protocol wants the agent in an action's body; that headers name it does here.
    let order = if sent["agent"].is_null() { "action-order" } else { "action-request" };
    let path = path.split('?').next().unwrap_or_default();
    let words: Vec<&str> = path.trim_start_matches("/nl/v1").trim_matches('/').split('/').collect();
    let (asks, answers) = match (said["method"].as_str().unwrap_or_default(), words.as_slice()) {
        ("POST", ["actions"]) if told.get("responses").is_some() => (order, "batch-response"),
        ("POST", ["actions"]) if told.get("status").is_some() => (order, "action-response"),
        _ if told.get("error").is_some() => ("request", "error"),
        ("GET", ["health"]) => ("request", "health"),
        ("POST", ["agents", "register"]) => ("agent-registration", "agent-registered"),
        ("POST", ["agents", _, "credential"]) => ("credential-rotation", "agent-registered"),
        ("GET", ["agents", _]) => ("request", "agent"),
        ("GET", ["audit"]) => ("request", "audit-page"),
        ("POST", ["delegations"]) => ("delegation-request", "delegation-created"),
        ("POST", ["delegations", _, "accept"]) => ("request", "delegation-accepted"),
        ("DELETE", ["delegations", _]) => ("request", "delegation-revoked"),
        ("POST", ["revocations"]) => ("revocation", "revocation-result"),
        ("GET", ["rotations"]) => ("request", "rotations"),
        ("GET", [".well-known", _]) => ("request", "discovery"),
        _ => panic!("no schema is for the answer of {said}"),
    };
    let was_done = told.get("error").is_none() && !sent.is_null();
    let sent = was_done.then(|| case(asks, sent));
    sent.into_iter().chain([case(answers, told)]).collect()
}

#[test]
fn every_example_of_the_specification_fits_and_bad_ones_do_not() {
    let world = World::empty();
    assert_eq!(disagreements(&world, &examples()), "");
    let listed = world.keyless(&["schema", "--json"]).without_passphrase().run().data();
    assert_eq!(listed["schemas"].as_array().unwrap().len(), SCHEMAS.len());
}

/// Read by their types, and refused when the agent is looked up, the signature is, the whole message, or the file has a
/// place.
const REFUSED_LATER: [&str; 4] =
    ["dry_run beside the action", "no agent's URI", "no signature", "output_path "];

/// The schema and the parser are of one mind.
#[test]
fn what_a_schema_takes_its_type_takes() {
    for case in examples() {
        let value = case["value"].clone();
        let taken = match case["schema"].as_str().unwrap() {
            "action" => serde_json::from_value::<Action>(value).is_ok(),
            "action-request" => ActionRequest::from_json(&value).is_ok(),
            "scope-grant" => serde_json::from_value::<Grant>(value)
                .is_ok_and(|grant| grant.faults(grant.granted_by.granted_at).is_empty()),
            "agent" => serde_json::from_value::<Aid>(value)
                .is_ok_and(|aid| aid.faults(aid.created_at).is_empty()),
            "checkpoint" => serde_json::from_value::<Checkpoint>(value).is_ok(),
            "delegation-token" => serde_json::from_value::<Token>(value).is_ok(),
            "guard-rules" => serde_json::from_value::<GuardConfig>(value)
                .is_ok_and(|config| Guard::with(&config).is_ok()),
            _ => continue,
        };
        let (what, is_valid) = (case["what"].as_str().unwrap(), case["valid"] == true);
        let is_known = REFUSED_LATER.iter().any(|later| what.starts_with(later));
        assert_eq!(taken && (is_valid || !is_known), is_valid, "{what}");
    }
}

/// What an administrator sends, and what it is answered.
fn administered(world: &World, served: &mut Served<'_>) -> Vec<(&'static str, Value)> {
    let register = ["agent", "register", "nl://acme.corp/onboarding/1.0.0", "--administrator"];
    served.know("admin", &world.keyless(&[&register[..], &["--json"]].concat()).run().data());
    let uri = "nl://acme.corp/worker/1.0.0";
    let registration = json!({
        "agent_uri": uri, "organization_id": "local", "agent_type": "ci_cd_pipeline",
        "capabilities": ["exec"], "delegated_by": { "type": "human", "identifier": "ann" },
    });
    let revocation = json!({ "agent_uri": uri, "reason": "decommissioned" });
    let send = |kind: &str, payload: &Value| json!({ "door": "unix", "as": "admin", "send": [kind, payload] });
    let answers = served.client(&json!([
        send("agent_register", &registration),
        send("revocation_request", &revocation),
        send("audit_query", &json!({ "page_size": 7 })),
    ]));
    let answered = ["agent-registered", "revocation-result", "audit-page"].into_iter().zip(answers);
    let asked = [("agent-registration", registration), ("revocation", revocation)];
    asked.into_iter().chain(answered).collect()
}

/// What is asked and answered over lines, at the socket and over stdio alike.
fn asked_over_lines(served: &Served<'_>) {
    let token = |answers: &[Value]| answers[0][1]["payload"]["token_id"].clone();
    let scope = json!({ "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 1 });
    for over in ["unix", "stdio"] {
        let say = |who: &str, messages: Value| {
            let mut answers =
                served.client(&json!([{ "over": over, "as": who, "messages": messages }]));
            if over == "stdio" {
                // The greeting is the bridge's own.
                answers[0].as_array_mut().unwrap().insert(0, Value::Null);
            }
            answers
        };
        let template = "true {{nl:db/PASSWORD}}";
        let action = json!({ "type": "exec", "template": template });
        let delegated = say(
            "agent",
            json!([
                ["delegation_request", { "delegate_to": HELPER, "delegation_scope": scope }],
                ["discovery_request", {}],
                ["agent_get", {}],
                ["x_keyless_list_secrets", {}],
                ["x_keyless_check_access", { "secret_name": "db/PASSWORD" }],
                ["x_keyless_check_access", { "secret_name": "{{nl:api/TOKEN}}", "action_type": "inject_stdin" }],
                ["rotation_notification", { "since": "2026-01-01T00:00:00Z" }],
                ["action_request", { "action": action }],
                ["action_request", { "actions": [action, { "type": "exec", "template": "cat .env" }] }],
                ["action_request", { "action": { "type": "exec" } }],
                ["audit_query", {}],
                ["federated_action", {}],
            ]),
        );
        let kinds: Vec<&str> = delegated[0].as_array().unwrap()[1..]
            .iter()
            .map(|answer| answer["message_type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "delegation_response",
                "discovery_response",
                "agent_get_response",
                "x_keyless_secrets",
                "x_keyless_access",
                "x_keyless_access",
                "rotation_notification",
                "action_response",
                "action_response",
                "action_response",
                "error",
                "error",
            ]
        );
        let token = json!({ "token_id": token(&delegated) });
        let accepted = say("helper", json!([["x_keyless_accept_delegation", token]]));
        assert_eq!(accepted[0][1]["message_type"], "x_keyless_delegation", "{accepted:?}");
        let revoked = say("agent", json!([["delegation_revoke", token]]));
        assert_eq!(revoked[0][1]["payload"]["status"], "revoked", "{revoked:?}");
    }
}

/// The log's own objects, as the operator gets them.
fn about_the_log(world: &World) -> Vec<(&'static str, Value)> {
    let data = |arguments: &[&str]| world.keyless(arguments).run().data();
    let signed =
        data(&["audit", "checkpoint", "--json"])["checkpoints"].as_array().unwrap().clone();
    let verified = data(&["audit", "verify", "--json"]);
    let tokens = data(&["delegation", "list", "--json"])["delegations"].as_array().unwrap().clone();
    assert!(!signed.is_empty() && !tokens.is_empty());
    let tokens = tokens.into_iter().map(|one| ("delegation-token", one["token"].clone()));
    let signed = signed.into_iter().map(|one| ("checkpoint", one));
    signed.chain(tokens).chain([("log-verification", verified)]).collect()
}

/// The rules that are bundled, and those in force as they are told.
fn rules(world: &World) -> Vec<(&'static str, Value)> {
    let files = [
        include_str!("../../../core/data/nl_deny_rules.json"),
        include_str!("../../../core/data/keyless_deny_rules.json"),
    ];
    let rows = files.into_iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).unwrap());
    let told = world.keyless(&["guard", "rules", "--json"]).run().data()["rules"].clone();
    let told = told.as_array().unwrap().clone().into_iter().map(|rule| ("rule-in-force", rule));
    rows.map(|rule| ("deny-rule", rule)).chain(told).collect()
}

#[test]
fn what_the_binary_says_fits() {
    let world = with_secrets();
    // Its agent is refused more than once.
    let mut served = Served::with(&world, "detection = 'record'");
    let administered = administered(&world, &mut served);
    granted_with(&world, AGENT, &["db/*"], &["--max-uses", "9"]);
    let action = |template: &str| {
        served.act(&json!({ "type": "exec", "template": template }))["body"].clone()
    };
    asked_over_lines(&served);
    let get = |path: &str| served.get(path)["body"].clone();
    let mut cases = vec![
        ("action-response", action("true {{nl:api/TOKEN}}")),
        ("action-response", action("false")),
        ("action-response", action("vault read secret/key")),
        ("discovery", get("/.well-known/nl-protocol")),
        ("health", get("/nl/v1/health")),
        ("error", get("/nl/v1/nothing")),
    ];
    // A value that was replaced, and one that nobody is to use any more.
    let rotate = ["secret", "rotate", BOXED, "--value-stdin"];
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    world.keyless(&["secret", "revoke", BOXED, "--compromised", "--yes"]).run().ok();
    let rotations = served.get("/nl/v1/rotations")["body"].clone();
    assert_eq!(rotations["rotations"].as_array().map(Vec::len), Some(2), "{rotations}");
    cases.push(("rotations", rotations));
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    let shown = action("sh -c 'printf %s \"$1\"' x {{nl:db/PASSWORD}}");
    cases.push(("action-response", shown));
    cases.extend(administered);
    // Who is nobody is told no number of the log.
    let aid = json!({ "agent_uri": AGENT, "instance_id": "00000000-0000-4000-8000-000000000000" });
    served.know("nobody", &json!({ "aid": aid, "credential": { "value": "none" } }));
    let action = json!({ "type": "exec", "template": "true" });
    let told = served.client(&json!([{ "over": "http", "as": "nobody", "action": action }]));
    assert_eq!(told[0]["body"]["audit_ref"], Value::Null, "{told:?}");
    cases.push(("action-response", told[0]["body"].clone()));
    let data = |arguments: &[&str]| world.keyless(arguments).run().data();
    for one in data(&["grant", "list", "--json"])["grants"].as_array().unwrap() {
        cases.push(("scope-grant", one["grant"].clone()));
    }
    for one in data(&["agent", "list", "--json"])["agents"].as_array().unwrap() {
        cases.push(("agent", one.get("aid").unwrap_or(one).clone()));
    }
    cases.extend(about_the_log(&world));
    cases.extend(rules(&world));
    cases.extend(world.log().into_iter().map(|entry| ("audit-entry", entry)));
    assert!(cases.len() > 15, "{}", cases.len());
    let cases: Vec<Value> = cases
        .into_iter()
        .map(|(schema, value)| {
            json!({ "schema": schema, "valid": true, "what": value, "value": value })
        })
        .collect();
    assert_eq!(disagreements(&world, &cases), "");
}
