//! Times that go on while the machine is suspended.
//!
//! `Instant` stands still then: a laptop that is closed in the evening would still be unlocked in the
//! morning. What ends by its age is measured by this clock, which never goes back either.

use std::{ops::Add, time::Duration};

use keyless_core::Uptime;
use rustix::time::{ClockId, clock_gettime};

/// How often a caller that waits looks at the clock: timers stand still in suspend too.
pub const LOOK: Duration = Duration::from_secs(30);

/// Goes on in suspend. What macOS calls so does that by itself.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A time, since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Self(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// The time since `earlier`; none when that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time until now.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time from now on; none when it is over.
    pub fn left(self) -> Duration {
        self.since(Self::now())
    }

    /// Waits until it is over.
    pub async fn over(self) {
        while !self.left().is_zero() {
            tokio::time::sleep(self.left().min(LOOK)).await;
        }
    }
}

impl From<Moment> for Uptime {
    fn from(moment: Moment) -> Self {
        Self::since_start(moment.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// How long something holds is often another's word: a lease without end ends with the clock.
    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's uptime counts suspends, too.
    #[test]
    fn it_is_the_time_since_the_start_with_what_was_slept() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
        };
        let before = uptime();
        let now = Moment::now();
        // It is written in hundredths.
        assert!(before <= now.0 && now.0 <= uptime() + Duration::from_millis(10));
    }

    /// A server that gives leases of all the seconds that fit its number.
    #[test]
    fn no_lease_is_longer_than_the_clock_goes() {
        let far = Moment::now() + Duration::from_secs(u64::MAX);
        assert!(far > Moment::now() && far + Duration::from_secs(1) >= far);
    }

    #[tokio::test]
    async fn it_is_over_once_it_is_there() {
        let soon = Moment::now() + Duration::from_millis(20);
        soon.over().await;
        assert!(soon.left().is_zero() && soon <= Moment::now());
        soon.over().await;
    }
}
