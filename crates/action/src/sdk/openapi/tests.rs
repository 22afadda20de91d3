use serde_json::json;

use super::*;
use crate::{
    executor::Work,
    material::Materials,
    sdk::{filling::Filling, request::Request},
};

/// A document of these paths, with a bearer token.
fn document(paths: &Value) -> Value {
    json!({
        "openapi": "3.0.3", "servers": [{"url": "https://api.test/v1"}],
        "components": {"securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"}
        }},
        "security": [{"bearer": []}],
        "paths": paths
    })
}

fn build(document: &Value, operation: &str, parameters: Value) -> Result<Request, Error> {
    let document = Document::read("own", document).unwrap();
    let Value::Object(parameters) = parameters else { panic!("an object") };
    let wanted = Wanted { provider: "http", service: "own", operation, parameters };
    let draft = document.draft(wanted)?;
    let (work, materials) = (Work::idle(), Materials::holding(Vec::new()));
    let authority = draft.authority.clone();
    let mut filling = Filling::new(&work, &materials, draft.scheme, &authority);
    draft.filled(&mut filling, "t0ken")
}

/// `METHOD host/path?query`, what the headers of ours are not, and the body.
fn line(document: &Value, operation: &str, parameters: Value) -> String {
    let request =
        build(document, operation, parameters).unwrap_or_else(|error| panic!("{error:?}"));
    let Request { method, authority, target, headers, body, .. } = request;
    let mut parts = vec![format!("{method} {authority}{target}")];
    let own = headers.iter().filter(|(name, _)| name != "user-agent" && name != "accept");
    parts.extend(own.map(|(name, value)| format!("{name}: {}", **value)));
    parts.extend(Some(String::from_utf8_lossy(&body).into_owned()).filter(|body| !body.is_empty()));
    parts.join(" | ")
}

fn refused(document: &Value, operation: &str, parameters: Value) -> String {
    build(document, operation, parameters).err().map(|error| error.message()).unwrap_or_default()
}

/// Why an operation of one path can't be called; another one can.
fn unfit(method: &str, operation: &Value) -> String {
    let document = document(&json!({"/fit": {"get": {}}, "/a/{id}": {method: operation}}));
    let read = Document::read("own", &document).unwrap();
    let refused: Vec<_> = read.refused().collect();
    let [(place, why)] = refused[..] else { panic!("{refused:?}") };
    assert_eq!(place, format!("{} /a/{{id}}", method.to_uppercase()));
    // Who calls it all the same is told so.
    let called = self::refused(&document, place, json!({"id": 1}));
    assert!(
        called.contains(&SafeText::default().as_they_wrote(why).as_str().to_owned()),
        "{called}"
    );
    why.to_owned()
}

const BEARER: &str = " | authorization: Bearer t0ken";

#[test]
fn operations_are_called_by_their_id_or_by_their_method_and_path() {
    let own = document(&json!({"/things/{id}": {
        "parameters": [{"name": "id", "in": "path", "required": true}],
        "get": {"operationId": "getThing"}, "delete": {}
    }}));
    let get = format!("GET api.test:443/v1/things/7{BEARER}");
    assert_eq!(line(&own, "getThing", json!({"id": 7})), get);
    let delete = format!("DELETE api.test:443/v1/things/7{BEARER}");
    assert_eq!(line(&own, "DELETE /things/{id}", json!({"id": 7})), delete);
    // Not by any path, as the services that come with Keyless are.
    assert!(refused(&own, "DELETE /things/7", json!({})).contains("no operation own.DELETE"));
    assert!(refused(&own, "getThing", json!({"id": "../7"})).contains("leave"));
    assert!(refused(&own, "getThing", json!({"id": ["7"]})).contains("a text or a number: id"));
}

#[test]
fn the_nearest_server_counts_and_its_variables_are_the_operators() {
    let mut own = document(&json!({
        "/a": {"get": {"operationId": "a"}},
        "/b": {"servers": [{"url": "https://b.test"}], "get": {"operationId": "b"},
            "post": {"operationId": "c", "servers": [{"url": "http://c.test/x/"}]}}
    }));
    own["servers"] = json!([{"url": "https://{tenant}.test/{version}", "variables": {
        "tenant": {"default": "us", "enum": ["us", "eu"]}, "version": {"default": "v2"}}}]);
    assert!(line(&own, "a", json!({})).starts_with("GET us.test:443/v2/a"));
    assert!(line(&own, "b", json!({})).starts_with("GET b.test:443/b"));
    assert!(line(&own, "c", json!({})).starts_with("POST c.test:80/x/b"));
    // An agent has no word in it.
    let tenant = refused(&own, "a", json!({"tenant": "eu"}));
    assert!(tenant.contains("the operation has no parameter tenant; it takes none"), "{tenant}");
    own["x-keyless-variables"] = json!({"tenant": "eu"});
    assert!(line(&own, "a", json!({})).starts_with("GET eu.test:443/v2/a"));
    let why = |said: Value| {
        let mut own = own.clone();
        own["x-keyless-variables"] = said;
        Document::read("own", &own).err().unwrap_or_else(|| {
            let read = Document::read("own", &own).unwrap();
            let (place, why) = read.refused().next().unwrap();
            format!("{place}: {why}")
        })
    };
    assert_eq!(
        why(json!({"tenant": "evil"})),
        "GET /a: the server's variable tenant can't be evil: its `enum` has others"
    );
    assert_eq!(why(json!({"none": "x"})), "x-keyless-variables: no server has a variable none");
    assert!(why(json!({"version": "../x"})).contains("can't be used"));
}

#[test]
fn a_credential_goes_where_the_operation_wants_it_or_nowhere() {
    let own = document(&json!({
        "/bearer": {"get": {}}, "/open": {"get": {"security": []}},
        "/key": {"get": {"security": [{"cookie": []}, {"key": []}], "parameters": [
            {"name": "api_key", "in": "query"}]}},
        "/may": {"get": {"security": [{}, {"bearer": []}]}},
        "/mayhap": {"get": {"security": [{}, {"cookie": []}]}}
    }));
    assert_eq!(line(&own, "GET /bearer", json!({})), format!("GET api.test:443/v1/bearer{BEARER}"));
    assert_eq!(line(&own, "GET /open", json!({})), "GET api.test:443/v1/open");
    assert_eq!(line(&own, "GET /key", json!({})), "GET api.test:443/v1/key?api_key=t0ken");
    assert_eq!(line(&own, "GET /may", json!({})), format!("GET api.test:443/v1/may{BEARER}"));
    assert_eq!(line(&own, "GET /mayhap", json!({})), "GET api.test:443/v1/mayhap");
    // The credential's place is no parameter.
    assert!(refused(&own, "GET /key", json!({"api_key": "mine"})).contains("no parameter api_key"));
}

#[test]
fn what_is_not_declared_is_refused_with_what_is() {
    let own = document(&json!({"/a/{id}": {
        "parameters": [{"name": "page", "in": "query"}, {"name": "authorization", "in": "header"},
            {"name": "Host", "in": "header"}, {"name": "sid", "in": "cookie"}],
        "get": {"operationId": "get", "parameters": [{"$ref": "#/components/parameters/trace"}]},
        "post": {"operationId": "post"},
        "put": {"operationId": "put", "requestBody": {"content": {"application/json": {"schema": {
            "type": "object", "properties": {"title": {}}, "additionalProperties": false}}}}}
    }}));
    let mut own = own;
    own["components"]["parameters"] = json!({"trace": {"$ref": "#/components/parameters/t"}, "t": {"name": "X-Trace", "in": "header"}});
    let given = json!({"id": 1, "page": 2, "X-Trace": "t"});
    let got = format!("GET api.test:443/v1/a/1?page=2 | x-trace: t{BEARER}");
    assert_eq!(line(&own, "get", given), got);
    for name in ["_method", "Host", "sid", "x-trace", "authorization"] {
        let refused = refused(&own, "get", json!({"id": 1, name: "x"}));
        let words = format!("has no parameter {name}; it takes X-Trace, id, page");
        assert!(refused.contains(&words), "{refused}");
    }
    assert!(
        refused(&own, "post", json!({"id": 1, "a": 1}))
            .contains("no parameter a; it takes id, page")
    );
    let put = refused(&own, "put", json!({"id": 1, "a": 1}));
    assert!(put.contains("no parameter a; it takes id, page, title"), "{put}");
}

#[test]
fn bodies_are_json_or_forms() {
    let own = document(&json!({
        "/json/{id}": {"put": {"operationId": "json", "requestBody": {"content": {
            "multipart/form-data": {}, "application/merge-patch+json": {"schema": {
            "$ref": "#/components/schemas/thing"}}}}}},
        "/form": {"post": {"operationId": "form", "requestBody": {"required": true, "content": {
            "application/x-www-form-urlencoded": {"encoding": {"deep": {"style": "deepObject"}}}}}}}
    }));
    let mut own = own;
    own["components"]["schemas"] = json!({"thing": {"type": "object", "required": ["id"]}});
    // What the body has to have and the path is called after is in both.
    assert_eq!(
        line(&own, "json", json!({"id": 7, "a": {"b": [1]}})),
        format!(
            "PUT api.test:443/v1/json/7 | content-type: application/merge-patch+json{BEARER} | \
             {{\"a\":{{\"b\":[1]}},\"id\":7}}"
        )
    );
    let given =
        json!({"a": "b c&d", "list": [1, "x"], "nested": {"n": 1}, "deep": {"k": "v"}, "no": null});
    assert_eq!(
        line(&own, "form", given),
        format!(
            "POST api.test:443/v1/form | content-type: application/x-www-form-urlencoded{BEARER} | \
             a=b%20c%26d&deep%5Bk%5D=v&list=1&list=x&nested=%7B%22n%22%3A1%7D"
        )
    );
}

#[test]
fn what_has_several_parts_is_written_in_its_style() {
    let parameter = |name: &str, style: &str, explode: bool| json!({"name": name, "in": "query", "style": style, "explode": explode});
    let own = document(&json!({"/a": {"get": {"operationId": "a", "parameters": [
        {"name": "plain", "in": "query"}, parameter("comma", "form", false),
        parameter("pipe", "pipeDelimited", false), parameter("deep", "deepObject", true),
        {"name": "json", "in": "query", "content": {"application/json": {}}},
        {"name": "must", "in": "query", "required": true}
    ]}}}));
    let given = json!({"plain": [1, 2], "comma": ["a,b", "c"], "pipe": ["x", "y"], "deep": {"k": 1},
        "json": "q", "must": true});
    assert_eq!(
        line(&own, "a", given),
        format!(
            "GET api.test:443/v1/a?comma=a%2Cb,c&deep%5Bk%5D=1&json=%22q%22&must=true&pipe=x%7Cy&plain=1&plain=2{BEARER}"
        )
    );
    assert!(refused(&own, "a", json!({})).contains("needs a parameter: must"));
    // A name of its own in the query is none that was declared.
    let nested = refused(&own, "a", json!({"must": 1, "plain": {"_method": "DELETE"}}));
    assert!(nested.contains("what is given for plain"), "{nested}");
}

#[test]
fn what_can_not_be_sent_as_it_says_is_refused_where_it_stands() {
    let parameter = |parameter: Value| unfit("get", &json!({"parameters": [parameter]}));
    let body = |media: &str, schema: Value| {
        unfit("post", &json!({"requestBody": {"content": {media: {"schema": schema}}}}))
    };
    for (why, words) in [
        (body("multipart/form-data", json!({})), "multipart/form-data, which is not sent"),
        (body("application/json", json!({"type": "array"})), "its body is no object"),
        (unfit("get", &json!({"requestBody": {}})), "a GET or HEAD does not carry"),
        (unfit("trace", &json!({})), "TRACE are not called"),
        (unfit("get", &json!({"security": [{"cookie": []}]})), "cookie is a cookie"),
        (unfit("get", &json!({"security": [{"key": [], "bearer": []}]})), "several credentials"),
        (unfit("get", &json!({"security": [{"none": []}]})), "no security scheme none"),
        (unfit("get", &json!({"servers": [{"url": "/relative"}]})), "not absolute: /relative"),
        (unfit("get", &json!({"servers": [{"url": "https://{a}.test"}]})), "a has no default"),
        (parameter(json!({"$ref": "other.json#/a"})), "out of the document: other.json#/a"),
        (parameter(json!({"$ref": "#/components/none"})), "leads nowhere"),
        (parameter(json!({"name": "s", "in": "cookie", "required": true})), "is a cookie"),
        (
            parameter(json!({"name": "Host", "in": "header", "required": true})),
            "no header that can be set",
        ),
        (parameter(json!({"name": "x", "in": "path"})), "its path has no {x}"),
        (parameter(json!({"name": "id", "in": "query"})), "two of its parameters are called id"),
        (parameter(json!({"name": "id", "in": "path", "style": "matrix"})), "style `matrix`"),
        (parameter(json!({"name": "q", "in": "query", "content": {"a/b": {}}})), "no JSON"),
    ] {
        assert!(why.contains(words), "{why} / {words}");
    }
}

#[test]
fn a_document_of_which_nothing_can_be_called_is_none() {
    let read = |document: &Value| Document::read("own", document).err().unwrap();
    assert!(read(&json!({"swagger": "2.0", "paths": {}})).contains("no OpenAPI 3 document"));
    assert!(read(&json!({"openapi": "3.0.0"})).contains("no `paths`"));
    assert_eq!(read(&document(&json!({}))), "it has no operations");
    let mut own = document(&json!({"/a": {"get": {}}}));
    own["servers"] = json!([{"url": "/api"}]);
    let words = "nothing of it can be called; GET /a: the server's address is not absolute: /api";
    assert_eq!(read(&own), words);
    let own = document(
        &json!({"/a": {"get": {"operationId": "a"}}, "/b": {"get": {"operationId": "a"}}}),
    );
    let own = Document::read("own", &own).unwrap();
    assert_eq!(
        own.refused().collect::<Vec<_>>(),
        [("GET /b", "its operationId is that of GET /a")]
    );
}
