//! Arguments as agents write them, and the payloads that they become.
//!
//! The two schemas that the protocol has for an action's arguments are both taken (C-24): `scope` is
//! another word for `context`, and the purpose may be left out. What no tool has is refused, since a bound that
//! is misspelt would seem to hold.

use std::collections::BTreeMap;

use keyless_core::{Code, Error, SafeText, maybe_whole};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// What the protocol's own messages say beside what they ask for: the server says it for its agent, whatever stands here.
const OF_MESSAGES: [&str; 4] = ["$schema", "agent", "nl_version", REQUEST_ID];

/// What is done once names its request itself, where the agent wants to say that it is the same again.
const REQUEST_ID: &str = "request_id";

/// Arguments that make a payload.
pub(super) trait Arguments: DeserializeOwned + JsonSchema + Serialize + 'static {
    /// Whether the message is done once, however often the same one comes: then it may have a [`REQUEST_ID`].
    const IS_DONE_ONCE: bool = false;

    /// The payload of these members, none of which is null.
    fn wrap(members: Map<String, Value>) -> Map<String, Value> {
        members
    }
}

/// Reads the arguments of a tool; the error names those that it has.
pub(super) fn payload<A: Arguments>(mut arguments: Value) -> Result<Map<String, Value>, Error> {
    if let Some(members) = arguments.as_object_mut() {
        let is_own = |name: &str| A::IS_DONE_ONCE && name == REQUEST_ID;
        members.retain(|name, _| is_own(name) || !OF_MESSAGES.contains(&name.as_str()));
    }
    let read: A = serde_json::from_value(arguments).map_err(|error| {
        let words = SafeText::words("the arguments: ").as_they_wrote(&error.to_string());
        Error::with(Code::MessageMalformed, words)
    })?;
    match serde_json::to_value(read) {
        Ok(Value::Object(mut members)) => {
            members.retain(|_, value| !value.is_null());
            Ok(A::wrap(members))
        }
        _ => Err(Code::Internal.into()),
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetAgent {
    /// Which instance, as its UUID; yourself when absent. For an administrator, any of its organization's.
    instance_id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = names_of_action)]
pub(super) struct ExecuteAction {
    /// `exec`, `template`, `inject_stdin`, `inject_tempfile`, `sdk_proxy` or `delegate`.
    #[serde(rename = "type", alias = "action_type")]
    kind: String,
    /// The command of `exec`, with `{{nl:reference}}` where a secret belongs.
    template: Option<String>,
    /// The text of `template`.
    template_content: Option<String>,
    /// The file with the text of `template`.
    template_path: Option<String>,
    /// Where the file of `template` is put, below the directory for it.
    output_path: Option<String>,
    /// The command of `inject_stdin` and `inject_tempfile`.
    command: Option<String>,
    /// What `inject_stdin` gives to the command, as `{{nl:reference}}`.
    secret_ref: Option<String>,
    /// What `inject_tempfile` puts into files: names that the command uses, each with its `{{nl:reference}}`.
    file_refs: Option<BTreeMap<String, String>>,
    /// Whether the values of `inject_tempfile` keep NUL bytes.
    binary: Option<bool>,
    /// The service of `sdk_proxy`, such as `aws` or `github`.
    provider: Option<String>,
    /// Its part, such as `s3`.
    service: Option<String>,
    /// What it is to do, such as `list_objects_v2`.
    operation: Option<String>,
    /// What the operation takes.
    parameters: Option<Map<String, Value>>,
    /// What proves who calls, as `{{nl:reference}}`.
    credentials_ref: Option<String>,
    /// The agent that `delegate` hands the action to.
    delegate_to: Option<String>,
    /// What it does.
    delegated_action: Option<Map<String, Value>>,
    /// What it may use for that: `secrets`, `max_uses`, `ttl_seconds`.
    delegation_scope: Option<Map<String, Value>>,
    /// Where references are looked up first: `project`, `environment`.
    #[serde(alias = "scope")]
    context: Option<Map<String, Value>>,
    /// Why, for the person and the log.
    purpose: Option<String>,
    /// How long it may take, 1000 to 600000; 30000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    #[schemars(range(min = 1000, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Whether it is only checked.
    dry_run: Option<bool>,
    /// The delegation that it is done under, if another agent handed you a `token_id` for it.
    delegation_token_id: Option<String>,
    /// A name of your own for this request: the same one with the same arguments, within ten minutes, gets the same answer and
    /// does nothing again.
    request_id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSecrets {
    /// Only secrets of this pattern (`api/*`, `team/prod/**`), or whose path or `category/name` begins so.
    scope: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckAccess {
    /// The secret, as a reference such as `api/TOKEN`.
    secret_name: String,
    /// For this type of action; `exec` when absent.
    action_type: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = names_of_delegation)]
pub(super) struct CreateDelegation {
    /// The agent that is to act, `nl://vendor/type/version`.
    #[serde(alias = "subject")]
    delegate_to: String,
    /// What it may do: `secrets`, `actions`, `max_uses`, `ttl_seconds`.
    #[serde(alias = "scope")]
    delegation_scope: Map<String, Value>,
    /// For how long, in seconds, where the scope does not say.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    #[schemars(range(min = 1))]
    ttl_seconds: Option<u64>,
    /// A name of your own for this request: the same one with the same arguments, within ten minutes, gets the same answer and
    /// does nothing again.
    request_id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeDelegation {
    /// The token's id.
    token_id: String,
    /// Why.
    reason: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RegisterAgent {
    /// What it is to be called, `nl://vendor/type/version`: a name that no other agent and no grant has.
    agent_uri: String,
    /// `coding_assistant`, `autonomous_executor`, `orchestrator`, `ci_cd_pipeline` or `custom:ORG/NAME`.
    agent_type: String,
    /// The types of actions that may ever be handed on to it, such as `exec`; none that you have not.
    capabilities: Vec<String>,
    /// The secrets that may ever be: `projects`, `environments`, and `categories` and `secret_patterns` if you like.
    scope: Option<Map<String, Value>>,
    /// How long it lives at most; 12 when absent, and no longer than you.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    #[schemars(range(min = 1))]
    requested_ttl_hours: Option<u32>,
    /// Where it runs, as words of your own.
    session_context: Option<BTreeMap<String, String>>,
    /// What for: a person reads it.
    purpose: Option<String>,
    /// Whose it is; your organization when absent.
    organization_id: Option<String>,
    /// For an administrator: who answers for it, as `type` (`human` or `agent`) and `identifier`. Left out, you do.
    delegated_by: Option<Map<String, Value>>,
    /// A name of your own for this request: the same one with the same arguments, within ten minutes, gets the same answer and
    /// does nothing again.
    request_id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeAgent {
    /// The agents of this URI.
    agent_uri: String,
    /// `compromised`, `decommissioned`, `policy_violation` or `administrative`.
    reason: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryAudit {
    /// Only what agents of this URI did.
    agent_uri: Option<String>,
    /// Only what was done to this: a secret's path, an agent, a host.
    target: Option<String>,
    /// Only from this time on, in UTC.
    from: Option<String>,
    /// Only until this time, in UTC.
    to: Option<String>,
    /// Only what belongs to one request.
    correlation_id: Option<String>,
    /// Only what ended so: `success`, `denied`, `blocked`, `error` or `timeout`.
    result: Option<String>,
    /// Only of one machine.
    platform: Option<String>,
    /// Which page; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    #[schemars(range(min = 1))]
    page: Option<u32>,
    /// Entries on it, 100 at most; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    #[schemars(range(min = 1, max = 100))]
    page_size: Option<u32>,
}

fn names_of_action(schema: &mut Schema) {
    name_twice(schema, &[("type", "action_type"), ("context", "scope")]);
}

fn names_of_delegation(schema: &mut Schema) {
    name_twice(schema, &[("delegate_to", "subject"), ("delegation_scope", "scope")]);
}

/// Gives members their other names, of which one is said. As what is not: several models take no tool whose schema has
/// `oneOf`, `anyOf` or `allOf` at its top.
fn name_twice(schema: &mut Schema, names: &[(&str, &str)]) {
    let mut faults = Vec::new();
    for (name, other) in names {
        faults.push(json!({ "required": [name, other] }));
        let required = schema.get_mut("required").and_then(Value::as_array_mut);
        if let Some(required) = required.filter(|all| all.iter().any(|one| one == name)) {
            required.retain(|one| one != name);
            let either = json!([{ "required": [name] }, { "required": [other] }]);
            faults.push(json!({ "not": { "anyOf": either } }));
        }
        if let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut)
            && let Some(mut member) = members.get(*name).cloned()
        {
            member["description"] = format!("Another word for `{name}`.").into();
            members.insert((*other).to_owned(), member);
        }
    }
    schema.insert("not".to_owned(), json!({ "anyOf": faults }));
}

impl Arguments for CheckAccess {}
impl Arguments for CreateDelegation {
    const IS_DONE_ONCE: bool = true;
}
impl Arguments for GetAgent {}
impl Arguments for ListSecrets {}
impl Arguments for Nothing {}
impl Arguments for QueryAudit {}
impl Arguments for RegisterAgent {
    const IS_DONE_ONCE: bool = true;
}
impl Arguments for RevokeAgent {}
impl Arguments for RevokeDelegation {}

impl Arguments for ExecuteAction {
    const IS_DONE_ONCE: bool = true;

    fn wrap(mut members: Map<String, Value>) -> Map<String, Value> {
        let id = members.remove(REQUEST_ID).map(|id| (REQUEST_ID.to_owned(), id));
        let token = members.remove("delegation_token_id");
        let shown = token.map(|token| Map::from_iter([("token_id".to_owned(), token)]));
        let shown = shown.map(|shown| ("delegation".to_owned(), Value::Object(shown)));
        let action = [("action".to_owned(), Value::Object(members))];
        id.into_iter().chain(shown).chain(action).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_taken_however_they_are_written() {
        let page = json!({ "page": 2.0, "page_size": null });
        let asked: QueryAudit = serde_json::from_value(page).unwrap();
        assert_eq!((asked.page, asked.page_size), (Some(2), None));
        let action = json!({ "type": "exec", "purpose": "x", "timeout_ms": 10000.0 });
        let asked: ExecuteAction = serde_json::from_value(action).unwrap();
        assert_eq!(asked.timeout_ms, Some(10_000));
        assert!(serde_json::from_value::<QueryAudit>(json!({ "page": 1.5 })).is_err());
        let schema = schemars::schema_for!(QueryAudit);
        let page = schema.pointer("/properties/page").unwrap();
        assert_eq!((page.get("default"), &page["type"]), (None, &json!(["integer", "null"])));
    }
}
