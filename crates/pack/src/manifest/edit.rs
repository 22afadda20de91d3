//! Adding and removing a module in the manifest's text, so that its comments and order stay.

use std::{fmt::Write as _, path::Path};

use super::{Manifest, Module, Source};
use crate::{
    error::{Code, PackError, Result},
    yaml::{self, Node},
};

/// The text with one more module. The result has been read back and holds it.
pub(crate) fn module_added(text: &str, path: &Path, module: &Module) -> Result<String> {
    let before = Manifest::parse(text, path)?;
    if before.modules.iter().any(|other| other.id == module.id) {
        return Err(PackError::config(format!("module `{}` already exists", module.id))
            .with("module_id", module.id.clone())
            .hint("choose another --id, or remove the module first"));
    }
    let root = yaml::parse(text).map_err(|fault| PackError::config(fault.message))?;
    let edited = match root.get("modules") {
        Some(list)
            if list.list().is_some_and(|items| !items.is_empty()) && is_block(text, list) =>
        {
            let indent = indent_of(text, list);
            insert(text, block_end(text, list), &block(module, indent))
        }
        Some(list) if !is_block(text, list) && list.list().is_none_or(<[Node]>::is_empty) => {
            let mut edited = text.to_owned();
            let value = &text[list.span.clone()];
            // `modules: []` and `modules:` become a list of one.
            if value.trim_start().starts_with('[') {
                edited.replace_range(list.span.clone(), "");
            }
            let end = line_end(&edited, list.span.start);
            insert(&edited, end, &block(module, 2))
        }
        Some(list) => {
            return Err(PackError::config(format!(
                "{}:{}: `modules` is written as a flow list, which can't be edited in place",
                path.display(),
                list.line
            ))
            .hint("write `modules` as a list with dashes, then run the command again"));
        }
        None => insert(text, text.len(), &format!("modules:\n{}", block(module, 2))),
    };
    let after = Manifest::parse(&edited, path)?;
    if after.modules.len() == before.modules.len() + 1 {
        Ok(edited)
    } else {
        Err(not_editable(path))
    }
}

/// The text without a module. The result has been read back and holds the others.
pub(crate) fn module_removed(text: &str, path: &Path, id: &str) -> Result<String> {
    let before = Manifest::parse(text, path)?;
    let root = yaml::parse(text).map_err(|fault| PackError::config(fault.message))?;
    let list = root.get("modules").ok_or_else(|| unknown(id))?;
    let items = list.list().unwrap_or_default();
    let index = items
        .iter()
        .position(|item| item.get("id").and_then(Node::text) == Some(id))
        .ok_or_else(|| unknown(id))?;
    if !is_block(text, list) {
        return Err(not_editable(path));
    }
    let edited = if items.len() == 1 {
        let key = text[..list.span.start].rfind("modules").ok_or_else(|| not_editable(path))?;
        format!("{}modules: []\n{}", &text[..key], &text[block_end(text, list)..])
    } else {
        let start = line_start(text, items[index].span.start);
        let end = match items.get(index + 1) {
            Some(next) => line_start(text, next.span.start),
            None => block_end(text, list),
        };
        format!("{}{}", &text[..start], &text[end..])
    };
    let after = Manifest::parse(&edited, path)?;
    let gone = after.modules.iter().all(|module| module.id != id);
    if gone && after.modules.len() + 1 == before.modules.len() {
        Ok(edited)
    } else {
        Err(not_editable(path))
    }
}

/// The text with a profile that takes these tags; unchanged when there is one of that name.
pub(crate) fn profile_added(text: &str, path: &Path, name: &str, tags: &[&str]) -> Result<String> {
    let before = Manifest::parse(text, path)?;
    if before.profiles.contains_key(name) {
        return Ok(text.to_owned());
    }
    let root = yaml::parse(text).map_err(|fault| PackError::config(fault.message))?;
    let profiles = root.get("profiles").ok_or_else(|| not_editable(path))?;
    let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let (name_word, tags) = (quoted(name), list(&tags));
    let edited = if text[profiles.span.clone()].starts_with('{') {
        let entry = format!("{name_word}: {{ include_tags: [{tags}] }}, ");
        let (head, tail) = text.split_at(profiles.span.start + 1);
        format!("{head}{entry}{tail}")
    } else {
        // Before the first profile: there is one, and its line says how far they are indented.
        let line = profiles.map().and_then(<[_]>::first).map_or(0, |(key, _)| key.line);
        let start = start_of_line(text, line).ok_or_else(|| not_editable(path))?;
        let rest = &text[start..];
        let pad = &rest[..rest.len() - rest.trim_start_matches(' ').len()];
        insert(text, start, &format!("{pad}{name_word}:\n{pad}  include_tags: [{tags}]\n"))
    };
    let after = Manifest::parse(&edited, path)?;
    if after.profiles.len() == before.profiles.len() + 1 && after.profiles.contains_key(name) {
        Ok(edited)
    } else {
        Err(not_editable(path))
    }
}

/// A module as an item of a block list.
fn block(module: &Module, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let mut text = format!("{pad}- id: {}\n{pad}  type: {}\n", quoted(&module.id), module.kind);
    if !module.tags.is_empty() {
        let _ = writeln!(text, "{pad}  tags: [{}]", list(&module.tags));
    }
    if !module.targets.is_empty() {
        let names: Vec<String> = module.targets.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{pad}  targets: [{}]", list(&names));
    }
    let _ = writeln!(text, "{pad}  source:");
    match &module.source {
        Source::Local(path) => {
            let _ =
                writeln!(text, "{pad}    local_path:\n{pad}      path: {}", quoted(path.as_str()));
        }
        Source::Git(git) => {
            let _ = writeln!(text, "{pad}    git:\n{pad}      url: {}", quoted(&git.url));
            let _ = writeln!(text, "{pad}      ref: {}", quoted(&git.reference));
            if let Some(subdir) = &git.subdir {
                let _ = writeln!(text, "{pad}      subdir: {}", quoted(subdir.as_str()));
            }
            if !git.shallow {
                let _ = writeln!(text, "{pad}      shallow: false");
            }
        }
    }
    text
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(", ")
}

/// A YAML string: plain where that is safe, else with JSON's quotes, which YAML reads.
fn quoted(text: &str) -> String {
    let fine =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | ':' | '@');
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fine);
    let other = matches!(
        text.to_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off"
    );
    if word && !other && !text.ends_with(':') {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

fn insert(text: &str, at: usize, block: &str) -> String {
    let (head, tail) = text.split_at(at);
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}{block}{tail}")
}

/// Whether the first item stands behind a dash on its own line.
fn is_block(text: &str, list: &Node) -> bool {
    let first = list.list().and_then(<[Node]>::first);
    first
        .is_some_and(|item| text[line_start(text, item.span.start)..].trim_start().starts_with('-'))
}

fn indent_of(text: &str, list: &Node) -> usize {
    let first = list.list().and_then(<[Node]>::first).map_or(0, |item| item.span.start);
    let line = &text[line_start(text, first)..];
    line.len() - line.trim_start_matches(' ').len()
}

/// Behind the last line of a block list's content; comments and blank lines after it stay behind.
fn block_end(text: &str, list: &Node) -> usize {
    let end = list.list().and_then(<[Node]>::last).map_or(list.span.end, |item| item.span.end);
    let content = text[..end.min(text.len())].trim_end().len();
    line_end(text, content.saturating_sub(1))
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where a line begins, counted from one.
fn start_of_line(text: &str, line: usize) -> Option<usize> {
    let before = line.checked_sub(1)?;
    let lines = text.split_inclusive('\n');
    (lines.clone().count() > before).then(|| lines.take(before).map(str::len).sum())
}

/// Behind the newline of the line that `at` is on.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn unknown(id: &str) -> PackError {
    PackError::new(Code::ConfigInvalid, format!("there is no module `{id}`"))
        .with("module_id", id)
        .hint("see the ids under `modules` in agentpack.yaml")
}

fn not_editable(path: &Path) -> PackError {
    PackError::config(format!("{} can't be edited in place", path.display()))
        .hint("edit agentpack.yaml by hand")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{manifest::ModuleKind, paths::RelPath};

    const TEXT: &str = "\
version: 1 # ours
profiles:
  default:
    include_tags: [base]
modules:
  # the first
  - id: prompt:a
    type: prompt
    source:
      local_path:
        path: modules/a.md
  # the second
  - id: prompt:b
    type: prompt
    source:
      local_path: { path: modules/b.md }
targets: {}
";

    fn module(id: &str) -> Module {
        Module {
            id: id.to_owned(),
            kind: ModuleKind::Prompt,
            enabled: true,
            tags: vec!["base".to_owned()],
            targets: Vec::new(),
            source: Source::Local(RelPath::parse("modules/c.md").unwrap()),
            line: 0,
        }
    }

    fn ids(text: &str) -> Vec<String> {
        let manifest = Manifest::parse(text, Path::new("agentpack.yaml")).unwrap();
        manifest.modules.into_iter().map(|module| module.id).collect()
    }

    #[test]
    fn a_module_is_added_and_the_comments_stay() {
        let path = Path::new("agentpack.yaml");
        let text = module_added(TEXT, path, &module("prompt:c")).unwrap();
        assert_eq!(ids(&text), ["prompt:a", "prompt:b", "prompt:c"]);
        assert!(text.contains("# ours") && text.contains("# the second"));
        let error = module_added(&text, path, &module("prompt:c")).unwrap_err();
        assert!(error.message().contains("already exists"));
    }

    #[test]
    fn a_module_is_added_to_no_modules() {
        let path = Path::new("agentpack.yaml");
        for end in ["modules: []\n", "modules:\n", "", "modules: []"] {
            let text = format!("version: 1\nprofiles: {{default: {{}}}}\n{end}");
            let text = module_added(&text, path, &module("prompt:c")).unwrap();
            assert_eq!(ids(&text), ["prompt:c"], "{text}");
        }
    }

    #[test]
    fn a_profile_is_added_and_the_comments_stay() {
        let path = Path::new("agentpack.yaml");
        for text in
            [TEXT, "version: 1\nprofiles: { default: {} }\n", "version: 1\nprofiles: {default: {}}"]
        {
            let text = profile_added(text, path, "project-1", &["base", "project-1"]).unwrap();
            let manifest = Manifest::parse(&text, path).unwrap();
            assert!(manifest.profiles["project-1"].include_tags.contains("project-1"), "{text}");
            assert!(manifest.profiles.contains_key("default"), "{text}");
            assert_eq!(profile_added(&text, path, "project-1", &[]).unwrap(), text);
        }
        assert!(profile_added(TEXT, path, "x", &["y"]).unwrap().contains("# ours"));
    }

    #[test]
    fn modules_are_removed_down_to_none() {
        let path = Path::new("agentpack.yaml");
        let text = module_removed(TEXT, path, "prompt:b").unwrap();
        assert_eq!(ids(&text), ["prompt:a"]);
        assert!(text.contains("targets: {}"), "{text}");
        let text = module_removed(&text, path, "prompt:a").unwrap();
        assert_eq!(ids(&text), Vec::<String>::new());
        assert!(module_removed(&text, path, "prompt:a").is_err());
    }
}
