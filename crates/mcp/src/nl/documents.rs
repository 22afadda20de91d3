//! What an agent may read before anybody asks who it is: how actions are written, what is blocked, the tools, the messages.
//!
//! They are the same for everybody, so no broker is asked and no credential is looked at (NL-4.10). What has a table is made
//! of it, and can't differ from what is served. The addresses are those that chapter 04 gives as examples.

use std::fmt::Write as _;

use keyless_core::{
    deny::{Guard, Rule},
    nl_message::all_schemas,
};
use rmcp::model::{Resource, ResourceContents};
use serde::Serialize;
use serde_json::json;

use super::table::TOOLS;

/// One document.
pub(crate) struct Document {
    uri: &'static str,
    name: &'static str,
    title: &'static str,
    description: &'static str,
    media_type: &'static str,
    text: fn() -> String,
}

/// Every document of the toolset `nl`.
pub(crate) const DOCUMENTS: &[Document] = &[
    Document {
        uri: "nl-provider://docs/overview",
        name: "overview",
        title: "What Keyless does for agents",
        description: "Where to begin, and what to make of a refusal.",
        media_type: MARKDOWN,
        text: || include_str!("documents/overview.md").to_owned(),
    },
    Document {
        uri: "nl-provider://docs/usage",
        name: "usage",
        title: "How an action is written",
        description: "The grammar of references, and each type of action with an example.",
        media_type: MARKDOWN,
        text: || include_str!("documents/usage.md").to_owned(),
    },
    Document {
        uri: "nl-provider://docs/tools",
        name: "tools",
        title: "The tools",
        description: "What each tool does.",
        media_type: MARKDOWN,
        text: tools,
    },
    Document {
        uri: "nl-provider://docs/never-leak-protocol",
        name: "never-leak-protocol",
        title: "What is blocked",
        description: "The rules that commands are held against before they run, and what to do instead.",
        media_type: MARKDOWN,
        text: rules,
    },
    Document {
        uri: "nl-provider://docs/api-reference",
        name: "api-reference",
        title: "The messages",
        description: "The protocol's objects as JSON Schemas, by name under `$defs`.",
        media_type: "application/schema+json",
        text: schemas,
    },
];

const MARKDOWN: &str = "text/markdown";

impl Document {
    /// The document as it is listed.
    pub(crate) fn listed(&self) -> Resource {
        Resource::new(self.uri, self.name)
            .with_title(self.title)
            .with_description(self.description)
            .with_mime_type(self.media_type)
    }

    /// The document at an address.
    pub(crate) fn read(uri: &str) -> Option<ResourceContents> {
        let document = DOCUMENTS.iter().find(|document| document.uri == uri)?;
        let contents = ResourceContents::text((document.text)(), document.uri);
        Some(contents.with_mime_type(document.media_type))
    }
}

fn tools() -> String {
    let mut text = "# The tools\n".to_owned();
    for tool in TOOLS {
        let tool = tool.tool();
        let about = tool.description.as_deref().unwrap_or_default();
        let _ = write!(text, "\n## {}\n\n{about}\n", tool.name);
    }
    text
}

fn rules() -> String {
    let mut text = "# What is blocked\n\nEvery command is held against these rules, disguises looked through, before it runs. \
                    The operator may have added rules, or a list of what alone is allowed. A blocked action says what to do instead.\n"
        .to_owned();
    let guard = Guard::standard();
    let mut rules: Vec<&Rule> = guard.rules().collect();
    rules.sort_by_cached_key(|rule| (word(&rule.category), rule.id.clone()));
    let mut category = None;
    for rule in rules {
        if category != Some(rule.category) {
            category = Some(rule.category);
            let _ = write!(text, "\n## {}\n\n", word(&rule.category));
        }
        let _ = write!(text, "- `{}` ({}): {}", rule.id, word(&rule.severity), rule.description);
        if let Some(instead) = &rule.safe_alternative {
            let _ = write!(text, " Instead: {instead}");
        }
        text.push('\n');
    }
    text
}

/// A category or a severity, in the protocol's word.
fn word(one: &impl Serialize) -> String {
    json!(one).as_str().unwrap_or_default().to_owned()
}

fn schemas() -> String {
    all_schemas().to_string()
}

#[cfg(test)]
mod tests {
    use keyless_core::{action::Action, nl_message::SCHEMAS};
    use serde_json::Value;

    use super::*;

    fn text(name: &str) -> String {
        (DOCUMENTS.iter().find(|document| document.name == name).unwrap().text)()
    }

    #[test]
    fn every_example_of_an_action_is_one() {
        let usage = text("usage");
        let examples: Vec<&str> = usage.split("```json\n").skip(1).collect();
        assert_eq!(examples.len(), 6);
        for example in examples {
            let json = example.split("```").next().unwrap();
            let action = serde_json::from_str(json).map(Action::from_json);
            let action = action.unwrap().unwrap();
            assert!(!action.handles().unwrap().is_empty(), "{json}");
        }
    }

    #[test]
    fn what_has_a_table_is_made_of_it() {
        assert!(TOOLS.iter().all(|tool| text("tools").contains(tool.name)));
        let (blocked, guard) = (text("never-leak-protocol"), Guard::standard());
        assert!(guard.rules().all(|rule| blocked.contains(&rule.id)));
        let schemas: Value = serde_json::from_str(&text("api-reference")).unwrap();
        assert!(SCHEMAS.iter().all(|name| schemas["$defs"][name].is_object()));
        for document in DOCUMENTS {
            assert!(text("overview").contains(document.uri) || document.name == "overview");
        }
    }
}
