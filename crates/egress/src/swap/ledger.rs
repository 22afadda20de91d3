//! What one request has asked for so far: how often each secret, where, and with which verdict.
//! From here the uses go to the broker, and its values come back.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use keyless_core::{Allowed, Code, Error, Location, SafeText, Scheme, Verdict};

use super::{Route, table::SwapTable};
use crate::ports::{Released, RequestInfo};

/// The verdicts of one request.
pub(super) struct Ledger {
    table: Arc<SwapTable>,
    scheme: Scheme,
    info: RequestInfo,
    counts: HashMap<usize, u32>,
    /// The first allowed use of each secret; the others follow from it.
    uses: Vec<(usize, Allowed)>,
}

/// What becomes of one placeholder that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays as it is.
    Left,
    /// The value takes its place.
    Swapped,
}

/// Values that were released for one request, by index of the secret.
#[derive(Default)]
pub(super) struct Values(Vec<(usize, Arc<Released>)>);

impl Ledger {
    pub(super) fn new(table: &Arc<SwapTable>, route: &Route<'_>, info: RequestInfo) -> Self {
        let (table, scheme) = (Arc::clone(table), route.scheme);
        Self { table, scheme, info, counts: HashMap::new(), uses: Vec::new() }
    }

    pub(super) fn table(&self) -> &Arc<SwapTable> {
        &self.table
    }

    /// Takes one more occurrence of a secret's placeholder into account.
    pub(super) fn judge(&mut self, secret: usize, location: Location) -> Result<Fate, Error> {
        let count = self.counts.entry(secret).or_default();
        *count = count.saturating_add(1);
        let way = (self.scheme, &self.info.authority);
        match self.table.decide(secret, way, location, *count) {
            Verdict::Allow(allowed) => {
                if self.uses.iter().all(|(index, _)| *index != secret) {
                    self.uses.push((secret, allowed));
                }
                if !self.info.locations.contains(&location) {
                    self.info.locations.push(location);
                }
                Ok(Fate::Swapped)
            }
            Verdict::Deny(code) => Err(self.refusal(code, secret, location)),
            Verdict::Pass => Ok(Fate::Left),
        }
    }

    /// Asks the broker for everything that was allowed since the last time.
    pub(super) async fn release(&mut self) -> Result<Values, Error> {
        if self.uses.is_empty() {
            return Ok(Values::default());
        }
        let (secrets, uses) =
            core::mem::take(&mut self.uses).into_iter().unzip::<_, _, Vec<_>, _>();
        let released = self.table.broker().release(&self.info, uses).await?;
        self.info.locations.clear();
        let paths = secrets.iter().map(|secret| &self.table.secret(*secret).path);
        if !paths.eq(released.iter().map(|released| released.path())) {
            return Err(Error::with(Code::Internal, "the broker released something else".into()));
        }
        let values = Values(secrets.into_iter().zip(released).collect());
        for (secret, _) in &values.0 {
            let placeholder = &self.table.secret(*secret).placeholder;
            let value = values.open(*secret)?;
            self.table.released().remember(placeholder, value);
        }
        Ok(values)
    }

    fn refusal(&self, code: Code, secret: usize, location: Location) -> Error {
        let path = &self.table.secret(secret).path;
        let detail = SafeText::words("the placeholder of ").and(path).and(" in the ").and(location);
        Error::with(code, detail.and(" toward ").and(&self.info.authority))
    }
}

impl Values {
    /// Opens a value while its permit lasts.
    pub(super) fn open(&self, secret: usize) -> Result<&[u8], Error> {
        let of = self.0.iter().find(|(index, _)| *index == secret);
        let (_, released) = of.ok_or(Code::Internal)?;
        released.open(Timestamp::now())
    }

    /// Whether the value was released and may still be opened.
    pub(super) fn has(&self, secret: usize) -> bool {
        self.open(secret).is_ok()
    }

    /// Takes over newer releases.
    pub(super) fn renew(&mut self, newer: Self) {
        self.0.retain(|(index, _)| newer.0.iter().all(|(other, _)| other != index));
        self.0.extend(newer.0);
    }
}
