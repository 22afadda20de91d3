//! `[nl]` of config.toml: where the NL Protocol is served, and what follows from incidents.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use jiff::SignedDuration;
use keyless_core::{
    Grace,
    delegation::DEFAULT_MAX_DEPTH,
    nl_message::{MAX_CLOCK_SKEW, Profile},
    threat::{AttackType, Scale, ScaleError},
};
use serde::Deserialize;

use crate::nl::Webhook;

/// The protocol's life of a file with a value.
const TEMPFILE_SECONDS: u64 = 60;
/// The protocol's bound of idleness.
const IDLE_HOURS: u16 = 24;
/// The most messages a minute that can be asked for: each is remembered for a minute.
const MAX_RATE: u32 = 10_000;
/// How far off a proof may be said to be at most: for so long its store remembers one, whichever broker took it.
pub(crate) const MAX_PROOF_SKEW: SignedDuration = SignedDuration::from_mins(2);
/// How far off an attestation may be said to be at most: for so long its store remembers one, whichever broker took it.
pub(crate) const MAX_ATTESTATION_SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Clocks that are kept in step are no further apart than this, and a message is no longer on its way.
const MIN_SKEW_SECONDS: u16 = 5;

/// `[nl]`. Taken up at the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NlConfig {
    /// Which text rules where the protocol's two can't both be kept.
    pub profile: Profile,
    /// What makes a registered agent active (C-14).
    pub activation: Activation,
    /// How far clocks may be apart.
    pub clock_skew: ClockSkewConfig,
    /// HTTP; on this machine alone where there is no `tls`.
    pub http: Option<SocketAddr>,
    /// The certificate and key to serve HTTP with, where that is with TLS.
    pub tls: Option<NlTls>,
    /// Whether discovery is answered over HTTP without TLS, which the protocol forbids elsewhere than in tests.
    pub plaintext_discovery: bool,
    /// Whether registered agents, but people, have to show their vendor's word (NL-1.7).
    pub require_attestation: bool,
    /// Whether an agent's threat score has consequences.
    pub detection: DetectionWord,
    /// What incidents weigh.
    pub threat: ThreatConfig,
    /// How long a command with a value in a file may take, in seconds (NL-3.5.7).
    pub tempfile_seconds: Option<u16>,
    /// For how many minutes a value that was replaced is given (NL-8.15); 60 when absent.
    pub grace_minutes: Option<u32>,
    /// For how many hours after the grace a replaced value is given with a warning; 24 when absent.
    pub deprecated_hours: Option<u32>,
    /// After how many hours without a message an agent is suspended; 0 never.
    pub idle_hours: Option<u16>,
    /// How often work may be handed on, from agent to agent; 0 never, 3 when absent.
    pub max_delegation_depth: Option<u32>,
    /// How many messages a minute there may be.
    pub rates: RatesConfig,
    /// The addresses that are told that a secret was rotated or must not be used any more.
    pub webhooks: Vec<Webhook>,
}

/// What makes a registered agent active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The operator alone: `keyless agent activate`.
    Admin,
    /// Its first authentication, too.
    #[default]
    FirstAuth,
}

/// `[nl.clock_skew]`: how many seconds the clocks of others may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockSkewConfig {
    /// Of who signs attestations; 30 by the protocol, 5 to 300.
    pub attestations: u16,
    /// Of who proves that a delegation token is theirs; 30 by the protocol, 5 to 120.
    pub proofs: u16,
    /// Of who sends messages in envelopes; 5 to 300, which is the protocol's most.
    pub messages: u16,
}

impl Default for ClockSkewConfig {
    fn default() -> Self {
        Self { attestations: 30, proofs: 30, messages: 300 }
    }
}

impl ClockSkewConfig {
    pub(super) fn check(self) -> Result<(), String> {
        let all = [
            ("attestations", self.attestations, MAX_ATTESTATION_SKEW),
            ("proofs", self.proofs, MAX_PROOF_SKEW),
            ("messages", self.messages, MAX_CLOCK_SKEW),
        ];
        for (name, seconds, most) in all {
            let most = most.as_secs();
            if seconds < MIN_SKEW_SECONDS {
                return Err(format!(
                    "[nl.clock_skew]: {name} is {MIN_SKEW_SECONDS} to {most} seconds, and {seconds} would refuse what has \
                     only been on its way"
                ));
            }
            if i64::from(seconds) > most {
                return Err(format!(
                    "[nl.clock_skew]: {name} is {MIN_SKEW_SECONDS} to {most} seconds, and {seconds} would take what is long \
                     out of date: keep the clocks in step (NTP) instead"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn of_attestations(self) -> SignedDuration {
        SignedDuration::from_secs(self.attestations.into())
    }

    pub(crate) fn of_proofs(self) -> SignedDuration {
        SignedDuration::from_secs(self.proofs.into())
    }

    pub(crate) fn of_messages(self) -> SignedDuration {
        SignedDuration::from_secs(self.messages.into())
    }
}

/// `[nl.rates]`: messages a minute, each 1 to 10,000 (chapter 08, 9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RatesConfig {
    /// Of one agent.
    pub agent: NonZeroU32,
    /// Of one client address over HTTP, of version 6 of its /64, whoever sends them.
    pub address: NonZeroU32,
    /// Of all agents of an organization.
    pub organization: NonZeroU32,
}

impl Default for RatesConfig {
    fn default() -> Self {
        let [agent, address, organization] =
            [120, 600, 1000].map(|number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN));
        Self { agent, address, organization }
    }
}

/// `[nl.threat]`: other numbers than the protocol's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThreatConfig {
    /// By type, `T8 = 20`; each 0 to 100. A touch of a honeypot weighs 80 in any case.
    pub weights: BTreeMap<AttackType, u8>,
    /// After how many hours half of a score is gone; 14 by the protocol.
    pub half_life_hours: Option<u16>,
}

/// `[nl.tls]`. Files that change are taken up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NlTls {
    /// A chain in PEM.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
    /// Roots of which each client must show a certificate (mTLS).
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// What follows from an agent's threat score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetectionWord {
    /// What the protocol says: fewer messages, a person's word, suspension.
    #[default]
    Enforce,
    /// Nothing: incidents and bands are written down, and honeypots refuse.
    Record,
}

impl NlConfig {
    /// How incidents are weighed.
    pub fn scale(&self) -> Result<Scale, ScaleError> {
        Scale::new(self.threat.weights.clone(), self.threat.half_life_hours)
    }

    /// How long a command with a value in a file may take.
    pub fn tempfile_life(&self) -> Duration {
        Duration::from_secs(self.tempfile_seconds.map_or(TEMPFILE_SECONDS, u64::from))
    }

    /// Whether so many messages a minute can be counted.
    pub(super) fn check_rates(&self) -> Result<(), String> {
        let RatesConfig { agent, address, organization } = self.rates;
        let rates = [("agent", agent), ("address", address), ("organization", organization)];
        match rates.into_iter().find(|(_, rate)| rate.get() > MAX_RATE) {
            Some((name, _)) => Err(format!("[nl.rates]: {name} is 1 to {MAX_RATE}")),
            None => Ok(()),
        }
    }

    /// How often work may be handed on.
    pub fn max_depth(&self) -> u32 {
        self.max_delegation_depth.unwrap_or(DEFAULT_MAX_DEPTH)
    }

    /// For how long values that were replaced are given.
    pub fn grace(&self) -> Grace {
        let usual = Grace::default();
        let minutes = |minutes: u32| SignedDuration::from_mins(minutes.into());
        let hours = |hours: u32| SignedDuration::from_hours(hours.into());
        Grace {
            full: self.grace_minutes.map_or(usual.full, minutes),
            deprecated: self.deprecated_hours.map_or(usual.deprecated, hours),
        }
    }

    /// After how long without a message an agent is suspended, if ever.
    pub(crate) fn idle(&self) -> Option<SignedDuration> {
        let hours = self.idle_hours.unwrap_or(IDLE_HOURS);
        (hours > 0).then(|| SignedDuration::from_hours(hours.into()))
    }
}
