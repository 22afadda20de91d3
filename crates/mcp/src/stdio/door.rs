//! What may pass from the client to the SDK, and what is answered at the door. Pure.

use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde_json::Value;

use crate::message::{
    ALREADY_GREETED, ID_IN_USE, Waiting, is_notification, read, refuse, typed, under_its_id,
};

/// The key under which a request of the newest revision names its version, in place of `initialize`.
const INLINE_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Knows whether the conversation has begun, and which requests wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Door {
    begun: bool,
    /// An `initialize` has passed: a second one would be answered with another version than the first.
    greeted: bool,
    waiting: Waiting,
}

/// What becomes of a line.
pub(super) enum Passed {
    /// It is answered at once.
    Answer(Vec<u8>),
    /// It goes to the SDK.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// It needs no answer.
    Nothing,
}

impl Door {
    /// Looks at one line.
    pub(super) fn pass(&mut self, line: &[u8]) -> Passed {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Passed::Nothing;
        }
        match read(line).map_or_else(Passed::Answer, |message| self.pass_message(message)) {
            Passed::Answer(_) if is_notification(line) => Passed::Nothing,
            Passed::Answer(answer) => Passed::Answer(under_its_id(line, answer)),
            passed => passed,
        }
    }

    /// The answer to a line over the limit.
    #[expect(clippy::unused_self, reason = "the door answers, whatever it knows")]
    pub(super) fn too_long(&self) -> Passed {
        Passed::Answer(refuse(&Value::Null, "the line is longer than 1 MiB"))
    }

    fn pass_message(&mut self, message: Value) -> Passed {
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.begun && method.is_empty() {
            return Passed::Answer(refuse(&Value::Null, "the first message is initialize"));
        }
        if !self.begun {
            let inline = message["params"]["_meta"].get(INLINE_VERSION).is_some();
            match (message.get("id"), method.as_str()) {
                (Some(_), "initialize" | "ping") => {}
                (Some(_), _) if inline => {}
                (Some(id), _) => {
                    return Passed::Answer(refuse(id, "the first request is initialize"));
                }
                // Nobody waits for an answer to it.
                (None, _) => return Passed::Nothing,
            }
        }
        let id = message.get("id").cloned().unwrap_or_default();
        if self.greeted && method == "initialize" {
            return Passed::Answer(refuse(&id, ALREADY_GREETED));
        }
        match typed(message) {
            Ok(message) => {
                if !self.waiting.note(&message) {
                    return Passed::Answer(refuse(&id, ID_IN_USE));
                }
                self.greeted |= method == "initialize";
                self.begun |= !matches!(method.as_str(), "ping" | "server/discover" | "");
                Passed::Message(Box::new(message))
            }
            Err(answer) => Passed::Answer(answer),
        }
    }

    /// Takes note of what is said to the client.
    pub(super) fn answered(&mut self, message: &TxJsonRpcMessage<RoleServer>) {
        self.waiting.answered(message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answers(door: &mut Door, line: &str) -> Option<(Value, i64)> {
        match door.pass(line.as_bytes()) {
            Passed::Answer(answer) => {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                Some((answer["id"].clone(), answer["error"]["code"].as_i64().unwrap()))
            }
            Passed::Message(_) | Passed::Nothing => None,
        }
    }

    #[test]
    fn what_is_no_message_is_answered() {
        let (mut door, none) = (Door::default(), Value::Null);
        assert_eq!(answers(&mut door, "{"), Some((none.clone(), -32700)));
        assert_eq!(answers(&mut door, "\u{fffd}"), Some((none.clone(), -32700)));
        assert_eq!(answers(&mut door, "[]"), Some((none.clone(), -32600)));
        assert_eq!(answers(&mut door, "7"), Some((none.clone(), -32600)));
        assert_eq!(answers(&mut door, r#"{"id":{"x":1}}"#), Some((none, -32600)));
        assert_eq!(answers(&mut door, ""), None);
    }

    /// Of two members of one name readers take the one or the other.
    #[test]
    fn a_member_that_stands_there_twice_is_refused() {
        let mut door = Door::default();
        let line = r#"{"jsonrpc":"2.0","id":9,"id":10,"method":"ping"}"#;
        assert_eq!(answers(&mut door, line), Some((Value::Null, -32600)));
        let line = r#"{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":1,"a":2}}"#;
        assert_eq!(answers(&mut door, line), Some((json!(9), -32600)));
        assert_eq!(answers(&mut door, r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#), None);
    }

    /// Whoever writes a client by hand reads what is wrong with it, and may try again.
    #[test]
    fn an_initialize_that_can_not_be_read_says_why() {
        let mut door = Door::default();
        let mut said = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"initialize"{params}}}"#);
            let Passed::Answer(answer) = door.pass(line.as_bytes()) else { panic!("it passes") };
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32602)));
            answer["error"]["message"].as_str().unwrap().to_owned()
        };
        let version = "initialize wants a string at params.protocolVersion";
        assert_eq!(said(""), version);
        assert_eq!(said(r#","params":[]"#), version);
        assert_eq!(said(r#","params":{"protocolVersion":7}"#), version);
        let rest = r#","params":{"protocolVersion":"2025-06-18","#;
        let end = "initialize wants an object at params.clientInfo";
        assert_eq!(said(&format!(r#"{rest}"capabilities":{{}}}}"#)), end);
        let info = r#""capabilities":{},"clientInfo":{"name":"t"}}"#;
        let end = "initialize wants a string at params.clientInfo.version";
        assert_eq!(said(&format!("{rest}{info}")), end);
        let whole = r#""capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"initialize"{rest}{whole}"#);
        assert!(matches!(door.pass(line.as_bytes()), Passed::Message(_)));
    }

    #[test]
    fn nothing_but_initialize_and_ping_begins() {
        let request = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        let mut door = Door::default();
        assert_eq!(answers(&mut door, &request("tools/list")), Some((json!(1), -32600)));
        assert_eq!(answers(&mut door, &request("ping")), None);
        assert_eq!(answers(&mut door, &request("tools/list")), Some((json!(1), -32600)));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(matches!(door.pass(note.as_bytes()), Passed::Nothing));
        let initialize = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{
            "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        assert!(matches!(door.pass(initialize.replace('\n', " ").as_bytes()), Passed::Message(_)));
        let other = request("tools/list").replace("\"id\":1", "\"id\":3");
        assert_eq!(answers(&mut door, &other), None);
    }

    /// JSON-RPC 2.0, section 4.1: "The Server MUST NOT reply to a Notification".
    #[test]
    fn a_notification_is_never_answered() {
        let begun = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let mut door = Door::default();
        for _ in 0..2 {
            for bad in [
                r#"{"jsonrpc":"2.0","method":"notifications/xx","params":[1]}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
                r#"{"jsonrpc":"2.0","method":"xx","params":{"a":1,"a":2}}"#,
            ] {
                assert_eq!(answers(&mut door, bad), None, "{bad}");
            }
            door.pass(begun.replace('\n', " ").as_bytes());
        }
        // What is none is answered.
        assert_eq!(answers(&mut door, r#"{"method":"x"}"#), Some((Value::Null, -32600)));
    }

    #[test]
    fn what_can_not_be_read_is_answered_under_its_id() {
        let mut door = Door::default();
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\ud800"}}"#;
        assert_eq!(answers(&mut door, call), Some((json!(7), -32700)));
        let deep = format!(r#"{{"id":"x","params":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
        assert_eq!(answers(&mut door, &deep), Some((json!("x"), -32700)));
    }

    #[test]
    fn a_conversation_begins_once() {
        let initialize = |id: u32, version: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
            )
        };
        let mut door = Door::default();
        assert_eq!(answers(&mut door, &initialize(1, "2025-06-18")), None);
        let again = initialize(2, "2025-03-26");
        assert_eq!(answers(&mut door, &again), Some((json!(2), -32600)));
    }

    /// Else both would be done and one be answered.
    #[test]
    fn an_id_is_one_requests_until_it_is_answered_or_cancelled() {
        let request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let mut door = Door::default();
        for (id, value) in [("7", json!(7)), (r#""7""#, json!("7"))] {
            assert_eq!(answers(&mut door, &request(id)), None);
            assert_eq!(answers(&mut door, &request(id)), Some((value, -32600)));
        }
        let answer = json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
        door.answered(&serde_json::from_value(answer).unwrap());
        assert_eq!(answers(&mut door, &request("7")), None);
        let error =
            json!({ "jsonrpc": "2.0", "id": "7", "error": { "code": -32601, "message": "x" } });
        door.answered(&serde_json::from_value(error).unwrap());
        assert_eq!(answers(&mut door, &request(r#""7""#)), None);
        let cancelled =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let mut begun = Door { begun: true, ..door };
        assert!(matches!(begun.pass(cancelled.as_bytes()), Passed::Message(_)));
        assert_eq!(answers(&mut begun, &request("7")), None);
    }
}
