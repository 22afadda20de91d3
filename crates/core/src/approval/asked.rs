//! What can be asked: seven kinds, each with what the agent has to say for it.
//!
//! Everything here is the agent's own words. They are checked for length and shape when they come
//! in, and made visible when they are shown; nothing of them is ever taken for a fact.

use std::{borrow::Cow, fmt};

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::deed::{WantedAction, WantedDeploy};
use crate::{ApproveOnUse, Code, Error, SafeText, is_invisible};

/// The longest reason, in characters: a person has to read it.
pub const MAX_REASON_CHARS: usize = 500;
/// The longest reason about one deed, in characters: the broker's words, with all that is to be done in them.
pub const MAX_DEED_REASON_CHARS: usize = 4000;
const MAX_DESCRIPTION_BYTES: usize = 1024;
const MAX_URL_BYTES: usize = 2048;
const MAX_PATTERN_BYTES: usize = 64;
const MAX_DAYS: u32 = 3650;

/// What is asked, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Asked {
    /// Let an action be done that a grant leaves to a person.
    ActionApproval {
        /// The action.
        wanted: Box<WantedAction>,
    },
    /// Let a plan of the pack be carried out.
    DeployApply {
        /// The plan.
        wanted: Box<WantedDeploy>,
    },
    /// Change what is known of a secret.
    MetadataProposal {
        /// To what; fields that are absent stay.
        fields: Fields,
        /// What manifest and index say of it; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "Fields::is_empty")]
        declared: Fields,
        /// How often manifest, index and store have a person asked; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "is_default")]
        policy: ApproveOnUse,
    },
    /// Register a path.
    NewPathProposal {
        /// What is known of it.
        fields: Fields,
        /// What manifest and index say of it; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "Fields::is_empty")]
        declared: Fields,
        /// How often manifest, index and store have a person asked; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "is_default")]
        policy: ApproveOnUse,
    },
    /// Give a secret its first value.
    Provision {
        /// What manifest and index say of it; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "Fields::is_empty")]
        declared: Fields,
        /// How often manifest, index and store have a person asked; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "is_default")]
        policy: ApproveOnUse,
    },
    /// Give a secret another value.
    Rotation {
        /// How often manifest, index and store have a person asked; the broker's word, never the agent's.
        #[serde(default, skip_serializing_if = "is_default")]
        policy: ApproveOnUse,
    },
    /// Let it be used.
    UseApproval {
        /// Why, in the agent's words or in ours.
        reason: String,
        /// The one thing that is allowed, if it is not every use: `DELETE api.github.com/repos/a/b`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deed: Option<String>,
        /// The policy in force asks at every use, so that a word for the session would say nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        per_call: bool,
        /// The use that waits for the answer, as [`Self::occasion_of`] has it; nothing where a session asks ahead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        occasion: Option<String>,
    },
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// [`Asked::ActionApproval`].
    ActionApproval,
    /// [`Asked::DeployApply`].
    DeployApply,
    /// [`Asked::MetadataProposal`].
    MetadataProposal,
    /// [`Asked::NewPathProposal`].
    NewPathProposal,
    /// [`Asked::Provision`].
    Provision,
    /// [`Asked::Rotation`].
    Rotation,
    /// [`Asked::UseApproval`].
    UseApproval,
}

/// What an agent may propose to be known of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fields {
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The page where its value is got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval_url: Option<String>,
    /// How often it is to be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_every_days: Option<u32>,
    /// The last day on which the value works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Date>,
    /// The catalog's pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_id: Option<String>,
}

/// One of [`Fields`], by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// [`Fields::description`].
    Description,
    /// [`Fields::expires_at`].
    ExpiresAt,
    /// [`Fields::pattern_id`].
    PatternId,
    /// [`Fields::retrieval_url`].
    RetrievalUrl,
    /// [`Fields::rotate_every_days`].
    RotateEveryDays,
}

impl Asked {
    /// A request for a first value, of which nothing is declared.
    pub fn provision() -> Self {
        Self::Provision { declared: Fields::default(), policy: ApproveOnUse::Never }
    }

    /// A request for another value, of a secret of which nothing is declared.
    pub fn rotation() -> Self {
        Self::Rotation { policy: ApproveOnUse::Never }
    }

    /// A proposal about a secret of which nothing is declared.
    pub fn metadata(fields: Fields) -> Self {
        let (declared, policy) = Default::default();
        Self::MetadataProposal { fields, declared, policy }
    }

    /// A proposal of a path of which nothing is declared.
    pub fn new_path(fields: Fields) -> Self {
        let (declared, policy) = Default::default();
        Self::NewPathProposal { fields, declared, policy }
    }

    /// Which kind it is.
    pub fn kind(&self) -> RequestKind {
        match self {
            Self::ActionApproval { .. } => RequestKind::ActionApproval,
            Self::DeployApply { .. } => RequestKind::DeployApply,
            Self::MetadataProposal { .. } => RequestKind::MetadataProposal,
            Self::NewPathProposal { .. } => RequestKind::NewPathProposal,
            Self::Provision { .. } => RequestKind::Provision,
            Self::Rotation { .. } => RequestKind::Rotation,
            Self::UseApproval { .. } => RequestKind::UseApproval,
        }
    }

    /// What manifest and index said of the secret when it was asked.
    pub fn declared(&self) -> Option<&Fields> {
        match self {
            Self::MetadataProposal { declared, .. }
            | Self::NewPathProposal { declared, .. }
            | Self::Provision { declared, .. } => Some(declared),
            _ => None,
        }
    }

    /// What the agent wants to be known of the secret.
    pub fn proposed(&self) -> Option<&Fields> {
        match self {
            Self::MetadataProposal { fields, .. } | Self::NewPathProposal { fields, .. } => {
                Some(fields)
            }
            _ => None,
        }
    }

    /// How often a person was to be asked for the secret when it was asked, whatever it is used for.
    pub fn policy(&self) -> ApproveOnUse {
        match self {
            Self::MetadataProposal { policy, .. }
            | Self::NewPathProposal { policy, .. }
            | Self::Provision { policy, .. }
            | Self::Rotation { policy } => *policy,
            Self::ActionApproval { .. } | Self::DeployApply { .. } | Self::UseApproval { .. } => {
                ApproveOnUse::Never
            }
        }
    }

    /// This request with `said`, the broker's word, in place of what the agent said is declared. Of that word it takes
    /// only the fields that an agent could propose as well.
    #[must_use]
    pub fn with_declared(mut self, said: &Fields, asks: ApproveOnUse) -> Self {
        match &mut self {
            Self::MetadataProposal { declared, policy, .. }
            | Self::NewPathProposal { declared, policy, .. }
            | Self::Provision { declared, policy } => {
                (*declared, *policy) = (said.fitting(), asks);
            }
            Self::Rotation { policy } => *policy = asks,
            Self::ActionApproval { .. } | Self::DeployApply { .. } | Self::UseApproval { .. } => {}
        }
        self
    }

    /// What is asked, in a word or two for people; of the pack's deeds, which.
    pub fn word(&self) -> &'static str {
        match self {
            Self::ActionApproval { .. } => "action",
            Self::DeployApply { wanted } => wanted.verb.as_str(),
            Self::MetadataProposal { .. } => "metadata",
            Self::NewPathProposal { .. } => "new path",
            Self::Provision { .. } => "value",
            Self::Rotation { .. } => "rotation",
            Self::UseApproval { .. } => "use",
        }
    }

    /// The one deed that is asked about, where it is one: an answer is good for this, whatever words come with it.
    pub fn deed(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::ActionApproval { wanted } => Some(Cow::Borrowed(wanted.sha256.as_str())),
            Self::DeployApply { wanted } => Some(Cow::Owned(wanted.digest())),
            Self::UseApproval { deed, .. } => deed.as_deref().map(Cow::Borrowed),
            _ => None,
        }
    }

    /// Whether a person allows or denies it; everything else they carry out.
    pub fn is_permission(&self) -> bool {
        matches!(
            self,
            Self::ActionApproval { .. } | Self::DeployApply { .. } | Self::UseApproval { .. }
        )
    }

    /// The word for what a permission is about: a secret is `used`, everything else is `done`.
    pub fn participle(&self) -> &'static str {
        if matches!(self, Self::UseApproval { .. }) { "used" } else { "done" }
    }

    /// Whether a no to this is a no to the other, about the same path: the same permission, another request for its value,
    /// the same proposal.
    pub fn is_denied_with(&self, other: &Self) -> bool {
        if self.is_permission() {
            return self.is_same_permission(other);
        }
        self.kind() == other.kind() && self.proposed() == other.proposed()
    }

    /// The use of a secret as such, for this reason.
    pub fn use_approval(reason: String) -> Self {
        Self::UseApproval { reason, deed: None, per_call: false, occasion: None }
    }

    /// Whether two requests ask for the same permission, whatever words they come with.
    pub fn is_same_permission(&self, other: &Self) -> bool {
        self.is_permission() && self.kind() == other.kind() && self.deed() == other.deed()
    }

    /// Whether a yes to this is a yes to the other: it goes as far as was shown, and no further.
    pub fn is_good_for(&self, other: &Self) -> bool {
        let is_as_shown = match (self, other) {
            (Self::ActionApproval { wanted: shown }, Self::ActionApproval { wanted }) => {
                shown.goes_as_far_as(wanted)
            }
            _ => true,
        };
        is_as_shown && self.is_same_permission(other)
    }

    /// Whether a yes for once to this is one to the other: to the use that it was shown for, where one was.
    pub fn is_good_once_for(&self, other: &Self) -> bool {
        let is_shown = match (self, other) {
            (
                Self::UseApproval { occasion: Some(shown), .. },
                Self::UseApproval { occasion, .. },
            ) => occasion.as_ref() == Some(shown),
            _ => true,
        };
        is_shown && self.is_good_for(other)
    }

    /// The occasion of a use that these words say in full: their SHA-256, in base 16.
    pub fn occasion_of(words: &str) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(words.as_bytes()))
    }

    /// Fails with [`Code::Usage`] on words that nobody should have to read or store.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |words| Err(Error::with(Code::Usage, SafeText::words(words)));
        match self {
            Self::MetadataProposal { fields, .. } if fields.is_empty() => {
                refuse("a proposal changes at least one field")
            }
            Self::MetadataProposal { fields, .. } | Self::NewPathProposal { fields, .. } => {
                fields.check()
            }
            Self::UseApproval { reason, .. } if !says_something(reason) => refuse(
                "a reason says why the secret is needed; it can't be empty, or of letters that nobody sees",
            ),
            Self::UseApproval { reason, deed: None, occasion: None, .. }
                if reason.chars().count() > MAX_REASON_CHARS =>
            {
                refuse("a reason has at most 500 characters")
            }
            Self::UseApproval { reason, .. } if reason.chars().count() > MAX_DEED_REASON_CHARS => {
                refuse("a reason about one deed has at most 4000 characters")
            }
            Self::ActionApproval { wanted }
                if wanted.text.chars().count() > MAX_DEED_REASON_CHARS =>
            {
                refuse("an action that a person is to allow has at most 4000 characters")
            }
            Self::DeployApply { wanted } if !wanted.is_readable() => refuse(
                "a plan that a person is to allow has a digest, files, and is not too long to be read",
            ),
            Self::ActionApproval { .. }
            | Self::DeployApply { .. }
            | Self::Provision { .. }
            | Self::Rotation { .. }
            | Self::UseApproval { .. } => Ok(()),
        }
    }
}

/// Whether a person sees anything of it.
fn says_something(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !c.is_control() && !is_invisible(c))
}

impl Fields {
    /// The fields that are there, in the order in which they are shown.
    pub fn present(&self) -> Vec<Field> {
        let there = |field: &Field| self.text(*field).is_some();
        Field::ALL.into_iter().filter(there).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those that could be proposed: a manifest is as little checked as an agent's words.
    fn fitting(&self) -> Self {
        let mut fitting = Self::default();
        for field in self.present() {
            let mut more = fitting.clone();
            more.take_over(self, field);
            if more.check().is_ok() {
                fitting = more;
            }
        }
        fitting
    }

    fn take_over(&mut self, from: &Self, field: Field) {
        match field {
            Field::Description => self.description.clone_from(&from.description),
            Field::ExpiresAt => self.expires_at = from.expires_at,
            Field::PatternId => self.pattern_id.clone_from(&from.pattern_id),
            Field::RetrievalUrl => self.retrieval_url.clone_from(&from.retrieval_url),
            Field::RotateEveryDays => self.rotate_every_days = from.rotate_every_days,
        }
    }

    /// A field as text.
    pub fn text(&self, field: Field) -> Option<String> {
        match field {
            Field::Description => self.description.clone(),
            Field::ExpiresAt => self.expires_at.map(|date| date.to_string()),
            Field::PatternId => self.pattern_id.clone(),
            Field::RetrievalUrl => self.retrieval_url.clone(),
            Field::RotateEveryDays => self.rotate_every_days.map(|days| days.to_string()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |words| Err(Error::with(Code::Usage, SafeText::words(words)));
        let long = |text: &Option<String>, most| text.as_ref().is_some_and(|t| t.len() > most);
        let control = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| text.chars().any(char::is_control))
        };
        let kebab = |text: &String| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !text.is_empty() && text.bytes().all(fits)
        };
        if long(&self.description, MAX_DESCRIPTION_BYTES) || control(&self.description) {
            return refuse("a description has at most 1024 bytes and no control characters");
        }
        if !self.retrieval_url.iter().all(|url| is_web_page(url)) {
            return refuse("retrieval_url is an https:// address of at most 2048 bytes");
        }
        if long(&self.pattern_id, MAX_PATTERN_BYTES) || !self.pattern_id.iter().all(kebab) {
            return refuse(
                "pattern_id has 1 to 64 characters of a-z, 0-9 and -; left out, it stays",
            );
        }
        if self.rotate_every_days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            return refuse("rotate_every_days is from 1 to 3650");
        }
        Ok(())
    }
}

/// Whether a person may follow this: an https address of at most 2,048 bytes, with nothing that a terminal or a page
/// would take otherwise.
pub fn is_web_page(url: &str) -> bool {
    if url.len() > MAX_URL_BYTES {
        return false;
    }
    let fine = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'`');
    url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(fine))
}

impl Field {
    /// Every field, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Description,
        Self::RetrievalUrl,
        Self::RotateEveryDays,
        Self::ExpiresAt,
        Self::PatternId,
    ];

    /// What it is called where people answer.
    pub fn title(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::ExpiresAt => "Last day",
            Self::PatternId => "Pattern",
            Self::RetrievalUrl => "Where to get it",
            Self::RotateEveryDays => "Renewal, in days",
        }
    }

    /// The name in requests and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::ExpiresAt => "expires_at",
            Self::PatternId => "pattern_id",
            Self::RetrievalUrl => "retrieval_url",
            Self::RotateEveryDays => "rotate_every_days",
        }
    }

    /// Reads a name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == word)
    }
}

impl RequestKind {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActionApproval => "action-approval",
            Self::DeployApply => "deploy-apply",
            Self::MetadataProposal => "metadata-proposal",
            Self::NewPathProposal => "new-path-proposal",
            Self::Provision => "provision",
            Self::Rotation { .. } => "rotation",
            Self::UseApproval => "use-approval",
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A code as its stable word.
pub(super) mod code_word {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::Code;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
    pub(crate) fn serialize<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(code.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Code, D::Error> {
        let word = String::deserialize(from)?;
        let known = Code::ALL.iter().copied().find(|code| code.as_str() == word);
        known.ok_or_else(|| D::Error::custom("an unknown code"))
    }
}
