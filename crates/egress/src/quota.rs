//! How much one session may ask for: requests a minute and bytes an hour. Both are buckets that
//! fill steadily, so that what was saved up may be spent at once.

use std::time::{Duration, Instant};

use keyless_core::{Code, Error, SafeText};
use parking_lot::Mutex;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// What a session may use; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Requests and tunnels.
    pub requests_per_minute: Option<u32>,
    /// Bytes of bodies and tunnels, both ways together.
    pub bytes_per_hour: Option<u64>,
}

/// What is left of one session's allowance.
#[derive(Default)]
pub(crate) struct Quota {
    requests: Option<Mutex<Bucket>>,
    bytes: Option<Mutex<Bucket>>,
}

/// What fills steadily, up to its size.
pub(crate) struct Bucket {
    size: f64,
    left: f64,
    per_second: f64,
    filled: Instant,
}

impl Quota {
    pub(crate) fn of(allowance: Allowance) -> Self {
        let bucket = |size: f64, time| Mutex::new(Bucket::full(size, time, Instant::now()));
        #[expect(clippy::cast_precision_loss, reason = "a quota of petabytes may be a byte off")]
        let bytes = allowance.bytes_per_hour.map(|bytes| bucket(bytes as f64, HOUR));
        let requests = allowance.requests_per_minute;
        Self { requests: requests.map(|count| bucket(f64::from(count), MINUTE)), bytes }
    }

    /// One request begins.
    pub(crate) fn spend_request(&self) -> Result<(), Error> {
        let spent = self.requests.as_ref().is_none_or(|it| it.lock().spend(1.0, Instant::now()));
        let within = self.bytes.as_ref().is_none_or(|it| it.lock().has_some(Instant::now()));
        match (spent, within) {
            (true, true) => Ok(()),
            (false, _) => Err(self.exceeded("requests a minute")),
            (true, false) => Err(self.exceeded("bytes an hour")),
        }
    }

    /// With the seconds until a request may begin again.
    fn exceeded(&self, what: &'static str) -> Error {
        let buckets = [&self.requests, &self.bytes].into_iter().flatten();
        let seconds = buckets.map(|bucket| bucket.lock().seconds_to_one()).max().unwrap_or(0);
        let error = Error::with(Code::QuotaExceeded, SafeText::words(what));
        error.again_after(Some(seconds.max(1)))
    }

    /// Some bytes have passed, and no more than these may when it is an error.
    pub(crate) fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        let Some(bucket) = &self.bytes else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "a frame is far below 2^52 bytes")]
        let within = bucket.lock().draw(bytes as f64, Instant::now());
        if within { Ok(()) } else { Err(self.exceeded("bytes an hour")) }
    }
}

impl Bucket {
    /// One that holds `size`, and would fill in `time`.
    pub(crate) fn full(size: f64, time: Duration, now: Instant) -> Self {
        Self { size, left: size, per_second: size / time.as_secs_f64(), filled: now }
    }

    /// Takes `amount` if it is there.
    pub(crate) fn spend(&mut self, amount: f64, now: Instant) -> bool {
        self.fill(now);
        let enough = self.left >= amount;
        if enough {
            self.left -= amount;
        }
        enough
    }

    /// Takes `amount`, into debt if need be; whether it was there.
    fn draw(&mut self, amount: f64, now: Instant) -> bool {
        self.fill(now);
        self.left -= amount;
        self.left >= 0.0
    }

    fn has_some(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.left > 0.0
    }

    /// How long it takes, as it stands, until there is one: an hour at most, since a quota of nothing never fills.
    fn seconds_to_one(&self) -> u64 {
        let seconds = ((1.0 - self.left) / self.per_second).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and an hour"
        )]
        let seconds = seconds.clamp(0.0, HOUR.as_secs_f64()) as u64;
        seconds
    }

    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + since * self.per_second).min(self.size);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_steadily_and_never_over() {
        let start = Instant::now();
        let mut bucket = Bucket::full(60.0, MINUTE, start);
        assert!((0..60).all(|_| bucket.spend(1.0, start)));
        assert!(!bucket.spend(1.0, start));
        assert!(bucket.spend(1.0, start + Duration::from_millis(1500)));
        assert!(!bucket.spend(1.0, start + Duration::from_millis(1600)));
        let later = start + HOUR;
        assert!((0..60).all(|_| bucket.spend(1.0, later)) && !bucket.spend(1.0, later));
    }

    #[test]
    fn what_has_passed_is_paid_for() {
        let start = Instant::now();
        let mut bucket = Bucket::full(3600.0, HOUR, start);
        assert!(bucket.draw(3000.0, start) && !bucket.draw(1000.0, start));
        assert!(!bucket.has_some(start + Duration::from_secs(399)));
        assert!(bucket.has_some(start + Duration::from_secs(401)));
    }

    #[test]
    fn what_is_too_much_may_come_again_at_a_time_that_is_told() {
        let of = |requests_per_minute, bytes_per_hour| {
            Quota::of(Allowance { requests_per_minute, bytes_per_hour })
        };
        let wait = |result: Result<(), Error>| result.unwrap_err().retry_after();
        let quota = of(Some(6), None);
        assert!((0..6).all(|_| quota.spend_request().is_ok()));
        assert_eq!(wait(quota.spend_request()), Some(10));
        let quota = of(Some(6000), Some(3600));
        assert_eq!(wait(quota.spend_bytes(3700)), Some(101));
        assert!(matches!(wait(quota.spend_request()), Some(99..=101)));
        let quota = of(Some(6000), None);
        assert!((0..10_000).any(|_| quota.spend_request().is_err()));
        assert_eq!(wait(quota.spend_request()), Some(1));
        assert_eq!(wait(of(Some(0), None).spend_request()), Some(3600));
    }

    #[test]
    fn without_an_allowance_nothing_is_limited() {
        let quota = Quota::of(Allowance::default());
        assert!(quota.spend_request().is_ok() && quota.spend_bytes(usize::MAX).is_ok());
        let none = Quota::of(Allowance { requests_per_minute: Some(1), bytes_per_hour: None });
        assert!(none.spend_request().is_ok());
        assert_eq!(none.spend_request().unwrap_err().code(), Code::QuotaExceeded);
    }
}
