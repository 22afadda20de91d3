//! Servers that `keyless run` does not start: an alias in such an entry reaches its program as it stands there.
//!
//! Looks at the settings of clients, JSON with comments or TOML, whoever wrote them.

use std::{ops::Range, path::Path};

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml_edit::{Document, Item, Value};

/// The keys under which clients have their servers.
const SERVERS: &[&str] = &["context_servers", "mcp", "mcpServers", "mcp_servers", "servers"];
/// What an entry has that is a server's.
const OF_SERVERS: &[&str] = &["command", "httpUrl", "serverUrl", "url"];
/// Nothing lies deeper in settings.
const MAX_DEPTH: usize = 32;

/// A text in the entry of a server that is not started by `keyless run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideRun {
    /// The server's name.
    pub server: String,
    /// Where the text stands, in bytes.
    pub place: Range<usize>,
    /// Whether nothing is started for it here: it has an address and no command.
    pub is_remote: bool,
}

/// Every text in the entries of servers that are started without `keyless run`, or not started at all, in the settings of a
/// client; none where the file is neither JSON nor TOML, or has no servers.
pub fn outside_run(file: &Path, text: &str) -> Vec<OutsideRun> {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let root = match end.to_ascii_lowercase().as_str() {
        "json" | "jsonc" => of_json(text),
        "toml" => Document::parse(text).ok().map(|document| of_item(document.as_item(), 0)),
        _ => None,
    };
    let mut found = Vec::new();
    if let Some(root) = root {
        look(&root, &mut found);
    }
    found
}

/// What both forms have in common.
enum Node {
    Text(String, Range<usize>),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    Other,
}

impl Node {
    fn get(&self, name: &str) -> Option<&Self> {
        let Self::Table(entries) = self else { return None };
        entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text, _) => Some(text),
            _ => None,
        }
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::List(items) => items.iter().collect(),
            Self::Table(entries) => entries.iter().map(|(_, value)| value).collect(),
            Self::Text(..) | Self::Other => Vec::new(),
        }
    }

    fn is_server(&self) -> bool {
        OF_SERVERS.iter().any(|key| self.get(key).is_some())
    }

    /// Every text in it, and where it stands.
    fn places(&self, found: &mut Vec<Range<usize>>) {
        if let Self::Text(_, place) = self {
            found.push(place.clone());
        }
        for child in self.children() {
            child.places(found);
        }
    }

    /// The words of a command line, whether they stand in a text, in a list, or in a table as Zed has them.
    fn words(&self, found: &mut Vec<String>) {
        match self {
            Self::Text(text, _) => found.extend(text.split_whitespace().map(str::to_owned)),
            Self::List(items) => {
                for item in items {
                    item.words(found);
                }
            }
            Self::Table(_) => {
                ["path", "args"]
                    .iter()
                    .filter_map(|key| self.get(key))
                    .for_each(|part| part.words(found));
            }
            Self::Other => {}
        }
    }
}

fn look(node: &Node, found: &mut Vec<OutsideRun>) {
    if let Node::Table(entries) = node {
        for (_, held) in entries.iter().filter(|(key, _)| SERVERS.contains(&key.as_str())) {
            servers(held, found);
        }
    }
    // A project of a client's may have servers of its own.
    node.children().into_iter().for_each(|child| look(child, found));
}

/// The entries of a table by their names, or of a list that has the names inside.
fn servers(held: &Node, found: &mut Vec<OutsideRun>) {
    match held {
        Node::Table(entries) => {
            for (name, entry) in entries {
                server(name, entry, found);
            }
        }
        Node::List(items) => {
            for entry in items {
                let name = entry.get("name").and_then(Node::text).unwrap_or_default();
                server(name, entry, found);
            }
        }
        Node::Text(..) | Node::Other => {}
    }
}

fn server(name: &str, entry: &Node, found: &mut Vec<OutsideRun>) {
    if !entry.is_server() || is_started_by_run(entry) {
        return;
    }
    let mut places = Vec::new();
    entry.places(&mut places);
    let is_remote = entry.get("command").is_none();
    let outside = |place| OutsideRun { server: name.to_owned(), place, is_remote };
    found.extend(places.into_iter().map(outside));
}

/// Whether the command is `keyless run …`, by whatever way it comes to that: a shell, `env`, a path.
fn is_started_by_run(entry: &Node) -> bool {
    let mut words = Vec::new();
    ["command", "args"]
        .iter()
        .filter_map(|key| entry.get(key))
        .for_each(|part| part.words(&mut words));
    let is_ours = |word: &String| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name == "keyless" || name == "keyless.exe"
    };
    let Some(at) = words.iter().position(is_ours) else { return false };
    words[at + 1..].iter().take_while(|word| *word != "--").any(|word| word == "run")
}

fn of_json(text: &str) -> Option<Node> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    Some(of_ast(&parsed.value?, 0))
}

fn of_ast(value: &ast::Value<'_>, depth: usize) -> Node {
    match value {
        _ if depth > MAX_DEPTH => Node::Other,
        ast::Value::StringLit(text) => {
            Node::Text(text.value.to_string(), text.range.start..text.range.end)
        }
        ast::Value::Object(object) => {
            let entry = |property: &ast::ObjectProp<'_>| {
                (property.name.as_str().to_owned(), of_ast(&property.value, depth + 1))
            };
            Node::Table(object.properties.iter().map(entry).collect())
        }
        ast::Value::Array(array) => {
            Node::List(array.elements.iter().map(|item| of_ast(item, depth + 1)).collect())
        }
        ast::Value::BooleanLit(_) | ast::Value::NullKeyword(_) | ast::Value::NumberLit(_) => {
            Node::Other
        }
    }
}

fn of_item(item: &Item, depth: usize) -> Node {
    if depth > MAX_DEPTH {
        return Node::Other;
    }
    match item {
        Item::Value(value) => of_value(value, depth),
        Item::Table(table) => of_table(table, depth),
        Item::ArrayOfTables(tables) => {
            Node::List(tables.iter().map(|table| of_table(table, depth)).collect())
        }
        Item::None => Node::Other,
    }
}

fn of_table(table: &toml_edit::Table, depth: usize) -> Node {
    Node::Table(
        table.iter().map(|(key, item)| (key.to_owned(), of_item(item, depth + 1))).collect(),
    )
}

fn of_value(value: &Value, depth: usize) -> Node {
    if depth > MAX_DEPTH {
        return Node::Other;
    }
    match value {
        Value::String(text) => {
            text.span().map_or(Node::Other, |place| Node::Text(text.value().clone(), place))
        }
        Value::Array(array) => {
            Node::List(array.iter().map(|item| of_value(item, depth + 1)).collect())
        }
        Value::InlineTable(table) => Node::Table(
            table.iter().map(|(key, value)| (key.to_owned(), of_value(value, depth + 1))).collect(),
        ),
        _ => Node::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(file: &str, text: &str) -> Vec<(String, String)> {
        let found = outside_run(Path::new(file), text).into_iter();
        let found = found.map(|one| (one.server, text[one.place].trim_matches('"').to_owned()));
        found.filter(|(_, text)| text.starts_with("@secret:")).collect()
    }

    fn pair(server: &str, alias: &str) -> (String, String) {
        (server.to_owned(), alias.to_owned())
    }

    #[test]
    fn servers_that_are_started_without_us_are_told_from_those_that_run_starts() {
        let json = r#"{ // of a client
            "mcpServers": {
                "bare": {"command": "sh", "args": ["-c", "x"], "env": {"A": "@secret:a/b/c"}},
                "ours": {"command": "/usr/bin/keyless", "args": ["run", "--", "x"], "env": {"A": "@secret:a/b/c"}},
                "shell": {"command": "sh", "args": ["-c", "exec keyless run -- x"], "env": {"A": "@secret:a/b/c"}},
                "other": {"command": "keyless", "args": ["mcp", "--", "run"], "env": {"A": "@secret:d/e/f"}},
                "far": {"url": "https://a.test", "headers": {"X": "@secret:g/h/i"}},
            },
            "projects": {"p": {"mcpServers": {"deep": {"command": "x", "env": {"A": "@secret:j/k/l"}}}}},
            "env": {"A": "@secret:a/b/c"},
        }"#;
        assert_eq!(
            outside(".mcp.json", json),
            [
                pair("bare", "@secret:a/b/c"),
                pair("other", "@secret:d/e/f"),
                pair("far", "@secret:g/h/i"),
                pair("deep", "@secret:j/k/l"),
            ]
        );
        let toml = "[mcp_servers.bare]\ncommand = \"x\"\n[mcp_servers.bare.env]\nA = \"@secret:a/b/c\"\n\
                    [mcp_servers.ours]\ncommand = \"keyless\"\nargs = [\"run\", \"--\", \"x\"]\nenv = { A = \"@secret:a/b/c\" }\n";
        assert_eq!(outside(".codex/config.toml", toml), [pair("bare", "@secret:a/b/c")]);
        let list = r#"{"mcp": {"a": {"type": "local", "command": ["x"], "environment": {"A": "@secret:a/b/c"}},
                               "b": {"command": ["keyless", "run", "--", "x"], "environment": {"A": "@secret:a/b/c"}}}}"#;
        assert_eq!(outside("opencode.json", list), [pair("a", "@secret:a/b/c")]);
        let zed = r#"{"context_servers": {"a": {"command": {"path": "keyless", "args": ["run", "--", "x"], "env": {"A": "@secret:a/b/c"}}}}}"#;
        assert_eq!(outside("settings.json", zed), []);
        assert_eq!(outside(".mcp.json", "{"), []);
        assert_eq!(outside("compose.yaml", json), []);
    }
}
