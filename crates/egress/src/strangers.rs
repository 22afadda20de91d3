//! Refusals at the explicit proxy that concern no session, in the log.
//!
//! Who sends them needs no credential: any account of the machine, or a page in a browser. So there
//! are so many entries a minute, and the next one says how many were not written down: nobody fills a
//! disk with them, or hides among them.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use keyless_core::{Error, SafeText};
use parking_lot::Mutex;

use crate::{ports::Broker, quota::Bucket, refusal};

/// Entries a minute, also at once.
const ENTRIES: f64 = 60.0;

/// Where they are logged, and how many were of late.
pub(crate) struct Strangers {
    broker: OnceLock<Arc<dyn Broker>>,
    pace: Mutex<Pace>,
}

struct Pace {
    entries: Bucket,
    left_out: u64,
}

impl Strangers {
    /// Logged nowhere, until [`Self::log_to`].
    pub(crate) fn new() -> Self {
        let entries = Bucket::full(ENTRIES, Duration::from_mins(1), Instant::now());
        Self { broker: OnceLock::new(), pace: Mutex::new(Pace { entries, left_out: 0 }) }
    }

    /// Said once.
    pub(crate) fn log_to(&self, broker: Arc<dyn Broker>) {
        let _ = self.broker.set(broker);
    }

    /// Logs a refusal of somebody who belongs to no session.
    pub(crate) fn log(&self, error: &Error) {
        if let Some(broker) = self.broker.get()
            && let Some(error) = self.paced(error)
        {
            refusal::log_stranger(&**broker, &error);
        }
    }

    /// The error as it is to be written down, unless there were too many of late.
    pub(crate) fn paced(&self, error: &Error) -> Option<Error> {
        let left_out = self.pace.lock().step(Instant::now())?;
        if left_out == 0 {
            return Some(error.clone());
        }
        let told = SafeText::default().and(left_out).and(" more were not written down");
        let detail = match error.detail().as_str() {
            "" => told,
            _ => error.detail().clone().and("; ").and(told),
        };
        Some(Error::with(error.code(), detail))
    }
}

impl Pace {
    /// How many were left out before this one; `None` if it is, too.
    fn step(&mut self, now: Instant) -> Option<u64> {
        if self.entries.spend(1.0, now) {
            return Some(std::mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let start = Instant::now();
        let entries = Bucket::full(ENTRIES, Duration::from_mins(1), start);
        let mut pace = Pace { entries, left_out: 0 };
        let written = (0..1000).filter(|_| pace.step(start) == Some(0)).count();
        assert_eq!(written, 60);
        let later = start + Duration::from_millis(1500);
        assert_eq!((pace.step(later), pace.step(later)), (Some(940), None));
    }
}
