//! A person's word about one action, where a grant wants it.
//!
//! Bound to the action's whole hash and to the secrets that it means, and good for one use. A person sees all that
//! is to be done; what is too long to be shown is not asked about. The agent does not wait in the call: it is told
//! the request's name, and sends the same action again.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, SafeText,
    action::{Action, Deed, TemplateSource},
    approval::MAX_DEED_REASON_CHARS,
    nl_message::NlFault,
};
use sha2::{Digest, Sha256};

use super::{caller::Caller, resolve::Meant, service::NlService};
use crate::approvals::{Stand, WantedUse};

/// As much of a purpose as a person is shown, in characters: it says nothing of what is done.
const PURPOSE_SHOWN: usize = 80;
/// When it is worth another try, in seconds.
const AGAIN: u64 = 5;

/// What is asked about.
pub(super) struct Approval<'a> {
    pub(super) caller: &'a Caller,
    pub(super) action: &'a Action,
    /// The secrets that it means; the request is about the first one's path.
    pub(super) meant: &'a [Meant],
}

impl NlService {
    /// Uses up a person's word, or asks for it: then [`Code::ApprovalRequired`] tells the request's name.
    pub(super) async fn approve(&self, approval: Approval<'_>) -> Result<(), NlFault> {
        let path = &approval.meant.first().ok_or(Code::ApprovalRequired)?.path;
        let (deed, reason) = (approval.deed(), approval.reason()?);
        let wanted = WantedUse {
            session: approval.caller.aid.instance_id.as_str(),
            path,
            policy: ApproveOnUse::PerCall,
            reason: &reason,
            deed: Some(&deed),
        };
        match self.requests.stand(wanted).await? {
            Stand::Passed => Ok(()),
            Stand::Waits(request) => {
                let left = request.expires_at.duration_since(Timestamp::now()).as_secs();
                let words = SafeText::words("it waits for a person as ").and(&request.id);
                Err(NlFault::new(Code::ApprovalRequired, words)
                    .with("approval_id", request.id.to_string())
                    .with("expires_in_seconds", left.max(0))
                    .with("retry_after_seconds", AGAIN)
                    .suggesting(SafeText::words("Send the same action again once it is approved.")))
            }
        }
    }
}

impl Approval<'_> {
    /// Names this action with these secrets and no other: its type, and a SHA-256.
    fn deed(&self) -> String {
        // The same action without what changes from call to call.
        let bare = Action { approval_token: None, purpose: None, ..self.action.clone() };
        let mut hasher = Sha256::new_with_prefix(bare.hash());
        for meant in self.meant {
            hasher.update(b"\n");
            hasher.update(meant.path.as_str());
        }
        format!("{} {}", self.action.kind(), HEXLOWER.encode(&hasher.finalize()))
    }

    /// All that a person has to know; [`Code::ApprovalRequired`] when nobody could be shown it all.
    fn reason(&self) -> Result<SafeText, NlFault> {
        let mut reason =
            SafeText::default().as_they_wrote_in_full(self.caller.aid.agent_uri.as_str());
        if let Some(acting) = &self.caller.acting {
            reason = reason.and(" for ").as_they_wrote_in_full(acting.issuer.agent_uri.as_str());
        }
        reason = reason.and(" wants to ").and(self.action.kind().as_str()).and(" with ");
        for (number, meant) in self.meant.iter().enumerate() {
            reason = reason.and(if number == 0 { "" } else { ", " }).and(&meant.path);
        }
        reason = reason.and(": ").as_they_wrote_in_full(&on_one_line(&what(&self.action.deed)));
        if let Some(purpose) = &self.action.purpose {
            let more = purpose.chars().count().saturating_sub(PURPOSE_SHOWN);
            let purpose: String = purpose.chars().take(PURPOSE_SHOWN).collect();
            reason = reason.and(", for: ").as_they_wrote_in_full(&on_one_line(&purpose));
            if more > 0 {
                reason = reason.and("… (").and(more).and(" more characters)");
            }
        }
        if reason.as_str().chars().count() <= MAX_DEED_REASON_CHARS {
            return Ok(reason);
        }
        let words =
            SafeText::words("a person would have to allow it, and it is too long to be shown");
        Err(NlFault::new(Code::ApprovalRequired, words)
            .with("max_characters", MAX_DEED_REASON_CHARS)
            .suggesting(SafeText::words("Send a shorter action, such as one that runs a script.")))
    }
}

/// Everything about it that makes a difference, as the agent wrote it.
fn what(deed: &Deed) -> String {
    match deed {
        Deed::Delegate { delegate_to, delegated_action, .. } => {
            format!("{delegate_to}: {}", what(&delegated_action.deed))
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

/// A line's end is seen as one: what follows a `#` may be another command.
fn on_one_line(text: &str) -> String {
    text.replace('\n', "⏎")
}

#[cfg(test)]
mod tests;
