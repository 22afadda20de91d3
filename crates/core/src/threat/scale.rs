//! What incidents weigh, and how fast they fade: the protocol's numbers, unless the operator has others.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{AttackType, DetectionMethod, Incident};

/// What a touch of a honeypot weighs, whatever was to be done with it, and whatever the operator says of its type.
const HONEYPOT_BASE: u8 = 80;
/// What fades within an hour: e^-0.05 of it is left.
const FADING_PER_HOUR: f64 = 0.05;
/// The most that one incident weighs.
const MAX_WEIGHT: u8 = 100;
/// The half-lives that are taken, in hours: beyond two weeks incidents are forgotten anyway.
const HALF_LIVES: RangeInclusive<u16> = 1..=336;

/// A way to weigh incidents.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    weights: BTreeMap<AttackType, u8>,
    fading_per_hour: f64,
}

/// A number that makes no scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Nothing would fade, or nothing be remembered.
    #[error("a half-life is 1 to 336 hours")]
    HalfLife,
    /// A weight above 100.
    #[error("an incident weighs 0 to 100")]
    Weight,
}

impl Scale {
    /// The protocol's scale with these weights, and this half-life in hours, in place of its own.
    pub fn new(
        weights: BTreeMap<AttackType, u8>,
        half_life: Option<u16>,
    ) -> Result<Self, ScaleError> {
        if weights.values().any(|weight| *weight > MAX_WEIGHT) {
            return Err(ScaleError::Weight);
        }
        let fading_per_hour = match half_life {
            None => FADING_PER_HOUR,
            Some(hours) if HALF_LIVES.contains(&hours) => std::f64::consts::LN_2 / f64::from(hours),
            Some(_) => return Err(ScaleError::HalfLife),
        };
        Ok(Self { weights, fading_per_hour })
    }

    /// What an incident weighs, 0 to 100, when it is the only one and fresh.
    pub(super) fn base(&self, incident: &Incident) -> u8 {
        match incident.method {
            DetectionMethod::Honeypot => HONEYPOT_BASE,
            _ => self
                .weights
                .get(&incident.attack)
                .copied()
                .unwrap_or_else(|| incident.attack.base()),
        }
    }

    /// What is left of one after so many hours.
    pub(super) fn left_after(&self, hours: f64) -> f64 {
        (-self.fading_per_hour * hours).exp()
    }
}

impl Default for Scale {
    fn default() -> Self {
        Self { weights: BTreeMap::new(), fading_per_hour: FADING_PER_HOUR }
    }
}
