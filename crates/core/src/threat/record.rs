//! An agent's incidents, its score, and the band in which it stands.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Incident, Scale};

/// Incidents of one type within so many hours weigh more than each by itself.
const WINDOW_HOURS: f64 = 24.0;
/// After two weeks nothing is left that would show in a score.
const KEPT_HOURS: f64 = 14.0 * 24.0;
/// The most incidents that are kept; a score is long at its end by then.
const MAX_KEPT: usize = 256;
/// The most that all that may be mistakes weigh together: as much as makes an agent yellow.
const MISTAKES_WEIGH: f64 = 0.3;

/// How an agent is dealt with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Band {
    /// Nothing but the log.
    #[default]
    Green,
    /// Half as many messages.
    Yellow,
    /// A person is asked about everything that is to be done.
    Orange,
    /// Nothing is done any more.
    Red,
}

/// What is known of an agent's doings, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreatRecord {
    incidents: Vec<Incident>,
    band: Band,
    /// The score of an agent that became red: it does not fade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<u8>,
}

/// A score and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// 0 to 100.
    pub score: u8,
    /// How the agent is dealt with.
    pub band: Band,
}

/// What an incident, or time, has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// As it was.
    pub before: Standing,
    /// As it is.
    pub after: Standing,
}

impl Band {
    /// NL's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Orange => "orange",
            Self::Red => "red",
            Self::Yellow => "yellow",
        }
    }

    fn of(score: u8) -> Self {
        match score {
            0..30 => Self::Green,
            30..60 => Self::Yellow,
            60..80 => Self::Orange,
            _ => Self::Red,
        }
    }
}

impl Shift {
    /// Whether the agent is dealt with in another way from now on.
    pub fn is_of_band(&self) -> bool {
        self.before.band != self.after.band
    }
}

impl ThreatRecord {
    /// Where the agent stands. From orange on only the operator makes it better.
    pub fn standing(&self, scale: &Scale, now: Timestamp) -> Standing {
        let score = self.held.unwrap_or_else(|| self.score(scale, now));
        let band = Band::of(score);
        let band = if self.band >= Band::Orange { band.max(self.band) } else { band };
        Standing { score, band }
    }

    /// How many incidents are remembered.
    pub fn incidents(&self) -> usize {
        self.incidents.len()
    }

    /// Takes incidents in.
    pub fn add(&mut self, seen: &[Incident], scale: &Scale, now: Timestamp) -> Shift {
        let before = Standing { band: self.band, ..self.standing(scale, now) };
        self.incidents.extend(seen);
        self.incidents.retain(|incident| hours_since(incident.at, now) < KEPT_HOURS);
        // Many that weigh little must not push out what does not.
        while self.incidents.len() > MAX_KEPT {
            let first = self.incidents.iter().position(|incident| !incident.is_certain());
            self.incidents.remove(first.unwrap_or(0));
        }
        let after = self.standing(scale, now);
        self.band = after.band;
        if after.band == Band::Red {
            self.held = Some(after.score.max(self.score(scale, now)));
        }
        Shift { before, after }
    }

    /// Forgets everything; the operator's word.
    pub fn reset(&mut self, scale: &Scale, now: Timestamp) -> Shift {
        let before = self.standing(scale, now);
        *self = Self::default();
        Shift { before, after: Standing::default() }
    }

    /// `min(100, round(100 · Σ base/100 · e^(-0.05·hours) · (1 + log2 n)))` on the protocol's scale, where n is how many of its type there
    /// are within a day. What may be mistakes weighs so much together and no more, and makes nobody red.
    fn score(&self, scale: &Scale, now: Timestamp) -> u8 {
        let certain = self.sum(Incident::is_certain, scale, now);
        let all = points(certain + self.mistakes(scale, now));
        if Band::of(points(certain)) == Band::Red { all } else { all.min(79) }
    }

    /// Their bound fades from the last of them on: what lies far beyond it would keep an agent yellow for days.
    fn mistakes(&self, scale: &Scale, now: Timestamp) -> f64 {
        let is_mistake = |incident: &Incident| !incident.is_certain();
        let last = self.incidents.iter().filter(|one| is_mistake(one)).map(|one| one.at).max();
        let left = last.map_or(0.0, |at| scale.left_after(hours_since(at, now)));
        self.sum(is_mistake, scale, now).min(MISTAKES_WEIGH * left)
    }

    fn sum(&self, counts: impl Fn(&Incident) -> bool, scale: &Scale, now: Timestamp) -> f64 {
        let counted = self.incidents.iter().filter(|incident| counts(incident));
        counted.map(|incident| self.weight(incident, scale, now)).sum()
    }

    fn weight(&self, incident: &Incident, scale: &Scale, now: Timestamp) -> f64 {
        let hours = hours_since(incident.at, now);
        let alike = |other: &&Incident| {
            other.attack == incident.attack && hours_since(other.at, now) < WINDOW_HOURS
        };
        let count =
            if hours < WINDOW_HOURS { self.incidents.iter().filter(alike).count() } else { 1 };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let often = 1.0 + (f64::from(count).log2() * 100.0).round() / 100.0;
        f64::from(scale.base(incident)) / 100.0 * scale.left_after(hours) * often
    }
}

/// Never negative: a clock that went back makes an incident fresh.
fn hours_since(then: Timestamp, now: Timestamp) -> f64 {
    (now.duration_since(then).as_secs_f64() / 3600.0).max(0.0)
}

/// Rounded half up.
fn points(sum: f64) -> u8 {
    let points = (sum * 100.0 + 0.5).floor().clamp(0.0, 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let points = points as u8;
    points
}
