//! Scope grants: which agent may do what with which secrets, when and under which conditions (NL chapter 8).
//!
//! [`evaluate`] is pure and monotone: taking a grant away never allows more. It looks at what the broker knows of a
//! secret and of the agent's surroundings, never at what the agent says of them (C-09, C-10). Counting uses is the
//! store's. Source: spec/nl-protocol-level2.md, section 8; reference/nl.md, section 2.6.

mod conditions;
mod evaluate;
mod explain;
mod index;
mod pattern;
mod verdict;

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::conditions::may_be_environment;
pub use self::{
    conditions::{Conditions, IpRange},
    evaluate::{Counts, Request, evaluate},
    explain::{Explained, Lack, explain},
    index::GrantIndex,
    pattern::{Categories, Forms, PatternError, SecretPattern, Subject},
    verdict::{Allowance, Denial, DenyReason, Needed, Verdict},
};
use crate::{
    action::{ActionType, UnknownActionType},
    agent::{AgentUri, InstanceId, TrustLevel},
    json_object::{in_milliseconds, object, objects},
    nl_message::Profile,
};

/// A permission of an agent, in NL's field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The schema that it names, if any.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Its name.
    pub grant_id: GrantId,
    /// Always `1.0`.
    #[serde(default = "version")]
    pub nl_version: String,
    /// The software that it is for.
    pub agent_uri: AgentUri,
    /// One instance of it; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// The organization that issued it.
    pub organization_id: String,
    /// Which person, or what, made it.
    #[serde(deserialize_with = "object")]
    pub granted_by: GrantedBy,
    /// What it permits: each on its own.
    #[serde(deserialize_with = "objects")]
    pub permissions: Vec<Permission>,
    /// Whether it can be taken back.
    #[serde(default = "yes")]
    pub revocable: bool,
    /// Whether it was.
    #[serde(default)]
    pub revoked: bool,
}

/// Some actions on some secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permission {
    /// Which actions.
    pub action_types: Vec<GrantedAction>,
    /// Which secrets.
    pub secrets: Vec<SecretPattern>,
    /// When and where.
    #[serde(deserialize_with = "object")]
    pub conditions: Conditions,
}

/// An action's type, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GrantedAction {
    /// `*`
    Any,
    /// Actions of one type.
    Type(ActionType),
}

/// The person or the system that made a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedBy {
    /// `human` or `system`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of that person or system.
    pub identifier: String,
    /// When the grant was made.
    pub granted_at: Timestamp,
}

/// A grant's name: up to 128 printable characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GrantId(String);

/// One permission of one grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PermissionRef {
    /// The grant.
    pub grant: GrantId,
    /// Which of its permissions, from 0.
    pub index: u32,
}

/// Where a grant stands at some time (section 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantState {
    /// It permits something.
    Active,
    /// All its uses were had.
    Exhausted,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It was taken back.
    Revoked,
}

impl Grant {
    /// Takes a grant from elsewhere: gives it as it is meant here, and whether a `0` meant no limit.
    #[must_use]
    pub fn under(mut self, profile: Profile) -> (Self, bool) {
        let mut unlimited = false;
        if profile == Profile::Seed {
            for permission in &mut self.permissions {
                let uses = &mut permission.conditions.max_uses;
                unlimited |= *uses == Some(0);
                *uses = uses.filter(|most| *most > 0);
            }
        }
        (self, unlimited)
    }

    /// What makes it unusable, or never permits anything from `now` on, as names of fields, with what to write there where
    /// that is not plain; none when it is sound.
    pub fn faults(&self, now: Timestamp) -> Vec<&'static str> {
        let named = |fails: bool, field| fails.then_some(field);
        let any = |fails: fn(&Permission) -> bool| self.permissions.iter().any(fails);
        [
            named(self.nl_version != version(), "nl_version (it is \"1.0\")"),
            named(
                self.organization_id.is_empty(),
                "organization_id (say whose agents these are, such as \"local\")",
            ),
            named(
                self.granted_by.identifier.is_empty(),
                "granted_by.identifier (say who grants this)",
            ),
            named(
                !matches!(self.granted_by.kind.as_str(), "human" | "system"),
                "granted_by.type (it is \"human\" or \"system\")",
            ),
            named(self.permissions.is_empty(), "permissions (give one at least)"),
            // What leaves by the egress door is not asked of grants.
            named(
                any(|one| {
                    one.action_types.is_empty()
                        || one.action_types.contains(&GrantedAction::Type(ActionType::Egress))
                }),
                "permissions.action_types (give one at least of exec, template, inject_stdin, inject_tempfile, sdk_proxy, delegate, or \"*\")",
            ),
            named(
                any(|one| one.secrets.is_empty()),
                "permissions.secrets (give one pattern at least, such as \"api/*\")",
            ),
            named(
                any(|one| one.conditions.valid_until < one.conditions.valid_from),
                "permissions.conditions.valid_until (it lies before valid_from)",
            ),
            named(
                self.permissions.iter().any(|one| {
                    let is = &one.conditions;
                    is.valid_from <= is.valid_until && is.valid_until < now
                }),
                "permissions.conditions.valid_until (it is over already: give a later time)",
            ),
            // NL-1.8: it needs a certification that nobody issues.
            named(
                any(|one| one.conditions.min_trust_level == Some(TrustLevel::L3)),
                "permissions.conditions.min_trust_level (no agent has L3: give L2, or less)",
            ),
            named(
                any(|one| one.conditions.allowed_environments.as_ref().is_some_and(Vec::is_empty)),
                "permissions.conditions.allowed_environments (none would be left: name one, or leave it away for any)",
            ),
            named(
                any(|one| {
                    let mut allowed = one.conditions.allowed_environments.iter().flatten();
                    allowed.any(|name| !may_be_environment(name))
                }),
                "permissions.conditions.allowed_environments (no environment has such a name: letters, digits and single hyphens, as in a path's second segment)",
            ),
            named(
                any(|one| one.conditions.allowed_ip_ranges.as_ref().is_some_and(Vec::is_empty)),
                "permissions.conditions.allowed_ip_ranges (none would be left: name one, or leave it away for any)",
            ),
            named(
                any(|one| {
                    let mut ranges = one.conditions.allowed_ip_ranges.iter().flatten();
                    ranges.any(IpRange::is_beyond_ipv4)
                }),
                "permissions.conditions.allowed_ip_ranges (a range of IPv4 is written as such: 10.0.0.0/8)",
            ),
            named(
                any(|one| one.conditions.max_concurrent == Some(0)),
                "permissions.conditions.max_concurrent (give 1 or more, or leave it away for no limit)",
            ),
            named(
                any(|one| one.conditions.max_per_minute == Some(0)),
                "permissions.conditions.max_per_minute (give 1 or more, or leave it away for no limit)",
            ),
            named(self.revoked, "revoked (a grant that is revoked permits nothing: leave it away)"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The grant as it is shown: with times of milliseconds (chapter 08, 3.6). What is sealed is the object as it is.
    pub fn as_message(&self) -> Value {
        let mut times = vec!["/granted_by/granted_at".to_owned()];
        for number in 0..self.permissions.len() {
            times.extend(
                ["valid_from", "valid_until"]
                    .map(|field| format!("/permissions/{number}/conditions/{field}")),
            );
        }
        let times: Vec<&str> = times.iter().map(String::as_str).collect();
        in_milliseconds(serde_json::to_value(self).unwrap_or_default(), &times)
    }

    /// Where it stands: the best of its permissions counts.
    pub fn state(&self, counts: &dyn Counts, now: Timestamp) -> GrantState {
        if self.revoked {
            return GrantState::Revoked;
        }
        let each = self.permission_refs().map(|(at, permission)| {
            let conditions = &permission.conditions;
            if now < conditions.valid_from {
                GrantState::NotYetValid
            } else if !conditions.is_in_time(now) {
                GrantState::Expired
            } else if conditions.max_uses.is_some_and(|most| counts.uses(&at) >= most) {
                GrantState::Exhausted
            } else {
                GrantState::Active
            }
        });
        each.min_by_key(|state| match state {
            GrantState::Active => 0,
            GrantState::NotYetValid => 1,
            GrantState::Exhausted => 2,
            GrantState::Expired | GrantState::Revoked => 3,
        })
        .unwrap_or(GrantState::Expired)
    }

    /// Its permissions with their names.
    pub fn permission_refs(&self) -> impl Iterator<Item = (PermissionRef, &Permission)> {
        (0..).zip(&self.permissions).map(|(index, permission)| {
            (PermissionRef { grant: self.grant_id.clone(), index }, permission)
        })
    }
}

impl GrantState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
        }
    }
}

impl GrantedAction {
    /// Whether it names this type.
    pub fn names(self, action: ActionType) -> bool {
        match self {
            Self::Any => true,
            Self::Type(named) => named == action,
        }
    }
}

impl FromStr for GrantedAction {
    type Err = UnknownActionType;

    fn from_str(text: &str) -> Result<Self, UnknownActionType> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let named = ActionType::ALL.into_iter().find(|action| action.as_str() == text);
        named.map(Self::Type).ok_or(UnknownActionType)
    }
}

impl TryFrom<String> for GrantedAction {
    type Error = UnknownActionType;

    fn try_from(text: String) -> Result<Self, UnknownActionType> {
        text.parse()
    }
}

impl From<GrantedAction> for String {
    fn from(action: GrantedAction) -> Self {
        match action {
            GrantedAction::Any => "*".to_owned(),
            GrantedAction::Type(action) => action.as_str().to_owned(),
        }
    }
}

impl GrantId {
    /// Parses one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= 128;
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for GrantId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a grant's name has 1 to 128 printable characters")
    }
}

impl From<GrantId> for String {
    fn from(id: GrantId) -> Self {
        id.0
    }
}

fn version() -> String {
    "1.0".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
