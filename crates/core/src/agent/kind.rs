//! Sorts of agents, and how well their origin is proven.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What sort of agent it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AgentType {
    /// Works by itself.
    AutonomousExecutor,
    /// Runs for a pipeline.
    CiCdPipeline,
    /// Writes code with a person.
    CodingAssistant,
    /// An organization's own, `custom` or `custom:ORG/NAME`.
    Custom(Option<String>),
    /// A person.
    Human,
    /// Hands work to others.
    Orchestrator,
}

/// How much could go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Everything.
    VeryHigh,
}

/// How well an agent's origin is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TrustLevel {
    /// By its credential alone.
    L0,
    /// By its organization.
    L1,
    /// By its vendor's signature.
    L2,
    /// By a certification.
    L3,
}

/// A word that names nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(&'static str);

impl AgentType {
    /// How much could go wrong; an organization says it of its own types.
    pub fn risk(&self, metadata: &BTreeMap<String, Value>) -> Option<Risk> {
        match self {
            Self::AutonomousExecutor | Self::CiCdPipeline => Some(Risk::High),
            Self::CodingAssistant => Some(Risk::Medium),
            Self::Custom(_) => {
                let said = metadata.get("risk_level")?;
                serde_json::from_value(said.clone()).ok()
            }
            Self::Human => Some(Risk::Low),
            Self::Orchestrator => Some(Risk::VeryHigh),
        }
    }

    pub(super) fn lacks_risk(&self, metadata: &BTreeMap<String, Value>) -> bool {
        self.risk(metadata).is_none()
    }
}

impl TrustLevel {
    /// `L0` to `L3`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L0 => "L0",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
        }
    }
}

impl FromStr for TrustLevel {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let all = [Self::L0, Self::L1, Self::L2, Self::L3];
        let found = all.into_iter().find(|level| level.as_str() == text);
        found.ok_or(UnknownWord("a trust level is L0, L1, L2 or L3"))
    }
}

impl FromStr for AgentType {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let is_name = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        match (text, text.strip_prefix("custom:").and_then(|rest| rest.split_once('/'))) {
            ("autonomous_executor", _) => Ok(Self::AutonomousExecutor),
            ("ci_cd_pipeline", _) => Ok(Self::CiCdPipeline),
            ("coding_assistant", _) => Ok(Self::CodingAssistant),
            ("custom", _) => Ok(Self::Custom(None)),
            ("human", _) => Ok(Self::Human),
            ("orchestrator", _) => Ok(Self::Orchestrator),
            (_, Some((organization, name))) if is_name(organization) && is_name(name) => {
                Ok(Self::Custom(Some(format!("{organization}/{name}"))))
            }
            _ => Err(UnknownWord(
                "an agent's type is coding_assistant, autonomous_executor, orchestrator, \
                 ci_cd_pipeline, human, custom or custom:ORG/NAME",
            )),
        }
    }
}

impl fmt::Display for AgentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AutonomousExecutor => f.write_str("autonomous_executor"),
            Self::CiCdPipeline => f.write_str("ci_cd_pipeline"),
            Self::CodingAssistant => f.write_str("coding_assistant"),
            Self::Custom(None) => f.write_str("custom"),
            Self::Custom(Some(name)) => write!(f, "custom:{name}"),
            Self::Human => f.write_str("human"),
            Self::Orchestrator => f.write_str("orchestrator"),
        }
    }
}

impl TryFrom<String> for AgentType {
    type Error = UnknownWord;

    fn try_from(text: String) -> Result<Self, UnknownWord> {
        text.parse()
    }
}

impl From<AgentType> for String {
    fn from(kind: AgentType) -> Self {
        kind.to_string()
    }
}
