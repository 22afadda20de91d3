//! The one answer format: agentpack's JSON envelope, schema version 1, additive only.
//!
//! CLI and MCP print the same envelope; only the name of a failed command differs between them, as it
//! does in agentpack: the CLI says `evolve`, MCP says `evolve.propose`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::PackError;

/// Which command an envelope is about: its words, such as `["deploy", "--apply"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandId(&'static [&'static str]);

/// What a command gives: its payload, and what the caller should know beside it.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The payload, as the envelope's `data`.
    pub data: T,
    /// Sentences for the envelope's `warnings`.
    pub warnings: Vec<String>,
}

/// The envelope.
#[derive(Clone, Debug, Serialize)]
pub struct Envelope<T> {
    schema_version: u32,
    ok: bool,
    command: String,
    command_id: String,
    command_path: Vec<&'static str>,
    version: &'static str,
    data: T,
    warnings: Vec<String>,
    errors: Vec<Fault>,
}

/// An error inside an envelope.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl CommandId {
    /// A command by its words; flags that make a variant (`--apply`) are words of it.
    pub const fn new(words: &'static [&'static str]) -> Self {
        Self(words)
    }

    /// The words.
    pub fn words(self) -> &'static [&'static str] {
        self.0
    }

    /// `deploy --apply`.
    pub fn id(self) -> String {
        self.0.join(" ")
    }

    /// `evolve.propose`; flags are no part of it. `explain diff` answers as `explain.plan`, which it is.
    pub fn dotted(self) -> String {
        if self.0 == ["explain", "diff"] {
            return "explain.plan".to_owned();
        }
        let words: Vec<&str> =
            self.0.iter().copied().filter(|word| !word.starts_with("--")).collect();
        words.join(".")
    }
}

impl<T> Answer<T> {
    /// A payload with nothing to add.
    pub fn new(data: T) -> Self {
        Self { data, warnings: Vec::new() }
    }

    /// Another payload with the same warnings.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { data: change(self.data), warnings: self.warnings }
    }
}

impl<T: Serialize> Envelope<T> {
    /// The envelope of a command that did what it was asked.
    pub fn success(command: CommandId, answer: Answer<T>) -> Self {
        Self {
            schema_version: 1,
            ok: true,
            command: command.dotted(),
            command_id: command.id(),
            command_path: command.words().to_vec(),
            version: env!("CARGO_PKG_VERSION"),
            data: answer.data,
            warnings: answer.warnings,
            errors: Vec::new(),
        }
    }

    /// The text that goes out: pretty, keys in declared order.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("payloads hold strings, numbers and lists only")
    }

    /// The envelope as a JSON value.
    pub fn value(&self) -> Value {
        serde_json::to_value(self).expect("payloads hold strings, numbers and lists only")
    }
}

impl Envelope<Map<String, Value>> {
    /// The envelope of a command that failed, as the CLI names it.
    pub fn failure(command: CommandId, error: &PackError) -> Self {
        let top = command.words().first().copied().unwrap_or_default();
        Self::failure_named(top.to_owned(), command, error)
    }

    /// The envelope of a tool call that failed, as MCP names it.
    pub fn failure_dotted(command: CommandId, error: &PackError) -> Self {
        Self::failure_named(command.dotted(), command, error)
    }

    fn failure_named(name: String, command: CommandId, error: &PackError) -> Self {
        let fault = Fault {
            code: error.code().as_str(),
            message: error.message().to_owned(),
            details: error.details(),
        };
        Self {
            schema_version: 1,
            ok: false,
            command: name,
            command_id: command.id(),
            command_path: command.words().to_vec(),
            version: env!("CARGO_PKG_VERSION"),
            data: Map::new(),
            warnings: Vec::new(),
            errors: vec![fault],
        }
    }
}
