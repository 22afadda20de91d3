//! How likely it is that an agent attacks: incidents, a score that fades, and the answer to it.
//!
//! A score is made of incidents, the time and the operator's scale alone, so that it can be worked out again from what
//! is stored. What an agent may have done by mistake (references to what it has no grant for, too many
//! messages) makes it yellow at most by itself, and never red. Source: reference/nl.md, section 6, C-22 and C-23.

mod incident;
mod record;
mod scale;
mod sighting;

pub use self::{
    incident::{AttackType, DetectionMethod, Incident},
    record::{Band, Shift, Standing, ThreatRecord},
    scale::{Scale, ScaleError},
    sighting::{of_fault, of_redactions},
};

#[cfg(test)]
mod tests;
