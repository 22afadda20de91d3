//! JSON Schemas (2020-12) of the protocol's objects, as Keyless reads and writes them.
//!
//! Written by hand, as data: which fields an action has depends on its type, which no derivation from
//! the flat type says. Tests hold them against the types, the specification's examples and what the
//! binary answers.

use serde_json::{Map, Value, json};

const DEFINITIONS: &str = include_str!("../../data/nl_schemas.json");

/// The objects that have a schema.
pub const SCHEMAS: [&str; 18] = [
    "action",
    "action-request",
    "action-response",
    "agent",
    "agent-registered",
    "agent-registration",
    "audit-entry",
    "audit-page",
    "batch-response",
    "delegation-token",
    "discovery",
    "envelope",
    "error",
    "health",
    "revocation",
    "revocation-result",
    "rotations",
    "scope-grant",
];

/// The schema of an object, with everything that it refers to; nothing for a name that is none of
/// [`SCHEMAS`].
pub fn schema(name: &str) -> Option<Value> {
    let name = SCHEMAS.iter().find(|known| **known == name)?;
    let all: Map<String, Value> =
        serde_json::from_str(DEFINITIONS).expect("a test reads the definitions");
    let mut used = Map::new();
    collect(&all, name, &mut used);
    Some(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("https://keyless.dev/schemas/nl/1.0/{name}.json"),
        "title": all[*name]["title"],
        "$ref": format!("#/$defs/{name}"),
        "$defs": used,
    }))
}

/// What a schema is of, in a few words.
pub fn schema_title(name: &str) -> Option<String> {
    schema(name)?["title"].as_str().map(ToOwned::to_owned)
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
            (json!(result), &all["action-response"]["properties"]["result"]),
            (json!(fault), &all["fault"]),
            (json!(conditions), &all["conditions"]),
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
