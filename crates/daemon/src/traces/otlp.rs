//! The messages of OTLP that one span takes. Source: opentelemetry-proto 1.x, `trace/v1/trace.proto`,
//! `collector/trace/v1/trace_service.proto`; the numbers are theirs and don't change.

use prost::{Message, Oneof};

/// `SPAN_KIND_CLIENT`: we ask somebody else.
const KIND_CLIENT: i32 = 3;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: i32 = 2;

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

#[expect(clippy::struct_field_names, reason = "the protocol's own names")]
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl ExportRequest {
    /// A request that exports `spans` as this program's.
    pub(super) fn of(spans: Vec<Span>) -> Self {
        let attributes = vec![
            attribute("service.name", "keyless"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ];
        let resource = Some(Resource { attributes });
        let scope_spans = vec![ScopeSpans { spans }];
        Self { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
    }
}

impl Span {
    /// A span without a name and attributes, from and to these times.
    pub(super) fn new(trace_id: Vec<u8>, span_id: Vec<u8>, (start, end): (u64, u64)) -> Self {
        Self {
            trace_id,
            span_id,
            kind: KIND_CLIENT,
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            ..Self::default()
        }
    }

    /// It did not come to its end.
    pub(super) fn fail(&mut self) {
        self.status = Some(Status { code: STATUS_ERROR });
    }
}

/// An attribute that is a text.
pub(super) fn attribute(key: &str, value: &str) -> KeyValue {
    with_value(key, Value::Text(value.to_owned()))
}

/// An attribute that is a number.
pub(super) fn number(key: &str, value: u64) -> KeyValue {
    with_value(key, Value::Number(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn with_value(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}
