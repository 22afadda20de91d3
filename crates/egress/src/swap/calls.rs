//! What a body calls: the root fields of GraphQL operations, the methods of JSON-RPC requests.
//!
//! A GraphQL operation's name is the agent's to choose, so its type and the fields at its root are
//! what counts. Whatever two readers could read in two ways (a member twice, or in other capitals)
//! counts as unreadable, and no rule that looks into bodies names that.

mod graphql;

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderValue, header};
use keyless_core::BodyCalls;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};

/// What a body of this type calls, for the fuzz target `calls`.
pub fn body_calls(content_type: &str, body: &[u8]) -> BodyCalls {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    in_body(&headers, body)
}

/// What a GraphQL document calls, for the fuzz target `calls`.
pub fn document_calls(document: &[u8]) -> BodyCalls {
    in_document(document)
}

/// What a body calls.
pub(super) fn in_body(headers: &HeaderMap, body: &[u8]) -> BodyCalls {
    match Kind::of(headers) {
        Some(Kind::Document) => in_document(body),
        Some(Kind::Json) => in_json(body),
        None => BodyCalls::default(),
    }
}

fn in_json(body: &[u8]) -> BodyCalls {
    let Some(Requests(requests)) = Requests::parse(body) else { return BodyCalls::default() };
    let document = |request: &Request| graphql::root_fields(request.query.as_deref()?);
    let graphql: Option<Vec<_>> = requests.iter().map(document).collect();
    let json_rpc = requests.iter().map(|request| request.method.clone()).collect();
    BodyCalls { graphql: graphql.map(|all| all.concat()), json_rpc }
}

/// What a GraphQL document calls.
pub(super) fn in_document(document: &[u8]) -> BodyCalls {
    let graphql = str::from_utf8(document).ok().and_then(graphql::root_fields);
    BodyCalls { graphql, json_rpc: None }
}

/// What a body is to whoever reads it.
enum Kind {
    Document,
    Json,
}

impl Kind {
    /// `None` for what some server could read as something else, as a form or in another charset.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all(header::CONTENT_TYPE).iter();
        let field = match (fields.next(), fields.next()) {
            (None, _) => return Some(Self::Json),
            (Some(field), None) => field.to_str().ok()?.to_ascii_lowercase(),
            (Some(_), Some(_)) => return None,
        };
        let mut parts = field.split(';').map(str::trim);
        let essence = parts.next()?;
        if !parts.all(leaves_utf8) {
            return None;
        }
        match essence {
            "application/graphql" => Some(Self::Document),
            "application/json" => Some(Self::Json),
            other => other.ends_with("+json").then_some(Self::Json),
        }
    }
}

/// Whether a parameter of a media type, in lower case, names no other charset, in any of its spellings.
fn leaves_utf8(parameter: &str) -> bool {
    match parameter.split_once('=') {
        Some((_, value)) if parameter.contains("charset") => {
            ["utf-8", "utf8"].contains(&value.trim().trim_matches('"'))
        }
        _ => true,
    }
}

/// One request, or those of a batch.
struct Requests(Vec<Request>);

/// The members of a request that say what it calls.
#[derive(Default)]
struct Request {
    method: Option<String>,
    query: Option<String>,
}

impl Requests {
    fn parse(body: &[u8]) -> Option<Self> {
        // Members that are passed over are not looked at closely: a reader who drops bytes that are no UTF-8 would find
        // other names there.
        serde_json::from_slice::<Value>(body).ok()?;
        let mut deserializer = Deserializer::from_slice(body);
        let requests = deserializer.deserialize_any(RequestsVisitor).ok()?;
        deserializer.end().ok()?;
        Some(requests)
    }
}

struct RequestsVisitor;

impl<'de> Visitor<'de> for RequestsVisitor {
    type Value = Requests;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request or an array of requests")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Requests, A::Error> {
        Ok(Requests(vec![RequestVisitor.visit_map(map)?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Requests, A::Error> {
        let mut requests = Vec::new();
        while let Some(request) = seq.next_element_seed(RequestVisitor)? {
            requests.push(request);
        }
        Ok(Requests(requests))
    }
}

struct RequestVisitor;

impl<'de> de::DeserializeSeed<'de> for RequestVisitor {
    type Value = Request;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Request, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut request = Request::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let member = match &*key {
                "method" => &mut request.method,
                "query" => &mut request.query,
                // Some readers don't look at capitals.
                other if ["method", "query"].iter().any(|it| other.eq_ignore_ascii_case(it)) => {
                    return Err(de::Error::custom("a member in other capitals"));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if member.replace(map.next_value()?).is_some() {
                return Err(de::Error::custom("a member stands twice"));
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(body: &str) -> BodyCalls {
        in_body(&HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn json_rpc_methods_are_found() {
        let one =
            calls(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"method":"x"}}"#);
        assert_eq!(one.json_rpc.unwrap(), ["tools/list"]);
        let batch = calls(r#"[{"method":"a"},{"method":"\u0062"}]"#);
        assert_eq!(batch.json_rpc.unwrap(), ["a", "b"]);
        for unreadable in [
            r#"{"method":"a","method":"b"}"#,
            r#"{"method":"a","Method":"b"}"#,
            r#"{"method":["a"]}"#,
            r#"{"id":1}"#,
            r#"[{"method":"a"},{"id":1}]"#,
            r#"{"method":"a"} {"method":"b"}"#,
            r#"{"method":"a""#,
            "",
            "1",
        ] {
            assert_eq!(calls(unreadable).json_rpc, None, "{unreadable}");
        }
        let no_utf8 = b"{\"method\":\"a\",\"params\":{\"me\xffthod\":\"b\"}}";
        assert_eq!(in_body(&HeaderMap::new(), no_utf8), BodyCalls::default());
        assert_eq!(calls("[]").json_rpc.unwrap(), Vec::<String>::new());
    }

    #[test]
    fn graphql_is_found_in_json_and_by_itself() {
        let body = r#"[{"query":"{ viewer { login } }"},{"query":"mutation M { addStar }"}]"#;
        assert_eq!(calls(body).graphql.unwrap(), ["query.viewer", "mutation.addStar"]);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/graphql".parse().unwrap());
        let document = in_body(&headers, b"{ viewer }");
        assert_eq!(typed(&["application/graphql; charset=UTF-8"], b"{ viewer }"), document);
        assert_eq!(document.graphql.unwrap(), ["query.viewer"]);
        let persisted = calls(r#"{"extensions":{"persistedQuery":{"sha256Hash":"x"}}}"#);
        assert_eq!(persisted.graphql, None);
    }

    fn typed(content_types: &[&str], body: &[u8]) -> BodyCalls {
        let mut headers = HeaderMap::new();
        for content_type in content_types {
            headers.append(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        in_body(&headers, body)
    }

    #[test]
    fn what_another_reader_takes_for_something_else_is_unreadable() {
        let body =
            br#"{"query":"{ viewer }","method":"tools/list","x":"&query=mutation{deleteAll}&y="}"#;
        let readable = calls(str::from_utf8(body).unwrap());
        assert!(readable.graphql.is_some() && readable.json_rpc.is_some());
        for same in [
            "application/json",
            "Application/JSON ; Charset=\"utf-8\"",
            "application/json; version=1",
            "application/graphql-response+json",
        ] {
            assert_eq!(typed(&[same], body), readable, "{same}");
        }
        for other in [
            &["application/x-www-form-urlencoded"][..],
            &["multipart/form-data; boundary=x"],
            &["text/plain"],
            &["application/json; charset=utf-7"],
            &["application/json; x=\";charset=utf-7\""],
            &["application/json; charset*=utf-8''utf-7"],
            &["application/json; charset=utf-8; charset=utf-16"],
            &["application/json, application/graphql"],
            &["application/json", "application/graphql"],
            &["application/graphqlx"],
            &[""],
        ] {
            assert_eq!(typed(other, body), BodyCalls::default(), "{other:?}");
        }
    }
}
