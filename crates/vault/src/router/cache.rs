//! Fetched values, kept in this process's memory for as long as source, lease and secret allow.

use std::{collections::HashMap, fmt, time::Duration};

use keyless_core::{SecretPath, SecretValue};

use crate::moment::Moment;

/// More secrets than one broker serves; beyond it the value that ends first goes.
const MAX_ENTRIES: usize = 1024;

/// Values by path and the moment when each ends.
#[derive(Default)]
pub(super) struct Cache {
    values: HashMap<SecretPath, (SecretValue, Moment)>,
    /// How often something was forgotten.
    forgotten: u64,
}

/// When a value began to be fetched, as far as the cache is concerned.
#[derive(Clone, Copy)]
pub(super) struct Asked(u64);

impl Cache {
    /// The value of `path`, while it may still be used; at the very end it no longer is.
    pub(super) fn get(&mut self, path: &SecretPath, now: Moment) -> Option<SecretValue> {
        match self.values.get(path) {
            Some((value, until)) if now < *until => Some(value.copy_for_cache()),
            Some(_) => {
                self.values.remove(path);
                None
            }
            None => None,
        }
    }

    /// To be asked before a value is fetched.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.forgotten)
    }

    /// Keeps a copy for `time`; not at all when that is nothing, or when something was forgotten while it was
    /// fetched: it may be what was to be forgotten.
    pub(super) fn put(&mut self, value: &SecretValue, asked: Asked, time: Duration, now: Moment) {
        if time.is_zero() || asked.0 != self.forgotten {
            return;
        }
        self.values.retain(|_, (_, until)| now < *until);
        if self.values.len() >= MAX_ENTRIES {
            let first = self.values.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(path) = first.map(|(path, _)| path.clone()) {
                self.values.remove(&path);
            }
        }
        self.values.insert(value.path().clone(), (value.copy_for_cache(), now + time));
    }

    /// Forgets one value.
    pub(super) fn forget(&mut self, path: &SecretPath) {
        self.values.remove(path);
        self.forgotten += 1;
    }

    /// Forgets them all.
    pub(super) fn forget_all(&mut self) {
        self.values.clear();
        self.forgotten += 1;
    }
}

/// The shortest of what source, lease and secret allow.
pub(super) fn shortest(source: Duration, lease: Option<Duration>, secret: Option<u64>) -> Duration {
    let secret = secret.map(Duration::from_secs);
    [lease, secret].into_iter().flatten().fold(source, Duration::min)
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache of {}", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::Binding;

    use super::*;

    #[test]
    fn values_end_on_time() {
        let path = SecretPath::parse("a/b/c").unwrap();
        let value = SecretValue::new(path.clone(), b"12345678".to_vec(), Binding::None).unwrap();
        let (mut cache, now) = (Cache::default(), Moment::now());
        let second = Duration::from_secs(1);
        let asked = cache.asked();
        cache.put(&value, asked, Duration::ZERO, now);
        assert!(cache.get(&path, now).is_none());
        cache.put(&value, asked, second, now);
        assert!(cache.get(&path, now).is_some());
        assert!(cache.get(&path, now + second).is_none());
        assert!(cache.get(&path, now).is_none(), "it is gone for good");
    }

    #[test]
    fn what_was_on_its_way_when_it_was_forgotten_is_not_kept() {
        let path = SecretPath::parse("a/b/c").unwrap();
        let value = SecretValue::new(path.clone(), b"12345678".to_vec(), Binding::None).unwrap();
        let (mut cache, now) = (Cache::default(), Moment::now());
        let forgets: [fn(&mut Cache, &SecretPath); 2] =
            [|cache, path| cache.forget(path), |cache, _| cache.forget_all()];
        for forget in forgets {
            let asked = cache.asked();
            forget(&mut cache, &path);
            cache.put(&value, asked, Duration::from_mins(1), now);
            assert!(cache.get(&path, now).is_none());
        }
        let asked = cache.asked();
        cache.put(&value, asked, Duration::from_mins(1), now);
        assert!(cache.get(&path, now).is_some());
    }

    #[test]
    fn the_shortest_word_counts() {
        let seconds = Duration::from_secs;
        assert_eq!(shortest(seconds(900), None, None), seconds(900));
        assert_eq!(shortest(seconds(900), Some(seconds(60)), Some(30)), seconds(30));
        assert_eq!(shortest(seconds(900), Some(seconds(0)), None), seconds(0));
        assert_eq!(shortest(seconds(10), Some(seconds(60)), Some(90)), seconds(10));
    }
}
