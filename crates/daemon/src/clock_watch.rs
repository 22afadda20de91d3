//! Notices a wall clock that was put forward or back (NL-5.8): the log's entries say when, and a jump of what they go by is
//! one of them.
//!
//! By a clock that nobody sets and that goes on while the machine sleeps. Whether something keeps the clock in step at all the kernel
//! says itself ([`in_step`]); some machines never have that, and some sandboxes don't tell.

use jiff::{SignedDuration, Timestamp};
use keyless_core::{Code, Error, SafeText};
use keyless_vault::Moment;

/// From here on it is a jump and no correction (NL, chapter 05).
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// Whether something keeps the clock in step; nothing where the kernel does not tell.
pub(crate) fn in_step() -> Option<bool> {
    keyless_jail::clock_in_step()
}

/// Fails with [`Code::ClockUnusable`] where the clock stands before 1970, as on machines without a battery: ids,
/// certificates and the log's times can't be of then.
pub fn refuse_unset_clock() -> Result<(), Error> {
    refuse_before_1970(Timestamp::now())
}

fn refuse_before_1970(now: Timestamp) -> Result<(), Error> {
    if now >= Timestamp::UNIX_EPOCH {
        return Ok(());
    }
    let words = SafeText::words("it says ").as_they_wrote(&now.strftime("%Y-%m-%d").to_string());
    Err(Error::with(Code::ClockUnusable, words))
}

/// How both clocks stood when they were looked at last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockWatch {
    wall: Timestamp,
    boot: Moment,
}

impl ClockWatch {
    /// As they stand.
    pub(crate) fn now() -> Self {
        Self { wall: Timestamp::now(), boot: Moment::now() }
    }

    /// By how much the wall clock was put forward, or back if negative, between `self` and `later`; nothing where both went
    /// alike.
    pub(crate) fn jump(&self, later: &Self) -> Option<SignedDuration> {
        let wall = later.wall.duration_since(self.wall);
        let passed = SignedDuration::try_from(later.boot.since(self.boot)).ok()?;
        let by = wall.checked_sub(passed)?;
        (by.abs() > JUMP).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_told() {
        let told = refuse_before_1970("1969-12-31T23:59:59Z".parse().unwrap()).unwrap_err();
        assert_eq!(told.code(), Code::ClockUnusable);
        assert!(told.message().contains("1969-12-31"), "{}", told.message());
        refuse_before_1970(Timestamp::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn a_jump_is_told_from_time_that_passes() {
        let before = ClockWatch::now();
        let later = |wall: i64, boot: u64| {
            let (wall, boot) = (SignedDuration::from_secs(wall), Duration::from_secs(boot));
            let now = ClockWatch { wall: before.wall + wall, boot: before.boot + boot };
            before.jump(&now).map(|by| by.as_secs())
        };
        assert_eq!((later(60, 60), later(65, 60), later(55, 60)), (None, None, None));
        assert_eq!((later(3660, 60), later(-3540, 60)), (Some(3600), Some(-3600)));
        // A machine that slept.
        assert_eq!(later(86_400, 86_400), None);
        assert_eq!(before.jump(&ClockWatch::now()), None);
    }
}
