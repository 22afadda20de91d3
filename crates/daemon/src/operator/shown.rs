//! A request as a person sees it, and what a person says to it.

use keyless_core::{
    ApproveOnUse, Destination, SecretPath,
    approval::{Asked, Decision, Field, Fields, Outcome, PackVerb, RequestId, Status},
};
use keyless_vault::{EnvName, KeptAt, Metadata, Providers, Secret, Upkeep};
use serde::{Deserialize, Serialize};

use super::{
    given::Given,
    lasting::{counted, lasting},
};

/// A request as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its name.
    pub id: RequestId,
    /// The secret that it is about, the first of an action's; a deploy is about none.
    pub path: Option<SecretPath>,
    /// What is asked, in the agent's words.
    pub asked: Asked,
    /// The session that asks.
    pub session: String,
    /// How it stands.
    pub status: Status,
    /// Seconds since it was made.
    pub age_seconds: u64,
    /// Seconds until it is too late to answer, or until an approval ends.
    pub seconds_left: u64,
    /// What the vault knows of the secret; nothing when it does not have it.
    pub known: Option<Known>,
    /// The pattern that it proposes, or that is declared of what a value is asked for, where nobody knows one of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_pattern: Option<UnknownPattern>,
    /// The further secrets that an action means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Named>,
    /// The further requests that the same word for a session has answered, where what holds is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<RequestId>,
}

impl Shown {
    /// For how long what was answered holds. How long a denial is remembered is not told to anybody who could wait for its
    /// end.
    pub fn left_in_words(&self) -> String {
        match self.status {
            Status::Denied => "10 min at most".to_owned(),
            _ => lasting(self.seconds_left),
        }
    }
}

/// A secret that a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its path.
    pub path: SecretPath,
    /// What the vault knows of it; nothing when it does not have it.
    pub known: Option<Known>,
}

/// A pattern that neither the catalog nor the operator's own patterns have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPattern {
    /// What it is called; the words of others.
    pub id: String,
    /// The one that may be meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
}

/// What is known of a field now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// As text.
    pub text: String,
    /// The party that says it.
    pub by: By,
}

/// The party that says what is known of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The project's manifest or the operator's index, as they were when it was asked. Whoever can edit the
    /// project can edit that manifest, so it is shown for what it is.
    Declaration,
    /// The vault.
    Vault,
}

/// What the vault knows of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What a proposal could change, as it is.
    pub fields: Fields,
    /// Where its value may go.
    pub to: Vec<Destination>,
    /// The variable that holds its placeholder.
    pub env: Option<EnvName>,
    /// Whether it has a value here.
    pub has_value: bool,
    /// When a person is asked before it is used, as it is in force.
    pub approve_on_use: ApproveOnUse,
    /// Where its value is looked for, if that is at a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_at: Option<KeptAt>,
}

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case")]
pub enum Answer {
    /// One use.
    AllowOnce,
    /// Every use until the session ends.
    AllowSession,
    /// The named ones of the proposed fields.
    Apply {
        /// The fields.
        fields: Vec<Field>,
    },
    /// Not now: it is closed without a word on it.
    Cancel,
    /// No, and don't ask the same again soon.
    Deny,
    /// The new path, under this name.
    Register {
        /// The name.
        path: SecretPath,
        /// The proposed fields that are taken over.
        fields: Vec<Field>,
    },
    /// The value, which travels beside the answer.
    Value(Given),
}

impl Shown {
    /// Every secret that it is about, with what the vault knows of it.
    pub fn secrets(&self) -> impl Iterator<Item = (&SecretPath, Option<&Known>)> {
        let first = self.path.iter().map(|path| (path, self.known.as_ref()));
        first.chain(self.others.iter().map(|named| (&named.path, named.known.as_ref())))
    }

    /// What is known of a field now: the vault's word, else what is declared. Nothing of what is asked.
    pub fn present(&self, field: Field) -> Option<Present> {
        let vaults = self.known.as_ref().and_then(|known| known.fields.text(field));
        let declared = || self.asked.declared().and_then(|fields| fields.text(field));
        let by = |by| move |text| Present { text, by };
        vaults.map(by(By::Vault)).or_else(|| declared().map(by(By::Declaration)))
    }

    /// How often a person is asked from now on, wherever the secret is used, since it is declared and the answer puts the
    /// secret, or its first value, in the store.
    pub fn kept_policy(&self) -> Option<ApproveOnUse> {
        let keeps = match self.asked {
            Asked::MetadataProposal { .. } | Asked::NewPathProposal { .. } => self.known.is_none(),
            Asked::Provision { .. } => true,
            _ => false,
        };
        Some(self.asked.policy()).filter(|policy| keeps && *policy != ApproveOnUse::Never)
    }

    /// What else is declared and stays with a secret that the answer puts in the store, unless the proposal says it anew.
    pub fn kept_fields(&self) -> Vec<(Field, String)> {
        let declared = self.asked.declared().filter(|_| self.known.is_none());
        let proposed = |field| self.asked.proposed().is_some_and(|new| new.text(field).is_some());
        let kept = |field| Some((field, declared?.text(field)?));
        let fields = [Field::ExpiresAt, Field::RotateEveryDays];
        fields.into_iter().filter(|field| !proposed(*field)).filter_map(kept).collect()
    }

    /// The kind of token that is declared, and that the vault knows nothing of: to choose a text for a person by, no more.
    pub fn declared_pattern(&self) -> Option<&str> {
        self.asked.declared()?.pattern_id.as_deref()
    }

    /// What it is about, in a few words: the secret, the agent's action, or the deploy. Partly the words of others.
    pub fn title(&self) -> String {
        match (&self.asked, &self.path) {
            (Asked::DeployApply { wanted }, _) => {
                format!("{} in {}", wanted.verb.as_str(), wanted.project)
            }
            (Asked::ActionApproval { wanted }, _) => {
                format!("{} of {}", wanted.action, wanted.agent)
            }
            (_, Some(path)) => path.to_string(),
            (_, None) => self.asked.kind().to_string(),
        }
    }

    /// How many requests the answer was for, where it was for several: `3 requests`.
    pub fn answers(&self) -> Option<String> {
        (!self.also.is_empty()).then(|| counted(1 + self.also.len(), "request"))
    }

    /// The time that is left to answer, counted down: `4:59`.
    pub fn clock(&self) -> String {
        format!("{}:{:02}", self.seconds_left / 60, self.seconds_left % 60)
    }

    /// What stands over its dialog.
    pub fn heading(&self) -> &'static str {
        match &self.asked {
            Asked::ActionApproval { .. } => "Allow an action",
            Asked::DeployApply { wanted } => match wanted.verb {
                PackVerb::Bootstrap => "Allow a bootstrap",
                PackVerb::Deploy => "Allow a deploy",
                PackVerb::Restore => "Allow a restore",
                PackVerb::Rollback => "Allow a rollback",
            },
            Asked::MetadataProposal { .. } => "Change what is known",
            // The store has it, for others than who asks.
            Asked::NewPathProposal { .. } if self.known.is_some() => "Let a session see a secret",
            Asked::NewPathProposal { .. } => "Register a path",
            Asked::Provision { .. } => "Provision secret",
            Asked::Rotation { .. } => "Rotate secret",
            Asked::UseApproval { .. } => "Allow a use",
        }
    }

    /// Whether it is allowed for one deed at a time, so that a word for the session would say nothing.
    pub fn is_one_deed(&self) -> bool {
        self.is_per_call() || self.asked.deed().is_some()
    }

    /// Whether a person is asked at every use: by the secret's own policy, or by the tighter one of the
    /// profile or the project that the request carries.
    pub fn is_per_call(&self) -> bool {
        let per_call = |known: &Known| known.approve_on_use == ApproveOnUse::PerCall;
        matches!(self.asked, Asked::UseApproval { per_call: true, .. })
            || self.secrets().any(|(_, known)| known.is_some_and(per_call))
    }
}

impl UnknownPattern {
    /// `id`, where it is unknown.
    pub(crate) fn of(id: &str, known: &Providers) -> Option<Self> {
        let near = || known.nearest(id).map(str::to_owned);
        known.variant(id).is_none().then(|| Self { id: id.to_owned(), near: near() })
    }

    /// What that means, as a sentence; partly the words of others.
    pub fn in_words(&self) -> String {
        let near = self.near.as_ref().map(|near| format!(" The nearest is {near}."));
        let near = near.unwrap_or_default();
        format!("No pattern is called {}: nothing is checked or known by it.{near}", self.id)
    }
}

impl Known {
    /// What is told of a secret, which is looked for there, and asked about as often as `floor` says at least.
    pub(crate) fn of(secret: Secret, kept_at: Option<KeptAt>, floor: ApproveOnUse) -> Self {
        let Metadata { egress, env, description, approve_on_use, upkeep, .. } = secret.metadata;
        let Upkeep { retrieval_url, rotate_every_days, expires_at, pattern_id, .. } = upkeep;
        Self {
            fields: Fields {
                description,
                retrieval_url,
                rotate_every_days,
                expires_at,
                pattern_id,
            },
            to: egress.map(|rule| rule.to).unwrap_or_default(),
            env,
            has_value: secret.version.is_some(),
            approve_on_use: approve_on_use.tightened_by(floor),
            kept_at,
        }
    }
}

impl Answer {
    /// A decision of the same sort, to see whether it fits.
    pub(super) fn probe(&self) -> Decision {
        match self {
            Self::AllowOnce => Decision::AllowOnce,
            Self::AllowSession => Decision::AllowSession,
            Self::Cancel => Decision::Cancel,
            Self::Deny => Decision::Deny,
            Self::Apply { .. } | Self::Register { .. } | Self::Value(_) => {
                Decision::Fulfil(Outcome::default())
            }
        }
    }
}
