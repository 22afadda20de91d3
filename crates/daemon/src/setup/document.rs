//! Variables in JSON and YAML: text under a key, under the keys above it joined by `_`. In a list the number of the entry,
//! counted from one, stands for its key.

use std::path::Path;

use serde_json::Value;
use zeroize::Zeroizing;

/// Deeper than anybody nests settings.
const MAX_DEPTH: usize = 16;

/// What a document holds.
#[derive(Default)]
pub(super) struct Document {
    /// Every text by its key.
    pub(super) texts: Vec<(String, Zeroizing<String>)>,
    /// How many texts stand in lists as they are: nothing says what they hold.
    pub(super) in_lists: usize,
}

/// Every text in a document by its key, `{"db": {"password": …}}` as `db_password`. `None` when it is no document.
pub(super) fn read(text: &str, form: Form) -> Option<Document> {
    let document: Value = match form {
        Form::Json => serde_json::from_str(text).ok()?,
        Form::Yaml => serde_saphyr::from_str(text).ok()?,
    };
    let mut found = Document::default();
    take(document, &mut String::new(), 0, &mut found);
    Some(found)
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
}

impl Form {
    /// The form of a file, by its name.
    pub(super) fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

fn take(value: Value, key: &mut String, depth: usize, found: &mut Document) {
    let below = |name: &str, value: Value, key: &mut String, found: &mut Document| {
        let length = key.len();
        if !key.is_empty() {
            key.push('_');
        }
        key.push_str(name);
        take(value, key, depth + 1, found);
        key.truncate(length);
    };
    match value {
        Value::String(text) => found.texts.push((key.clone(), Zeroizing::new(text))),
        Value::Object(entries) if depth < MAX_DEPTH => {
            for (name, value) in entries {
                below(&name, value, key, found);
            }
        }
        Value::Array(entries) if depth < MAX_DEPTH => {
            for (index, value) in entries.into_iter().enumerate() {
                if let Value::String(text) = value {
                    drop(Zeroizing::new(text));
                    found.in_lists += 1;
                } else {
                    below(&(index + 1).to_string(), value, key, found);
                }
            }
        }
        // Numbers and switches are settings.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_under_its_keys() {
        let json = r#"{"A_TOKEN": "one", "db": {"password": "two", "port": 5432}, "list": ["x", {"token": "three"}]}"#;
        let yaml = "A_TOKEN: one\ndb:\n  password: two\n  port: 5432\nlist: [x, {token: three}]\n";
        for (text, form) in [(json, Form::Json), (yaml, Form::Yaml)] {
            let Document { texts, in_lists } = read(text, form).unwrap();
            let mut found: Vec<_> = texts.into_iter().map(|(k, v)| (k, v.to_string())).collect();
            found.sort();
            let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
            let expected =
                [pair("A_TOKEN", "one"), pair("db_password", "two"), pair("list_2_token", "three")];
            assert_eq!((found, in_lists), (expected.to_vec(), 1), "{form:?}");
        }
        assert!(read("{", Form::Json).is_none());
        assert!(read("a: [", Form::Yaml).is_none());
    }
}
