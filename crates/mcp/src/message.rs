//! What is a message of JSON-RPC, and the answer to what is none. Pure.

mod twins;

use rmcp::{RoleServer, model::InitializeRequestParams, service::RxJsonRpcMessage};
use serde_json::{Value, json};

use self::twins::Twins;

// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

const TWINS: &str = "a member stands there twice, and nobody can say which of them is meant";

/// Reads one JSON value that may be a message; gives the answer to one that can't be.
pub(crate) fn read(text: &[u8]) -> Result<Value, Vec<u8>> {
    match serde_json::from_slice::<Value>(text) {
        Err(_) => Err(refusal(&Value::Null, PARSE_ERROR, "this is not JSON")),
        Ok(Value::Array(_)) => {
            Err(refuse(&Value::Null, "batches are not taken; send one message at a time"))
        }
        Ok(message) => match twins::find(text) {
            None => Ok(message),
            Some(Twins::AtTheTop) => Err(refuse(&Value::Null, TWINS)),
            Some(Twins::Within) => Err(refuse(&answerable(message.get("id")), TWINS)),
        },
    }
}

/// The message that `value` is; gives the answer to what is none.
pub(crate) fn typed(value: Value) -> Result<RxJsonRpcMessage<RoleServer>, Vec<u8>> {
    let id = value.get("id").cloned();
    refuse_greeting(&value)?;
    serde_json::from_value(value).map_err(|_| no_message(id.as_ref()))
}

/// Whether `text` is a message, for who reads it once more. Gives the answer to what is none.
pub(crate) fn check(text: &[u8]) -> Result<(), Vec<u8>> {
    typed(read(text)?).map(drop)
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

fn no_message(id: Option<&Value>) -> Vec<u8> {
    refuse(&answerable(id), "this is no JSON-RPC 2.0 message")
}

/// An id under which there may be an answer, or null.
fn answerable(id: Option<&Value>) -> Value {
    id.filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default()
}

/// The answer to a request that is not taken, for this reason.
pub(crate) fn refuse(id: &Value, why: &str) -> Vec<u8> {
    refusal(id, INVALID_REQUEST, why)
}

fn refusal(id: &Value, code: i32, why: &str) -> Vec<u8> {
    let error = json!({ "code": code, "message": why });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes()
}
