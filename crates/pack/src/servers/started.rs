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
    let Some((root, _)) = read(file, text) else { return Vec::new() };
    let mut entries = Vec::new();
    look(&root, &mut entries);
    let mut found = Vec::new();
    for (name, entry) in entries.into_iter().filter(|(_, entry)| !is_started_by_run(entry)) {
        let is_remote = entry.get("command").is_none();
        let outside = |place| OutsideRun { server: name.to_owned(), place, is_remote };
        found.extend(entry.places().into_iter().map(outside));
    }
    found
}

/// What a server's entry has to become, so that an alias in it is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// `keyless run` starts it.
    AsItIs,
    /// It stands in no server's entry.
    NoServer,
    /// The server is started by `keyless run` once each text stands in its place.
    ByRun { server: String, edits: Vec<(Range<usize>, String)> },
    /// Why nothing resolves an alias there, and what helps: two sentences.
    Never { server: String, why: &'static str, instead: &'static str },
}

/// What has to be done about the entry in which `place` lies, if it is to be an alias.
pub(crate) fn start_of(file: &Path, text: &str, place: &Range<usize>) -> Start {
    let Some((root, form)) = read(file, text) else { return Start::NoServer };
    let mut entries = Vec::new();
    look(&root, &mut entries);
    let holds = |node: &Node| node.places().iter().any(|one| is_within(place, one));
    let Some((name, entry)) = entries.into_iter().find(|(_, entry)| holds(entry)) else {
        return Start::NoServer;
    };
    let server = name.to_owned();
    if entry.get("command").is_none() {
        let why = "is reached at an address, so its client sends what stands in the entry";
        let instead = "keep it with `keyless secret add`, let `keyless run` start a bridge to the server that has it from its \
                       `env`, and take it out of the file by hand";
        return Start::Never { server, why, instead };
    }
    if !entry.has_variable(text, place) {
        let why = "gets an alias as it is unless it is the whole value of a variable in its `env`";
        let instead = "have the server take it from a variable, and put it into `env`";
        return Start::Never { server, why, instead };
    }
    if is_started_by_run(entry) {
        return Start::AsItIs;
    }
    if let Some(edits) = form.by_run(entry, text) {
        return Start::ByRun { server, edits };
    }
    let why = "is started by a command that stands there in no form that is known";
    let instead = "have its command be `keyless run -- COMMAND ARGUMENTS…`";
    Start::Never { server, why, instead }
}

fn is_within(place: &Range<usize>, other: &Range<usize>) -> bool {
    other.start <= place.start && place.end <= other.end
}

/// How settings are written.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Toml,
}

fn read(file: &Path, text: &str) -> Option<(Node, Form)> {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    match end.to_ascii_lowercase().as_str() {
        "json" | "jsonc" => Some((of_json(text)?, Form::Json)),
        "toml" => {
            let document = Document::parse(text).ok()?;
            Some((of_item(document.as_item(), 0), Form::Toml))
        }
        _ => None,
    }
}

impl Form {
    /// What makes `keyless run -- COMMAND …` of an entry's command; nothing where it can't be told.
    fn by_run(self, entry: &Node, text: &str) -> Option<Vec<(Range<usize>, String)>> {
        // Zed has the command line in a table.
        let (holder, key) = match entry.get("command")? {
            table @ Node::Table(_) => (table, "path"),
            _ => (entry, "command"),
        };
        let (command, place) = match holder.get(key)? {
            Node::Text(command, place) => (command, place.clone()),
            Node::List(items, Some(inside)) if !items.is_empty() => {
                let words = format!("{}, ", self.words(&["keyless", "run", "--"]));
                return Some(vec![(*inside..*inside, words)]);
            }
            _ => return None,
        };
        let words = self.words(&["run", "--", command]);
        let args = match holder.get("args") {
            Some(Node::List(items, Some(inside))) => {
                let comma = if items.is_empty() { "" } else { ", " };
                (*inside..*inside, format!("{words}{comma}"))
            }
            Some(_) => return None,
            None => self.new_args(text, &place, &words)?,
        };
        Some(vec![(place, self.words(&["keyless"])), args])
    }

    /// A key for arguments beside that of the command whose value is at `place`.
    fn new_args(
        self,
        text: &str,
        place: &Range<usize>,
        words: &str,
    ) -> Option<(Range<usize>, String)> {
        let behind = place.end..place.end;
        if matches!(self, Self::Json) {
            return Some((behind, format!(", \"args\": [{words}]")));
        }
        let line = text[..place.start].rfind('\n').map_or(0, |end| end + 1);
        let key = text[line..place.start].trim_end().strip_suffix('=')?.trim_end();
        let table = key.strip_suffix("command")?;
        if table.contains('{') {
            return Some((behind, format!(", args = [{words}]")));
        }
        Some((line..line, format!("{table}args = [{words}]\n")))
    }

    /// Texts as they stand in a list.
    fn words(self, words: &[&str]) -> String {
        let quoted = |word: &&str| match self {
            Self::Json => serde_json::Value::from(*word).to_string(),
            Self::Toml => Value::from(*word).to_string(),
        };
        words.iter().map(quoted).collect::<Vec<_>>().join(", ")
    }
}

/// What both forms have in common.
enum Node {
    Text(String, Range<usize>),
    /// With where its first entry would stand.
    List(Vec<Node>, Option<usize>),
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
            Self::List(items, _) => items.iter().collect(),
            Self::Table(entries) => entries.iter().map(|(_, value)| value).collect(),
            Self::Text(..) | Self::Other => Vec::new(),
        }
    }

    fn is_server(&self) -> bool {
        OF_SERVERS.iter().any(|key| self.get(key).is_some())
    }

    /// Where every text in it stands.
    fn places(&self) -> Vec<Range<usize>> {
        match self {
            Self::Text(_, place) => vec![place.clone()],
            _ => self.children().into_iter().flat_map(Self::places).collect(),
        }
    }

    /// Whether what stands at `place` is the whole value of a variable of this server.
    fn has_variable(&self, text: &str, place: &Range<usize>) -> bool {
        let holders = [Some(self), self.get("command")].into_iter().flatten();
        let tables = holders.flat_map(|holder| ["env", "environment"].map(|key| holder.get(key)));
        let is_it = |value: &Self| match value {
            Self::Text(value, at) => is_within(place, at) && *value == text[place.clone()],
            _ => false,
        };
        tables.flatten().flat_map(Self::children).any(is_it)
    }

    /// The words of a command line, whether they stand in a text, in a list, or in a table as Zed has them.
    fn words(&self, found: &mut Vec<String>) {
        match self {
            Self::Text(text, _) => found.extend(text.split_whitespace().map(str::to_owned)),
            Self::List(items, _) => {
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

/// Every server's entry with its name.
fn look<'n>(node: &'n Node, found: &mut Vec<(&'n str, &'n Node)>) {
    if let Node::Table(entries) = node {
        for (_, held) in entries.iter().filter(|(key, _)| SERVERS.contains(&key.as_str())) {
            servers(held, found);
        }
    }
    // A project of a client's may have servers of its own.
    node.children().into_iter().for_each(|child| look(child, found));
}

/// The entries of a table by their names, or of a list that has the names inside.
fn servers<'n>(held: &'n Node, found: &mut Vec<(&'n str, &'n Node)>) {
    let is_one = |(_, entry): &(&str, &Node)| entry.is_server();
    match held {
        Node::Table(entries) => {
            let entries = entries.iter().map(|(name, entry)| (name.as_str(), entry));
            found.extend(entries.filter(is_one));
        }
        Node::List(items, _) => {
            let name = |entry: &'n Node| entry.get("name").and_then(Node::text).unwrap_or_default();
            found.extend(items.iter().map(|entry| (name(entry), entry)).filter(is_one));
        }
        Node::Text(..) | Node::Other => {}
    }
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
            let items = array.elements.iter().map(|item| of_ast(item, depth + 1)).collect();
            Node::List(items, Some(array.range.start + 1))
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
            Node::List(tables.iter().map(|table| of_table(table, depth)).collect(), None)
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
            let items = array.iter().map(|item| of_value(item, depth + 1)).collect();
            Node::List(items, array.span().map(|place| place.start + 1))
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

    /// A file in which `VALUE` is a credential, and the same once it is an alias; nothing where there can be none.
    fn wrapped(file: &str, text: &str) -> Option<String> {
        let at = text.find("VALUE").unwrap();
        let mut edits = match start_of(Path::new(file), text, &(at..at + 5)) {
            Start::AsItIs | Start::NoServer => Vec::new(),
            Start::ByRun { edits, .. } => edits,
            Start::Never { .. } => return None,
        };
        edits.push((at..at + 5, "@secret:a/b/c".to_owned()));
        edits.sort_by_key(|(place, _)| place.start);
        let mut whole = text.to_owned();
        for (place, instead) in edits.into_iter().rev() {
            whole.replace_range(place, &instead);
        }
        assert_eq!(outside(file, &whole), [], "{whole}");
        Some(whole)
    }

    #[test]
    fn a_server_that_gets_an_alias_is_started_by_run() {
        for (file, text, after) in [
            (
                ".mcp.json",
                r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"A": "VALUE"}}}}"#,
                r#"{"mcpServers": {"a": {"command": "keyless", "args": ["run", "--", "npx", "-y", "x"], "env": {"A": "@secret:a/b/c"}}}}"#,
            ),
            (
                ".mcp.json",
                r#"{"mcpServers": {"a": {"env": {"A": "VALUE"}, "command": "x", "args": []}}}"#,
                r#"{"mcpServers": {"a": {"env": {"A": "@secret:a/b/c"}, "command": "keyless", "args": ["run", "--", "x"]}}}"#,
            ),
            (
                ".mcp.json",
                r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "VALUE"}}}}"#,
                r#"{"mcpServers": {"a": {"command": "keyless", "args": ["run", "--", "x"], "env": {"A": "@secret:a/b/c"}}}}"#,
            ),
            (
                "opencode.json",
                r#"{"mcp": {"a": {"command": ["x", "y"], "environment": {"A": "VALUE"}}}}"#,
                r#"{"mcp": {"a": {"command": ["keyless", "run", "--", "x", "y"], "environment": {"A": "@secret:a/b/c"}}}}"#,
            ),
            (
                "settings.json",
                r#"{"context_servers": {"a": {"command": {"path": "x", "args": ["y"], "env": {"A": "VALUE"}}}}}"#,
                r#"{"context_servers": {"a": {"command": {"path": "keyless", "args": ["run", "--", "x", "y"], "env": {"A": "@secret:a/b/c"}}}}}"#,
            ),
            (
                "config.toml",
                "[mcp_servers.a]\ncommand = \"x\" # mine\n[mcp_servers.a.env]\nA = \"VALUE\"\n",
                "[mcp_servers.a]\nargs = [\"run\", \"--\", \"x\"]\ncommand = \"keyless\" # mine\n[mcp_servers.a.env]\nA = \"@secret:a/b/c\"\n",
            ),
            (
                "config.toml",
                "[mcp_servers]\na = { command = \"x\", env = { A = \"VALUE\" } }\n",
                "[mcp_servers]\na = { command = \"keyless\", args = [\"run\", \"--\", \"x\"], env = { A = \"@secret:a/b/c\" } }\n",
            ),
            (
                "config.toml",
                "[mcp_servers.a]\ncommand = \"x\"\nargs = [\n  \"y\",\n]\nenv = { A = \"VALUE\" }\n",
                "[mcp_servers.a]\ncommand = \"keyless\"\nargs = [\"run\", \"--\", \"x\", \n  \"y\",\n]\nenv = { A = \"@secret:a/b/c\" }\n",
            ),
            (
                ".mcp.json",
                r#"{"mcpServers": {"a": {"command": "keyless", "args": ["run", "--", "x"], "env": {"A": "VALUE"}}}}"#,
                r#"{"mcpServers": {"a": {"command": "keyless", "args": ["run", "--", "x"], "env": {"A": "@secret:a/b/c"}}}}"#,
            ),
            (
                ".claude/settings.json",
                r#"{"env": {"A": "VALUE"}}"#,
                r#"{"env": {"A": "@secret:a/b/c"}}"#,
            ),
        ] {
            assert_eq!(wrapped(file, text).as_deref(), Some(after), "{file}: {text}");
        }
        for text in [
            r#"{"mcpServers": {"a": {"url": "https://a.test", "headers": {"X": "VALUE"}}}}"#,
            r#"{"mcpServers": {"a": {"command": "x", "args": ["--token", "VALUE"]}}}"#,
            r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "Bearer VALUE"}}}}"#,
            r#"{"mcpServers": {"a": {"command": 1, "env": {"A": "VALUE"}}}}"#,
        ] {
            assert_eq!(wrapped(".mcp.json", text), None, "{text}");
        }
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
