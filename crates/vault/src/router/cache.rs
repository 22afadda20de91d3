//! Fetched values, kept in this process's memory for as long as source, lease and secret allow.

use std::{collections::HashMap, fmt, time::Duration};

use keyless_core::{SecretPath, SecretValue};

use crate::moment::Moment;

/// More secrets than one broker serves; beyond it the value that ends first goes.
const MAX_ENTRIES: usize = 1024;

/// Values by path and the moment when each ends.
#[derive(Default)]
pub(super) struct Cache(HashMap<SecretPath, (SecretValue, Moment)>);

impl Cache {
    /// The value of `path`, while it may still be used; at the very end it no longer is.
    pub(super) fn get(&mut self, path: &SecretPath, now: Moment) -> Option<SecretValue> {
        match self.0.get(path) {
            Some((value, until)) if now < *until => Some(value.copy_for_cache()),
            Some(_) => {
                self.0.remove(path);
                None
            }
            None => None,
        }
    }

    /// Keeps a copy for `time`; not at all when that is nothing.
    pub(super) fn put(&mut self, value: &SecretValue, time: Duration, now: Moment) {
        if time.is_zero() {
            return;
        }
        self.0.retain(|_, (_, until)| now < *until);
        if self.0.len() >= MAX_ENTRIES {
            let first = self.0.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(path) = first.map(|(path, _)| path.clone()) {
                self.0.remove(&path);
            }
        }
        self.0.insert(value.path().clone(), (value.copy_for_cache(), now + time));
    }

    /// Forgets one value.
    pub(super) fn forget(&mut self, path: &SecretPath) {
        self.0.remove(path);
    }
}

/// The shortest of what source, lease and secret allow.
pub(super) fn shortest(source: Duration, lease: Option<Duration>, secret: Option<u64>) -> Duration {
    let secret = secret.map(Duration::from_secs);
    [lease, secret].into_iter().flatten().fold(source, Duration::min)
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache of {}", self.0.len())
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
        cache.put(&value, Duration::ZERO, now);
        assert!(cache.get(&path, now).is_none());
        cache.put(&value, second, now);
        assert!(cache.get(&path, now).is_some());
        assert!(cache.get(&path, now + second).is_none());
        assert!(cache.get(&path, now).is_none(), "it is gone for good");
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
