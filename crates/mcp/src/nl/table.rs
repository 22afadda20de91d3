//! The tools, one row each: what is advertised is what is dispatched.

use std::sync::Arc;

use keyless_core::{Error, nl_message::MessageType};
use rmcp::{
    handler::server::tool::schema_for_input,
    model::{JsonObject, Tool, ToolAnnotations},
};
use serde_json::{Map, Value};

use super::arguments::{self, Arguments, payload};

/// One tool.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    input: fn() -> Arc<JsonObject>,
    /// The message that it is.
    pub(super) kind: MessageType,
    /// Turns its arguments into the message's payload.
    pub(super) payload: fn(Value) -> Result<Map<String, Value>, Error>,
}

/// What a call does to the world.
#[derive(Clone, Copy)]
enum Effect {
    /// Whatever the action does.
    Acts,
    /// It gives or takes a right.
    Delegates,
    /// Nothing.
    Reads,
}

/// Every tool of the toolset `nl`.
pub(crate) const TOOLS: &[Row] = &[
    row::<arguments::ExecuteAction>(
        "nl_execute_action",
        "Execute an action",
        "Runs a command, fills a template or calls a service with secrets that you name as {{nl:reference}} and never \
         see. You get the result with every value taken out. dry_run checks without running. An answer with error says \
         in error.suggestion what helps; one with error.details.approval_id waits for a person: repeat the same action later.",
        Effect::Acts,
        MessageType::ActionRequest,
    ),
    row::<arguments::ListSecrets>(
        "nl_list_secrets",
        "List usable secrets",
        "Lists the secrets that your grants cover: the reference to write, and the types of actions. Never values.",
        Effect::Reads,
        MessageType::XListSecrets,
    ),
    row::<arguments::CheckAccess>(
        "nl_check_access",
        "Check access to a secret",
        "Tells whether an action of a type may use a secret now, without running anything or using a grant up.",
        Effect::Reads,
        MessageType::XCheckAccess,
    ),
    row::<arguments::Nothing>(
        "nl_discover",
        "Discover capabilities",
        "Tells what this provider can do: versions, types of actions, limits.",
        Effect::Reads,
        MessageType::DiscoveryRequest,
    ),
    row::<arguments::GetAgent>(
        "nl_get_agent",
        "Show this agent",
        "Shows what you are registered as: identity, capabilities, scope, trust level, state. An administrator may ask about \
         any agent of its organization.",
        Effect::Reads,
        MessageType::AgentGet,
    ),
    row::<arguments::CreateDelegation>(
        "nl_create_delegation",
        "Delegate to another agent",
        "Gives another registered agent the right to use a part of what you may use, for a short time. You get a \
         token_id to pass on; it is of use to that agent alone.",
        Effect::Delegates,
        MessageType::DelegationRequest,
    ),
    row::<arguments::RevokeDelegation>(
        "nl_revoke_delegation",
        "Revoke a delegation",
        "Ends a delegation of yours, and all that were made from it; an administrator ends any of its organization's.",
        Effect::Delegates,
        MessageType::DelegationRevoke,
    ),
    row::<arguments::RegisterAgent>(
        "nl_register_agent",
        "Register a sub-agent",
        "Asks for an agent below you, to hand a part of your work to with nl_create_delegation. A person decides: the          answer has error.details.approval_id; repeat the same call every few seconds until it is allowed or denied. Then          you get its identity and, once, the credential that its process shows. It may do nothing that you don't hand          on, and ends with you. An administrator names who answers for it in delegated_by, and nobody is asked.",
        Effect::Delegates,
        MessageType::AgentRegister,
    ),
    row::<arguments::RevokeAgent>(
        "nl_revoke_agent",
        "Revoke sub-agents",
        "Ends sub-agents of yours for good, with what they have handed on and what they are doing; an administrator ends          any of its organization's.",
        Effect::Delegates,
        MessageType::RevocationRequest,
    ),
    row::<arguments::QueryAudit>(
        "nl_query_audit",
        "Query the audit log",
        "For an administrator alone: what the agents of its organization did, oldest first, never values. Anybody else          is refused with NL-E501; do not try again.",
        Effect::Reads,
        MessageType::AuditQuery,
    ),
];

const fn row<A: Arguments>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    kind: MessageType,
) -> Row {
    let (input, payload) = (input::<A> as _, payload::<A> as _);
    Row { name, title, description, effect, input, kind, payload }
}

fn input<A: Arguments>() -> Arc<JsonObject> {
    schema_for_input::<A>().expect("arguments are an object")
}

impl Row {
    /// The tool as it is advertised.
    pub(crate) fn tool(&self) -> Tool {
        let reads = matches!(self.effect, Effect::Reads);
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(reads)
            .destructive(matches!(self.effect, Effect::Acts))
            .idempotent(reads)
            .open_world(matches!(self.effect, Effect::Acts));
        Tool::new(self.name, self.description, (self.input)())
            .with_title(self.title)
            .with_annotations(annotations)
    }
}
