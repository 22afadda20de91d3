//! Variables in JSON and YAML: text under a key, under the keys above it joined by `_`.

use serde_json::Value;
use zeroize::Zeroizing;

/// Deeper than anybody nests settings.
const MAX_DEPTH: usize = 16;

/// Every text in a document by its key, `{"db": {"password": …}}` as `db_password`. `None` when it is no document.
pub(super) fn read(text: &str, form: Form) -> Option<Vec<(String, Zeroizing<String>)>> {
    let document: Value = match form {
        Form::Json => serde_json::from_str(text).ok()?,
        Form::Yaml => serde_saphyr::from_str(text).ok()?,
    };
    let mut found = Vec::new();
    take(document, &mut String::new(), 0, &mut found);
    Some(found)
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
}

fn take(
    value: Value,
    key: &mut String,
    depth: usize,
    found: &mut Vec<(String, Zeroizing<String>)>,
) {
    match value {
        Value::String(text) => found.push((key.clone(), Zeroizing::new(text))),
        Value::Object(entries) if depth < MAX_DEPTH => {
            for (name, value) in entries {
                let length = key.len();
                if !key.is_empty() {
                    key.push('_');
                }
                key.push_str(&name);
                take(value, key, depth + 1, found);
                key.truncate(length);
            }
        }
        // Numbers and switches are settings; lists have no names.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_under_its_keys() {
        let json = r#"{"A_TOKEN": "one", "db": {"password": "two", "port": 5432}, "list": ["x"]}"#;
        let yaml = "A_TOKEN: one\ndb:\n  password: two\n  port: 5432\nlist: [x]\n";
        for (text, form) in [(json, Form::Json), (yaml, Form::Yaml)] {
            let mut found: Vec<_> =
                read(text, form).unwrap().into_iter().map(|(k, v)| (k, v.to_string())).collect();
            found.sort();
            let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
            assert_eq!(found, [pair("A_TOKEN", "one"), pair("db_password", "two")], "{form:?}");
        }
        assert!(read("{", Form::Json).is_none());
        assert!(read("a: [", Form::Yaml).is_none());
    }
}
