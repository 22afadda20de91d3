//! What is a message of JSON-RPC, and the answer to what is none. Pure.

use rmcp::{RoleServer, model::InitializeRequestParams, service::RxJsonRpcMessage};
use serde_json::{Value, json};

// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// Reads one JSON value that may be a message; gives the answer to one that can't be.
pub(crate) fn read(text: &[u8]) -> Result<Value, Vec<u8>> {
    match serde_json::from_slice::<Value>(text) {
        Err(_) => Err(refusal(&Value::Null, PARSE_ERROR, "this is not JSON")),
        Ok(Value::Array(_)) => {
            Err(refuse(&Value::Null, "batches are not taken; send one message at a time"))
        }
        Ok(message) => Ok(message),
    }
}

/// The message that `value` is; gives the answer to what is none.
pub(crate) fn typed(value: Value) -> Result<RxJsonRpcMessage<RoleServer>, Vec<u8>> {
    let id = value.get("id").cloned();
    refuse_greeting(&value)?;
    serde_json::from_value(value).map_err(|_| no_message(id))
}

/// Whether `text` is a message as it stands, for who reads it once more: by way of a [`Value`], the last of two members of
/// one name would stand for both. Gives the answer to what is none.
pub(crate) fn check(text: &[u8]) -> Result<(), Vec<u8>> {
    let value = read(text)?;
    refuse_greeting(&value)?;
    let id = value.get("id").cloned();
    let message = serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(text);
    message.map(drop).map_err(|_| no_message(id))
}

/// Says what an `initialize` lacks. The SDK takes one that it can't read for a request of a later revision, and asks for what
/// that would have.
fn refuse_greeting(message: &Value) -> Result<(), Vec<u8>> {
    let id = message.get("id").filter(|id| id.is_string() || id.is_number());
    let (Some("initialize"), Some(id)) = (message["method"].as_str(), id) else { return Ok(()) };
    let params = &message["params"];
    let (string, object) = ("a string", "an object");
    let wanted = [
        ("/protocolVersion", string),
        ("/capabilities", object),
        ("/clientInfo", object),
        ("/clientInfo/name", string),
        ("/clientInfo/version", string),
    ];
    let refused = |words: &str| Err(refusal(id, INVALID_PARAMS, words));
    for (at, kind) in wanted {
        let there = params.pointer(at);
        let fits = if kind == string {
            there.is_some_and(Value::is_string)
        } else {
            there.is_some_and(Value::is_object)
        };
        if !fits {
            return refused(&format!("initialize wants {kind} at params{}", at.replace('/', ".")));
        }
    }
    match serde_json::from_value::<InitializeRequestParams>(params.clone()) {
        Ok(_) => Ok(()),
        Err(_) => refused("the parameters of initialize can't be read"),
    }
}

fn no_message(id: Option<Value>) -> Vec<u8> {
    let id = id.filter(|id| id.is_string() || id.is_number()).unwrap_or_default();
    refuse(&id, "this is no JSON-RPC 2.0 message")
}

/// The answer to a request that is not taken, for this reason.
pub(crate) fn refuse(id: &Value, why: &str) -> Vec<u8> {
    refusal(id, INVALID_REQUEST, why)
}

fn refusal(id: &Value, code: i32, why: &str) -> Vec<u8> {
    let error = json!({ "code": code, "message": why });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes()
}
