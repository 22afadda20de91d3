//! JSON Schemas (2020-12) of the protocol's objects, as Keyless reads and writes them.
//!
//! Written by hand, as data: which fields an action has depends on its type, which no derivation from
//! the flat type says. Tests hold them against the types, the specification's examples and what the
//! binary answers.

use serde_json::{Map, Value, json};

const DEFINITIONS: &str = include_str!("../../data/nl_schemas.json");

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The objects that have a schema.
pub const SCHEMAS: [&str; 45] = [
    "access",
    "access-check",
    "action",
    "action-request",
    "action-response",
    "action-result",
    "agent",
    "agent-get",
    "agent-registered",
    "agent-registration",
    "agent-shown",
    "attestation-claims",
    "audit-entry",
    "audit-page",
    "audit-query",
    "batch-response",
    "blocked",
    "checkpoint",
    "credential-rotation",
    "delegation-accept",
    "delegation-accepted",
    "delegation-created",
    "delegation-request",
    "delegation-revoke",
    "delegation-revoked",
    "delegation-token",
    "deny-rule",
    "discovery",
    "envelope",
    "error",
    "guard-rules",
    "handshake",
    "handshake-ack",
    "health",
    "log-verification",
    "rate-window",
    "revocation",
    "revocation-result",
    "rotation",
    "rotations",
    "rotations-query",
    "rule-in-force",
    "scope-grant",
    "secrets",
    "secrets-query",
];

/// The schema of an object, with everything that it refers to; nothing for a name that is none of
/// [`SCHEMAS`].
pub fn schema(name: &str) -> Option<Value> {
    let name = SCHEMAS.iter().find(|known| **known == name)?;
    let all = definitions();
    let mut used = Map::new();
    collect(&all, name, &mut used);
    Some(json!({
        "$schema": DIALECT,
        "$id": format!("https://keyless.dev/schemas/nl/1.0/{name}.json"),
        "title": all[*name]["title"],
        "$ref": format!("#/$defs/{name}"),
        "$defs": used,
    }))
}

/// Every schema once, each under `$defs` by its name, with what they refer to.
pub fn all_schemas() -> Value {
    json!({
        "$schema": DIALECT,
        "$id": "https://keyless.dev/schemas/nl/1.0/all.json",
        "title": "Objects of the NL Protocol",
        "$defs": definitions(),
    })
}

/// What a schema is of, in a few words.
pub fn schema_title(name: &str) -> Option<String> {
    schema(name)?["title"].as_str().map(ToOwned::to_owned)
}

fn definitions() -> Map<String, Value> {
    serde_json::from_str(DEFINITIONS).expect("a test reads the definitions")
}

fn collect(all: &Map<String, Value>, name: &str, used: &mut Map<String, Value>) {
    if used.contains_key(name) {
        return;
    }
    let definition = &all[name];
    used.insert(name.to_owned(), definition.clone());
    for other in references(definition) {
        collect(all, other, used);
    }
}

fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|reference| reference.strip_prefix("#/$defs/"));
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActionType,
        action::{ActionFault, ActionResponse, ActionResult},
        deny::{Blocked, Guard},
        grant::Conditions,
        nl_message::{MessageType, NlFault},
    };

    fn words(name: &str) -> Vec<String> {
        let all: Value = serde_json::from_str(DEFINITIONS).unwrap();
        let words = all[name]["enum"].as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_schema_is_whole() {
        for name in SCHEMAS {
            let schema = schema(name).unwrap();
            assert!(schema["title"].is_string(), "{name}");
            for reference in references(&schema) {
                assert!(schema["$defs"][reference].is_object(), "{name}: {reference}");
            }
        }
        assert!(schema("uuid").is_none() && schema("").is_none());
    }

    #[test]
    fn lists_of_words_are_the_types_own() {
        let types = MessageType::ALL.iter().map(|kind| kind.as_str().to_owned());
        assert_eq!(words("message-type"), types.collect::<Vec<_>>());
        let mut actions = words("action-type");
        actions.push("egress".to_owned());
        actions.sort_unstable();
        let mut types: Vec<_> =
            ActionType::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
        types.sort_unstable();
        assert_eq!(actions, types);
    }

    /// What an envelope holds is held against the schema of its type, and nothing is said of the four that are not served.
    #[test]
    fn every_type_of_message_has_its_payloads_schema() {
        let schema = schema("envelope").unwrap();
        let cases = schema["$defs"]["envelope"]["allOf"].as_array().unwrap();
        let named: Vec<&str> = cases
            .iter()
            .filter(|case| case["then"]["properties"]["payload"].is_object())
            .filter_map(|case| case["if"]["properties"]["message_type"]["const"].as_str())
            .collect();
        let types = MessageType::ALL.iter().map(|kind| kind.as_str());
        let served: Vec<&str> = types.filter(|word| !word.starts_with("federat")).collect();
        assert_eq!(named, served);
    }

    #[test]
    fn words_about_rules_are_the_guards() {
        let (categories, severities) = (words("deny-category"), words("deny-severity"));
        let places = words("deny-place");
        for rule in Guard::standard().rules() {
            let (category, severity) = (json!(rule.category), json!(rule.severity));
            assert!(categories.iter().any(|word| json!(word) == category), "{category}");
            assert!(severities.iter().any(|word| json!(word) == severity), "{severity}");
            assert!(places.iter().any(|word| json!(word) == json!(rule.place)), "{}", rule.id);
        }
    }

    /// Whatever a type can write, its schema has a place for.
    #[test]
    fn every_member_of_a_type_is_in_its_schema() {
        let now: jiff::Timestamp = "2026-02-08T14:30:00Z".parse().unwrap();
        let all: Value = serde_json::from_str(DEFINITIONS).unwrap();
        let text = || Some("x".to_owned());
        let result = ActionResult {
            stdout: text(),
            stderr: text(),
            encoding: Some(crate::action::OutputEncoding::Base64),
            exit_code: Some(0),
            data: Some(json!(1)),
            output_path: text(),
            resolved_count: Some(1),
            permissions: text(),
        };
        let fault = ActionFault::from(&NlFault::from(crate::Code::Internal));
        let response = ActionResponse {
            schema: text(),
            nl_version: "1.0".to_owned(),
            request_id: "x".to_owned(),
            action_id: "x".to_owned(),
            audit_ref: "x".to_owned(),
            result: Some(result.clone()),
            error: Some(fault.clone()),
            secrets_validated: vec!["x".to_owned()],
            grant_refs: vec!["x".to_owned()],
            warnings: vec!["x".to_owned()],
            ..ActionResponse::default()
        };
        let conditions = Conditions {
            max_uses: Some(1),
            max_concurrent: Some(1),
            max_per_minute: Some(1),
            allow_writes: true,
            ..Conditions::between(now, now)
        };
        for (value, schema) in [
            (json!(response), &all["action-response"]),
            (json!(result), &all["action-result"]),
            (json!(fault), &all["fault"]),
            (json!(conditions), &all["conditions"]),
            (json!(Blocked::failure("x")), &all["blocked"]),
        ] {
            for member in value.as_object().unwrap().keys() {
                assert!(
                    schema["properties"].get(member).is_some(),
                    "{}: {member}",
                    schema["title"]
                );
            }
        }
    }
}
