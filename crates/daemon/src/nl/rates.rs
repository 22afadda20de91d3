//! How many messages an agent, an address and an organization may send: sliding windows of a minute.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use keyless_core::{
    Code,
    nl_message::{MessageType, NlFault},
};
use parking_lot::Mutex;

/// Messages a minute of one agent, as discovery says.
pub(crate) const AGENT_LIMIT: u32 = 120;
const ADDRESS_LIMIT: u32 = 600;
const ORGANIZATION_LIMIT: u32 = 1000;
const WINDOW: Duration = Duration::from_mins(1);
/// Windows that are kept; beyond it those that are empty go.
const MAX_WINDOWS: usize = 4096;

/// The windows of all that have sent something of late.
#[derive(Default)]
pub(crate) struct Rates {
    windows: Mutex<HashMap<Key, VecDeque<Instant>>>,
    /// When the log was last told of an agent that sends too much, and how often it was not told since.
    told: Mutex<HashMap<String, (Instant, u64)>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    Agent(String),
    /// Messages of one type of all administrators of an organization.
    Administration(String, MessageType),
    Organization(String),
}

/// How a window stands, for the headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateState {
    /// Messages a minute.
    pub(crate) limit: u32,
    /// What is left of them.
    pub(crate) remaining: u32,
    /// Seconds until the oldest message leaves the window.
    pub(crate) reset: u64,
}

impl Rates {
    /// Counts a message of an address, before anybody is known.
    pub(crate) fn step_address(&self, address: IpAddr, now: Instant) -> Result<RateState, NlFault> {
        self.step(Key::Address(address), ADDRESS_LIMIT, "per_ip", now)
    }

    /// Counts a message of an agent, which may send `limit` a minute, of an organization; the state is the tighter one.
    pub(crate) fn step_agent(
        &self,
        (instance, limit): (&str, u32),
        organization: &str,
        now: Instant,
    ) -> Result<RateState, NlFault> {
        let agent = self.step(Key::Agent(instance.to_owned()), limit, "per_agent", now)?;
        let key = Key::Organization(organization.to_owned());
        let all = self.step(key, ORGANIZATION_LIMIT, "per_organization", now)?;
        Ok(if all.remaining < agent.remaining { all } else { agent })
    }

    /// Whether the log is to be told that a message of an agent was one too many: once a minute. Gives how many it was
    /// not told of since the last time.
    pub(super) fn tell_refusal(&self, instance: &str, now: Instant) -> Option<u64> {
        let mut told = self.told.lock();
        if let Some((at, untold)) = told.get_mut(instance) {
            if now.duration_since(*at) < WINDOW {
                *untold += 1;
                return None;
            }
            let before = std::mem::take(untold);
            *at = now;
            return Some(before);
        }
        if told.len() >= MAX_WINDOWS {
            told.retain(|_, (at, _)| now.duration_since(*at) < WINDOW);
        }
        told.insert(instance.to_owned(), (now, 0));
        Some(0)
    }

    /// Counts what an administrator sends to an organization's agents and log, of which `limit` a minute may be.
    pub(super) fn step_administration(
        &self,
        (kind, limit): (MessageType, u32),
        organization: &str,
        now: Instant,
    ) -> Result<(), NlFault> {
        let key = Key::Administration(organization.to_owned(), kind);
        self.step(key, limit, "per_organization", now).map(drop)
    }

    fn step(
        &self,
        key: Key,
        limit: u32,
        scope: &'static str,
        now: Instant,
    ) -> Result<RateState, NlFault> {
        let mut windows = self.windows.lock();
        let recent = |at: &Instant| now.duration_since(*at) < WINDOW;
        if windows.len() >= MAX_WINDOWS {
            windows.retain(|_, window| window.back().is_some_and(recent));
        }
        let window = windows.entry(key).or_default();
        while window.front().is_some_and(|at| !recent(at)) {
            window.pop_front();
        }
        let used = u32::try_from(window.len()).unwrap_or(u32::MAX);
        let oldest = window.front().copied().unwrap_or(now);
        let reset = WINDOW.saturating_sub(now.duration_since(oldest)).as_secs() + 1;
        if used >= limit {
            return Err(spent(Code::RateLimited.into(), limit, reset, scope));
        }
        window.push_back(now);
        Ok(RateState { limit, remaining: limit - used - 1, reset })
    }
}

/// With what chapter 08, 8.3, has about a minute's window in which nothing is left: `reset`, the seconds until something
/// is.
pub(super) fn spent(fault: NlFault, limit: u32, reset: u64, scope: &'static str) -> NlFault {
    fault
        .with("limit", limit)
        .with("window_seconds", WINDOW.as_secs())
        .with("reset_at", format!("{:.3}", Timestamp::now() + Duration::from_secs(reset)))
        .with("retry_after_seconds", reset)
        .with("scope", scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_of_a_flood_once_a_minute() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.tell_refusal("a", start), Some(0));
        for _ in 0..7 {
            assert_eq!(rates.tell_refusal("a", start + WINDOW / 2), None);
        }
        assert_eq!(rates.tell_refusal("b", start + WINDOW / 2), Some(0));
        assert_eq!(rates.tell_refusal("a", start + WINDOW), Some(7));
        assert_eq!(rates.tell_refusal("a", start + WINDOW), None);
    }

    #[test]
    fn a_minute_has_room_for_so_many() {
        let (rates, start) = (Rates::default(), Instant::now());
        for sent in 0..AGENT_LIMIT {
            let state = rates.step_agent(("a", AGENT_LIMIT), "o", start).unwrap();
            assert_eq!(state.remaining, AGENT_LIMIT - sent - 1);
        }
        let fault = rates.step_agent(("a", AGENT_LIMIT), "o", start).unwrap_err();
        assert_eq!(
            (fault.code(), &fault.details()["scope"]),
            (Code::RateLimited, &"per_agent".into())
        );
        assert!(rates.step_agent(("a", AGENT_LIMIT / 2), "o", start + WINDOW / 2).is_err());
        assert!(rates.step_agent(("b", AGENT_LIMIT), "o", start).is_ok());
        assert!(rates.step_agent(("a", AGENT_LIMIT), "o", start + WINDOW).is_ok());
    }
}
