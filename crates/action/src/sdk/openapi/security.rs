//! Whether an operation takes a credential, and where.

use serde_json::Value;

use super::resolved;
use crate::sdk::provider::{Auth, AuthScheme};

/// Where the credential of an operation goes; nothing where it takes none (`security: []`). Where neither it nor the
/// document says anything, the first scheme that a credential fits.
pub(super) fn auth(document: &Value, operation: &Value) -> Result<Option<Auth>, String> {
    let said = operation.get("security").or_else(|| document.get("security"));
    let schemes = document["components"]["securitySchemes"].as_object();
    let Some(said) = said else {
        let mut all = schemes.into_iter().flatten().map(|(name, _)| name.as_str());
        let found = all.find_map(|name| place(document, name).ok());
        let none = "the document has no security scheme with a bearer, basic or API key";
        return found.map(Some).ok_or_else(|| none.to_owned());
    };
    let ways = said.as_array().ok_or("`security` is no list")?;
    if ways.is_empty() {
        return Ok(None);
    }
    let mut why = None;
    for way in ways {
        let names: Vec<&String> =
            way.as_object().into_iter().flatten().map(|(name, _)| name).collect();
        let read = match names[..] {
            [] => continue,
            [name] => place(document, name),
            _ => Err("it takes several credentials at once".to_owned()),
        };
        match read {
            Ok(auth) => return Ok(Some(auth)),
            Err(fault) => why = why.or(Some(fault)),
        }
    }
    // Where a credential is optional (`{}`), none that it could be is no reason not to call.
    let is_optional = ways.iter().any(|way| way.as_object().is_some_and(serde_json::Map::is_empty));
    match why {
        Some(why) if !is_optional => Err(why),
        _ => Ok(None),
    }
}

/// Where the credential of a scheme goes.
fn place(document: &Value, name: &str) -> Result<Auth, String> {
    let scheme = document["components"]["securitySchemes"].get(name);
    let scheme = scheme.ok_or_else(|| format!("there is no security scheme {name}"))?;
    let scheme = resolved(document, scheme)?;
    let header =
        |scheme, header: &str| Auth { scheme, header: header.to_ascii_lowercase(), query: None };
    let kind = scheme["type"].as_str().unwrap_or_default();
    let how = scheme["scheme"].as_str().unwrap_or_default().to_ascii_lowercase();
    let called =
        || scheme["name"].as_str().ok_or_else(|| format!("the security scheme {name} has no name"));
    Ok(match (kind, &*how, scheme["in"].as_str().unwrap_or_default()) {
        ("http", "basic", _) => header(AuthScheme::Basic, "authorization"),
        ("http", "bearer", _) | ("oauth2" | "openIdConnect", ..) => {
            header(AuthScheme::Bearer, "authorization")
        }
        ("apiKey", _, "header") => header(AuthScheme::Plain, called()?),
        ("apiKey", _, "query") => Auth {
            scheme: AuthScheme::Plain,
            header: String::new(),
            query: Some(called()?.to_owned()),
        },
        ("apiKey", _, "cookie") => return Err(format!("the security scheme {name} is a cookie")),
        _ => return Err(format!("the security scheme {name} is no bearer, basic or API key")),
    })
}
