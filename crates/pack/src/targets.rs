//! The agents that are configured, and where each wants its files.
//!
//! A root is a directory that gets its own manifest file. Roots exist even when no file maps to them: status
//! looks for extras there. Source: shared/reference/agentpack.md, section 2.

mod outputs;
mod ownership;
mod roots;

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};

pub(crate) use self::{
    outputs::{Output, combined_instructions, outputs},
    ownership::owns,
    roots::{codex_home, roots},
};

/// An agent, or a directory to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetId {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// A plain directory.
    ExportDir,
    /// JetBrains Junie.
    Jetbrains,
    /// VS Code with Copilot.
    Vscode,
    /// Zed.
    Zed,
}

/// A directory of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) target: TargetId,
    pub(crate) path: PathBuf,
    /// Whether files there that nobody deployed are reported.
    pub(crate) scan_extras: bool,
}

impl TargetId {
    /// All, by name.
    pub const ALL: [Self; 7] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Cursor,
        Self::ExportDir,
        Self::Jetbrains,
        Self::Vscode,
        Self::Zed,
    ];

    /// All, in the order in which agentpack lists them to people, and ours after them.
    pub const LISTED: [Self; 7] = [
        Self::Codex,
        Self::ClaudeCode,
        Self::Cursor,
        Self::Vscode,
        Self::Jetbrains,
        Self::Zed,
        Self::ExportDir,
    ];

    /// The manifest's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::ExportDir => "export_dir",
            Self::Jetbrains => "jetbrains",
            Self::Vscode => "vscode",
            Self::Zed => "zed",
        }
    }

    /// Reads the manifest's word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == text)
    }

    /// Whether it has no files of the user's, only of projects.
    pub(crate) fn is_project_only(self) -> bool {
        matches!(self, Self::Cursor | Self::Jetbrains | Self::Vscode | Self::Zed)
    }

    /// The options that a new manifest spells out, with their defaults. Codex's home is not among them: named there, it
    /// would count for more than `$CODEX_HOME`.
    pub(crate) fn first_options(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &[
                "write_repo_commands: true",
                "write_user_commands: true",
                "write_repo_skills: false",
                "write_user_skills: false",
            ],
            Self::Codex => &[
                "write_repo_skills: true",
                "write_user_skills: true",
                "write_user_prompts: true",
                "write_agents_global: true",
                "write_agents_repo_root: true",
            ],
            Self::Cursor | Self::Zed => &["write_rules: true"],
            Self::ExportDir => &["root: export"],
            Self::Jetbrains => &["write_guidelines: true"],
            Self::Vscode => &["write_instructions: true", "write_prompts: true"],
        }
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for TargetId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
