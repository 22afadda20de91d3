//! The time, as files and payloads hold it.

use jiff::{SignedDuration, Timestamp};

/// Now, as RFC 3339 in UTC.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}

/// Nanoseconds since 1970, as snapshots are named.
pub(crate) fn nanos() -> i128 {
    Timestamp::now().as_nanosecond()
}

/// Now plus seconds, as RFC 3339 in UTC with nanoseconds.
pub(crate) fn after(seconds: i64) -> String {
    let time = Timestamp::now().saturating_add(SignedDuration::from_secs(seconds));
    format!("{:.9}", time.unwrap_or(Timestamp::MAX))
}

/// A time written by [`now`] or [`after`].
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// `20260131T235959Z`, for branch names.
pub(crate) fn compact() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}
