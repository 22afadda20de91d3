//! What a tool of Claude Code is about to do, in the guard's words: a command, a file that is read, an address.

use keyless_core::deny::{Blocked, Decision};
use serde_json::Value;

use super::GuardRules;

/// Something that a tool is about to do, as the guard knows it.
pub(super) struct Attempt {
    action_type: &'static str,
    text: String,
    /// Whether it may be no command line at all: then what can't be read as one is not held against it.
    is_guess: bool,
}

impl Attempt {
    fn new(action_type: &'static str, text: String) -> Self {
        Self { action_type, text, is_guess: false }
    }

    /// A file that is read. A blank in its name parts no words.
    fn reading(path: &str) -> Self {
        let name: String = path.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
        Self::new("exec", format!("cat {}", quoted(&name)))
    }

    pub(super) fn refused_by(&self, rules: &GuardRules) -> Option<Blocked> {
        match rules.check(self.action_type, &self.text) {
            Decision::Block(blocked) if !(self.is_guess && blocked.is_unread()) => Some(*blocked),
            Decision::Allow | Decision::Block(_) => None,
        }
    }
}

/// What a tool is about to do; nothing when a field that says so is not there as a text, or when that is too much.
pub(super) fn attempts(tool: &str, input: &Value) -> Option<Vec<Attempt>> {
    let field = |name: &str| input[name].as_str();
    let one = match tool {
        "Bash" => Attempt::new("exec", field("command")?.to_owned()),
        // Its sign for "as it stands" opens a substitution for others, and they would count the quote behind it.
        "PowerShell" => {
            let command = field("command")?.replace("`\"", "").replace("`'", "").replace('`', "");
            Attempt::new("exec", command)
        }
        "Grep" => Attempt::new("exec", searched(input)?),
        "NotebookRead" => Attempt::reading(field("notebook_path")?),
        "Read" => Attempt::reading(field("file_path")?),
        "ReadMcpResourceTool" => of_address(field("uri")?),
        "WebFetch" => Attempt::new("api_call", format!("GET {}", field("url")?)),
        _ if tool.starts_with("mcp__") => return of_server(tool, input),
        // Other tools of Claude Code neither run commands nor read files.
        _ => Attempt::new("tool_call", String::new()),
    };
    Some(vec![one])
}

/// Things that one call may be about; with more, who waits for the guard would not wait for its word.
const MOST: usize = 10_000;

/// A call of another server's tool: its name, and what its arguments say by theirs, however deep they lie. Nothing when
/// there are too many of them.
fn of_server(tool: &str, input: &Value) -> Option<Vec<Attempt>> {
    // Tools that write, list or look up show nothing of what is in a file.
    let verb = tool.rsplit("__").next().unwrap_or(tool);
    let others = ["write", "create", "edit", "delete", "move", "list", "info", "stat", "search"];
    let shows = !others.iter().any(|other| verb.contains(other));
    let mut found = vec![Attempt::new("tool_call", tool.to_owned())];
    let mut left = vec![input];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                of_members(value, shows, &mut found);
                left.extend(members.values());
            }
            _ => {}
        }
        if found.len() > MOST {
            return None;
        }
    }
    Some(found)
}

/// What the members of one object say; those inside them are looked at by themselves.
fn of_members(input: &Value, shows: bool, found: &mut Vec<Attempt>) {
    let texts = |name: &str| texts_of(&input[name]);
    for name in ["command", "cmd"] {
        let words = texts(name);
        let more = texts("args");
        let words: Vec<String> = match (&input[name], more.is_empty()) {
            (Value::String(command), true) => vec![command.clone()],
            _ => words.iter().chain(&more).map(|word| quoted(word)).collect(),
        };
        if !words.is_empty() && !input[name].is_null() {
            found.push(Attempt::new("exec", words.join(" ")));
        }
    }
    for code in texts("script").into_iter().chain(texts("code")) {
        let own = Attempt::new("exec", code.to_owned());
        found.push(Attempt { is_guess: true, ..own });
        for interpreter in ["python3 -c", "node -e"] {
            found.push(Attempt::new("exec", format!("{interpreter} {}", quoted(code))));
        }
    }
    if shows {
        for name in ["path", "file", "file_path", "filename", "paths", "uri"] {
            found.extend(texts(name).into_iter().map(of_address));
        }
    }
}

/// A text, or those of a list, in its order.
fn texts_of(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts_of).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// A file, or an address that names one.
fn of_address(address: &str) -> Attempt {
    match address.split_once("://") {
        Some(("http" | "https", _)) => Attempt::new("api_call", format!("GET {address}")),
        Some((_, path)) => Attempt::reading(path),
        None => Attempt::reading(address),
    }
}

/// A search shows lines of what it finds: of its file or folder, and of the files that its glob names there.
fn searched(input: &Value) -> Option<String> {
    let text = |name: &str| match &input[name] {
        Value::Null => Some(""),
        given => given.as_str(),
    };
    let (path, glob) = (text("path")?, text("glob")?);
    let mut command = "grep -r x".to_owned();
    if !path.is_empty() {
        let folder = quoted(path.trim_end_matches('/'));
        command = format!("{command} {folder}; cat {folder}; cat {folder}/*");
    }
    // With `!` it names what is left out.
    let names = glob.split(['{', ',', '}', ' ']).filter(|name| !name.starts_with('!'));
    for name in names.filter(|name| !name.is_empty()) {
        // In whatever folder it is; what a pattern may stand for, the guard knows of searches.
        let last = quoted(name.rsplit('/').next().unwrap_or(name));
        command = format!("{command}; cat {last}");
        if name.contains(['*', '?', '[']) {
            command = format!("{command}; find . -name {last} -exec cat {{}} +");
        }
    }
    Some(command)
}

/// A word as a shell takes it, whatever is in it.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
