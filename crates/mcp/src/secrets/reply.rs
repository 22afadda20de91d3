//! What the tools answer: exactly the shapes of spec/secrets-through-mcp.md.

use jiff::civil::Date;
use keyless_core::{
    ApproveOnUse, SecretPath,
    approval::{Field, RequestId, RequestKind},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Freshness;
use crate::{
    fault::Fault,
    told::{Words, reply, told},
};

/// The version of these shapes: minor for additions, major for removals and other meanings.
pub const SURFACE_VERSION: &str = "1.0";

reply! {
    /// A secret as it stands in the list.
    pub struct Listed {
        /// Its path.
        #[schemars(with = "String")]
        pub path: SecretPath,
        /// Computed from `expires_at` alone; nobody asks the service.
        pub status: Freshness,
        /// The last day on which it works, `YYYY-MM-DD`.
        #[schemars(with = "Option<String>")]
        pub expires_at: Option<Date>,
        /// Reserved; null.
        pub source_name: Option<Words>,
        /// `read`, or `read,rotate` where the provider helps with the rotation.
        pub capabilities_hint: Words,
        /// When a person is asked before it is used; absent when never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Asking>")]
        pub approve_on_use: Option<ApproveOnUse>,
    }
}

reply! {
    /// The way to the page where a person answers, for a client that shows it; no tool replies with it.
    pub struct Page {
        /// Good for one visit, and for nothing there without the operator's factor; absent where no page is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub url: Option<Words>,
    }
}

reply! {
    /// The list, as an object.
    pub struct ListedSecrets {
        /// Sorted by path.
        pub secrets: Vec<Listed>,
    }
}

reply! {
    /// Everything that an agent may know of a secret.
    pub struct Described {
        /// Its path.
        #[schemars(with = "String")]
        pub path: SecretPath,
        /// Computed from `expires_at` alone; nobody asks the service.
        pub status: Freshness,
        /// The last day on which it works, `YYYY-MM-DD`.
        #[schemars(with = "Option<String>")]
        pub expires_at: Option<Date>,
        /// Reserved; null.
        pub source_name: Option<Words>,
        /// `read`, or `read,rotate` where the provider helps with the rotation.
        pub capabilities_hint: Words,
        /// What it is for.
        pub description: Option<Words>,
        /// The page where its owner gets the value.
        pub retrieval_url: Option<Words>,
        /// `manual`, `provider-ui` or `provider-api`.
        pub rotation_method: Words,
        /// The day of the last rotation.
        #[schemars(with = "Option<String>")]
        pub last_rotated_at: Option<Date>,
        /// How often it is to be rotated.
        pub rotate_every_days: Option<u32>,
        /// The token catalog's pattern.
        pub pattern_id: Option<Words>,
        /// False where the catalog knows no pattern of that name, so that nothing is checked by it; else absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pattern_known: Option<bool>,
        /// When a person is asked before it is used; absent when never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Asking>")]
        pub approve_on_use: Option<ApproveOnUse>,
    }
}

reply! {
    /// The name of a request that was made.
    pub struct Requested {
        /// Poll it with secrets_poll_status.
        #[schemars(with = "String", regex(pattern = r"^prov-[0-9a-f]{12}$"))]
        pub request_id: RequestId,
    }
}

reply! {
    /// How a request stands.
    pub struct Polled {
        /// The request.
        #[schemars(with = "String", regex(pattern = r"^prov-[0-9a-f]{12}$"))]
        pub request_id: RequestId,
        /// The path that it is about.
        #[schemars(with = "String")]
        pub path: SecretPath,
        /// What was asked.
        #[schemars(with = "Kind")]
        pub kind: RequestKind,
        /// How it stands.
        pub status: PollStatus,
        /// Seconds since it was made.
        pub age_seconds: u64,
        /// What a person made of it, once it is `ok`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub outcome: Option<Outcome>,
    }
}

reply! {
    /// A status and its reason.
    pub struct PollStatus {
        /// The status; take one that you don't know for `failed`.
        pub kind: StatusKind,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<Words>,
    }
}

reply! {
    /// What was applied of a proposal.
    pub struct Outcome {
        /// The fields that were taken over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Vec<String>>")]
        pub applied_fields: Option<Vec<Field>>,
        /// The name that the new path got.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub final_path: Option<SecretPath>,
    }
}

reply! {
    /// How the broker is.
    pub struct Status {
        /// Whether values can be used.
        pub state: State,
        /// Seconds until the vault locks itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub expires_in_seconds: Option<u64>,
        /// How the vault can be opened again.
        pub available_methods: Vec<UnlockMethod>,
        /// How the broker stands to whoever asks.
        pub trust_level: TrustLevel,
        /// The version of these tools' shapes.
        pub surface_version: Words,
    }
}

reply! {
    /// That the vault is open, by the code or already.
    pub struct Unlocked {
        /// Whether it is open.
        pub unlocked: bool,
        /// Seconds until the vault locks itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub granted_seconds: Option<u64>,
    }
}

reply! {
    /// Whether a value is there and looks right.
    pub struct Validated {
        /// Whose.
        #[schemars(with = "String")]
        pub path: SecretPath,
        /// Whether the value has its format, as its owner or the catalog has it.
        pub format: Format,
        /// Whether its service takes it; absent when that was not asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub liveness: Option<Liveness>,
        /// The last day on which it works.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        pub expires_at: Option<Date>,
        /// What to do, and who can; absent where nothing is amiss.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub remediation: Option<Remedy>,
    }
}

reply! {
    /// What to do about a value that is no good.
    pub struct Remedy {
        /// `agent` or `user`.
        pub actor: Words,
        /// The next step as a word.
        pub action: Words,
        /// A sentence for the person.
        pub user_message: Words,
        /// Whether the same call may have another answer without a change.
        pub retryable: bool,
    }
}

impl Remedy {
    /// Of a value that its service, or its format, refuses.
    pub fn another_value() -> Self {
        Self {
            actor: "user".into(),
            action: "ask_user_to_rotate".into(),
            user_message: "The value is refused. Next: give the secret another one; \
                           secrets_request_rotation asks for it."
                .into(),
            retryable: false,
        }
    }
}

macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $word,)* }
        told!($name);
    };
}

words! {
    /// The statuses of requests.
    #[serde(rename_all = "lowercase")]
    pub enum StatusKind {
        /// The person closed it without saving.
        Cancelled,
        /// The use was refused; do not ask again by yourself.
        Denied,
        /// Nobody answered in time.
        Expired,
        /// It could not be carried out.
        Failed,
        /// Done.
        Ok,
        /// One use is allowed.
        Once,
        /// Nobody has answered yet.
        Pending,
        /// Uses are allowed for the rest of the session.
        Session,
    }
}

words! {
    /// Whether values can be used.
    #[serde(rename_all = "lowercase")]
    pub enum State {
        /// The vault is locked.
        Locked,
        /// The vault is open.
        Unlocked,
    }
}

words! {
    /// What opens a vault.
    #[serde(rename_all = "lowercase")]
    pub enum UnlockMethod {
        /// A key file, on the person's machine.
        Keyfile,
        /// The passphrase, at the person's terminal.
        Passphrase,
        /// The recovery phrase, at the person's terminal.
        Recovery,
        /// A code of half a minute, which an agent may pass on.
        Totp,
    }
}

words! {
    /// How the broker stands to whoever asks.
    #[serde(rename_all = "snake_case")]
    pub enum TrustLevel {
        /// It was started by the agent, which could have put another in its place.
        AgentParented,
        /// It runs by itself, under the same user.
        Independent,
        /// It runs under another user.
        SeparateUid,
    }
}

words! {
    /// Whether a value has its format.
    #[serde(rename_all = "lowercase")]
    pub enum Format {
        /// It has not.
        Invalid,
        /// It has.
        Ok,
        /// No rule is known.
        Unknown,
    }
}

words! {
    /// Whether a service takes a value.
    #[serde(rename_all = "lowercase")]
    pub enum Liveness {
        /// It refused it.
        Invalid,
        /// It took it.
        Ok,
        /// It could not be asked.
        Unreachable,
        /// No way to ask is known.
        Unsupported,
    }
}

/// The schema of [`ApproveOnUse`] where it is told.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "a schema")]
enum Asking {
    Session,
    PerCall,
}

/// The schema of [`RequestKind`].
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "a schema")]
enum Kind {
    MetadataProposal,
    NewPathProposal,
    Provision,
    Rotation,
    UseApproval,
}

impl From<&Fault> for PollStatus {
    /// A request that failed, with the sentence of why.
    fn from(fault: &Fault) -> Self {
        let reason = keyless_core::SafeText::default().as_they_wrote_in_full(&fault.message);
        Self { kind: StatusKind::Failed, reason: Some(reason.into()) }
    }
}

impl From<StatusKind> for PollStatus {
    fn from(kind: StatusKind) -> Self {
        Self { kind, reason: None }
    }
}
