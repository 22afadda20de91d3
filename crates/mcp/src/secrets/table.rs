//! The tools, one row each: what is advertised is what is dispatched.

use std::sync::Arc;

use keyless_core::Error;
use rmcp::{
    handler::server::tool::{schema_for_input, schema_for_output},
    model::{JsonObject, Tool, ToolAnnotations},
};
use serde_json::Value;

use super::{
    Ask, Described, ListedSecrets, Polled, Requested, Status, Unlocked, Validated,
    arguments::{self, Arguments, ask},
};

/// One tool.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    input: fn() -> Arc<JsonObject>,
    output: fn() -> Arc<JsonObject>,
    /// Turns its arguments into a question.
    pub(super) ask: fn(Value) -> Result<Ask, Error>,
}

/// What a call does to the world.
#[derive(Clone, Copy)]
enum Effect {
    /// A person is asked; the same question twice is one request.
    AsksAPerson,
    /// A person is asked whether a value may be replaced.
    AsksToReplace,
    /// The vault opens.
    Opens,
    /// Nothing.
    Reads,
    /// Nothing here, but a service may be asked.
    ReadsOutside,
}

/// Every tool of the toolset `secrets`.
pub(crate) const TOOLS: &[Row] = &[
    row::<arguments::List, ListedSecrets>(
        "secrets_list",
        "List secrets",
        "Lists the secrets that this project declares: path, status by expiry date, capabilities. Never values. \
         Filters combine. A secret with approve_on_use makes a person confirm its use.",
        Effect::Reads,
    ),
    row::<arguments::OnePath, Described>(
        "secrets_describe",
        "Describe a secret",
        "Shows everything but the value of one secret: description, where its owner gets the value, rotation, expiry.",
        Effect::Reads,
    ),
    row::<arguments::Provision, Requested>(
        "secrets_request_provision",
        "Ask for a missing value",
        "Asks the person to type the value of a secret that is missing. You get a request_id; poll it with \
         secrets_poll_status every 2 to 5 seconds, and retry your work when it is ok. Never ask for a value in the chat.",
        Effect::AsksAPerson,
    ),
    row::<arguments::Rotation, Requested>(
        "secrets_request_rotation",
        "Ask for a replacement value",
        "Asks the person to replace the value of a secret, which they have to confirm expressly. Poll the request_id.",
        Effect::AsksToReplace,
    ),
    row::<arguments::ProposeMetadata, Requested>(
        "secrets_propose_metadata",
        "Propose metadata",
        "Proposes to change what is known of a secret; the person sees the present values beside yours and takes \
         over what they like. Poll the request_id; outcome.applied_fields says what was taken.",
        Effect::AsksAPerson,
    ),
    row::<arguments::ProposeNewPath, Requested>(
        "secrets_propose_new_path",
        "Propose a new secret",
        "Proposes to register a path that is not known yet. The person may choose another name, which \
         outcome.final_path tells. Poll the request_id.",
        Effect::AsksAPerson,
    ),
    row::<arguments::UseApproval, Requested>(
        "secrets_request_use_approval",
        "Ask to use a secret",
        "Asks the person to allow the use of a secret whose approve_on_use is session or per-call. Status once allows \
         one use, session every use until your session ends; after denied, do not ask again by yourself.",
        Effect::AsksAPerson,
    ),
    row::<arguments::Poll, Polled>(
        "secrets_poll_status",
        "Poll a request",
        "Tells how a request stands: pending, then ok, cancelled, expired, failed, or once, session, denied. \
         Poll no faster than every 2 seconds.",
        Effect::Reads,
    ),
    row::<arguments::Nothing, Status>(
        "secrets_status",
        "Vault status",
        "Tells whether the vault is open and for how long, and how it can be opened.",
        Effect::Reads,
    ),
    row::<arguments::Unlock, Unlocked>(
        "secrets_unlock",
        "Unlock with a code",
        "Opens a vault that locked itself with the six-digit code of the person's authenticator; an open one stays as \
         it is and needs no code. Takes no passphrase, and you must never ask for one.",
        Effect::Opens,
    ),
    row::<arguments::Validate, Validated>(
        "secrets_validate",
        "Validate a secret",
        "Tells whether a secret's value is there and has its format, and with liveness whether its service takes it. \
         Never shows the value, and takes no rule from you.",
        Effect::ReadsOutside,
    ),
];

const fn row<A: Arguments, R: schemars::JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
) -> Row {
    let (input, output, ask) = (input::<A> as _, schema_for_output::<R> as _, ask::<A> as _);
    Row { name, title, description, effect, input, output, ask }
}

fn input<A: Arguments>() -> Arc<JsonObject> {
    schema_for_input::<A>().expect("arguments are an object")
}

impl Row {
    /// The tool as it is advertised.
    pub(crate) fn tool(&self) -> Tool {
        let (read_only, destructive, open_world) = match self.effect {
            Effect::Reads => (true, false, false),
            Effect::ReadsOutside => (true, false, true),
            Effect::AsksAPerson | Effect::Opens => (false, false, false),
            Effect::AsksToReplace => (false, true, false),
        };
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(!matches!(self.effect, Effect::Opens))
            .open_world(open_world);
        Tool::new(self.name, self.description, (self.input)())
            .with_title(self.title)
            .with_raw_output_schema((self.output)())
            .with_annotations(annotations)
    }
}
