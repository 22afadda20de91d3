//! Who is likely to attack: each agent's incidents, score and band.
//!
//! Deciding is `core::threat`'s; what is here keeps its records, sealed, and writes every change of a band
//! down. Who can write the store can make a record vanish, and not what followed from it: a suspension is
//! the agent's own row, and every incident is in the log. Source: reference/nl.md, section 6.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    agent::InstanceId,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
    threat::{Band, DetectionMethod, Incident, Scale, Shift, Standing, ThreatRecord},
};
use keyless_store::{AuditLog, Store, ThreatRow};
use keyless_vault::{Vault, Voucher};

use crate::{
    broker::{agent, plain_entry},
    config::{DetectionWord, NlConfig},
};

/// The threat records of an open vault.
pub struct Detection {
    store: Store,
    voucher: Voucher,
    log: AuditLog,
    consequences: DetectionWord,
    scale: Scale,
}

impl Detection {
    /// The records of a vault's store, weighed as the operator says.
    pub fn new(vault: &Vault, log: AuditLog, config: &NlConfig) -> Result<Self, Error> {
        let (store, voucher) = (vault.store().clone(), vault.nl_voucher());
        let scale = config.scale().map_err(|error| {
            let words = SafeText::words("[nl.threat]: ").as_they_wrote(&error.to_string());
            Error::with(Code::ConfigInvalid, words)
        })?;
        Ok(Self { store, voucher, log, consequences: config.detection, scale })
    }

    /// Where an agent stands, and how many incidents are remembered of it.
    pub async fn standing(&self, instance: &InstanceId) -> Result<(Standing, usize), Error> {
        let record = self.row(instance).await?.map(|row| row.record).unwrap_or_default();
        Ok((record.standing(&self.scale, Timestamp::now()), record.incidents()))
    }

    /// How an agent is to be dealt with, as the operator has it: where incidents are only written down, as any other.
    pub async fn band(&self, instance: &InstanceId) -> Result<Band, Error> {
        match self.consequences {
            DetectionWord::Enforce => Ok(self.standing(instance).await?.0.band),
            DetectionWord::Record => Ok(Band::Green),
        }
    }

    /// Takes incidents in that have an entry of their own only where they change a band; gives what they have changed. `by`
    /// is the agent in the log's words.
    pub(crate) async fn add(
        &self,
        instance: &InstanceId,
        by: Agent,
        seen: &[Incident],
    ) -> Result<Shift, Error> {
        let (shift, by) = (self.take(instance, seen).await?, Arc::new(by));
        for incident in seen.iter().filter(|_| shift.is_of_band()) {
            let by = Arc::clone(&by);
            let entry = plain_entry(by, Action::Incident, Outcome::Blocked, Target::Session);
            self.log.append(as_incident(entry, *incident, shift)).await?;
        }
        self.tell(by, instance, shift).await?;
        Ok(shift)
    }

    /// Takes incidents in; gives what they have changed, which [`Self::tell`] is to be told once they are in the log.
    pub(super) async fn take(
        &self,
        instance: &InstanceId,
        seen: &[Incident],
    ) -> Result<Shift, Error> {
        let now = Timestamp::now();
        self.change(instance, |record| record.add(seen, &self.scale, now)).await
    }

    /// Writes a change of the band down, if it is one.
    pub(super) async fn tell(
        &self,
        by: Arc<Agent>,
        instance: &InstanceId,
        shift: Shift,
    ) -> Result<(), Error> {
        if !shift.is_of_band() {
            return Ok(());
        }
        let (from, to) = (shift.before.band.as_str(), shift.after.band.as_str());
        let note = format!("{from} to {to}: incidents");
        self.log.append(draft(by, instance, shift, &note)).await.map(drop)
    }

    /// Forgets an agent's incidents; the operator's word, on record.
    pub async fn reset(&self, instance: &InstanceId, reason: &str) -> Result<Shift, Error> {
        let now = Timestamp::now();
        let shift = self.change(instance, |record| record.reset(&self.scale, now)).await?;
        let note = format!("SCORE_RESET: {reason}");
        let operator = agent("operator", "operator").into();
        let draft = draft(operator, instance, shift, &note);
        self.log.append(draft).await?;
        Ok(shift)
    }

    /// Forgets what agents did that are no more.
    pub(crate) async fn forget_orphans(&self) -> Result<(), Error> {
        Ok(self.store.sweep_threats().await?)
    }

    async fn change(
        &self,
        instance: &InstanceId,
        change: impl Fn(&mut ThreatRecord) -> Shift,
    ) -> Result<Shift, Error> {
        loop {
            let old = self.store.threat(instance).await?;
            let genuine = old.clone().filter(|row| self.is_genuine(row));
            let mut record = genuine.map(|row| row.record).unwrap_or_default();
            let shift = change(&mut record);
            let seal = self.voucher.seal(&ThreatRow::sealed_bytes(instance, &record));
            let new = ThreatRow { instance: instance.clone(), record, seal };
            // Another message of the same agent may have been faster; then it is counted with that one.
            if self.store.replace_threat(old.as_ref(), &new).await? {
                return Ok(shift);
            }
        }
    }

    async fn row(&self, instance: &InstanceId) -> Result<Option<ThreatRow>, Error> {
        Ok(self.store.threat(instance).await?.filter(|row| self.is_genuine(row)))
    }

    fn is_genuine(&self, row: &ThreatRow) -> bool {
        self.voucher.fits(&ThreatRow::sealed_bytes(&row.instance, &row.record), &row.seal)
    }
}

/// An entry as one about an incident.
pub(super) fn as_incident(entry: Draft, incident: Incident, shift: Shift) -> Draft {
    let method = match incident.method {
        DetectionMethod::BehavioralAnalysis => "behavioral_analysis",
        DetectionMethod::HashBased => "hash_based",
        DetectionMethod::Honeypot => "honeypot",
        DetectionMethod::PatternMatching => "pattern_matching",
    };
    let detail = Detail {
        kind: Some(incident.attack.as_str().to_owned()),
        note: Some(format!("{}, {method}", incident.attack.category())),
        threat_score: Some(u64::from(shift.after.score)),
        ..entry.detail
    };
    Draft { detail, ..entry }
}

fn draft(by: Arc<Agent>, instance: &InstanceId, shift: Shift, note: &str) -> Draft {
    Draft {
        detail: Detail {
            kind: Some(shift.after.band.as_str().to_owned()),
            note: Some(note.to_owned()),
            threat_score: Some(u64::from(shift.after.score)),
            ..Detail::default()
        },
        ..plain_entry(
            by,
            Action::ResponseLevelChange,
            Outcome::Success,
            Target::Named(SafeText::default().as_they_wrote(instance.as_str())),
        )
    }
}
