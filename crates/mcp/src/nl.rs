//! The toolset `nl`: actions with secrets that the agent never sees.
//!
//! Who the agent is stands fixed when the server starts; no argument names an identity, and no tool
//! gives a value. A tool is a message of the NL Protocol: what comes back is the broker's answer as it
//! stands, which was sanitized there.

mod arguments;
mod documents;
mod table;

use futures_util::future::BoxFuture;
use keyless_core::{
    Error,
    nl_message::{MessageType, NlFault, Shape},
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Map, Value, json};

pub(crate) use self::{
    documents::{DOCUMENTS, Document},
    table::{Row as TableRow, TOOLS},
};

/// Carries messages to whoever serves the protocol, as the agent that it stands for. Object-safe.
pub trait Nl: Send + Sync + 'static {
    /// Sends one message and gives its answer's payload.
    fn send(
        &self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, Error>>;
}

/// Calls a tool; `None` when there is none of this name. What never reached the broker fails in the protocol's form too.
pub(crate) async fn call(
    port: &dyn Nl,
    name: &str,
    arguments: JsonObject,
) -> Option<CallToolResult> {
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    let sent = match (tool.payload)(Value::Object(arguments)) {
        Ok(payload) => port.send(tool.kind, payload).await,
        Err(error) => Err(error),
    };
    let failed = |error| json!({ "error": NlFault::from(error).body(Shape::Enveloped) });
    Some(told(sent.unwrap_or_else(failed)))
}

/// An answer with an error in it is the error of the call, its whole structure with it.
fn told(answer: Value) -> CallToolResult {
    let text = vec![ContentBlock::text(answer.to_string())];
    if answer.get("error").is_some() {
        return CallToolResult::error(text);
    }
    let mut result = CallToolResult::success(text);
    result.structured_content = Some(answer);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(tool: &str, arguments: Value) -> Result<Value, String> {
        let row = TOOLS.iter().find(|row| row.name == tool).unwrap();
        (row.payload)(arguments).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn an_action_is_a_message() {
        let arguments = json!({
            "type": "exec", "template": "curl {{nl:api/TOKEN}}", "scope": { "project": "p" }, "timeout_ms": 1000,
        });
        let action = json!({
            "type": "exec", "template": "curl {{nl:api/TOKEN}}", "context": { "project": "p" }, "timeout_ms": 1000,
        });
        assert_eq!(payload("nl_execute_action", arguments), Ok(json!({ "action": action })));
        let under = json!({ "type": "exec", "template": "x", "delegation_token_id": "t-1" });
        let told = json!({ "action": { "type": "exec", "template": "x" }, "delegation": { "token_id": "t-1" } });
        assert_eq!(payload("nl_execute_action", under), Ok(told));
        let named = json!({ "type": "exec", "template": "x", "request_id": "r-1" });
        let told = json!({ "action": { "type": "exec", "template": "x" }, "request_id": "r-1" });
        assert_eq!(payload("nl_execute_action", named), Ok(told));
        let chosen = json!({ "type": "exec", "template": "x", "agent": { "agent_uri": "nl://b.c/d/1.0.0" } });
        let sent = payload("nl_execute_action", chosen).unwrap();
        assert_eq!(sent, json!({ "action": { "type": "exec", "template": "x" } }));
    }

    #[test]
    fn no_tool_gives_a_value() {
        let forbidden = ["value", "reveal", "decrypt", "raw", "export", "dump", "plaintext"];
        for tool in TOOLS {
            assert!(tool.name.starts_with("nl_"));
            assert!(forbidden.iter().all(|word| !tool.name.contains(word)), "{}", tool.name);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(payload("nl_execute_action", json!({})).is_err());
        assert!(payload("nl_check_access", json!({ "secret_name": 7 })).is_err());
        assert_eq!(payload("nl_list_secrets", json!({})), Ok(json!({})));
        for tool in TOOLS {
            let told = payload(tool.name, json!({ "shell": "bash" })).unwrap_err();
            assert!(told.contains("unknown field `shell`"), "{}: {told}", tool.name);
        }
        let misspelt = payload("nl_list_secrets", json!({ "scopes": "a" })).unwrap_err();
        assert!(misspelt.contains("expected `scope`"), "{misspelt}");
        let beside = json!({ "agent": {}, "nl_version": "1.0", "request_id": "1", "$schema": "x" });
        assert_eq!(payload("nl_discover", beside), Ok(json!({})));
        let asked = json!({ "instance_id": "550e8400-e29b-41d4-a716-446655440000" });
        assert_eq!(payload("nl_get_agent", asked.clone()), Ok(asked));
    }
}
