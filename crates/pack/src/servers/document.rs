//! A client's file of servers, edited in place: JSON with comments, or TOML.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table};

use crate::targets::TargetId;

/// The file, read.
pub(crate) enum Document {
    Json { root: CstRootNode, key: &'static str },
    Toml(Box<DocumentMut>),
}

/// Where Codex has its servers.
const TOML_KEY: &str = "mcp_servers";

impl Document {
    /// Reads the file of a target; nothing is an empty one. Fails with why it can't be read.
    pub(crate) fn parse(target: TargetId, text: &str) -> Result<Self, String> {
        if target == TargetId::Codex {
            let document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
            let held = document.get(TOML_KEY);
            if held.is_some_and(|servers| !servers.is_table()) {
                return Err(format!("`{TOML_KEY}` is no table"));
            }
            return Ok(Self::Toml(Box::new(document)));
        }
        let key = if target == TargetId::Vscode { "servers" } else { "mcpServers" };
        let root = CstRootNode::parse(text, &strict()).map_err(|error| error.to_string())?;
        let outer = root.object_value_or_create().ok_or("it holds no object")?;
        if outer.get(key).is_some_and(|held| held.object_value().is_none()) {
            return Err(format!("`{key}` is no object"));
        }
        Ok(Self::Json { root, key })
    }

    /// An entry.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        match self {
            Self::Json { .. } => self.servers()?.get(name)?.value()?.to_serde_value(),
            Self::Toml(document) => value_of(document.get(TOML_KEY)?.get(name)?),
        }
    }

    /// Puts an entry in, or another in its place.
    pub(crate) fn set(&mut self, name: &str, entry: &Value) {
        match self {
            Self::Json { root, key } => {
                let servers = root.object_value_or_set().object_value_or_set(key);
                match servers.get(name) {
                    Some(held) => held.set_value(input(entry)),
                    None => drop(servers.append(name, input(entry))),
                }
            }
            Self::Toml(document) => {
                let servers = document.entry(TOML_KEY).or_insert_with(|| {
                    let mut table = Table::new();
                    table.set_implicit(true);
                    Item::Table(table)
                });
                servers[name] = table_of(entry);
            }
        }
    }

    /// Takes an entry out, and what is empty without it.
    pub(crate) fn remove(&mut self, name: &str) {
        match self {
            Self::Json { root, key } => {
                let Some(servers) = root.object_value().and_then(|outer| outer.object_value(key))
                else {
                    return;
                };
                if let Some(held) = servers.get(name) {
                    held.remove();
                }
                if servers.properties().is_empty()
                    && let Some(held) = root.object_value().and_then(|outer| outer.get(key))
                {
                    held.remove();
                }
            }
            Self::Toml(document) => {
                let Some(servers) = document.get_mut(TOML_KEY).and_then(Item::as_table_mut) else {
                    return;
                };
                servers.remove(name);
                if servers.is_empty() {
                    document.remove(TOML_KEY);
                }
            }
        }
    }

    /// Whether nothing is left, not even a comment.
    pub(crate) fn is_empty(&self) -> bool {
        let text: String = self.text().chars().filter(|c| !c.is_whitespace()).collect();
        text.is_empty() || text == "{}"
    }

    /// The file's text, ended by a line's end.
    pub(crate) fn text(&self) -> String {
        let mut text = match self {
            Self::Json { root, .. } => root.to_string(),
            Self::Toml(document) => document.to_string(),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    fn servers(&self) -> Option<CstObject> {
        let Self::Json { root, key } = self else { return None };
        root.object_value()?.object_value(key)
    }
}

/// JSON with comments and trailing commas, as editors take it; nothing looser.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields.iter().map(|(name, value)| (name.clone(), input(value))).collect(),
        ),
    }
}

/// An entry as a table, maps in it in one line each.
fn table_of(entry: &Value) -> Item {
    let mut table = Table::new();
    for (name, value) in entry.as_object().into_iter().flatten() {
        table.insert(name, Item::Value(inline(value)));
    }
    Item::Table(table)
}

fn inline(value: &Value) -> toml_edit::Value {
    match value {
        Value::Null => "".into(),
        Value::Bool(bool) => (*bool).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(inline).collect::<Array>().into(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.as_str(), inline(value)));
            fields.collect::<InlineTable>().into()
        }
    }
}

/// What an entry says, however it is written.
fn value_of(item: &Item) -> Option<Value> {
    if let Some(table) = item.as_table_like() {
        let field = |(name, item): (&str, &Item)| Some((name.to_owned(), value_of(item)?));
        return Some(Value::Object(table.iter().filter_map(field).collect::<Map<_, _>>()));
    }
    let value = item.as_value()?;
    Some(match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(bool) => (*bool.value()).into(),
        toml_edit::Value::Array(items) => {
            items.iter().filter_map(|item| value_of(&Item::Value(item.clone()))).collect()
        }
        other => other.to_string().trim().into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JSON: &str = "\
{
  // the user's own
  \"theme\": \"dark\",
  \"mcpServers\": {
    \"mine\": { \"command\": \"mine\" }, // keep
  },
}
";

    #[test]
    fn json_keeps_comments_and_everything_of_the_users() {
        let mut document = Document::parse(TargetId::ClaudeCode, JSON).unwrap();
        let entry = json!({ "command": "gh-mcp", "args": ["--stdio"] });
        document.set("github", &entry);
        assert_eq!(document.get("github"), Some(entry.clone()));
        let text = document.text();
        assert!(text.contains("// the user's own") && text.contains("// keep"), "{text}");
        let mut again = Document::parse(TargetId::ClaudeCode, &text).unwrap();
        again.set("github", &json!({ "command": "other" }));
        assert_eq!(again.get("mine"), Some(json!({ "command": "mine" })));
        again.remove("github");
        assert_eq!(again.get("github"), None);
        let left = again.text();
        assert!(left.contains("\"theme\": \"dark\"") && left.contains("// keep"), "{left}");
    }

    #[test]
    fn toml_keeps_comments_and_order() {
        let text = "# mine\nmodel = \"o5\"\n\n[mcp_servers.mine] # keep\ncommand = \"mine\"\n\n[tui]\nx = 1\n";
        let mut document = Document::parse(TargetId::Codex, text).unwrap();
        let entry = json!({ "args": ["a"], "command": "gh", "env": { "TOKEN": "@secret:a/b/c" } });
        document.set("github", &entry);
        let with = document.text();
        assert_eq!(Document::parse(TargetId::Codex, &with).unwrap().get("github"), Some(entry));
        for part in ["# mine\nmodel = \"o5\"", "[mcp_servers.mine] # keep", "[tui]\nx = 1"] {
            assert!(with.contains(part), "{with}");
        }
        document.remove("github");
        assert_eq!(document.text(), text);
    }

    proptest::proptest! {
        /// Whatever a user has there says the same when ours has come and gone.
        #[test]
        fn what_is_the_users_stays(
            names in proptest::collection::btree_set("[a-z]{1,6}", 0..5),
            text in "[ -~]{0,20}",
            flat in proptest::bool::ANY,
        ) {
            let servers: Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!({ "command": text, "args": [text] }))).collect();
            let before = json!({ "theme": text, "mcpServers": servers });
            let written = if flat { before.to_string() } else { format!("{before:#}\n") };
            let mut document = Document::parse(TargetId::Cursor, &written).unwrap();
            document.set("OURS", &json!({ "command": "x", "env": { "A": "b" } }));
            let with: Value = serde_json::from_str(&document.text()).unwrap();
            proptest::prop_assert_eq!(&with["mcpServers"]["OURS"]["env"]["A"], "b");
            document.remove("OURS");
            let after: Value = serde_json::from_str(&document.text()).unwrap();
            proptest::prop_assert_eq!(&after["theme"], &before["theme"]);
            let left = after.get("mcpServers").cloned().unwrap_or_else(|| json!({}));
            proptest::prop_assert_eq!(&left, &before["mcpServers"]);
        }
    }

    #[test]
    fn an_empty_file_comes_and_goes() {
        for target in [TargetId::ClaudeCode, TargetId::Codex, TargetId::Cursor, TargetId::Vscode] {
            let mut document = Document::parse(target, "").unwrap();
            document.set("one", &json!({ "command": "x" }));
            assert_eq!(document.get("one"), Some(json!({ "command": "x" })), "{}", document.text());
            document.remove("one");
            assert!(document.is_empty(), "{}", document.text());
        }
    }

    #[test]
    fn what_can_not_be_read_is_left_alone() {
        for text in ["{", "[]", "{\"mcpServers\": []}", "{'a': 1}", "{\"a\": 1 \"b\": 2}"] {
            assert!(Document::parse(TargetId::ClaudeCode, text).is_err(), "{text}");
        }
        for text in ["a = ", "mcp_servers = 1"] {
            assert!(Document::parse(TargetId::Codex, text).is_err(), "{text}");
        }
    }
}
