//! Values that were released and may be used again while their permits last.

use std::{collections::HashMap, sync::Arc, time::Duration};

use keyless_core::{Authority, SecretPath, Uptime};
use keyless_egress::Released;
use parking_lot::Mutex;

/// What is left of a permit where it is used again: its request takes some time, too.
const MARGIN: Duration = Duration::from_secs(1);
/// A secret may go to a whole domain, whose names are the agent's to choose: of so many places it is remembered that a
/// value went there.
const MOST: usize = 1024;

/// The leases of one session, of values alone but in tests.
pub(super) struct Leases<V = Released>(Mutex<HashMap<(SecretPath, Authority), Lease<V>>>);

/// One secret's use toward one authority.
pub(super) struct Lease<V> {
    /// Nothing once the permit is over: the value is wiped then, as soon as the next one comes.
    value: Option<Arc<V>>,
    until: Uptime,
    epoch: Epoch,
}

/// What ends all leases at once: none outlives a change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    /// [`UseGate::taken_back`](crate::approvals::UseGate::taken_back).
    pub(super) taken_back: u64,
    /// [`Values::closings`](crate::values::Values::closings).
    pub(super) closings: u64,
}

impl<V> Lease<V> {
    pub(super) fn new(value: Arc<V>, until: Uptime, epoch: Epoch) -> Self {
        Self { value: Some(value), until, epoch }
    }
}

impl<V> Default for Leases<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> Leases<V> {
    /// The value, if its permit still has some time, no approval was taken back since and the store was not locked.
    pub(super) fn value(
        &self,
        path: &SecretPath,
        authority: &Authority,
        now: Uptime,
        epoch: Epoch,
    ) -> Option<Arc<V>> {
        let all = self.0.lock();
        let lease = all.get(&(path.clone(), authority.clone()))?;
        let holds = now + MARGIN < lease.until && lease.epoch == epoch;
        lease.value.clone().filter(|_| holds)
    }

    /// Takes one more in, and lets go of the values whose permits are over.
    pub(super) fn put(&self, path: SecretPath, authority: Authority, lease: Lease<V>, now: Uptime) {
        let mut all = self.0.lock();
        for known in all.values_mut().filter(|known| known.until <= now) {
            known.value = None;
        }
        if all.len() >= MOST {
            all.retain(|_, known| known.value.is_some());
        }
        all.insert((path, authority), lease);
    }

    /// Whether the secret went there, however long ago.
    pub(super) fn has(&self, path: &SecretPath, authority: &Authority) -> bool {
        self.0.lock().contains_key(&(path.clone(), authority.clone()))
    }

    /// Forgets one secret's use toward one authority.
    pub(super) fn remove(&self, path: &SecretPath, authority: &Authority) {
        self.0.lock().remove(&(path.clone(), authority.clone()));
    }

    /// Forgets every use of the secrets that `are_meant`.
    pub(super) fn forget(&self, are_meant: impl Fn(&SecretPath) -> bool) {
        self.0.lock().retain(|(path, _), _| !are_meant(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { taken_back: 0, closings: 0 };

    fn at(second: u64) -> Uptime {
        Uptime::since_start(Duration::from_secs(second))
    }

    fn host(number: usize) -> Authority {
        Authority::parse(&format!("h{number}.wild.test:443")).unwrap()
    }

    #[test]
    fn a_value_goes_with_its_permit_and_that_it_was_used_stays() {
        let (leases, path) = (Leases::default(), SecretPath::parse("team/api/token").unwrap());
        let value = Arc::new("value");
        leases.put(path.clone(), host(0), Lease::new(Arc::clone(&value), at(5), EPOCH), at(0));
        let found = |now: u64, epoch| leases.value(&path, &host(0), at(now), epoch);
        assert!(found(3, EPOCH).is_some());
        assert!(found(4, EPOCH).is_none(), "too late to begin anything");
        assert!(found(3, Epoch { taken_back: 1, ..EPOCH }).is_none(), "an approval was taken back");
        assert!(found(3, Epoch { closings: 1, ..EPOCH }).is_none(), "the store was locked");
        assert_eq!(Arc::strong_count(&value), 2);
        leases.put(path.clone(), host(1), Lease::new(Arc::new("other"), at(10), EPOCH), at(5));
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(leases.has(&path, &host(0)), "a token that is refused late is renewed as well");
        leases.forget(|known| *known == path);
        assert!(!leases.has(&path, &host(0)) && !leases.has(&path, &host(1)));
    }

    #[test]
    fn names_of_the_agents_choice_do_not_fill_the_memory() {
        let (leases, path) = (Leases::default(), SecretPath::parse("team/api/token").unwrap());
        for number in 0..3 * MOST {
            let now = number as u64;
            let lease = Lease::new(Arc::new("value"), at(now + 5), EPOCH);
            leases.put(path.clone(), host(number), lease, at(now));
            assert!(leases.0.lock().len() <= MOST);
        }
        assert!(leases.has(&path, &host(3 * MOST - 1)));
    }
}
