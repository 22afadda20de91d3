//! How many messages an agent, an address and an organization may send: sliding windows of a minute.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use keyless_core::{
    Code,
    nl_message::{MessageType, NlFault},
};
use parking_lot::Mutex;

use crate::config::RatesConfig;

/// What an address asks of the discovery document, and whether all is well (chapter 08, 5.4.8 and 5.4.9).
const DISCOVERY_LIMIT: u32 = 60;
const HEALTH_LIMIT: u32 = 300;
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// Windows that are kept, of addresses and of others; beyond it those go in which nothing was sent for longest.
const MAX_WINDOWS: usize = 4096;
/// The part of an address of version 6 that its network gives out: whoever has one address has all of them.
const NETWORK: u128 = !0 << 64;

/// The windows of all that have sent something of late.
#[derive(Default)]
pub(crate) struct Rates {
    limits: RatesConfig,
    /// Apart from the others: anybody may come from anywhere, and must not push the windows of agents out.
    addresses: Mutex<Windows<(IpAddr, Door)>>,
    windows: Mutex<Windows<Key>>,
    /// When the log was last told of an agent that sends too much, and how often it was not told since.
    told: Mutex<HashMap<String, (Instant, u64)>>,
}

/// What an address wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Door {
    /// Whatever it is.
    Any,
    Discovery,
    Health,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Agent(String),
    /// Messages of one type of all administrators of an organization.
    Administration(String, MessageType),
    Organization(String),
}

/// Sliding windows, so many and no more.
struct Windows<K>(HashMap<K, VecDeque<Instant>>);

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
    /// No windows yet, under these limits.
    pub(crate) fn new(limits: RatesConfig) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Messages a minute of one agent.
    pub(crate) fn agent_limit(&self) -> u32 {
        self.limits.agent.get()
    }

    /// Counts a message of an address, before anybody is known; the state is the tighter one where what it wants has a
    /// limit of its own.
    pub(crate) fn step_address(
        &self,
        address: IpAddr,
        door: Door,
        now: Instant,
    ) -> Result<RateState, NlFault> {
        let network = network(address);
        let mut addresses = self.addresses.lock();
        let mut step = |door, limit| addresses.step((network, door), limit, "per_ip", now);
        let all = step(Door::Any, self.limits.address.get())?;
        let own = match door {
            Door::Any => return Ok(all),
            Door::Discovery => step(door, DISCOVERY_LIMIT)?,
            Door::Health => step(door, HEALTH_LIMIT)?,
        };
        Ok(if own.remaining < all.remaining { own } else { all })
    }

    /// Counts a message of an agent, which may send `limit` a minute, of an organization; the state is the tighter one.
    pub(crate) fn step_agent(
        &self,
        (instance, limit): (&str, u32),
        organization: &str,
        now: Instant,
    ) -> Result<RateState, NlFault> {
        let mut windows = self.windows.lock();
        let agent = windows.step(Key::Agent(instance.to_owned()), limit, "per_agent", now)?;
        let (key, limit) =
            (Key::Organization(organization.to_owned()), self.limits.organization.get());
        let all = windows.step(key, limit, "per_organization", now)?;
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
        self.windows.lock().step(key, limit, "per_organization", now).map(drop)
    }
}

impl<K: Clone + Eq + Hash> Windows<K> {
    fn step(
        &mut self,
        key: K,
        limit: u32,
        scope: &'static str,
        now: Instant,
    ) -> Result<RateState, NlFault> {
        let recent = |at: &Instant| now.duration_since(*at) < WINDOW;
        if self.0.len() >= MAX_WINDOWS && !self.0.contains_key(&key) {
            self.make_room(recent);
        }
        let window = self.0.entry(key).or_default();
        while window.front().is_some_and(|at| !recent(at)) {
            window.pop_front();
        }
        let used = u32::try_from(window.len()).unwrap_or(u32::MAX);
        let oldest = window.front().copied().unwrap_or(now);
        let reset = WINDOW.saturating_sub(now.duration_since(oldest)).as_secs() + 1;
        if used >= limit {
            return Err(spent(Code::RateLimited.into(), (limit, WINDOW), reset, scope));
        }
        window.push_back(now);
        Ok(RateState { limit, remaining: limit - used - 1, reset })
    }

    fn make_room(&mut self, recent: impl Fn(&Instant) -> bool) {
        self.0.retain(|_, window| window.back().is_some_and(&recent));
        if self.0.len() >= MAX_WINDOWS {
            let oldest = self.0.iter().min_by_key(|(_, window)| window.back().copied());
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.0.remove(&oldest);
            }
        }
    }
}

impl<K> Default for Windows<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What somebody has who has an address: this one, or of version 6 its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// With what chapter 08, 9.3, has about a window in which nothing is left: `reset`, the seconds until something is.
pub(super) fn spent(
    fault: NlFault,
    (limit, window): (u32, Duration),
    reset: u64,
    scope: &'static str,
) -> NlFault {
    fault
        .with("limit", limit)
        .with("window_seconds", window.as_secs())
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
        let limit = rates.agent_limit();
        for sent in 0..limit {
            let state = rates.step_agent(("a", limit), "o", start).unwrap();
            assert_eq!(state.remaining, limit - sent - 1);
        }
        let fault = rates.step_agent(("a", limit), "o", start).unwrap_err();
        assert_eq!(
            (fault.code(), &fault.details()["scope"]),
            (Code::RateLimited, &"per_agent".into())
        );
        assert!(rates.step_agent(("a", limit / 2), "o", start + WINDOW / 2).is_err());
        assert!(rates.step_agent(("b", limit), "o", start).is_ok());
        assert!(rates.step_agent(("a", limit), "o", start + WINDOW).is_ok());
    }

    #[test]
    fn an_address_stands_for_all_that_its_network_gives_out() {
        let limits = RatesConfig { address: 2.try_into().unwrap(), ..RatesConfig::default() };
        let (rates, start) = (Rates::new(limits), Instant::now());
        let step = |address: &str| {
            let counted = rates.step_address(address.parse().unwrap(), Door::Any, start);
            counted.map(|state| state.remaining).map_err(|fault| fault.details()["scope"].clone())
        };
        let spent = Err("per_ip".into());
        assert_eq!([step("192.0.2.1"), step("::ffff:192.0.2.1")], [Ok(1), Ok(0)]);
        assert_eq!([step("192.0.2.1"), step("192.0.2.2")], [spent.clone(), Ok(1)]);
        assert_eq!([step("2001:db8::1"), step("2001:db8::2:3:4:5")], [Ok(1), Ok(0)]);
        assert_eq!([step("2001:db8::6"), step("2001:db8:0:1::1")], [spent, Ok(1)]);
    }

    #[test]
    fn what_everybody_may_read_has_limits_of_its_own() {
        let (rates, start) = (Rates::default(), Instant::now());
        let address = "192.0.2.1".parse().unwrap();
        let step = |door| rates.step_address(address, door, start).map(|state| state.limit).ok();
        for _ in 0..DISCOVERY_LIMIT {
            assert_eq!(step(Door::Discovery), Some(DISCOVERY_LIMIT));
        }
        assert_eq!(step(Door::Discovery), None);
        assert_eq!(step(Door::Health), Some(HEALTH_LIMIT));
        assert_eq!(step(Door::Any), Some(RatesConfig::default().address.get()));
    }

    #[test]
    fn addresses_take_so_much_memory_and_no_more() {
        let (rates, start) = (Rates::default(), Instant::now());
        let step = |number: u32, at| {
            let address = std::net::Ipv4Addr::from_bits(number).into();
            rates.step_address(address, Door::Any, at).unwrap().remaining
        };
        let most = RatesConfig::default().address.get();
        let many = u32::try_from(MAX_WINDOWS).unwrap();
        let second = Duration::from_secs(1);
        for number in 0..many {
            step(number, start);
        }
        // One that is still there, and goes on: it is not the one that gives way.
        assert_eq!(step(0, start + second), most - 2);
        for number in many..many + 100 {
            step(number, start + second);
        }
        assert_eq!(rates.addresses.lock().0.len(), MAX_WINDOWS);
        assert_eq!(step(0, start + second), most - 3);
        // Agents have theirs, whoever comes from wherever.
        rates.step_agent(("a", 2), "o", start).unwrap();
        assert_eq!(rates.step_agent(("a", 2), "o", start + second).unwrap().remaining, 0);
    }
}
