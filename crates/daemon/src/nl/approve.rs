//! A person's word about one action, where a grant wants it.
//!
//! Bound to the action's hash and good for one use. The agent does not wait in the call: it is told
//! the request's name, and sends the same action again.

use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, SafeText, SecretPath,
    action::{Action, Deed},
    nl_message::NlFault,
};

use super::{caller::Caller, service::NlService};
use crate::approvals::{Stand, WantedUse};

/// As much of a command as a person is shown, in characters.
const SHOWN: usize = 300;
/// When it is worth another try, in seconds.
const AGAIN: u64 = 5;

/// What is asked about.
pub(super) struct Approval<'a> {
    pub(super) caller: &'a Caller,
    pub(super) action: &'a Action,
    /// The secret that stands for the action in the request.
    pub(super) path: Option<&'a SecretPath>,
}

impl NlService {
    /// Uses up a person's word, or asks for it: then [`Code::ApprovalRequired`] tells the request's name.
    pub(super) async fn approve(&self, approval: Approval<'_>) -> Result<(), NlFault> {
        let Approval { caller, action, path } = approval;
        let path = path.ok_or(Code::ApprovalRequired)?;
        // The same action without what changes from call to call.
        let bare = Action { approval_token: None, purpose: None, ..action.clone() };
        let deed = format!("{} {}", action.kind(), &bare.hash()[..16]);
        let reason = reason(caller, action);
        let wanted = WantedUse {
            session: caller.aid.instance_id.as_str(),
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

fn reason(caller: &Caller, action: &Action) -> SafeText {
    let what = match &action.deed {
        Deed::Exec { template } => template.as_str(),
        Deed::InjectStdin { command, .. } | Deed::InjectTempfile { command, .. } => command,
        Deed::SdkProxy { operation, .. } => operation,
        Deed::Delegate { delegate_to, .. } => delegate_to,
        Deed::Template { output_path, .. } => output_path.as_deref().unwrap_or("a file"),
    };
    let what: String = what.chars().take(SHOWN).collect();
    let reason = SafeText::default().as_they_wrote(caller.aid.agent_uri.as_str());
    let reason = reason.and(" wants to ").and(action.kind().as_str()).and(": ");
    let reason = reason.as_they_wrote_in_full(&what);
    match &action.purpose {
        None => reason,
        Some(purpose) => {
            let purpose: String = purpose.chars().take(80).collect();
            reason.and(", for: ").as_they_wrote_in_full(&purpose)
        }
    }
}
