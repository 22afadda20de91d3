//! The synthetic pool: every name its own address out of 127.1.0.1 to 127.254.255.254.
//!
//! A live address is never handed to another name, since the connection would then be opened with
//! the wrong name and its secret (reference/egress.md (c) 40). Live means: used within [`LIFE`], or a
//! connection to it is open. When all names are taken, the least recently used one that is no longer
//! live makes room; when none is, the lookup fails. Addresses are given out in a ring far larger
//! than the number of names kept, so that an address remembered too long by some client stands for
//! nothing rather than for another name. Pure: time is an argument.

use std::{
    collections::{BTreeSet, HashMap},
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use keyless_core::HostName;

/// How long a client may keep an answer.
pub const TTL: Duration = Duration::from_mins(1);

/// How long an address stays with its name after it was last looked up, opened or closed:
/// [`TTL`], and a margin for an answer under way and for clients that are late.
pub const LIFE: Duration = Duration::from_secs(90);

/// Names kept at once. Bounds the memory that a confined command can take by inventing names, to
/// about 20 MiB with the longest of them.
const MAX_NAMES: usize = 1 << 16;

/// Addresses in the ring: second octet 1 to 254, third any, last 1 to 254.
const RING: u32 = 254 * 256 * 254;

/// Which name a synthetic address stands for, and the other way around.
#[derive(Debug)]
pub struct Pool {
    entries: HashMap<Spot, Entry>,
    by_name: HashMap<HostName, Spot>,
    /// Entries without an open connection, least recently used first.
    idle: BTreeSet<(Instant, Spot)>,
    next: u32,
    ring: u32,
    max_names: usize,
}

/// Every address belongs to a name that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// A place in the ring of addresses, below [`RING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Spot(u32);

#[derive(Debug)]
struct Entry {
    name: HostName,
    last_used: Instant,
    /// Connections open to the address.
    open: usize,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::bounded(MAX_NAMES, RING)
    }

    /// A pool of at most `max_names` names over the first `ring` addresses.
    fn bounded(max_names: usize, ring: u32) -> Self {
        assert!(ring <= RING && max_names <= ring as usize, "more names than addresses");
        Self {
            entries: HashMap::new(),
            by_name: HashMap::new(),
            idle: BTreeSet::new(),
            next: 0,
            ring,
            max_names,
        }
    }

    /// The address of `name`, which is then live for [`LIFE`] from `now`.
    pub fn lookup(&mut self, name: &HostName, now: Instant) -> Result<Ipv4Addr, Exhausted> {
        if let Some(&spot) = self.by_name.get(name) {
            self.touch(spot, now);
            return Ok(spot.address());
        }
        if self.entries.len() >= self.max_names {
            self.recycle(now)?;
        }
        let spot = self.free_spot();
        self.entries.insert(spot, Entry { name: name.clone(), last_used: now, open: 0 });
        self.by_name.insert(name.clone(), spot);
        self.idle.insert((now, spot));
        Ok(spot.address())
    }

    /// Notes a connection to `address` and says which name it is for; `None` when the address stands
    /// for no name. The address stays live until as many [`Pool::close`] calls have come.
    pub fn open(&mut self, address: Ipv4Addr, now: Instant) -> Option<HostName> {
        let spot = Spot::of(address)?;
        self.touch(spot, now);
        let entry = self.entries.get_mut(&spot)?;
        if entry.open == 0 {
            self.idle.remove(&(entry.last_used, spot));
        }
        entry.open += 1;
        Some(entry.name.clone())
    }

    /// Notes the end of a connection that [`Pool::open`] has noted.
    pub fn close(&mut self, address: Ipv4Addr, now: Instant) {
        let Some(spot) = Spot::of(address) else { return };
        let Some(entry) = self.entries.get_mut(&spot).filter(|entry| entry.open > 0) else {
            return;
        };
        entry.open -= 1;
        entry.last_used = entry.last_used.max(now);
        if entry.open == 0 {
            self.idle.insert((entry.last_used, spot));
        }
    }

    /// The name that `address` stands for; asking does not keep it alive.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        self.entries.get(&Spot::of(address)?).map(|entry| &entry.name)
    }

    fn touch(&mut self, spot: Spot, now: Instant) {
        let Some(entry) = self.entries.get_mut(&spot) else { return };
        let now = now.max(entry.last_used);
        if entry.open == 0 {
            self.idle.remove(&(entry.last_used, spot));
            self.idle.insert((now, spot));
        }
        entry.last_used = now;
    }

    /// Drops the least recently used name, if even that one is no longer live.
    fn recycle(&mut self, now: Instant) -> Result<(), Exhausted> {
        match self.idle.first() {
            Some(&(last_used, spot)) if now.saturating_duration_since(last_used) > LIFE => {
                self.idle.pop_first();
                let entry = self.entries.remove(&spot).expect("every idle spot has its entry");
                self.by_name.remove(&entry.name);
                Ok(())
            }
            _ => Err(Exhausted),
        }
    }

    /// The next address of the ring that is nobody's. There is one: fewer names are kept than the
    /// ring has addresses, and room was made before.
    fn free_spot(&mut self) -> Spot {
        loop {
            let spot = Spot(self.next);
            self.next = (self.next + 1) % self.ring;
            if !self.entries.contains_key(&spot) {
                return spot;
            }
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Spot {
    fn of(address: Ipv4Addr) -> Option<Self> {
        match address.octets() {
            [127, second @ 1..=254, third, last @ 1..=254] => Some(Self(
                (u32::from(second - 1) * 256 + u32::from(third)) * 254 + u32::from(last - 1),
            )),
            _ => None,
        }
    }

    fn address(self) -> Ipv4Addr {
        let (high, last) = (self.0 / 254, self.0 % 254 + 1);
        let octet =
            |n: u32| u8::try_from(n).expect("a spot is below RING, so each part is an octet");
        Ipv4Addr::new(127, octet(high / 256 + 1), octet(high % 256), octet(last))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(n: impl std::fmt::Display) -> HostName {
        HostName::parse(&format!("h{n}.test")).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_and_no_other_gets_it() {
        let (mut pool, now) = (Pool::new(), Instant::now());
        let first = pool.lookup(&name(1), now).unwrap();
        assert_eq!(first, Ipv4Addr::new(127, 1, 0, 1));
        assert_eq!(pool.lookup(&name(2), now).unwrap(), Ipv4Addr::new(127, 1, 0, 2));
        assert_eq!(pool.lookup(&name(1), now + LIFE * 9).unwrap(), first);
        assert_eq!(pool.name_of(first), Some(&name(1)));
        assert_eq!(pool.open(Ipv4Addr::new(127, 9, 9, 9), now), None);
        assert_eq!(pool.open(Ipv4Addr::new(192, 0, 2, 1), now), None);
    }

    #[test]
    fn spots_and_addresses_are_the_same_thing() {
        for spot in (0..RING).step_by(997).chain([0, 253, 254, RING - 1]).map(Spot) {
            assert_eq!(Spot::of(spot.address()), Some(spot));
        }
        assert_eq!(Spot(RING - 1).address(), Ipv4Addr::new(127, 254, 255, 254));
        for outside in [[127, 0, 0, 1], [127, 1, 0, 0], [127, 1, 0, 255], [127, 255, 0, 1]] {
            assert_eq!(Spot::of(outside.into()), None);
        }
    }

    #[test]
    fn only_the_longest_unused_dead_name_makes_room() {
        let (mut pool, start) = (Pool::bounded(2, 4), Instant::now());
        let first = pool.lookup(&name(1), start).unwrap();
        let second = pool.lookup(&name(2), start).unwrap();
        assert_eq!(pool.lookup(&name(3), start + LIFE), Err(Exhausted));
        pool.open(first, start).unwrap();
        let later = start + LIFE * 2;
        let third = pool.lookup(&name(3), later).unwrap();
        assert!(third != first && third != second, "a dropped address rests for a while");
        assert_eq!(pool.name_of(first), Some(&name(1)), "an open connection keeps it");
        assert_eq!(pool.lookup(&name(4), later), Err(Exhausted));
        pool.close(first, later);
        assert_eq!(pool.lookup(&name(4), later + LIFE), Err(Exhausted), "closing counts as use");
        assert!(pool.lookup(&name(4), later + LIFE + TTL).is_ok());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Lookup(u8),
        Open(u8),
        Close(u8),
        Wait(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..12).prop_map(Step::Lookup),
            2 => (0u8..8).prop_map(Step::Open),
            2 => (0u8..8).prop_map(Step::Close),
            2 => (0u8..120).prop_map(Step::Wait),
        ]
    }

    /// What a client may rely on, kept the obvious way: for each address, to whom and until when.
    #[derive(Default)]
    struct Promises(HashMap<Ipv4Addr, (HostName, Instant, usize)>);

    proptest! {
        #[test]
        fn a_live_address_never_has_two_names(steps in prop::collection::vec(step(), 1..400)) {
            let mut pool = Pool::bounded(5, 7);
            let mut promises = Promises::default();
            let mut now = Instant::now();
            for step in steps {
                match step {
                    Step::Wait(seconds) => now += Duration::from_secs(seconds.into()),
                    Step::Lookup(n) => {
                        let Ok(address) = pool.lookup(&name(n), now) else { continue };
                        let open = match promises.0.get(&address) {
                            Some((owner, until, open)) => {
                                let live = *until >= now || *open > 0;
                                prop_assert!(!live || *owner == name(n));
                                *open
                            }
                            None => 0,
                        };
                        promises.0.insert(address, (name(n), now + TTL, open));
                    }
                    Step::Open(n) => {
                        let address = Spot(u32::from(n) % 7).address();
                        let Some(opened) = pool.open(address, now) else { continue };
                        let promise = promises.0.get_mut(&address).unwrap();
                        prop_assert_eq!(&opened, &promise.0);
                        promise.2 += 1;
                    }
                    Step::Close(n) => {
                        let address = Spot(u32::from(n) % 7).address();
                        if let Some(promise) = promises.0.get_mut(&address).filter(|p| p.2 > 0) {
                            promise.2 -= 1;
                            pool.close(address, now);
                        }
                    }
                }
                prop_assert!(pool.entries.len() <= 5);
                prop_assert_eq!(pool.entries.len(), pool.by_name.len());
                for (address, (owner, until, open)) in &promises.0 {
                    if *until >= now || *open > 0 {
                        prop_assert_eq!(pool.name_of(*address), Some(owner));
                    }
                }
            }
        }
    }
}
