//! An OpenAPI 3 document of the operator's as a provider: operations by their `operationId`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::provider::{Auth, AuthScheme, BodyForm, Operation, Provider};

const METHODS: [&str; 6] = ["delete", "get", "head", "patch", "post", "put"];

/// Reads a document; the first server counts.
pub(super) fn provider(name: &str, document: &Value) -> Result<Provider, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let base = text(&document["servers"][0]["url"]).ok_or("it names no server")?;
    if !base.starts_with("https://") && !base.starts_with("http://") {
        return Err("the first server's address is not absolute".to_owned());
    }
    let mut operations = Vec::new();
    let paths = document["paths"].as_object().ok_or("it has no paths")?;
    for (path, item) in paths {
        for method in METHODS {
            let operation = &item[method];
            let Some(id) = text(&operation["operationId"]) else { continue };
            let of = |place| {
                let own = parameters(document, &operation["parameters"], place);
                [own, parameters(document, &item["parameters"], place)].concat()
            };
            operations.push(Operation {
                service: name.to_owned(),
                name: id,
                method: method.to_ascii_uppercase(),
                path: path.clone(),
                query: of("query"),
                headers: of("header"),
            });
        }
    }
    Ok(Provider {
        name: name.to_owned(),
        base,
        auth: auth(document)?,
        headers: BTreeMap::new(),
        body: BodyForm::Json,
        operations,
        known: BTreeSet::new(),
        withheld: Vec::new(),
    })
}

/// The names of the parameters of one place. `$ref` into the document is followed once.
fn parameters(document: &Value, list: &Value, place: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let resolved = items.map(|item| match item["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap_or(item),
        None => item,
    });
    resolved
        .filter(|item| item["in"] == place)
        .filter_map(|item| item["name"].as_str().map(str::to_owned))
        .collect()
}

/// The first security scheme that a credential fits.
fn auth(document: &Value) -> Result<Auth, String> {
    let schemes = document.pointer("/components/securitySchemes").and_then(Value::as_object);
    let place = |scheme: &Value| -> Option<Auth> {
        let header = |scheme, header: &str| {
            Some(Auth { scheme, header: header.to_ascii_lowercase(), query: None })
        };
        match (scheme["type"].as_str()?, scheme["scheme"].as_str(), scheme["in"].as_str()) {
            ("http", Some("basic"), _) => header(AuthScheme::Basic, "authorization"),
            ("http", Some("bearer"), _) | ("oauth2" | "openIdConnect", ..) => {
                header(AuthScheme::Bearer, "authorization")
            }
            ("apiKey", _, Some("header")) => header(AuthScheme::Plain, scheme["name"].as_str()?),
            ("apiKey", _, Some("query")) => Some(Auth {
                scheme: AuthScheme::Plain,
                header: String::new(),
                query: scheme["name"].as_str().map(str::to_owned),
            }),
            _ => None,
        }
    };
    let found = schemes.into_iter().flatten().find_map(|(_, scheme)| place(scheme));
    found.ok_or_else(|| "it has no security scheme with a bearer, basic or API key".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_parameters_and_the_credentials_place_are_read() {
        let document = json!({
            "openapi": "3.1.0",
            "servers": [{"url": "https://api.example.com/v2"}],
            "components": {
                "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
                "parameters": {"page": {"name": "page", "in": "query"}}
            },
            "paths": {"/things/{id}": {
                "parameters": [{"name": "id", "in": "path"}],
                "put": {"operationId": "putThing", "parameters": [
                    {"$ref": "#/components/parameters/page"},
                    {"name": "If-Match", "in": "header"}
                ]}
            }}
        });
        let provider = provider("things", &document).unwrap();
        let operation = &provider.operations[0];
        assert_eq!((operation.method.as_str(), operation.name.as_str()), ("PUT", "putThing"));
        assert_eq!(
            (&*operation.query, &*operation.headers),
            (&["page".to_owned()][..], &["If-Match".to_owned()][..])
        );
        assert_eq!(provider.auth.header, "x-key");
        assert!(super::provider("x", &json!({"paths": {}})).is_err());
    }
}
