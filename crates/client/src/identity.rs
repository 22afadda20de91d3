//! An agent's identity toward the broker, and the socket that the environment says it connects to.

use std::{
    env, fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use zeroize::Zeroizing;

use crate::proof;

/// Where the broker listens for agents.
const NL_SOCKET: &str = "NL_SOCKET";
/// Where the broker listens inside `keyless run`, which sets this: the socket of that session.
const KEYLESS_AGENT_SOCKET: &str = "KEYLESS_AGENT_SOCKET";
/// The credential that registering the agent gave.
const NL_AGENT_CREDENTIAL: &str = "NL_AGENT_CREDENTIAL";
/// The agent's URI, `nl://vendor/type/version`.
const NL_AGENT_URI: &str = "NL_AGENT_URI";
/// The agent's instance, a UUID.
const NL_INSTANCE_ID: &str = "NL_INSTANCE_ID";
/// An attestation, where the agent has one.
const NL_AGENT_ATTESTATION: &str = "NL_AGENT_ATTESTATION";

/// An agent's identity. Clones share the one credential, which is wiped with the last of them.
#[derive(Clone)]
pub struct Identity(Option<Arc<Registered>>);

pub(crate) struct Registered {
    agent_uri: String,
    instance_id: String,
    credential: Zeroizing<String>,
    attestation: Option<String>,
    /// The time of the last proof: each is good for one message, and times are whole seconds.
    proven: AtomicI64,
}

/// What is shown of an identity at the beginning. It has no `Debug`, and is written into a line that is wiped alone.
pub(crate) struct Shown<'a> {
    known: Option<&'a Registered>,
    settles: bool,
}

/// The member of a handshake after which the connection takes no credential any more: what comes over it is then
/// somebody's who must not choose who they are.
pub const SETTLES: &str = "x_keyless_settles";

impl Identity {
    /// The session that the socket is for: `keyless run` gives each its own. There is nothing to show.
    pub fn session() -> Self {
        Self(None)
    }

    /// An agent that `keyless agent register` has registered, with the credential that it printed.
    pub fn registered(
        agent_uri: impl Into<String>,
        instance_id: impl Into<String>,
        credential: Zeroizing<String>,
    ) -> Self {
        let (agent_uri, instance_id) = (agent_uri.into(), instance_id.into());
        let (attestation, proven) = (None, AtomicI64::new(0));
        let known = Registered { agent_uri, instance_id, credential, attestation, proven };
        Self(Some(Arc::new(known)))
    }

    /// The identity that the environment gives (`NL_AGENT_URI`, `NL_INSTANCE_ID`, `NL_AGENT_CREDENTIAL`,
    /// `NL_AGENT_ATTESTATION`): the session's where it has no credential. [`Code::Usage`] names the variable that is missing
    /// beside one.
    pub fn from_environment() -> Result<Self, Error> {
        if env::var_os(NL_AGENT_CREDENTIAL).is_none() {
            return Ok(Self::session());
        }
        let variable = |name: &'static str| {
            env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
                let words = SafeText::words("the environment has no ").and(name);
                Error::with(Code::Usage, words)
            })
        };
        Ok(Self(Some(Arc::new(Registered {
            agent_uri: variable(NL_AGENT_URI)?,
            instance_id: variable(NL_INSTANCE_ID)?,
            credential: Zeroizing::new(variable(NL_AGENT_CREDENTIAL)?),
            attestation: variable(NL_AGENT_ATTESTATION).ok(),
            proven: AtomicI64::new(0),
        }))))
    }

    /// Whether it is the session that the socket is for.
    pub fn is_session(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn shown(&self) -> Shown<'_> {
        Shown { known: self.0.as_deref(), settles: false }
    }

    /// The same, for good.
    pub(crate) fn shown_for_good(&self) -> Shown<'_> {
        Shown { settles: true, ..self.shown() }
    }

    /// The proof that a token is this agent's own, by the key that accepting it gave; none of a session's, whose socket says
    /// who it is.
    pub(crate) fn prove(&self, key: &str, token: &str) -> Option<String> {
        let known = self.0.as_deref()?;
        Some(proof(key, token, &known.agent_uri, known.next_time()))
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = to.serialize_map(None)?;
        if let Some(known) = self.known {
            members.serialize_entry("agent_uri", &known.agent_uri)?;
            members.serialize_entry("instance_id", &known.instance_id)?;
            members.serialize_entry("credential", known.credential.as_str())?;
            if let Some(attestation) = &known.attestation {
                members.serialize_entry("attestation", attestation)?;
            }
        }
        if self.settles {
            members.serialize_entry(SETTLES, &true)?;
        }
        members.end()
    }
}

impl Registered {
    fn next_time(&self) -> i64 {
        let now = Timestamp::now().as_second();
        let after = |last: i64| now.max(last + 1);
        let last = self.proven.fetch_update(Relaxed, Relaxed, |last| Some(after(last)));
        after(last.unwrap_or(now))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.0.as_deref().map(|known| known.agent_uri.as_str());
        f.debug_tuple("Identity").field(&uri.unwrap_or("session")).finish()
    }
}

/// The socket that the environment names, `NL_SOCKET` before `KEYLESS_AGENT_SOCKET`, one that is there before one that is not: a
/// session's jail shows its own alone. [`Code::Usage`] where it names none.
pub fn socket_from_environment() -> Result<PathBuf, Error> {
    let named = [NL_SOCKET, KEYLESS_AGENT_SOCKET].into_iter().filter_map(env::var_os);
    let named: Vec<PathBuf> = named.filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    named.iter().find(|path| path.exists()).or(named.first()).cloned().ok_or_else(|| {
        let words = SafeText::words("the environment has neither ").and(NL_SOCKET);
        Error::with(Code::Usage, words.and(" nor ").and(KEYLESS_AGENT_SOCKET))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_shown_to_the_broker_and_printed_nowhere() {
        let credential = Zeroizing::new("nlk_1".to_owned());
        let identity = Identity::registered("nl://acme.corp/bot/1.0.0", "1", credential);
        let shown = serde_json::to_value(identity.shown()).unwrap();
        let all =
            r#"{"agent_uri":"nl://acme.corp/bot/1.0.0","instance_id":"1","credential":"nlk_1"}"#;
        assert_eq!(shown, serde_json::from_str::<serde_json::Value>(all).unwrap());
        assert_eq!(format!("{identity:?}"), "Identity(\"nl://acme.corp/bot/1.0.0\")");
        let session = Identity::session();
        assert!(session.is_session());
        assert_eq!(serde_json::to_string(&session.shown()).unwrap(), "{}");
    }

    /// Each proof is good for one message, and times are whole seconds.
    #[test]
    fn no_two_proofs_are_alike() {
        let identity = Identity::registered("nl://acme.corp/bot/1.0.0", "1", Zeroizing::default());
        let of = |identity: &Identity| identity.prove("a key", "a token").unwrap();
        let (one, other) = (of(&identity), of(&identity.clone()));
        assert_ne!(one, other);
        let checked =
            |key: &str| proof::proven_at(&other, key, "a token", "nl://acme.corp/bot/1.0.0");
        assert!(checked("a key").is_some() && checked("another").is_none());
        assert_eq!(Identity::session().prove("a key", "a token"), None);
    }
}
