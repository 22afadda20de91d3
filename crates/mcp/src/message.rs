//! What is a message of JSON-RPC, and the answer to what is none. Pure.

mod outline;
mod waiting;

use keyless_core::UniqueMembers;
use rmcp::{RoleServer, model::InitializeRequestParams, service::RxJsonRpcMessage};
use serde_json::{Value, json};

pub(crate) use self::waiting::{ID_IN_USE, Waiting};

/// What is said to an `initialize` in a conversation that has begun with one.
pub(crate) const ALREADY_GREETED: &str =
    "this conversation has begun with initialize already; open another one for another version";

// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

const UNREADABLE: &str =
    "this is not JSON, or a string in it has half a surrogate pair, or it is nested too deeply";
const TWINS: &str = "a member stands there twice, and nobody can say which of them is meant";

/// Reads one JSON value that may be a message; gives the answer to one that can't be.
pub(crate) fn read(text: &[u8]) -> Result<Value, Vec<u8>> {
    match serde_json::from_slice::<Value>(text) {
        Err(_) => {
            let id = outline::only_id(text);
            Err(refusal(&answerable(id.as_ref()), PARSE_ERROR, UNREADABLE))
        }
        Ok(Value::Array(_)) => {
            Err(refuse(&Value::Null, "batches are not taken; send one message at a time"))
        }
        Ok(_) => match serde_json::from_slice(text) {
            Ok(UniqueMembers(message)) => Ok(message),
            Err(_) => Err(refuse(&answerable(outline::only_id(text).as_ref()), TWINS)),
        },
    }
}

/// An answer to `text` under the id as it stands there: of a number of many digits, what is read of it is another.
pub(crate) fn under_its_id(text: &[u8], answer: Vec<u8>) -> Vec<u8> {
    let told: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let written = outline::id_as_written(text).and_then(|id| str::from_utf8(id).ok());
    match written {
        Some(id) if told["id"].is_f64() => {
            format!(r#"{{"error":{},"id":{id},"jsonrpc":"2.0"}}"#, told["error"]).into_bytes()
        }
        _ => answer,
    }
}

/// The message that `value` is; gives the answer to what is none.
pub(crate) fn typed(value: Value) -> Result<RxJsonRpcMessage<RoleServer>, Vec<u8>> {
    let id = value.get("id").cloned();
    refuse_greeting(&value)?;
    serde_json::from_value(value).map_err(|_| no_message(id.as_ref()))
}

/// Whether nobody waits for an answer to `text`, whatever is wrong with it. JSON-RPC 2.0, section 4.1.
pub(crate) fn is_notification(text: &[u8]) -> bool {
    let Ok(message) = serde_json::from_slice::<Value>(text) else { return false };
    message["jsonrpc"] == "2.0" && message["method"].is_string() && message.get("id").is_none()
}

/// Whether `text` is a message, for a caller that reads it once more. Fails with the answer to what is none.
pub(crate) fn check(text: &[u8]) -> Result<(), Vec<u8>> {
    let read = read(text).and_then(typed);
    read.map(drop).map_err(|answer| under_its_id(text, answer))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_many_digits_is_answered_as_it_was_written() {
        for id in ["100000000000000000000000", "1e23", "1.50"] {
            for text in [
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
                format!(r#"{{"x":"\ud800", "id" : {id} }}"#),
            ] {
                let answer = String::from_utf8(check(text.as_bytes()).unwrap_err()).unwrap();
                assert!(answer.contains(&format!(r#""id":{id},"#)), "{answer}");
                assert!(serde_json::from_str::<Value>(&answer).is_ok(), "{answer}");
            }
        }
    }

    #[test]
    fn members_that_stand_twice_are_refused_under_the_id_if_there_is_one() {
        for (text, id) in [
            (r#"{"id":9,"id":10,"method":"ping"}"#, Value::Null),
            (r#"{"id":9,"\u0069d":9,"method":"ping"}"#, Value::Null),
            (r#"{"id":{},"method":"ping","method":"ping"}"#, Value::Null),
            (r#"{"id":9,"method":"ping","method":"tools/list"}"#, json!(9)),
            (r#"{"id":"x","params":{"path":"a","path":"b"}}"#, json!("x")),
        ] {
            let answer: Value =
                serde_json::from_slice(&read(text.as_bytes()).unwrap_err()).unwrap();
            assert_eq!(answer["id"], id, "{text}");
            assert_eq!(answer["error"]["code"], INVALID_REQUEST, "{text}");
        }
    }
}
