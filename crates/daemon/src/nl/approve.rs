//! A person's word about one action, where a grant wants it.
//!
//! Bound to the action's whole hash and to the secrets that it means, with where each may go, to its purpose, to the hosts
//! that were shown and to whose grants count, and good for one use. A no is for the action whatever its purpose. A person sees all that is to be done; what is too long to be shown is not asked about.
//! The agent does not wait in the call: it is told the request's name, and sends the same action again.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use keyless_action::Kept;
use keyless_core::{
    Code, Destination, Error, SafeText, SecretPath,
    action::{Action, Deed, DelegationScope, TemplateSource},
    approval::{Asked, MAX_DEED_REASON_CHARS, WantedAction},
    delegation::longest_life,
    nl_message::NlFault,
};
use sha2::{Digest, Sha256};

use super::{
    caller::Caller,
    delegate::asked_life,
    rates::{WINDOW, spent},
    resolve::Meant,
    service::NlService,
};
use crate::{
    approvals::{Question, Stand},
    requests::Reached,
};

/// As much of a purpose as a person is shown, in characters: it says nothing of what is done.
const PURPOSE_SHOWN: usize = 80;
/// When it is worth another try, in seconds.
const AGAIN: u64 = 5;

/// What is asked about.
pub(super) struct Approval<'a> {
    pub(super) caller: &'a Caller,
    pub(super) action: &'a Action,
    /// The secrets that it means.
    pub(super) meant: &'a [Meant],
    /// The rendered files that its command names.
    pub(super) kept: &'a [Kept],
    /// The hosts that its grants let it reach.
    pub(super) hosts: &'a [Destination],
}

impl NlService {
    /// Uses up a person's word, or asks for it: then [`Code::ApprovalRequired`] tells the request's name.
    pub(super) async fn approve(&self, approval: Approval<'_>) -> Result<(), NlFault> {
        let path = approval.meant.first().map(|meant| &meant.path);
        let mut wanted = approval.wanted()?;
        wanted.sha256 = self.with_destinations(&wanted.sha256, approval.meant).await?;
        self.allowed_by_person(approval.caller, path, wanted).await
    }

    /// Names what `sha256` names with where the values may go, as a person is shown it: once that is another place, their
    /// word was about something else.
    async fn with_destinations(&self, sha256: &str, meant: &[Meant]) -> Result<String, NlFault> {
        let mut hasher = Sha256::new_with_prefix(sha256);
        for one in meant {
            let metadata = self.vault.show(&one.path).await?.metadata;
            let bounds = (&metadata.egress, metadata.unsafe_expose);
            let bounds = serde_json::to_string(&bounds).map_err(|_| Code::Internal)?;
            hasher.update(b"\n");
            hasher.update(bounds);
        }
        Ok(HEXLOWER.encode(&hasher.finalize()))
    }

    /// As [`Self::approve`], of a deed of the caller that may be no action.
    pub(super) async fn allowed_by_person(
        &self,
        caller: &Caller,
        path: Option<&SecretPath>,
        wanted: WantedAction,
    ) -> Result<(), NlFault> {
        let question = Question {
            session: caller.aid.instance_id.as_str(),
            path,
            asked: Asked::ActionApproval { wanted: Box::new(wanted) },
        };
        let stand = self.requests.stand(question).await;
        match stand.map_err(|error| self.too_often(caller, error))? {
            Stand::Passed => Ok(()),
            Stand::Waits(request) => {
                let left = request.expires_at.duration_since(Timestamp::now()).as_secs();
                let words = SafeText::words("it waits for a person as ").and(&request.id);
                Err(NlFault::new(Code::ApprovalRequired, words)
                    .with("approval_id", request.id.to_string())
                    .with("expires_in_seconds", left.max(0))
                    .with("retry_after_seconds", AGAIN)
                    .suggesting(SafeText::words("Send the same again once it is approved.")))
            }
        }
    }

    /// An error, with when another try may do where too much was asked of a person.
    fn too_often(&self, caller: &Caller, error: Error) -> NlFault {
        let is_one_too_many = error.code() == Code::RateLimited;
        let reached = self.requests.reached(caller.aid.instance_id.as_str());
        match reached.filter(|_| is_one_too_many) {
            Some(Reached { limit, is_own, wait }) => {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                let scope = if is_own { "per_agent" } else { "all_agents" };
                spent(error.into(), (limit, WINDOW), wait.as_secs() + 1, scope)
            }
            None => error.into(),
        }
    }
}

impl Approval<'_> {
    /// All that a person has to know; [`Code::ApprovalRequired`] when nobody could be shown it all.
    fn wanted(&self) -> Result<WantedAction, NlFault> {
        let text = what(&self.action.deed) + &beside(self.kept);
        is_readable(&text)?;
        Ok(WantedAction {
            agent: self.caller.aid.agent_uri.clone(),
            acting_for: self
                .caller
                .acting
                .as_ref()
                .map(|_| self.caller.grantee().agent_uri.clone()),
            action: self.action.kind(),
            secrets: self.meant.iter().map(|meant| meant.path.clone()).collect(),
            hosts: self.hosts.to_vec(),
            text,
            purpose: self.action.purpose.as_deref().map(beginning),
            purpose_sha256: self.action.purpose.as_deref().map(digest),
            sha256: self.digest(),
        })
    }

    /// Names this action with these secrets and no other.
    fn digest(&self) -> String {
        let mut hasher = Sha256::new_with_prefix(deed_hash(self.action));
        for meant in self.meant {
            hasher.update(b"\n");
            hasher.update(meant.path.as_str());
        }
        // A file that was rendered anew is another one, and may have another text.
        for file in self.kept {
            hasher.update(b"\n");
            hasher.update(&file.made_by);
        }
        HEXLOWER.encode(&hasher.finalize())
    }
}

/// Names an action by all but what changes from call to call, in hex.
pub(super) fn deed_hash(action: &Action) -> String {
    Action { approval_token: None, purpose: None, ..action.clone() }.hash()
}

/// Whether a person can be shown all of it; [`Code::ApprovalRequired`] when they can't.
pub(super) fn is_readable(text: &str) -> Result<(), NlFault> {
    // As it is shown, with everything visible.
    let shown = SafeText::default().as_they_wrote_in_full(text);
    if shown.as_str().chars().count() <= MAX_DEED_REASON_CHARS {
        return Ok(());
    }
    let words = SafeText::words("a person would have to allow it, and it is too long to be shown");
    let advice = "Send a shorter one; an action may run a script.";
    Err(NlFault::new(Code::ApprovalRequired, words)
        .with("max_characters", MAX_DEED_REASON_CHARS)
        .suggesting(SafeText::words(advice)))
}

/// Names these words and no others.
pub(super) fn digest(words: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(words))
}

/// A purpose, as much of it as is shown.
pub(super) fn beginning(purpose: &str) -> String {
    let more = purpose.chars().count().saturating_sub(PURPOSE_SHOWN);
    let shown: String = purpose.chars().take(PURPOSE_SHOWN).collect();
    if more > 0 { format!("{shown}… ({more} more characters)") } else { shown }
}

/// The rendered files that a command has.
fn beside(kept: &[Kept]) -> String {
    let files = kept.iter().map(|file| format!("; with the rendered file {}", file.path.display()));
    files.collect()
}

/// Everything about it that makes a difference, as the agent wrote it.
pub(super) fn what(deed: &Deed) -> String {
    match deed {
        Deed::Delegate { delegate_to, delegated_action, delegation_scope } => {
            let (done, token) = (what(&delegated_action.deed), token(delegation_scope));
            format!("{delegate_to}: {done}; {token}")
        }
        Deed::Exec { template } => template.clone(),
        Deed::InjectStdin { command, secret_ref } => {
            format!("{command}; on its standard input: {secret_ref}")
        }
        Deed::InjectTempfile { command, file_refs, .. } => {
            let files = file_refs.iter().map(|(name, handle)| format!("{name} = {handle}"));
            format!("{command}; with files: {}", files.collect::<Vec<_>>().join(", "))
        }
        Deed::SdkProxy { provider, service, operation, parameters, credentials_ref } => {
            let parameters = serde_json::Value::Object(parameters.clone());
            format!("{provider} {service} {operation} {parameters}; as {credentials_ref}")
        }
        Deed::Template { source, output_path } => {
            let text = match source {
                TemplateSource::Inline(text) => text,
                TemplateSource::Path(path) => path,
            };
            format!("{}; with the text: {text}", output_path.as_deref().unwrap_or("a file"))
        }
    }
}

/// What a delegate gets beside the work, and may go on with.
pub(super) fn token(scope: &DelegationScope) -> String {
    let uses = match scope.max_uses.unwrap_or(1) {
        1 => "one use".to_owned(),
        uses => format!("{uses} uses"),
    };
    // As it will be: what is asked for beyond the bounds is not had.
    let longest = longest_life(scope.max_uses.unwrap_or(1)).min(asked_life(scope.ttl_seconds));
    format!("by a token for {}, {uses}, {} s at most", scope.secrets.join(", "), longest.as_secs())
}

#[cfg(test)]
mod tests;
