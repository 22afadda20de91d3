//! Every JSON example of spec/secrets-through-mcp.md, in both directions. Its provider names, which
//! the spec's text has lost, are `jira` here.

use keyless_core::{Code, approval::Fields};
use serde_json::json;

use super::*;

fn path() -> SecretPath {
    SecretPath::parse("team/jira/api-key").unwrap()
}

fn question(tool: &str, arguments: Value) -> Result<Ask, Error> {
    ask_of(tool, arguments).expect("the tool is there")
}

#[track_caller]
fn asks(tool: &str, arguments: Value, expected: &Ask) {
    let ask = question(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(ask == *expected, "{tool}: {}", serde_json::to_string(&ask).unwrap());
    let carried: Ask = serde_json::from_value(serde_json::to_value(&ask).unwrap()).unwrap();
    assert!(carried == *expected, "{tool} over the socket");
}

/// `text` is what the agent reads; the reply gives it, and it gives the reply.
#[track_caller]
fn told<T>(text: &Value, make: fn(T) -> Reply)
where
    T: serde::de::DeserializeOwned,
{
    let reply = make(serde_json::from_value(text.clone()).unwrap());
    assert_eq!(serde_json::from_str::<Value>(&reply.text()).unwrap(), *text);
    let carried: Reply = serde_json::from_value(serde_json::to_value(&reply).unwrap()).unwrap();
    assert_eq!(carried, reply);
}

#[test]
fn list() {
    let arguments = json!({
        "path_contains": "jira", "scope": "team", "status": "expiring", "include_internal": false,
    });
    let expected = Ask::List {
        path_contains: Some("jira".to_owned()),
        scope: Some("team".to_owned()),
        freshness: Some(Freshness::Expiring),
    };
    asks("secrets_list", arguments, &expected);
    let all = Ask::List { path_contains: None, scope: None, freshness: None };
    asks("secrets_list", json!({}), &all);
    let reply = json!([{
        "path": "team/jira/api-key",
        "status": "expiring",
        "expires_at": "2026-05-23",
        "source_name": null,
        "capabilities_hint": "read,rotate",
    }]);
    told(&reply, Reply::Listed);
    let gated = json!([{
        "path": "team/jira/api-key", "status": "registered", "expires_at": null, "source_name": null,
        "capabilities_hint": "read", "approve_on_use": "per-call",
    }]);
    told(&gated, Reply::Listed);
    let rows = serde_json::from_value(gated.clone()).unwrap();
    assert_eq!(Reply::Listed(rows).structured(), json!({ "secrets": gated }));
}

#[test]
fn describe() {
    asks(
        "secrets_describe",
        json!({ "path": "team/jira/api-key" }),
        &Ask::Describe { path: path() },
    );
    let reply = json!({
        "path": "team/jira/api-key",
        "status": "registered",
        "expires_at": "2026-12-01",
        "source_name": null,
        "capabilities_hint": "read",
        "description": "API token used by team CI",
        "retrieval_url": "https://example.invalid/jira/tokens",
        "rotation_method": "manual",
        "last_rotated_at": "2026-04-15",
        "rotate_every_days": 90,
        "pattern_id": "jira",
        "approve_on_use": "session",
    });
    told(&reply, Reply::Described);
}

#[test]
fn provision_and_rotation() {
    let ask = |asked| Ask::Request { path: path(), asked, ttl_seconds: None };
    let with = |mode: &str| json!({ "path": "team/jira/api-key", "mode": mode });
    let (provision, rotation) = (ask(Asked::provision()), ask(Asked::rotation()));
    asks("secrets_request_provision", with("provision"), &provision);
    asks("secrets_request_provision", json!({ "path": "team/jira/api-key" }), &provision);
    asks("secrets_request_provision", with("rotation"), &rotation);
    asks("secrets_request_rotation", json!({ "path": "team/jira/api-key" }), &rotation);
    told(&json!({ "request_id": "prov-1f9b3a2c5e7d" }), Reply::Requested);
    told(&json!({ "request_id": "prov-7c3e5a2d8b9f" }), Reply::Requested);
}

#[test]
fn proposals() {
    let arguments = json!({
        "path": "team/jira/api-key",
        "fields": {
            "description": "Updated description",
            "retrieval_url": "https://example.invalid/jira/new-url",
            "rotate_every_days": 60,
            "expires_at": "2027-01-01",
            "pattern_id": "jira",
        },
    });
    let fields = Fields {
        description: Some("Updated description".to_owned()),
        retrieval_url: Some("https://example.invalid/jira/new-url".to_owned()),
        rotate_every_days: Some(60),
        expires_at: Some("2027-01-01".parse().unwrap()),
        pattern_id: Some("jira".to_owned()),
    };
    let asked = Asked::metadata(fields);
    let expected = Ask::Request { path: path(), asked, ttl_seconds: None };
    asks("secrets_propose_metadata", arguments, &expected);
    told(&json!({ "request_id": "prov-9a2b8c4f7e1d" }), Reply::Requested);

    let arguments = json!({
        "suggested_path": "team/jira/api-key",
        "metadata": {
            "description": "Newly discovered credential",
            "pattern_id": "jira",
            "retrieval_url": "https://example.invalid/jira/tokens",
            "rotate_every_days": 90,
            "expires_at": null,
        },
    });
    let fields = Fields {
        description: Some("Newly discovered credential".to_owned()),
        retrieval_url: Some("https://example.invalid/jira/tokens".to_owned()),
        rotate_every_days: Some(90),
        expires_at: None,
        pattern_id: Some("jira".to_owned()),
    };
    let asked = Asked::new_path(fields);
    let expected = Ask::Request { path: path(), asked, ttl_seconds: None };
    asks("secrets_propose_new_path", arguments, &expected);
    told(&json!({ "request_id": "prov-2e4f6a8c1b3d" }), Reply::Requested);
}

#[test]
fn use_approval() {
    let arguments = json!({
        "path": "team/jira/api-key", "reason": "pushing image to staging registry", "ttl_seconds": 60,
    });
    let reason = "pushing image to staging registry".to_owned();
    let asked = Asked::use_approval(reason);
    let expected = Ask::Request { path: path(), asked, ttl_seconds: Some(60) };
    asks("secrets_request_use_approval", arguments, &expected);
    told(&json!({ "request_id": "prov-b8d7f9c1a3e5" }), Reply::Requested);
    let empty = json!({ "path": "team/jira/api-key", "reason": " " });
    let error = question("secrets_request_use_approval", empty).err().unwrap();
    assert_eq!(error.code(), Code::Usage);
}

#[test]
fn poll() {
    let request_id = RequestId::parse("prov-1f9b3a2c5e7d").unwrap();
    let arguments = json!({ "request_id": "prov-1f9b3a2c5e7d" });
    asks("secrets_poll_status", arguments, &Ask::Poll { request_id });
    let answer = |kind: &str, status: Value| {
        json!({
            "request_id": "prov-1f9b3a2c5e7d",
            "path": "team/jira/api-key",
            "kind": kind,
            "status": status,
            "age_seconds": 27,
        })
    };
    told(&answer("provision", json!({ "kind": "ok" })), Reply::Polled);
    for status in ["pending", "ok", "cancelled", "expired"] {
        for kind in ["provision", "rotation", "metadata-proposal", "new-path-proposal"] {
            told(&answer(kind, json!({ "kind": status })), Reply::Polled);
        }
    }
    for status in ["pending", "expired", "once", "session", "denied"] {
        told(&answer("use-approval", json!({ "kind": status })), Reply::Polled);
    }
    let failed = json!({ "kind": "failed", "reason": "The disk is full; nothing was changed." });
    told(&answer("rotation", failed), Reply::Polled);
    let mut applied = answer("new-path-proposal", json!({ "kind": "ok" }));
    applied["outcome"] =
        json!({ "applied_fields": ["description", "expires_at"], "final_path": "team/x/y" });
    told(&applied, Reply::Polled);
    let other = json!({ "request_id": "prov-1F" });
    let error = question("secrets_poll_status", other).err().unwrap();
    assert_eq!(error.detail().as_str(), "unknown request_id: prov-1F");
}

#[test]
fn operational_tools() {
    asks("secrets_status", json!({}), &Ask::Status);
    let unlock = Ask::Unlock { totp: "123456".to_owned(), duration_seconds: Some(60) };
    asks("secrets_unlock", json!({ "totp": "123456", "duration_seconds": 60 }), &unlock);
    let validate = Ask::Validate { path: path(), liveness: false };
    asks("secrets_validate", json!({ "path": "team/jira/api-key" }), &validate);
    let status = json!({
        "state": "unlocked", "expires_in_seconds": 60, "available_methods": ["passphrase"],
        "trust_level": "independent", "surface_version": "1.0",
    });
    told(&status, Reply::Status);
    told(&json!({ "unlocked": true, "granted_seconds": 60 }), Reply::Unlocked);
    told(&json!({ "path": "team/jira/api-key", "format": "unknown" }), Reply::Validated);
}

#[test]
fn bad_arguments_have_their_own_words() {
    let code = |tool: &str, arguments| question(tool, arguments).err().map(|error| error.code());
    let bad_path = json!({ "path": "Team/x" });
    assert_eq!(code("secrets_describe", bad_path), Some(Code::PathInvalid));
    for (tool, arguments) in [
        ("secrets_describe", json!({})),
        ("secrets_describe", json!({ "path": 7 })),
        ("secrets_list", json!({ "status": "provisioned" })),
        ("secrets_request_provision", json!({ "path": "a/b/c", "mode": "now" })),
        ("secrets_request_use_approval", json!({ "path": "a/b/c" })),
        ("secrets_propose_metadata", json!({ "path": "a/b/c", "fields": {} })),
        (
            "secrets_propose_metadata",
            json!({ "path": "a/b/c", "fields": { "expires_at": "soon" } }),
        ),
    ] {
        assert_eq!(code(tool, arguments.clone()), Some(Code::Usage), "{tool} {arguments}");
    }
    asks(
        "secrets_describe",
        json!({ "path": "team/jira/api-key", "later": 1 }),
        &Ask::Describe { path: path() },
    );
    assert!(ask_of("secrets_get", json!({})).is_none());
}

#[test]
fn tools_are_the_listed_ones_and_described() {
    let names: Vec<_> = TOOLS.iter().map(|row| row.name).collect();
    assert_eq!(
        names,
        [
            "secrets_list",
            "secrets_describe",
            "secrets_request_provision",
            "secrets_request_rotation",
            "secrets_propose_metadata",
            "secrets_propose_new_path",
            "secrets_request_use_approval",
            "secrets_poll_status",
            "secrets_status",
            "secrets_unlock",
            "secrets_validate",
        ]
    );
    for row in TOOLS {
        let tool = serde_json::to_value(row.tool()).unwrap();
        assert_eq!(
            (&tool["inputSchema"]["type"], &tool["outputSchema"]["type"]),
            (&json!("object"), &json!("object"))
        );
        for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten()
        {
            let described = property.get("description").is_some() || property.get("$ref").is_some();
            assert!(described, "{}: {name}: {property}", row.name);
            assert!(name != "value" && name != "passphrase");
        }
        assert!(
            tool["annotations"]["readOnlyHint"].is_boolean() && tool["description"].is_string()
        );
    }
}
