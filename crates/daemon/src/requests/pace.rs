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
/// New requests of all sessions in a minute, for a session that asks for the first time in it: a few busy sessions
/// silence no other. Whoever opens sessions for that has no more than this.
const TOGETHER_WITH_FIRST: usize = 60;

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// How many requests a minute there may be.
    pub(crate) limit: usize,
    /// Whether it is the session's own, or that of all.
    pub(crate) is_own: bool,
    /// For how long.
    pub(crate) wait: Duration,
}

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
        if let Some(Reached { limit, is_own, .. }) = self.reached(session, now) {
            let whose = if is_own { "of one session" } else { "of all sessions together" };
            let words = SafeText::words(whose).and(": at most ").and(limit).and(" in a minute");
            return Err(Error::with(Code::RateLimited, words));
        }
        self.0.push_back((now, session.to_owned()));
        Ok(())
    }

    /// The limit that keeps a session from asking now.
    pub(super) fn reached(&self, session: &str, now: Instant) -> Option<Reached> {
        let recent = self.0.iter().filter(|(then, _)| now.duration_since(*then) < MINUTE);
        let all: Vec<_> = recent.collect();
        let own: Vec<_> = all.iter().filter(|(_, other)| other == session).copied().collect();
        let together = if own.is_empty() { TOGETHER_WITH_FIRST } else { TOGETHER };
        let limits = [(own, PER_SESSION, true), (all, together, false)];
        limits.into_iter().find(|(asked, limit, _)| asked.len() >= *limit).map(
            |(asked, limit, is_own)| {
                // The one whose going makes room.
                let (then, _) = asked[asked.len() - limit];
                let wait = MINUTE.saturating_sub(now.duration_since(*then));
                Reached { limit, is_own, wait }
            },
        )
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
        let wait = MINUTE / 2;
        let reached = Some(Reached { limit: PER_SESSION, is_own: true, wait });
        assert_eq!(pace.reached("a", start + wait), reached);
        assert_eq!(pace.reached("a", start + MINUTE), None);
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
