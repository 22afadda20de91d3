//! What keeps a secret fresh: when it ends, how it is renewed, where its owner gets the next one.
//!
//! Advice for people and agents, never a right: nothing here decides whether a value is released.
//! The names are those of the index and the manifest. Source: reference/secrets.md, section 2.1.

use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::providers::{NO_FORMAT, compile};

/// How many days before its end a secret counts as expiring.
pub const EXPIRING_DAYS: i32 = 14;

/// Everything that is known of a secret's renewal. All of it may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upkeep {
    /// The page where the next value is got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval_url: Option<String>,
    /// What a value looks like, as an anchored regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_regex: Option<String>,
    /// The catalog's pattern, which says the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_id: Option<String>,
    /// The last day on which the value works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Date>,
    /// The day of the last renewal, for values that are kept elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_rotated_at: Option<Date>,
    /// How often it is to be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_every_days: Option<u32>,
    /// Whether a person or a program renews it, and where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_method: Option<RotationMethod>,
    /// What the value should be allowed to do at its service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
    /// The longest that a fetched value may be kept in memory, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_ttl_seconds_max: Option<u64>,
}

/// Whether a person or a program renews a secret, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RotationMethod {
    /// A person, by hand.
    #[default]
    Manual,
    /// A program, through the provider's interface for programs.
    ProviderApi,
    /// A person, on the provider's page.
    ProviderUi,
}

/// How long a secret still works, by its date alone: nobody asks the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// The date has passed.
    Expired,
    /// [`EXPIRING_DAYS`] or fewer to go.
    Expiring,
    /// No date, or a later one.
    Registered,
}

impl Upkeep {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How fresh the secret is on the day `today`.
    pub fn freshness(&self, today: Date) -> Freshness {
        let Some(expires) = self.expires_at else { return Freshness::Registered };
        match (expires - today).get_days() {
            ..0 => Freshness::Expired,
            0..=EXPIRING_DAYS => Freshness::Expiring,
            _ => Freshness::Registered,
        }
    }

    /// What is wrong with the rule about what a value looks like, as a fragment of a sentence.
    pub fn format_fault(&self) -> Option<&'static str> {
        let rule = self.format_regex.as_deref()?;
        compile(rule).is_err().then_some(NO_FORMAT)
    }

    /// `read`, or `read,rotate` where the provider helps with the renewal.
    pub fn capabilities_hint(&self) -> &'static str {
        match self.rotation_method.unwrap_or_default() {
            RotationMethod::Manual => "read",
            RotationMethod::ProviderApi | RotationMethod::ProviderUi => "read,rotate",
        }
    }

    /// What stands in `self`, and for the rest what stands in `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            retrieval_url: self.retrieval_url.or_else(|| other.retrieval_url.clone()),
            format_regex: self.format_regex.or_else(|| other.format_regex.clone()),
            pattern_id: self.pattern_id.or_else(|| other.pattern_id.clone()),
            expires_at: self.expires_at.or(other.expires_at),
            last_rotated_at: self.last_rotated_at.or(other.last_rotated_at),
            rotate_every_days: self.rotate_every_days.or(other.rotate_every_days),
            rotation_method: self.rotation_method.or(other.rotation_method),
            required_scopes: if self.required_scopes.is_empty() {
                other.required_scopes.clone()
            } else {
                self.required_scopes
            },
            cache_ttl_seconds_max: self.cache_ttl_seconds_max.or(other.cache_ttl_seconds_max),
        }
    }
}

impl RotationMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Manual, Self::ProviderApi, Self::ProviderUi];

    /// The word in manifests and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::ProviderApi => "provider-api",
            Self::ProviderUi => "provider-ui",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == word)
    }
}

impl Freshness {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Expiring => "expiring",
            Self::Registered => "registered",
        }
    }
}

impl fmt::Display for RotationMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn freshness_goes_by_days() {
        let today = date(2026, 5, 9);
        let until = |expires| Upkeep { expires_at: Some(expires), ..Upkeep::default() };
        let cases = [
            (date(2026, 5, 8), Freshness::Expired),
            (date(2026, 5, 9), Freshness::Expiring),
            (date(2026, 5, 23), Freshness::Expiring),
            (date(2026, 5, 24), Freshness::Registered),
            (date(2027, 5, 10), Freshness::Registered),
            (date(2025, 5, 10), Freshness::Expired),
        ];
        for (expires, expected) in cases {
            assert_eq!(until(expires).freshness(today), expected, "{expires}");
        }
        assert_eq!(Upkeep::default().freshness(today), Freshness::Registered);
    }

    #[test]
    fn a_provider_that_helps_is_told() {
        let with = |method| Upkeep { rotation_method: Some(method), ..Upkeep::default() };
        assert_eq!(with(RotationMethod::Manual).capabilities_hint(), "read");
        assert_eq!(with(RotationMethod::ProviderUi).capabilities_hint(), "read,rotate");
        assert_eq!(Upkeep::default().capabilities_hint(), "read");
    }
}
