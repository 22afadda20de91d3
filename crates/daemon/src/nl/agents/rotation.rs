//! A new credential for an agent that is known: its identity stays, its old credential is nobody's.
//!
//! Whatever rests on the identity goes on: its instance, grants, delegations, attestations. Source: chapter 01, 11.5.

use keyless_core::{
    Code, Error, SafeText,
    agent::{AgentState, Aid, InstanceId},
    audit::Action,
};
use zeroize::Zeroizing;

use super::{Agents, Registrar, as_logged, credential, sessions::NO_CREDENTIAL, unknown};

impl Agents {
    /// Gives an agent a new credential, which nobody can ever be shown again; from then on the old one is refused, on
    /// connections that it has opened too. `by` is the agent that asks for it, if the operator does not.
    ///
    /// [`Code::StateUnfit`] for who is revoked, and for a session, which has none.
    pub async fn rotate(
        &self,
        instance: &InstanceId,
        by: Option<&Aid>,
        reason: &str,
    ) -> Result<(Aid, Zeroizing<String>), Error> {
        let drawn = credential::draw()?;
        let hash = self.hash(&drawn).await?;
        loop {
            let old = self.row(instance).await?.ok_or_else(|| unknown(instance))?;
            if old.credential_hash == NO_CREDENTIAL {
                let words = "a session of Keyless is known by its socket and has no credential";
                return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
            }
            if old.aid.lifecycle == AgentState::Revoked {
                let words =
                    SafeText::words("the agent is revoked, and no credential is of use to it");
                return Err(Error::with(Code::StateUnfit, words));
            }
            let new = self.sealed(old.aid.clone(), hash.clone());
            // Somebody else may have changed it meanwhile; then it is judged anew.
            let who = by.map_or_else(|| Registrar::Operator.as_logged(), as_logged);
            let note = SafeText::words("credential rotated: ").as_they_wrote(reason);
            let told = self.told(Action::AgentRotate, &new.aid, who, note.as_str());
            if self.store.replace_agent(&old, &new, told).await? {
                self.verified.lock().remove(instance);
                return Ok((new.aid, drawn));
            }
        }
    }
}
