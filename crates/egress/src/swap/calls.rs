//! What a body calls: the root fields of GraphQL operations, the methods of JSON-RPC requests.
//!
//! A GraphQL operation's name is the agent's to choose, so its type and the fields at its root are
//! what counts. A document that is named by an id is `document.ID`, beside whatever else is called. Whatever two readers could read in two ways (a member twice, or in other capitals)
//! counts as unreadable, and no rule that looks into bodies names that.

mod documents;
mod graphql;

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderValue, header};
use keyless_core::{BodyCalls, UniqueMembers};
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};

use self::documents::{MAX_NAMES, Names, named};

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
    let graphql: Option<Vec<_>> = requests.iter().map(Request::graphql).collect();
    let json_rpc = requests.iter().map(|request| request.method.clone()).collect();
    BodyCalls { graphql: graphql.map(|all| all.concat()), json_rpc }
}

/// What a GraphQL document calls.
pub(super) fn in_document(document: &[u8]) -> BodyCalls {
    let graphql = str::from_utf8(document).ok().and_then(graphql::root_fields);
    BodyCalls { graphql, json_rpc: None }
}

/// The documents that parameters of the query name, by names in every reading; `None` where they can't be read.
pub(super) fn documents_named(
    parameters: impl IntoIterator<Item = (String, Vec<u8>)>,
    beside: Option<&[u8]>,
) -> Option<Vec<String>> {
    let beside = beside.and_then(|text| str::from_utf8(text).ok());
    let mut all = Vec::new();
    for (name, value) in parameters {
        let by = Names::of(&name);
        let value = match by {
            None => continue,
            Some(Names::Document) => Value::String(String::from_utf8(value).ok()?),
            Some(Names::Extensions) if value.is_empty() => continue,
            Some(Names::Extensions) => serde_json::from_slice::<UniqueMembers>(&value).ok()?.0,
        };
        all.extend(by.into_iter().flat_map(|by| named(by, &value, beside)));
    }
    Some(all)
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
    /// What may name a document.
    names: Vec<(Names, Value)>,
}

impl Request {
    /// What it calls in GraphQL; `None` where it is none, or can't be read.
    fn graphql(&self) -> Option<Vec<String>> {
        let query = self.query.as_deref();
        let named = self.names.iter().flat_map(|(by, value)| named(*by, value, query));
        let mut calls = match query {
            Some(query) => graphql::root_fields(query)?,
            // Its id is a request's.
            None if self.method.is_some() => return None,
            None => Vec::new(),
        };
        calls.extend(named);
        (query.is_some() || !calls.is_empty()).then_some(calls)
    }
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
        let (mut method, mut query) = (None, None);
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let member = match &*key {
                "method" => &mut method,
                "query" => &mut query,
                // Some readers don't look at capitals.
                other if ["method", "query"].iter().any(|it| other.eq_ignore_ascii_case(it)) => {
                    return Err(de::Error::custom("a member in other capitals"));
                }
                other => {
                    match Names::of(other) {
                        Some(_) if request.names.len() >= MAX_NAMES => {
                            return Err(de::Error::custom("too many members name a document"));
                        }
                        Some(by) => request.names.push((by, map.next_value::<UniqueMembers>()?.0)),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                    continue;
                }
            };
            // Clients that name a document may say that they send none.
            if member.replace(map.next_value::<Option<String>>()?).is_some() {
                return Err(de::Error::custom("a member stands twice"));
            }
        }
        (request.method, request.query) = (method.flatten(), query.flatten());
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
    }

    #[test]
    fn documents_that_are_named_count_beside_what_is_sent() {
        let hash = "9e6f8a3af6aef5a1d0fb7ee6b6ac1b5a";
        for (body, expected) in [
            (r#"{"extensions":{"persistedQuery":{"sha256Hash":"x"}}}"#, &["document.x"][..]),
            (r#"{"documentId":"sha256:x","variables":{}}"#, &["document.sha256:x"]),
            (r#"{"id":7}"#, &["document.7"]),
            (r#"{"doc_id":"a","query":null}"#, &["document.a"]),
            (r#"{"query":"{ a }","queryId":"b"}"#, &["query.a", "document.b"]),
            (r#"{"query":"{ a }","ID":["b"]}"#, &["query.a", "document."]),
            (r#"{"query":"{ a }","extensions":{"x":1},"id":null}"#, &["query.a"]),
            (
                r#"{"query":"{ a }","extensions":{"PersistedQuery":{"sha256Hash":"b"}}}"#,
                &["query.a", "document.b"],
            ),
            (r#"{"query":"{ a }","extensions":"b"}"#, &["query.a", "document."]),
            (r#"[{"query":"{ a }"},{"documentId":"b"}]"#, &["query.a", "document.b"]),
        ] {
            assert_eq!(calls(body).graphql.unwrap(), expected, "{body}");
        }
        // Apollo's clients send the hash of the document beside it.
        let own = "1c7e1e347f726166b5b1c55afd61f278cc9b45e00c108ec33d540a566379811b";
        for (hash, is_own) in [(own, true), (hash, false)] {
            let body = format!(
                r#"{{"query":"{{ a }}","extensions":{{"persistedQuery":{{"version":1,"sha256Hash":"{hash}"}}}}}}"#
            );
            assert_eq!(calls(&body).graphql.unwrap().len() == 1, is_own, "{hash}");
        }
        for unreadable in [
            r#"{"query":"{ a }","extensions":{"persistedQuery":{},"persistedQuery":null}}"#,
            r#"{"query":"{ a }","query":null}"#,
            r#"{"id":1,"method":"a"}"#,
            r#"{"variables":{}}"#,
        ] {
            assert_eq!(calls(unreadable).graphql, None, "{unreadable}");
        }
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
