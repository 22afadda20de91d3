//! One thing that an agent did and that looks like an attack.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// NL's taxonomy, with types of our own (`TX-…`) for what weighs little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AttackType {
    /// A command that reads a secret out.
    #[serde(rename = "T1")]
    DirectRequest,
    /// Many secrets at once.
    #[serde(rename = "T2")]
    BulkExport,
    /// Something hidden behind an encoding or a disguise.
    #[serde(rename = "T3")]
    EncodingBypass,
    /// Something that runs elsewhere or later.
    #[serde(rename = "T4")]
    IndirectExecution,
    /// A value in a command's own text.
    #[serde(rename = "T5")]
    ShellExpansion,
    /// A value in what came back.
    #[serde(rename = "T8")]
    SecretInOutput,
    /// Files that keep keys.
    #[serde(rename = "T10")]
    FileAccess,
    /// A secret that the agent may not use, or that does not exist.
    #[serde(rename = "TX-1")]
    Denial,
    /// More messages than an agent may send.
    #[serde(rename = "TX-2")]
    Flood,
}

/// How an incident was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetectionMethod {
    /// By what the agent does over time.
    BehavioralAnalysis,
    /// By values in an output.
    HashBased,
    /// By a secret that nobody has a reason to use.
    Honeypot,
    /// By a rule of the guard.
    PatternMatching,
}

/// One incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// What it looks like.
    pub attack: AttackType,
    /// How it was noticed.
    pub method: DetectionMethod,
    /// When it was noticed.
    pub at: Timestamp,
}

impl AttackType {
    /// NL's name, `T1` and so on.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// NL's category.
    pub fn category(self) -> &'static str {
        self.row().1
    }

    /// What the protocol says that one weighs, 0 to 100.
    pub(super) fn base(self) -> u8 {
        self.row().2
    }

    fn row(self) -> (&'static str, &'static str, u8) {
        match self {
            Self::BulkExport => ("T2", "direct_exfiltration", 30),
            Self::Denial => ("TX-1", "probing", 1),
            Self::DirectRequest => ("T1", "direct_exfiltration", 20),
            Self::EncodingBypass => ("T3", "evasion", 40),
            Self::FileAccess => ("T10", "infrastructure", 50),
            Self::Flood => ("TX-2", "probing", 2),
            Self::IndirectExecution => ("T4", "evasion", 35),
            Self::SecretInOutput => ("T8", "output_exfiltration", 60),
            Self::ShellExpansion => ("T5", "evasion", 40),
        }
    }
}

impl Incident {
    /// One that a rule of the guard or the sanitizer saw.
    pub fn new(attack: AttackType, method: DetectionMethod, at: Timestamp) -> Self {
        Self { attack, method, at }
    }

    /// A honeypot was named.
    pub fn honeypot(at: Timestamp) -> Self {
        Self { attack: AttackType::DirectRequest, method: DetectionMethod::Honeypot, at }
    }

    /// Whether it says something about what was done, not about how often something was.
    pub(super) fn is_certain(&self) -> bool {
        self.method != DetectionMethod::BehavioralAnalysis
    }
}
