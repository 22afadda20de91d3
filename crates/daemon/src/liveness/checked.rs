//! What came of a check, in all that a person and an agent are told of it.

use keyless_core::{Authority, Error, SecretPath};
use keyless_egress::ClientAnswer;
use keyless_vault::Liveness;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The answer.
    pub verdict: LivenessVerdict,
    /// The catalog's pattern whose check it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The host that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why nobody was asked, or nothing came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a service takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LivenessVerdict {
    /// The service refused it.
    Rejected,
    /// The service answered something that says neither.
    Unclear,
    /// The service could not be asked.
    Unreachable,
    /// No way to ask is known, or its owner has not said that it may go there.
    Unsupported,
    /// The service took it.
    Valid,
}

impl Checked {
    /// Nobody could be asked.
    pub fn failed(error: &Error) -> Self {
        let (verdict, why) = (LivenessVerdict::Unreachable, Some(error.message()));
        Self { verdict, pattern: None, host: None, status: None, why }
    }

    /// The answer about the value of `path`, as a sentence.
    pub fn sentence(&self, path: &SecretPath) -> String {
        let host = self.host.as_deref().unwrap_or("its service");
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        match self.verdict {
            LivenessVerdict::Rejected => format!("{path}: {host} refuses its value{why}."),
            LivenessVerdict::Unclear => format!("{path}: {host} answers neither yes nor no{why}."),
            LivenessVerdict::Unreachable => format!("{path}: {host} could not be asked{why}."),
            LivenessVerdict::Unsupported => format!("{path}: nobody can be asked{why}."),
            LivenessVerdict::Valid => format!("{path}: {host} takes its value."),
        }
    }
}

impl LivenessVerdict {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Unclear => "unclear",
            Self::Unreachable => "unreachable",
            Self::Unsupported => "unsupported",
            Self::Valid => "valid",
        }
    }
}

/// What an answer says.
pub(super) fn answered(
    pattern: String,
    authority: &Authority,
    sent: Result<ClientAnswer, Error>,
    liveness: &Liveness,
) -> Checked {
    let (verdict, status, why) = match sent {
        Ok(answer) => {
            // Some answer with a token of their own.
            let body = Zeroizing::new(answer.body);
            let verdict = match liveness.judge(answer.status, &body) {
                None => LivenessVerdict::Unclear,
                Some(false) => LivenessVerdict::Rejected,
                Some(true) => LivenessVerdict::Valid,
            };
            let why = (verdict == LivenessVerdict::Unclear)
                .then(|| format!("it answered {}, which says neither", answer.status));
            (verdict, Some(answer.status), why)
        }
        Err(error) => (LivenessVerdict::Unreachable, None, Some(error.message())),
    };
    let host = Some(authority.host.to_string());
    Checked { verdict, pattern: Some(pattern), host, status, why }
}

/// Nobody is asked, and why.
pub(super) fn unsupported(pattern: Option<String>, why: String) -> Checked {
    let (verdict, why) = (LivenessVerdict::Unsupported, Some(why));
    Checked { verdict, pattern, host: None, status: None, why }
}
