//! The inventory: what fits a search, and how each secret stands today. Never a value.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use keyless_core::{ApproveOnUse, Error};
use keyless_store::LatestUse;
use keyless_vault::{Freshness, KeptAt, Secret};

use super::Overview;

/// Which secrets are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsWanted {
    /// Secrets with this in their path, a host or their variable, whatever its case.
    pub text: String,
    /// Secrets in this state.
    pub state: Option<SecretState>,
}

/// What fits.
#[derive(Clone, Debug)]
pub struct SecretsView {
    /// By path.
    pub rows: Vec<SecretRow>,
    /// How many there are, fitting or not.
    pub total: usize,
}

/// A secret, as it stands today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// What is known of it.
    pub secret: Secret,
    /// How it stands.
    pub state: SecretState,
    /// When a person is asked before it is used, as it is in force: the profile may ask more often than its own policy.
    pub asks: ApproveOnUse,
    /// Where its value is looked for, if that is at a source and whoever asks knows the sources.
    pub kept_at: Option<KeptAt>,
}

/// How a secret stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// Somebody else may know its value, which nobody is given any more.
    Compromised,
    /// Its last day is over.
    Expired,
    /// Its last day is near.
    Expiring,
    /// It is kept here and was never given a value.
    Missing,
    /// It can be used.
    Registered,
}

impl Overview {
    /// Which session used which secret lately, the latest first.
    pub async fn latest_uses(&self) -> Result<Vec<LatestUse>, Error> {
        self.log.flush().await?;
        Ok(self.vault.store().latest_uses().await?)
    }

    /// The secrets that fit.
    pub async fn secrets(&self, wanted: &SecretsWanted) -> Result<SecretsView, Error> {
        let all = self.vault.list().await?;
        let total = all.len();
        let rows = all.iter().cloned().map(|secret| {
            let kept_at = self.vault.kept_at(&secret);
            SecretRow { kept_at, ..SecretRow::today(secret, self.floor) }
        });
        Ok(SecretsView { rows: rows.filter(|row| wanted.fits(row)).collect(), total })
    }
}

impl SecretsWanted {
    fn fits(&self, row: &SecretRow) -> bool {
        let text = self.text.to_lowercase();
        let metadata = &row.secret.metadata;
        let mut to = metadata.egress.iter().flat_map(|rule| &rule.to).map(ToString::to_string);
        let env = metadata.env.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_named = row.secret.path.as_str().contains(&text)
            || to.any(|to| to.contains(&text))
            || env.to_lowercase().contains(&text);
        is_named && self.state.is_none_or(|state| state == row.state)
    }
}

impl SecretRow {
    /// A secret as it stands today, where `floor` says how often each is asked about at least.
    pub fn today(secret: Secret, floor: ApproveOnUse) -> Self {
        Self::on(Timestamp::now().to_zoned(TimeZone::UTC).date(), secret, floor)
    }

    fn on(today: Date, secret: Secret, floor: ApproveOnUse) -> Self {
        let state = match secret.metadata.upkeep.freshness(today) {
            _ if secret.lacks_value() => SecretState::Missing,
            _ if secret.is_compromised() => SecretState::Compromised,
            Freshness::Expired => SecretState::Expired,
            Freshness::Expiring => SecretState::Expiring,
            Freshness::Registered => SecretState::Registered,
        };
        let asks = secret.metadata.approve_on_use.tightened_by(floor);
        Self { secret, state, asks, kept_at: None }
    }
}

impl SecretState {
    /// Every state, in the order in which people look for them.
    pub const ALL: [Self; 5] =
        [Self::Registered, Self::Expiring, Self::Expired, Self::Compromised, Self::Missing];

    /// The state in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compromised => "compromised",
            Self::Expired => "expired",
            Self::Expiring => "expiring",
            Self::Missing => "without a value",
            Self::Registered => "registered",
        }
    }

    /// The state that words name.
    pub fn parse(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == words)
    }
}
