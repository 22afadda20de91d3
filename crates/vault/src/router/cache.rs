//! Fetched values, kept in this process's memory for as long as source, lease and secret allow.
//!
//! Another process of the same store may have the secret kept elsewhere meanwhile, bound otherwise, or given a new
//! value: so each value is given out for as long as all is said of its secret that was said when it was fetched.

use std::{collections::HashMap, fmt, time::Duration};

use jiff::Timestamp;
use keyless_core::{Binding, SecretPath, SecretValue};

use crate::moment::Moment;

/// More secrets than one broker serves; beyond it the value that ends first goes.
const MAX_ENTRIES: usize = 1024;

/// Values by path.
#[derive(Default)]
pub(super) struct Cache {
    values: HashMap<SecretPath, Kept>,
    /// How often something was forgotten.
    forgotten: u64,
}

struct Kept {
    value: SecretValue,
    made_of: MadeOf,
    until: Moment,
}

/// What a value was fetched by, as the verified index says. Whatever changes a secret there, a put at its source
/// included, moves the second of its times; one that is removed, purged and added again has another first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MadeOf {
    pub(crate) source: String,
    pub(crate) reference: String,
    /// What the value was checked to be fit for.
    pub(crate) binding: Binding,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// When a value began to be fetched, as far as the cache is concerned.
#[derive(Clone, Copy)]
pub(super) struct Asked(u64);

impl Cache {
    /// The value of `path`, while it may still be used; at the very end it no longer is, and one that was made of
    /// something else never is.
    pub(super) fn get(
        &mut self,
        path: &SecretPath,
        made_of: &MadeOf,
        now: Moment,
    ) -> Option<SecretValue> {
        let kept = self.values.get(path)?;
        if now < kept.until && kept.made_of == *made_of {
            return Some(kept.value.copy_for_cache());
        }
        self.values.remove(path);
        None
    }

    /// To be asked before a value is fetched.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.forgotten)
    }

    /// Keeps a copy for `time`; not at all when that is nothing, or when something was forgotten while it was
    /// fetched: it may be what was to be forgotten.
    pub(super) fn put(
        &mut self,
        value: &SecretValue,
        made_of: MadeOf,
        asked: Asked,
        time: Duration,
        now: Moment,
    ) {
        if time.is_zero() || asked.0 != self.forgotten {
            return;
        }
        self.values.retain(|_, kept| now < kept.until);
        if self.values.len() >= MAX_ENTRIES {
            let first = self.values.iter().min_by_key(|(_, kept)| kept.until);
            if let Some(path) = first.map(|(path, _)| path.clone()) {
                self.values.remove(&path);
            }
        }
        let kept = Kept { value: value.copy_for_cache(), made_of, until: now + time };
        self.values.insert(value.path().clone(), kept);
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
    use super::*;

    fn path() -> SecretPath {
        SecretPath::parse("a/b/c").unwrap()
    }

    fn value() -> SecretValue {
        SecretValue::new(path(), b"12345678".to_vec(), Binding::None).unwrap()
    }

    fn made_of() -> MadeOf {
        MadeOf {
            source: "corp".to_owned(),
            reference: "app/one".to_owned(),
            binding: Binding::None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn values_end_on_time() {
        let (path, value, made_of) = (path(), value(), made_of());
        let (mut cache, now) = (Cache::default(), Moment::now());
        let second = Duration::from_secs(1);
        let asked = cache.asked();
        cache.put(&value, made_of.clone(), asked, Duration::ZERO, now);
        assert!(cache.get(&path, &made_of, now).is_none());
        cache.put(&value, made_of.clone(), asked, second, now);
        assert!(cache.get(&path, &made_of, now).is_some());
        assert!(cache.get(&path, &made_of, now + second).is_none());
        assert!(cache.get(&path, &made_of, now).is_none(), "it is gone for good");
    }

    #[test]
    fn what_was_on_its_way_when_it_was_forgotten_is_not_kept() {
        let (path, value, made_of) = (path(), value(), made_of());
        let (mut cache, now) = (Cache::default(), Moment::now());
        let forgets: [fn(&mut Cache, &SecretPath); 2] =
            [|cache, path| cache.forget(path), |cache, _| cache.forget_all()];
        for forget in forgets {
            let asked = cache.asked();
            forget(&mut cache, &path);
            cache.put(&value, made_of.clone(), asked, Duration::from_mins(1), now);
            assert!(cache.get(&path, &made_of, now).is_none());
        }
        let asked = cache.asked();
        cache.put(&value, made_of.clone(), asked, Duration::from_mins(1), now);
        assert!(cache.get(&path, &made_of, now).is_some());
    }

    #[test]
    fn a_value_goes_once_anything_is_said_otherwise_of_its_secret() {
        let later = Timestamp::from_second(1).unwrap();
        let changes: [fn(&mut MadeOf, Timestamp); 5] = [
            |of, _| of.source = "other".to_owned(),
            |of, _| of.reference = "app/two".to_owned(),
            |of, _| of.binding = Binding::Destinations,
            |of, later| of.created_at = later,
            |of, later| of.updated_at = later,
        ];
        let (path, now, minute) = (path(), Moment::now(), Duration::from_mins(1));
        for change in changes {
            let mut cache = Cache::default();
            cache.put(&value(), made_of(), cache.asked(), minute, now);
            assert!(cache.get(&path, &made_of(), now).is_some());
            let mut other = made_of();
            change(&mut other, later);
            assert!(cache.get(&path, &other, now).is_none(), "{other:?}");
            assert!(cache.get(&path, &made_of(), now).is_none(), "it is gone for good");
        }
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
