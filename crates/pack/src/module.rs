//! What a module must hold, by its type. Source: shared/reference/agentpack.md, section 1.

use std::{fmt, path::Path};

use serde_json::json;

use crate::{
    error::{PackError, Result},
    manifest::{Module, ModuleKind},
    paths::RelPath,
    tree::{Tree, TreeFile},
    yaml::{self, Node},
};

/// Refuses a composed module that no target could use.
pub(crate) fn check(module: &Module, tree: &Tree) -> Result<()> {
    match module.kind {
        ModuleKind::Command => command(module, tree),
        ModuleKind::Instructions => instructions(module, tree).map(|_| ()),
        ModuleKind::Prompt => single_markdown(module, tree).map(|_| ()),
        ModuleKind::Skill => skill(module, tree),
    }
}

/// The text of `AGENTS.md`.
pub(crate) fn instructions<'t>(module: &Module, tree: &'t Tree) -> Result<&'t str> {
    let file = tree.get("AGENTS.md").ok_or_else(|| {
        fault(module, "has no AGENTS.md at its root")
            .hint("add AGENTS.md, or point the source at its directory")
    })?;
    file.content.text().ok_or_else(|| {
        fault(module, "has an AGENTS.md that is not UTF-8").hint("save AGENTS.md as UTF-8")
    })
}

fn single_markdown<'t>(module: &Module, tree: &'t Tree) -> Result<(&'t str, &'t TreeFile)> {
    let mut files = tree.0.iter();
    match (files.next(), files.next()) {
        (Some((path, file)), None) if is_markdown(path) => Ok((path.as_str(), file)),
        (Some((path, _)), None) => {
            Err(fault(module, &format!("holds {path}, which is no .md file"))
                .hint("name a Markdown file as source"))
        }
        (None, _) => Err(fault(module, "holds no file").hint("name a Markdown file as source")),
        (Some(_), Some(_)) => {
            let names: Vec<&str> = tree.0.keys().take(5).map(RelPath::as_str).collect();
            Err(fault(
                module,
                &format!("must hold one file and holds {}: {}", tree.0.len(), names.join(", ")),
            )
            .hint("make one module of each file"))
        }
    }
}

fn skill(module: &Module, tree: &Tree) -> Result<()> {
    let wrong = |message: &str| {
        fault(module, message)
            .with("path", "SKILL.md")
            .with("required_fields", vec!["name", "description"])
            .hint("begin SKILL.md with `---`, `name: …`, `description: …`, `---`")
    };
    let file = tree
        .get("SKILL.md")
        .ok_or_else(|| wrong("has no SKILL.md at its root").with("missing", vec!["SKILL.md"]))?;
    let text = file.content.text().ok_or_else(|| wrong("has a SKILL.md that is not UTF-8"))?;
    let front = front_matter(text).map_err(|why| {
        let error = wrong(&format!("has a SKILL.md whose front matter {why}"));
        match why {
            NoFrontMatter::Absent => error.with("missing", vec!["frontmatter"]),
            NoFrontMatter::NoMapping => error.with("expected", "mapping"),
            NoFrontMatter::Open | NoFrontMatter::Unreadable { .. } => {
                error.with("error", why.to_string())
            }
        }
    })?;
    let missing: Vec<&str> =
        ["name", "description"].into_iter().filter(|name| front.get(name).is_none()).collect();
    if !missing.is_empty() {
        let message = format!("has a SKILL.md whose front matter lacks {}", missing.join(" and "));
        return Err(wrong(&message).with("missing", json!(missing)));
    }
    for field in ["name", "description"] {
        let text = front.get(field).and_then(Node::string).map(str::trim);
        if text.is_none_or(str::is_empty) {
            let message = format!("has a SKILL.md whose `{field}` is no text");
            return Err(wrong(&message).with("field", field).with("expected", "string"));
        }
    }
    Ok(())
}

fn command(module: &Module, tree: &Tree) -> Result<()> {
    let (name, file) = single_markdown(module, tree)?;
    let wrong = |message: &str| {
        fault(module, &format!("has a {name} {message}"))
            .with("path", name)
            .hint("begin the file with `---`, `description: …`, `---`")
    };
    let text = file.content.text().ok_or_else(|| wrong("that is not UTF-8"))?;
    let front = front_matter(text).map_err(|why| wrong(&format!("whose front matter {why}")))?;
    let description = front.get("description").and_then(Node::text).map(str::trim);
    if description.is_none_or(str::is_empty) {
        return Err(
            wrong("whose front matter has no description").with("missing", vec!["description"])
        );
    }
    if runs_bash(text) && !allows_bash(front.get("allowed-tools")) {
        return Err(wrong("that runs bash and does not allow it")
            .with("field", "allowed-tools")
            .hint("add `allowed-tools: Bash(…)` to the front matter"));
    }
    Ok(())
}

/// Whether a slash command runs bash.
pub(crate) fn runs_bash(text: &str) -> bool {
    text.contains("!bash") || text.contains("!`bash`")
}

/// Whether `allowed-tools` name some of bash.
pub(crate) fn allows_bash(tools: Option<&Node>) -> bool {
    let Some(tools) = tools else { return false };
    let named = |node: &Node| node.text().is_some_and(|text| text.contains("Bash("));
    named(tools) || tools.list().is_some_and(|list| list.iter().any(named))
}

/// Agents look for exactly this ending.
fn is_markdown(path: &RelPath) -> bool {
    Path::new(path.file_name()).extension().is_some_and(|end| end == "md")
}

/// Why a file has no front matter that can be used, as the end of a sentence about it.
#[derive(Debug)]
pub(crate) enum NoFrontMatter {
    Absent,
    NoMapping,
    Open,
    Unreadable { line: usize, message: String },
}

impl fmt::Display for NoFrontMatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("is missing: the first line is not `---`"),
            Self::NoMapping => f.write_str("is no mapping"),
            Self::Open => f.write_str("has no closing `---`"),
            Self::Unreadable { line, message } => {
                write!(f, "can't be read at line {line}: {message}")
            }
        }
    }
}

/// The mapping between the first line `---` and the next one.
pub(crate) fn front_matter(text: &str) -> std::result::Result<Node, NoFrontMatter> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Err(NoFrontMatter::Absent);
    }
    let start = text.find('\n').map_or(text.len(), |newline| newline + 1);
    let mut end = start;
    for line in lines {
        if line.trim_end() == "---" {
            let node = yaml::parse(&text[start..end]).map_err(|fault| {
                NoFrontMatter::Unreadable { line: fault.line + 1, message: fault.message }
            })?;
            return if node.map().is_some() { Ok(node) } else { Err(NoFrontMatter::NoMapping) };
        }
        end += line.len();
    }
    Err(NoFrontMatter::Open)
}

fn fault(module: &Module, message: &str) -> PackError {
    // A module that is only to be made stands in no manifest yet.
    let place = match module.line {
        0 => String::new(),
        line => format!("{}:{line}: ", crate::manifest::FILE),
    };
    PackError::config(format!("{place}module `{}` {message}", module.id))
        .with("module_id", module.id.clone())
        .with("line", module.line)
}
