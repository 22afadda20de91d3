//! One message, read from bytes and written back in the form that it came in (C-35).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::{MessageType, NL_VERSION, NlFault};
use crate::{Code, SafeText, UniqueMembers};

/// The largest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// How far a message's time may be from now, either way, at most (C-43).
pub const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);
/// The longest id, in characters; they are opaque (C-45).
const MAX_ID: usize = 128;

/// Which of the protocol's two forms a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Chapter 02: the object itself.
    Bare,
    /// Chapter 08: the object as the payload of an envelope.
    Enveloped,
}

/// A message whose version, time and id are in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its form, in which it is answered.
    pub shape: Shape,
    /// What it is.
    pub kind: MessageType,
    /// `message_id`, or `request_id` of a bare body; what a bare body without one is known by is drawn elsewhere.
    pub id: Option<String>,
    /// The object.
    pub payload: Map<String, Value>,
}

/// What a text says of itself, whether or not it is a message: a refusal names what it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Its form, where it looks like an envelope.
    pub shape: Option<Shape>,
    /// `message_id` of an envelope.
    pub id: Option<String>,
    /// `request_id`, of a body or of what an envelope holds.
    pub request_id: Option<String>,
    /// What an envelope says that it is.
    pub kind: Option<MessageType>,
    /// The same, shortened, where that is no type of message.
    pub unknown_kind: Option<SafeText>,
    /// `agent`, of a body or of what an envelope holds: who says to have sent it.
    pub agent: Option<Value>,
}

impl Named {
    /// What can be read of it.
    pub fn read(bytes: &[u8]) -> Self {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Self::default();
        }
        serde_json::from_slice(bytes).map(|object| Self::of(&object)).unwrap_or_default()
    }

    /// What an object says.
    pub fn of(object: &Map<String, Value>) -> Self {
        let name = |object: &Map<String, Value>, key| id(object, key).ok().flatten();
        let sender = |object: &Map<String, Value>| object.get("agent").cloned();
        if !object.contains_key("message_type") {
            let (request_id, agent) = (name(object, "request_id"), sender(object));
            return Self { request_id, agent, ..Self::default() };
        }
        let payload = object.get("payload").and_then(Value::as_object);
        let said = object.get("message_type").unwrap_or(&Value::Null);
        let kind = said.as_str().and_then(MessageType::parse);
        let words = || said.as_str().map_or_else(|| said.to_string(), ToOwned::to_owned);
        let unknown_kind = kind.is_none().then(|| SafeText::default().as_they_wrote(&words()));
        Self {
            shape: Some(Shape::Enveloped),
            id: name(object, "message_id"),
            request_id: payload.and_then(|payload| name(payload, "request_id")),
            kind,
            unknown_kind,
            agent: payload.and_then(sender),
        }
    }

    /// A message with that much in it, in its own form or in `usual`.
    pub fn message(self, usual: Shape) -> Message {
        let request_id = self.request_id.map(|id| ("request_id".to_owned(), id.into()));
        Message {
            shape: self.shape.unwrap_or(usual),
            kind: MessageType::Error,
            id: self.id,
            payload: request_id.into_iter().collect(),
        }
    }
}

/// By what a message's time is judged. Of a time alone: [`MAX_CLOCK_SKEW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The time here.
    pub now: Timestamp,
    /// How far the message's may be from it, either way.
    pub skew: SignedDuration,
}

impl From<Timestamp> for Clock {
    fn from(now: Timestamp) -> Self {
        Self { now, skew: MAX_CLOCK_SKEW }
    }
}

impl Message {
    /// Reads a message. A bare body says not what it is: then it is a `bare`.
    pub fn read(bytes: &[u8], bare: MessageType, clock: impl Into<Clock>) -> Result<Self, NlFault> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(NlFault::from(Code::MessageTooLarge).with("max_bytes", MAX_MESSAGE_BYTES));
        }
        match serde_json::from_slice(bytes).map(|UniqueMembers(message)| message) {
            Ok(Value::Object(object)) => Self::of(object, bare, clock.into()),
            Ok(_) => Err(malformed("a message is a JSON object")),
            Err(error) => {
                let words =
                    SafeText::words("it is no JSON in which each member stands once, at column ");
                let words = words.and(error.column());
                Err(NlFault::new(Code::MessageMalformed, words))
            }
        }
    }

    /// The message that an object is.
    pub fn of(
        mut object: Map<String, Value>,
        bare: MessageType,
        clock: Clock,
    ) -> Result<Self, NlFault> {
        check_version(&object)?;
        if !object.contains_key("message_type") {
            let id = id(&object, "request_id")?;
            // Chapter 02, 6.2.1: an action's body says both; what other bare bodies have, chapter 08 does not say.
            let is_whole = object.contains_key("nl_version") && id.is_some();
            if bare == MessageType::ActionRequest && !is_whole {
                return Err(malformed("an action's message has nl_version and request_id"));
            }
            return Ok(Self { shape: Shape::Bare, kind: bare, id, payload: object });
        }
        let kind = object.get("message_type").and_then(Value::as_str).unwrap_or_default();
        let kind = MessageType::parse(kind).ok_or_else(|| {
            let words = SafeText::default().as_they_wrote(kind);
            NlFault::new(Code::MessageTypeUnknown, words)
        })?;
        if !object.contains_key("nl_version") {
            return Err(malformed("nl_version is missing"));
        }
        check_time(object.get("timestamp"), clock)?;
        let id =
            Some(id(&object, "message_id")?.ok_or_else(|| malformed("message_id is missing"))?);
        let Some(Value::Object(payload)) = object.remove("payload") else {
            return Err(malformed("payload is no object"));
        };
        // What chapter 02 has in a body is held to the same here.
        check_version(&payload)?;
        self::id(&payload, "request_id")?;
        Ok(Self { shape: Shape::Enveloped, kind, id, payload })
    }

    /// What its request is known by: its own `request_id`, else the message's id.
    pub fn request_id(&self) -> Option<&str> {
        self.payload.get("request_id").and_then(Value::as_str).or(self.id.as_deref())
    }

    /// An answer to this message, in its form. `id` is for the answer's own envelope.
    pub fn answered(&self, kind: MessageType, body: Value, id: &str, now: Timestamp) -> Value {
        answer(self.shape, self.id.as_deref(), kind, body, id, now)
    }
}

/// An object in a form: bare as it is, else in an envelope that names what it answers.
pub(super) fn answer(
    shape: Shape,
    to: Option<&str>,
    kind: MessageType,
    mut body: Value,
    id: &str,
    now: Timestamp,
) -> Value {
    if shape == Shape::Bare {
        return body;
    }
    if let Some(to) = to {
        body["correlation_id"] = to.into();
    }
    json!({
        "nl_version": NL_VERSION,
        "message_type": kind.as_str(),
        "message_id": id,
        "timestamp": format!("{now:.3}"),
        "payload": body,
    })
}

fn check_version(object: &Map<String, Value>) -> Result<(), NlFault> {
    match object.get("nl_version") {
        None => Ok(()),
        Some(Value::String(version)) if version == NL_VERSION => Ok(()),
        Some(_) => {
            Err(NlFault::from(Code::VersionUnsupported)
                .with("supported_versions", vec![NL_VERSION]))
        }
    }
}

fn check_time(written: Option<&Value>, clock: Clock) -> Result<(), NlFault> {
    let Clock { now, skew } = clock;
    let text = written.and_then(Value::as_str).filter(|text| is_rfc_3339(text));
    let time = text.and_then(|text| text.parse::<Timestamp>().ok()).ok_or_else(|| {
        let words = SafeText::words("timestamp is a time such as 2026-02-08T14:30:00.000Z");
        NlFault::new(Code::TimestampInvalid, words)
    })?;
    if now.duration_since(time).abs() > skew {
        let words = SafeText::words("it is more than ").and(skew.as_secs().unsigned_abs());
        let words = words.and(" seconds from now");
        return Err(NlFault::new(Code::TimestampInvalid, words).with("now", format!("{now:.3}")));
    }
    Ok(())
}

/// Whether a time is written as RFC 3339 has it, and as the schema says: the parser takes more of ISO 8601.
fn is_rfc_3339(text: &str) -> bool {
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let behind = text.get(19..).unwrap_or_default();
    let offset = behind.trim_start_matches(|one: char| one == '.' || one.is_ascii_digit());
    let has_offset = matches!(offset.as_bytes(), [b'Z'] | [b'+' | b'-', _, _, b':', _, _]);
    has_offset && marks.iter().all(|(at, mark)| text.as_bytes().get(*at) == Some(mark))
}

/// Whether a text may name a request or a message.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn id(object: &Map<String, Value>, key: &'static str) -> Result<Option<String>, NlFault> {
    let fault = || {
        let words = SafeText::words(key).and(" is 1 to 128 printable ASCII characters");
        NlFault::new(Code::MessageMalformed, words)
    };
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(id)) if is_id(id) => Ok(Some(id.clone())),
        Some(_) => Err(fault()),
    }
}

fn malformed(words: &'static str) -> NlFault {
    NlFault::new(Code::MessageMalformed, SafeText::words(words))
}

/// A time as messages have it, in whole milliseconds (chapter 08, 3.6).
pub fn to_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-02-08T14:30:00.000Z".parse().unwrap()
    }

    fn envelope(changes: &Value) -> Value {
        let mut envelope = json!({
            "nl_version": "1.0", "message_type": "action_request", "message_id": "m-1",
            "timestamp": "2026-02-08T14:29:58.000Z", "payload": { "a": 1 },
        });
        for (key, value) in changes.as_object().unwrap() {
            envelope[key] = value.clone();
        }
        envelope
    }

    fn read(value: &Value) -> Result<Message, Code> {
        let bare = MessageType::ActionRequest;
        Message::read(value.to_string().as_bytes(), bare, now()).map_err(|fault| fault.code())
    }

    #[test]
    fn both_forms_are_read_and_answered_alike() {
        let message = read(&envelope(&json!({}))).unwrap();
        assert_eq!((message.shape, message.id.as_deref()), (Shape::Enveloped, Some("m-1")));
        let kind = MessageType::ActionResponse;
        let answer = message.answered(kind, json!({ "status": "success" }), "m-2", now());
        assert_eq!(answer["payload"], json!({ "status": "success", "correlation_id": "m-1" }));
        assert_eq!(answer["timestamp"], "2026-02-08T14:30:00.000Z");
        let bare = read(&json!({ "nl_version": "1.0", "request_id": "req_1" })).unwrap();
        assert_eq!((bare.shape, bare.id.as_deref()), (Shape::Bare, Some("req_1")));
        assert_eq!(bare.answered(kind, json!({ "a": 1 }), "m", now()), json!({ "a": 1 }));
    }

    #[test]
    fn a_time_is_as_far_off_as_it_may_be() {
        let read = |seconds: i64| {
            let clock = Clock { now: now(), skew: SignedDuration::from_secs(seconds) };
            let bytes = envelope(&json!({ "timestamp": "2026-02-08T14:29:29.000Z" })).to_string();
            let read = Message::read(bytes.as_bytes(), MessageType::ActionRequest, clock);
            read.map(drop).map_err(|fault| (fault.code(), fault.error().message()))
        };
        assert_eq!(read(31), Ok(()));
        let (code, words) = read(30).unwrap_err();
        assert_eq!(code, Code::TimestampInvalid);
        assert!(words.contains("more than 30 seconds from now"), "{words}");
    }

    #[test]
    fn what_is_out_of_order_is_refused_with_its_code() {
        let cases = [
            (json!({ "nl_version": "2.0" }), Code::VersionUnsupported),
            (json!({ "nl_version": 1.0 }), Code::VersionUnsupported),
            (json!({ "message_type": "steal" }), Code::MessageTypeUnknown),
            (json!({ "message_type": 7 }), Code::MessageTypeUnknown),
            (json!({ "timestamp": "2026-02-08T14:36:00.000Z" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08T14:24:00.000Z" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2001" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08 14:30:00.000Z" }), Code::TimestampInvalid),
            (json!({ "timestamp": "20260208T143000Z" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08T14:30:00.000Z[UTC]" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08t14:30:00.000z" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08T15:30:00.000+01" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08T15:30:00.000+0100" }), Code::TimestampInvalid),
            (json!({ "timestamp": "2026-02-08T15:30:00.000+01:00:00" }), Code::TimestampInvalid),
            (json!({ "timestamp": null }), Code::TimestampInvalid),
            (json!({ "message_id": "" }), Code::MessageMalformed),
            (json!({ "message_id": "a b" }), Code::MessageMalformed),
            (json!({ "message_id": "x".repeat(129) }), Code::MessageMalformed),
            (json!({ "payload": [] }), Code::MessageMalformed),
            (json!({ "payload": { "nl_version": "2.0" } }), Code::VersionUnsupported),
            (json!({ "payload": { "request_id": "x".repeat(129) } }), Code::MessageMalformed),
            (json!({ "payload": { "request_id": "a\n0" } }), Code::MessageMalformed),
            (json!({ "payload": { "request_id": 7 } }), Code::MessageMalformed),
        ];
        for (change, code) in cases {
            assert_eq!(read(&envelope(&change)), Err(code), "{change}");
        }
        for bare in [json!({ "request_id": "r" }), json!({ "nl_version": "1.0" })] {
            assert_eq!(read(&bare), Err(Code::MessageMalformed), "{bare}");
        }
        let bytes = |bytes: &[u8]| {
            Message::read(bytes, MessageType::ActionRequest, now()).map_err(|fault| fault.code())
        };
        let doubled =
            br#"{ "nl_version": "1.0", "request_id": "r", "action": { "a": 1, "a": 2 } }"#;
        for odd in [&b"{"[..], doubled, b"[]", b"7", b"\xff", b"", b"\xef\xbb\xbf{}"] {
            assert_eq!(bytes(odd), Err(Code::MessageMalformed), "{odd:?}");
        }
        assert_eq!(bytes(&vec![b' '; MAX_MESSAGE_BYTES + 1]), Err(Code::MessageTooLarge));
    }

    #[test]
    fn what_is_no_message_is_named_as_far_as_it_can_be() {
        let named = |text: &str| {
            let Named { shape, id, request_id, .. } = Named::read(text.as_bytes());
            (shape.is_some(), id.unwrap_or_default(), request_id.unwrap_or_default())
        };
        let whole = envelope(&json!({ "nl_version": "2.0", "payload": { "request_id": "r" } }));
        assert_eq!(named(&whole.to_string()), (true, "m-1".into(), "r".into()));
        let bare = r#"{ "nl_version": "9", "request_id": "r", "action": 1, "action": 2 }"#;
        assert_eq!(named(bare), (false, String::new(), "r".into()));
        let odd = r#"{ "message_type": 7, "message_id": "a b", "payload": [] }"#;
        assert_eq!(named(odd), (true, String::new(), String::new()));
        for nothing in ["", "{", "[]", "{}", r#"{ "request_id": "a\nb" }"#] {
            assert_eq!(Named::read(nothing.as_bytes()), Named::default(), "{nothing}");
        }
        let sent = |agent: Value| envelope(&json!({ "payload": { "agent": agent } })).to_string();
        let sent = Named::read(sent(json!({ "a": 1 })).as_bytes());
        assert_eq!(
            (sent.kind, sent.agent),
            (Some(MessageType::ActionRequest), Some(json!({ "a": 1 })))
        );
        let message = Named::read(bare.as_bytes()).message(Shape::Bare);
        assert_eq!((message.shape, message.request_id()), (Shape::Bare, Some("r")));
    }

    #[test]
    fn every_type_has_its_word() {
        for kind in MessageType::ALL {
            assert_eq!(MessageType::parse(kind.as_str()), Some(*kind));
        }
        let named = MessageType::ALL.iter().filter(|kind| !kind.as_str().starts_with("x_"));
        assert_eq!(named.count(), 24);
        assert_eq!(MessageType::ActionRequest.answer(), MessageType::ActionResponse);
    }
}
