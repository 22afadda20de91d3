//! How fast sessions may ask for a person's attention.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, SafeText};

const MINUTE: Duration = Duration::from_mins(1);
/// New requests of one session in a minute.
const PER_SESSION: usize = 10;
/// New requests of all sessions in a minute: opening another session is no way round the limit.
const TOGETHER: usize = 30;

/// The requests of the last minute.
#[derive(Debug, Default)]
pub(super) struct Pace(VecDeque<(Instant, String)>);

impl Pace {
    /// Counts one more request; [`Code::RateLimited`] when it is one too many.
    pub(super) fn step(&mut self, session: &str) -> Result<(), Error> {
        self.step_at(session, Instant::now())
    }

    fn step_at(&mut self, session: &str, now: Instant) -> Result<(), Error> {
        while self.0.front().is_some_and(|(then, _)| now.duration_since(*then) >= MINUTE) {
            self.0.pop_front();
        }
        let own = self.0.iter().filter(|(_, other)| other == session).count();
        if own >= PER_SESSION || self.0.len() >= TOGETHER {
            let words = SafeText::words("at most ").and(PER_SESSION).and(" in a minute");
            return Err(Error::with(Code::RateLimited, words));
        }
        self.0.push_back((now, session.to_owned()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_and_all_sessions_have_a_limit() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let full = |pace: &mut Pace, session: &str| {
            (0..PER_SESSION).all(|_| pace.step_at(session, start).is_ok())
        };
        assert!(full(&mut pace, "a"));
        assert_eq!(pace.step_at("a", start).unwrap_err().code(), Code::RateLimited);
        assert!(full(&mut pace, "b") && full(&mut pace, "c"));
        assert!(pace.step_at("d", start).is_err());
        assert!(pace.step_at("a", start + MINUTE).is_ok());
    }
}
