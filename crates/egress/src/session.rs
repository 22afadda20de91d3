//! One session as egress sees it: who, which placeholders, by which rules, through which broker.

use std::sync::Arc;

use keyless_core::{EgressRule, Placeholder, SecretPath};

use crate::ports::Broker;

/// What the daemon says when it opens a session.
pub struct SessionSpec {
    /// The session's name: letters, digits, `-` and `_`.
    pub id: String,
    /// The secrets that it may use.
    pub secrets: Vec<SessionSecret>,
    /// Its way to values and to the log.
    pub broker: Arc<dyn Broker>,
}

/// One secret of a session.
#[derive(Clone, Debug)]
pub struct SessionSecret {
    /// Whose value is meant.
    pub path: SecretPath,
    /// What the agent holds in its stead.
    pub placeholder: Placeholder,
    /// Where the value may go.
    pub rule: EgressRule,
}
