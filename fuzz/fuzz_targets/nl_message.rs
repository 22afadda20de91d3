//! A message as it comes over HTTP or as a line: no bytes panic in it, in the action that it may hold or in the
//! answer, and what is answered is one line of JSON.
#![no_main]

use jiff::Timestamp;
use keyless_core::{
    action::Action,
    nl_message::{Message, MessageType, Shape},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|received: &[u8]| {
    let now: Timestamp = "2026-02-08T14:30:00Z".parse().unwrap();
    match Message::read(received, MessageType::ActionRequest, now) {
        Ok(message) => {
            let body = serde_json::json!({ "status": "success" });
            let answer = message.answered(message.kind.answer(), body, "msg_1", now).to_string();
            assert!(!answer.contains('\n'));
            if let Some(action) = message.payload.get("action")
                && let Ok(action) = Action::from_json(action.clone())
            {
                let _ = action.handles();
                assert_eq!(action.hash(), action.clone().hash());
            }
        }
        Err(fault) => {
            for shape in [Shape::Bare, Shape::Enveloped] {
                assert!(!fault.body(shape).to_string().contains('\n'));
            }
        }
    }
});
