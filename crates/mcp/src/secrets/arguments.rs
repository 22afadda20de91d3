//! Arguments as agents write them: described for schemas, checked, and turned into questions.
//!
//! Keys that are not known are tolerated, as the spec asks of both sides.

use jiff::civil::Date;
use keyless_core::{
    Code, Error, SafeText, SecretPath,
    approval::{Asked, Fields, RequestId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use super::{Ask, Freshness};

/// Arguments that make a question.
pub(super) trait Arguments: DeserializeOwned + JsonSchema + 'static {
    fn into_ask(self) -> Result<Ask, Error>;
}

/// Reads the arguments of a tool.
pub(super) fn ask<A: Arguments>(arguments: Value) -> Result<Ask, Error> {
    let read: A = serde_json::from_value(arguments).map_err(|error| {
        let words = SafeText::words("the arguments: ").as_they_wrote(&error.to_string());
        Error::with(Code::Usage, words)
    })?;
    read.into_ask()
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
pub(super) struct List {
    /// Only paths that contain this text.
    path_contains: Option<String>,
    /// Only paths whose first segment is this, such as `team` or `personal`.
    scope: Option<String>,
    /// Only secrets with this status.
    status: Option<Freshness>,
    /// Whether Keyless's own paths (`__sys/...`) are listed too; they are none of an agent's, so this changes nothing.
    #[serde(default)]
    #[expect(dead_code, reason = "there is no such path to show")]
    include_internal: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OnePath {
    /// The secret, as project/category/name.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Provision {
    /// The secret, as project/category/name.
    path: String,
    /// `provision` for the first value, `rotation` to replace the one that is there.
    #[serde(default)]
    mode: Mode,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Provision,
    Rotation,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Rotation {
    /// The secret, as project/category/name.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProposeMetadata {
    /// The secret, as project/category/name.
    path: String,
    /// What is proposed to change; what is left out stays.
    fields: Proposal,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProposeNewPath {
    /// The name that you suggest, as project/category/name; the person may choose another.
    suggested_path: String,
    /// What you know of it.
    #[serde(default)]
    metadata: Proposal,
}

/// What can be proposed to be known of a secret.
#[derive(Default, Deserialize, JsonSchema)]
struct Proposal {
    /// What it is for, in one line.
    description: Option<String>,
    /// The https:// page where its owner gets the value.
    retrieval_url: Option<String>,
    /// How often it is to be rotated, 1 to 3650.
    rotate_every_days: Option<u32>,
    /// The last day on which it works, `YYYY-MM-DD`.
    #[serde(default, deserialize_with = "day")]
    #[schemars(with = "Option<String>")]
    expires_at: Option<Date>,
    /// The token catalog's pattern.
    pattern_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UseApproval {
    /// The secret, as project/category/name.
    path: String,
    /// Why you need it, in words for the person; shown as plain text.
    reason: String,
    /// How long the request may wait, in seconds; never more than 300.
    ttl_seconds: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Poll {
    /// The id that a request gave you, `prov-` and 12 hexadecimal digits.
    request_id: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Unlock {
    /// The six digits of the person's authenticator. Never a passphrase.
    totp: String,
    /// For how long, in seconds; may be cut to what the person has set.
    duration_seconds: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Validate {
    /// The secret, as project/category/name.
    path: String,
    /// Whether its service is asked too.
    #[serde(default)]
    liveness: bool,
}

impl Arguments for Nothing {
    fn into_ask(self) -> Result<Ask, Error> {
        Ok(Ask::Status)
    }
}

impl Arguments for List {
    fn into_ask(self) -> Result<Ask, Error> {
        let Self { path_contains, scope, status: freshness, .. } = self;
        Ok(Ask::List { path_contains, scope, freshness })
    }
}

impl Arguments for OnePath {
    fn into_ask(self) -> Result<Ask, Error> {
        Ok(Ask::Describe { path: path(&self.path)? })
    }
}

impl Arguments for Provision {
    fn into_ask(self) -> Result<Ask, Error> {
        let asked = match self.mode {
            Mode::Provision => Asked::provision(),
            Mode::Rotation => Asked::rotation(),
        };
        request(&self.path, asked, None)
    }
}

impl Arguments for Rotation {
    fn into_ask(self) -> Result<Ask, Error> {
        request(&self.path, Asked::rotation(), None)
    }
}

impl Arguments for ProposeMetadata {
    fn into_ask(self) -> Result<Ask, Error> {
        request(&self.path, Asked::metadata(self.fields.into()), None)
    }
}

impl Arguments for ProposeNewPath {
    fn into_ask(self) -> Result<Ask, Error> {
        let fields = self.metadata.into();
        request(&self.suggested_path, Asked::new_path(fields), None)
    }
}

impl Arguments for UseApproval {
    fn into_ask(self) -> Result<Ask, Error> {
        let asked = Asked::use_approval(self.reason);
        request(&self.path, asked, self.ttl_seconds)
    }
}

impl Arguments for Poll {
    fn into_ask(self) -> Result<Ask, Error> {
        let unknown = || {
            let words = SafeText::words("unknown request_id: ").as_they_wrote(&self.request_id);
            Error::with(Code::RequestNotFound, words)
        };
        Ok(Ask::Poll { request_id: RequestId::parse(&self.request_id).ok_or_else(unknown)? })
    }
}

impl Arguments for Unlock {
    fn into_ask(self) -> Result<Ask, Error> {
        Ok(Ask::Unlock { totp: self.totp, duration_seconds: self.duration_seconds })
    }
}

impl Arguments for Validate {
    fn into_ask(self) -> Result<Ask, Error> {
        Ok(Ask::Validate { path: path(&self.path)?, liveness: self.liveness })
    }
}

impl From<Proposal> for Fields {
    fn from(proposal: Proposal) -> Self {
        let Proposal { description, retrieval_url, rotate_every_days, expires_at, pattern_id } =
            proposal;
        Self { description, retrieval_url, rotate_every_days, expires_at, pattern_id }
    }
}

/// The words are checked here already, so that they need not travel.
fn request(about: &str, asked: Asked, ttl_seconds: Option<u32>) -> Result<Ask, Error> {
    let path = path(about)?;
    asked.check()?;
    Ok(Ask::Request { path, asked, ttl_seconds })
}

fn path(text: &str) -> Result<SecretPath, Error> {
    SecretPath::parse(text)
        .map_err(|error| Error::with(Code::PathInvalid, SafeText::default().and(error)))
}

fn day<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Date>, D::Error> {
    let fault = |_| serde::de::Error::custom("expires_at is a day such as 2027-01-31");
    let text: Option<String> = Option::deserialize(from)?;
    text.map(|text| text.parse().map_err(fault)).transpose()
}
