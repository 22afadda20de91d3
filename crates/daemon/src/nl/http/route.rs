//! Which message an address stands for.

use keyless_core::nl_message::MessageType;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::nl::rates::Door;

/// Where discovery is answered.
const DISCOVERY: &str = "/.well-known/nl-protocol";

/// What an address is.
pub(super) enum Route {
    Discovery,
    Health,
    /// A message of this kind, with what the path says of it.
    Message {
        kind: MessageType,
        payload: Map<String, Value>,
    },
}

/// The route of an address, if there is one.
pub(super) fn route(method: &str, path: &str) -> Option<Route> {
    if (method, path) == ("GET", DISCOVERY) {
        return Some(Route::Discovery);
    }
    // Chapter 07 has another place for the one call (C-45).
    let rest = path.strip_prefix("/nl/v1/").or_else(|| path.strip_prefix("/nl-protocol/v1/"))?;
    let words: Vec<&str> = rest.split('/').collect();
    let message = |kind| Some(Route::Message { kind, payload: Map::new() });
    match (method, words.as_slice()) {
        ("GET", ["health"]) => Some(Route::Health),
        ("POST", ["actions"]) => message(MessageType::ActionRequest),
        ("POST", ["agents", "register"]) => message(MessageType::AgentRegister),
        ("GET", ["agents", id]) => of(MessageType::AgentGet, "instance_id", id),
        ("POST", ["agents", id, "credential"]) => {
            of(MessageType::XRotateCredential, "instance_id", id)
        }
        ("POST", ["delegations"]) => message(MessageType::DelegationRequest),
        ("POST", ["delegations", id, "accept"]) => {
            of(MessageType::XAcceptDelegation, "token_id", id)
        }
        ("DELETE", ["delegations", id]) => of(MessageType::DelegationRevoke, "token_id", id),
        ("POST", ["revocations" | "revoke"]) => message(MessageType::RevocationRequest),
        ("GET", ["audit"]) => message(MessageType::AuditQuery),
        ("GET", ["rotations"]) => message(MessageType::RotationNotification),
        _ => None,
    }
}

/// What an address is counted as, by whatever method it is asked.
pub(super) fn door(path: &str) -> Door {
    match route("GET", path) {
        Some(Route::Discovery) => Door::Discovery,
        Some(Route::Health) => Door::Health,
        _ => Door::Any,
    }
}

/// The methods that an address knows.
pub(super) fn methods(path: &str) -> Vec<&'static str> {
    // What is got is asked about as well.
    let all = [("GET", "GET"), ("HEAD", "GET"), ("POST", "POST"), ("DELETE", "DELETE")];
    let known = all.into_iter().filter(|(_, as_that)| route(as_that, path).is_some());
    known.map(|(method, _)| method).collect()
}

fn of(kind: MessageType, key: &str, id: &str) -> Option<Route> {
    let Value::Object(payload) = json!({ key: decoded(id) }) else { return None };
    Some(Route::Message { kind, payload })
}

/// What stands behind an address.
pub(super) struct Query {
    /// As an object of texts.
    pub(super) members: Map<String, Value>,
    /// What is said there more than once.
    pub(super) repeated: Option<String>,
}

/// Reads a query.
pub(super) fn query(text: &str) -> Query {
    let (mut members, mut repeated) = (Map::new(), None);
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (decoded(key), decoded(&value.replace('+', " ")));
        if members.insert(key.clone(), value.into()).is_some() {
            repeated = repeated.or(Some(key));
        }
    }
    Query { members, repeated }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(method: &str, path: &str) -> Option<(&'static str, String)> {
        match route(method, path)? {
            Route::Discovery => Some(("discovery", String::new())),
            Route::Health => Some(("health", String::new())),
            Route::Message { kind, payload } => {
                let first = payload.values().next().and_then(Value::as_str).unwrap_or_default();
                Some((kind.as_str(), first.to_owned()))
            }
        }
    }

    #[test]
    fn the_addresses_of_chapter_08_are_known() {
        let none = String::new();
        assert_eq!(kind("POST", "/nl/v1/actions"), Some(("action_request", none.clone())));
        assert_eq!(kind("GET", "/nl/v1/agents/a%2Db"), Some(("agent_get", "a-b".to_owned())));
        assert_eq!(
            kind("DELETE", "/nl/v1/delegations/t1"),
            Some(("delegation_revoke", "t1".to_owned()))
        );
        assert_eq!(
            kind("POST", "/nl/v1/delegations/t1/accept"),
            Some(("x_keyless_accept_delegation", "t1".to_owned()))
        );
        assert_eq!(kind("POST", "/nl-protocol/v1/revoke"), Some(("revocation_request", none)));
        for (method, path) in [
            ("GET", "/nl/v1/actions"),
            ("POST", "/nl/v1/secrets/a/value"),
            ("GET", "/"),
            ("PUT", "/nl/v1/"),
        ] {
            assert_eq!(kind(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn a_query_is_an_object_of_texts() {
        let read = query("since=2026&secrets=a%2Fb,c&x");
        assert_eq!(read.repeated, None);
        let members = json!({ "since": "2026", "secrets": "a/b,c", "x": "" });
        assert_eq!(Value::Object(read.members), members);
        assert_eq!(query("a=1&b=2&%61=1").repeated.as_deref(), Some("a"));
    }
}
