//! Who sends a message, as far as the door can tell.

use std::net::IpAddr;

use keyless_core::{
    ActionType, Code, Reference, SafeText,
    action::AgentClaim,
    agent::{Aid, TrustLevel},
    audit,
    delegation::Token,
    grant::{Categories, Subject},
    nl_message::NlFault,
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{agents::as_logged, binding::Binding, grants::Reservation};

/// What a sender has shown. Without `Debug`: it holds a credential.
#[derive(Clone)]
pub(crate) struct Presented {
    /// Where from, as the transport knows it.
    pub(crate) source_ip: Option<IpAddr>,
    pub(crate) credential: Option<Zeroizing<String>>,
    /// Who they say they are, where the door was told; a message may say it as well.
    pub(crate) claim: Option<AgentClaim>,
    /// A vendor's word for them, where that is shown apart.
    pub(crate) attestation: Option<String>,
    /// What the door knows beside.
    pub(crate) standing: Standing,
}

/// What a connection is known by, beside what is shown on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is a session's own: what its claim says is so.
    Session,
    /// Nothing.
    Stranger,
}

impl Presented {
    /// What a handshake's payload shows.
    pub(crate) fn of_handshake(payload: &Map<String, Value>) -> Result<Self, NlFault> {
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let claim = claim_of(payload).ok_or_else(|| {
            let words = SafeText::words("a handshake has agent_uri, instance_id and credential");
            NlFault::new(Code::MessageMalformed, words)
        })?;
        let credential = text("credential").map(Zeroizing::new);
        let standing = Standing::Stranger;
        Ok(Self { source_ip: None, credential, claim: Some(claim), attestation: None, standing })
    }

    /// The agent that a session is, on a connection of its own.
    pub(crate) fn session(aid: &Aid) -> Self {
        let claim = AgentClaim {
            agent_uri: aid.agent_uri.to_string(),
            instance_id: aid.instance_id.to_string(),
            attestation: None,
        };
        let standing = Standing::Session;
        Self { source_ip: None, credential: None, claim: Some(claim), attestation: None, standing }
    }

    /// Whether the two are agents of which neither speaks for the other: what was begun by the one is not gone on with by
    /// the other. A session may become an agent whose credential it has.
    pub(crate) fn is_stranger_to(&self, other: &Self) -> bool {
        let instance = |of: &Self| of.claim.as_ref().map(|claim| claim.instance_id.clone());
        self.standing == Standing::Stranger && instance(self) != instance(other)
    }

    /// Whether what a handshake says is this agent, or nobody at all.
    pub(crate) fn is_named_by(&self, shown: &Map<String, Value>) -> bool {
        let names = |key: &str, own: fn(&AgentClaim) -> &str| {
            shown.get(key).is_none_or(|said| said.as_str() == self.claim.as_ref().map(own))
        };
        names("agent_uri", |own| &own.agent_uri) && names("instance_id", |own| &own.instance_id)
    }

    /// Who a message is from: what it says, which must be what the connection said, if that said anything.
    pub(crate) fn claim(&self, payload: &Map<String, Value>) -> Result<AgentClaim, NlFault> {
        let said = match payload.get("agent") {
            None | Some(Value::Null) => None,
            // What can't be read must not pass for nothing: the message would be done as somebody else's.
            Some(said) => Some(said.as_object().and_then(claim_of).ok_or_else(no_claim)?),
        };
        let same = |said: &AgentClaim, known: &AgentClaim| {
            (&said.agent_uri, &said.instance_id) == (&known.agent_uri, &known.instance_id)
        };
        match (said, &self.claim) {
            (Some(said), Some(known)) if !same(&said, known) => Err(Code::AgentUnknown.into()),
            (Some(said), known) => {
                let shown = known.as_ref().and_then(|known| known.attestation.clone());
                let shown = shown.or_else(|| self.attestation.clone());
                Ok(AgentClaim { attestation: said.attestation.or(shown), ..said })
            }
            (None, Some(known)) => {
                let attestation = known.attestation.clone().or_else(|| self.attestation.clone());
                Ok(AgentClaim { attestation, ..known.clone() })
            }
            (None, None) if self.credential.is_none() => {
                let words = SafeText::words("no agent is named, and no credential is shown");
                Err(NlFault::new(Code::AgentUnknown, words))
            }
            (None, None) => Err(no_claim()),
        }
    }
}

fn no_claim() -> NlFault {
    let words = SafeText::words(
        "who sends it is said by agent, an object with agent_uri and instance_id (and an attestation, if any, as text), or over HTTP by the headers \
         X-NL-Agent-URI and X-NL-Instance-ID",
    );
    NlFault::new(Code::MessageMalformed, words)
}

/// The three members that name an agent.
pub(crate) fn claim_of(object: &Map<String, Value>) -> Option<AgentClaim> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    // One that can't be read must not pass for none.
    if !matches!(object.get("attestation"), None | Some(Value::Null | Value::String(_))) {
        return None;
    }
    Some(AgentClaim {
        agent_uri: text("agent_uri")?,
        instance_id: text("instance_id")?,
        attestation: text("attestation"),
    })
}

/// An agent that was authenticated, and how it came.
pub(crate) struct Caller {
    pub(crate) aid: Aid,
    /// Where from, as the transport knows it.
    pub(crate) source_ip: Option<IpAddr>,
    /// The agents through whose delegation it acts, the origin first.
    pub(crate) delegation: Vec<String>,
    /// The delegation that it acts under.
    pub(crate) acting: Option<Acting>,
}

impl Caller {
    /// One that acts for nobody else.
    pub(crate) fn alone(aid: Aid, source_ip: Option<IpAddr>) -> Self {
        Self { aid, source_ip, delegation: Vec::new(), acting: None }
    }

    /// In the log's words: who acts by a delegation does so for the one who gave it.
    pub(crate) fn as_logged(&self) -> audit::Agent {
        let mut agent = as_logged(&self.aid);
        if let Some(issuer) = self.acting.as_ref().and_then(|acting| acting.issuers.first()) {
            agent.delegated_by = format!("agent:{}", issuer.agent_uri);
        }
        agent
    }

    /// Whose message it is: of work that is handed on by an action that is who hands it on, and the agent that does it
    /// has not said a word.
    pub(crate) fn sender(&self) -> &Aid {
        let handed = self.acting.as_ref().filter(|acting| acting.is_of_issuer());
        handed.and_then(|acting| acting.issuers.first()).unwrap_or(&self.aid)
    }

    /// Whether a person has allowed this very action already, as work that is handed on.
    pub(crate) fn was_asked_about(&self) -> bool {
        let binding = self.acting.as_ref().map(|acting| &acting.binding);
        matches!(binding, Some(Binding::Issuers { was_asked_about: true, .. }))
    }

    /// Whose grants count: those of the agent that handed the work on first.
    pub(super) fn grantee(&self) -> &Aid {
        self.everybody().last().unwrap_or(&self.aid)
    }

    /// The least of everybody's.
    pub(super) fn trust_level(&self) -> TrustLevel {
        let least = self.everybody().map(|aid| aid.trust_level).min();
        least.unwrap_or(self.aid.trust_level)
    }

    /// The agent, then those whose work it does, up to the first.
    pub(super) fn everybody(&self) -> impl Iterator<Item = &Aid> {
        let issuers = self.acting.iter().flat_map(|acting| &acting.issuers);
        std::iter::once(&self.aid).chain(issuers)
    }

    /// Whether its own bounds leave room for this, and those of everybody whose work it does.
    pub(super) fn covers(
        &self,
        kind: ActionType,
        subjects: &[Subject],
        categories: &Categories,
    ) -> Result<(), Code> {
        self.everybody().try_for_each(|aid| aid.covers(kind, subjects, categories))
    }

    /// Whether those bounds may leave room for what a reference names, by its words alone.
    pub(super) fn leaves_room_for(&self, reference: &Reference) -> bool {
        let mut scopes = self.everybody().filter_map(|aid| aid.scope.as_ref());
        scopes.all(|scope| scope.leaves_room_for(reference))
    }

    /// What is reserved for this very action already, as work that is handed on.
    pub(crate) fn held(&self) -> Option<&Reservation> {
        match &self.acting.as_ref()?.binding {
            Binding::Issuers { held, .. } => Some(held),
            _ => None,
        }
    }
}

/// A delegation and who gave it.
pub(crate) struct Acting {
    /// Everybody whose work it is, the one who handed it over first, and last the one whose grants count.
    pub(crate) issuers: Vec<Aid>,
    pub(crate) token: Token,
    /// How it is known to be the presenter's.
    pub(crate) binding: Binding,
}

impl Acting {
    /// Whether it is its issuer's own message that is done.
    pub(crate) fn is_of_issuer(&self) -> bool {
        matches!(self.binding, Binding::Issuers { .. })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_shows_nothing_is_not_authenticated() {
        let refused = |credential: Option<&str>| {
            let credential = credential.map(|shown| Zeroizing::new(shown.to_owned()));
            let (source_ip, claim, attestation) = (None, None, None);
            let standing = Standing::Stranger;
            let presented = Presented { source_ip, credential, claim, attestation, standing };
            presented.claim(&Map::new()).unwrap_err().status()
        };
        assert_eq!(refused(None), 401);
        assert_eq!(refused(Some("a credential, and nobody whose it is")), 400);
    }

    #[test]
    fn an_attestation_that_is_no_text_is_not_passed_over() {
        let claim = |attestation: Value| {
            let said = json!({ "agent_uri": "nl://a.test/bot", "instance_id": "x", "attestation": attestation });
            claim_of(said.as_object().unwrap()).map(|claim| claim.attestation)
        };
        assert_eq!(claim(json!("x")), Some(Some("x".to_owned())));
        assert_eq!(claim(Value::Null), Some(None));
        for odd in [json!(7), json!(true), json!([]), json!({})] {
            assert_eq!(claim(odd.clone()), None, "{odd}");
        }
    }
}
