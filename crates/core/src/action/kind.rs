//! The types of action, as requests, grants and the log call them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A type of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum ActionType {
    /// Another agent does it.
    Delegate,
    /// A request at the egress door: a word of ours, in grants alone (design.md, section 2).
    Egress,
    /// A shell runs a command.
    Exec,
    /// A command gets a value on its standard input.
    InjectStdin,
    /// A command gets values in files.
    InjectTempfile,
    /// The API of a service is called.
    SdkProxy,
    /// A file with values in it is made.
    Template,
}

/// A text that names no type of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an action's type is one of {}", ActionType::ACTIONS.join(", "))]
pub struct UnknownActionType;

impl ActionType {
    /// Every type.
    pub const ALL: [Self; 7] = [
        Self::Delegate,
        Self::Egress,
        Self::Exec,
        Self::InjectStdin,
        Self::InjectTempfile,
        Self::SdkProxy,
        Self::Template,
    ];

    /// The names of those that are actions, in NL's order: all but [`Self::Egress`].
    pub const ACTIONS: [&'static str; 6] = [
        Self::Exec.as_str(),
        Self::Template.as_str(),
        Self::InjectStdin.as_str(),
        Self::InjectTempfile.as_str(),
        Self::SdkProxy.as_str(),
        Self::Delegate.as_str(),
    ];

    /// Whether its text is a command line.
    pub fn is_command(self) -> bool {
        match self {
            Self::Delegate | Self::Exec | Self::InjectStdin | Self::InjectTempfile => true,
            Self::Egress | Self::SdkProxy | Self::Template => false,
        }
    }

    /// Whether it is done by a command that runs on this machine, as [`Action::command`](super::Action::command) has it.
    pub fn runs_command(self) -> bool {
        match self {
            Self::Exec | Self::InjectStdin | Self::InjectTempfile => true,
            Self::Delegate | Self::Egress | Self::SdkProxy | Self::Template => false,
        }
    }

    /// Its name in NL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delegate => "delegate",
            Self::Egress => "egress",
            Self::Exec => "exec",
            Self::InjectStdin => "inject_stdin",
            Self::InjectTempfile => "inject_tempfile",
            Self::SdkProxy => "sdk_proxy",
            Self::Template => "template",
        }
    }
}

impl fmt::Display for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for ActionType {
    type Error = UnknownActionType;

    /// Whoever is told which there are is told those that are actions.
    fn try_from(text: String) -> Result<Self, UnknownActionType> {
        text.parse()
    }
}

impl FromStr for ActionType {
    type Err = UnknownActionType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownActionType)
    }
}
