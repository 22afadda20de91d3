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
/// The same where a session asks for the first time in a minute: a few that are busy silence no other. Whoever opens
/// sessions for it has no more than this.
const TOGETHER_WITH_FIRST: usize = 60;

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
        let together = if own == 0 { TOGETHER_WITH_FIRST } else { TOGETHER };
        let refuse = |whose, most: usize| {
            let words = SafeText::words(whose).and(": at most ").and(most).and(" in a minute");
            Err(Error::with(Code::RateLimited, words))
        };
        if own >= PER_SESSION {
            return refuse("of one session", PER_SESSION);
        }
        if self.0.len() >= together {
            return refuse("of all sessions together", together);
        }
        self.0.push_back((now, session.to_owned()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(pace: &mut Pace, session: &str, now: Instant) -> bool {
        (0..PER_SESSION).all(|_| pace.step_at(session, now).is_ok())
    }

    #[test]
    fn a_session_and_all_sessions_have_a_limit() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let refused = |pace: &mut Pace, session: &str| {
            let error = pace.step_at(session, start).unwrap_err();
            assert_eq!(error.code(), Code::RateLimited);
            error.detail().as_str().to_owned()
        };
        assert!(full(&mut pace, "a", start));
        assert_eq!(refused(&mut pace, "a"), "of one session: at most 10 in a minute");
        assert!(full(&mut pace, "b", start) && full(&mut pace, "c", start));
        pace.step_at("d", start).unwrap();
        assert_eq!(refused(&mut pace, "d"), "of all sessions together: at most 30 in a minute");
        assert!(pace.step_at("a", start + MINUTE).is_ok());
    }

    #[test]
    fn who_has_not_asked_yet_is_heard_beside_busy_ones() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert!(["a", "b", "c"].iter().all(|session| full(&mut pace, session, start)));
        let first = |number: usize| format!("n-{number}");
        let heard = (0..100).filter(|number| pace.step_at(&first(*number), start).is_ok());
        assert_eq!(heard.count(), TOGETHER_WITH_FIRST - TOGETHER);
    }
}
