//! The published schemas: what the specification shows, and what the binary says, fits them.

use keyless_core::{
    action::{Action, ActionRequest},
    grant::Grant,
    nl_message::SCHEMAS,
};
use serde_json::{Value, json};

use crate::{
    nl::{AGENT, BOXED, Served, granted_with, with_secrets},
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
    }
    let input = json!({ "schemas": schemas, "cases": cases }).to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/schemas/validate.py");
    let python = world.keyless(&[]).without_passphrase().instead(&["python3", script]);
    python.stdin(input).run().ok()
}

#[test]
fn every_example_of_the_specification_fits_and_bad_ones_do_not() {
    let world = World::empty();
    assert_eq!(disagreements(&world, &examples()), "");
    let listed = world.keyless(&["schema", "--json"]).without_passphrase().run().data();
    assert_eq!(listed["schemas"].as_array().unwrap().len(), SCHEMAS.len());
}

/// Read as a text, and refused when the agent is looked up.
const REFUSED_LATER: &str = "no agent's URI";

/// The schema and the parser are of one mind.
#[test]
fn what_a_schema_takes_its_type_takes() {
    for case in examples() {
        let value = case["value"].clone();
        let taken = match case["schema"].as_str().unwrap() {
            "action" => serde_json::from_value::<Action>(value).is_ok(),
            "action-request" => ActionRequest::from_json(&value).is_ok(),
            "scope-grant" => {
                serde_json::from_value::<Grant>(value).is_ok_and(|grant| grant.faults().is_empty())
            }
            _ => continue,
        };
        let is_known = case["what"] == REFUSED_LATER;
        assert_eq!(json!(taken && !is_known), case["valid"], "{}", case["what"]);
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

#[test]
fn what_the_binary_says_fits() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    let administered = administered(&world, &mut served);
    granted_with(&world, AGENT, &["db/*"], &["--max-uses", "9"]);
    let action = |template: &str| {
        served.act(&json!({ "type": "exec", "template": template }))["body"].clone()
    };
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
    // Last: who shows a value is watched from then on.
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
