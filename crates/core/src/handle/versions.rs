//! Which of a secret's values a handle gives, and for how long those that were replaced are given.
//!
//! A value that was replaced is given for a time of grace, an hour unless the operator says otherwise, then with a warning for a
//! day, then not any more (NL-8.14, NL-8.15). It does not matter how long it stays sealed. Source: reference/nl.md, section 8.

use jiff::{SignedDuration, Timestamp};

use super::Version;

/// For how long a value that was replaced is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// As good as the one in force.
    pub full: SignedDuration,
    /// After that, with a warning.
    pub deprecated: SignedDuration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { full: SignedDuration::from_hours(1), deprecated: SignedDuration::from_hours(24) }
    }
}

/// A value that a secret has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Had {
    /// Its number, from 1.
    pub version: u32,
    /// Since when.
    pub since: Timestamp,
}

/// The value that a handle gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its number.
    pub version: u32,
    /// Whether it is the one in force.
    pub is_in_force: bool,
    /// Whether it was replaced so long ago that it will soon not be given any more.
    pub is_deprecated: bool,
}

impl Version {
    /// The value that is meant, of all that were `had`, in ascending order; nothing when there is none such, or its time
    /// is over. One that is newer than `in_force` was taken back, and is not given.
    pub fn choose(self, had: &[Had], in_force: u32, grace: Grace, now: Timestamp) -> Option<Given> {
        let version = match self {
            Self::Latest => in_force,
            Self::Number(number) => number,
            Self::Previous => had.iter().rfind(|had| had.version < in_force)?.version,
        };
        if version == in_force {
            return Some(Given { version, is_in_force: true, is_deprecated: false });
        }
        let next = had.iter().find(|had| had.version > version && had.version <= in_force)?;
        let age = now.duration_since(next.since);
        let is_there = had.iter().any(|had| had.version == version);
        let until = grace.full.saturating_add(grace.deprecated);
        let is_deprecated = age >= grace.full;
        (is_there && age < until).then_some(Given { version, is_in_force: false, is_deprecated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn what_was_replaced_is_given_for_a_while() {
        // Three values, an hour apart each.
        let had = [1, 2, 3].map(|version: u32| Had { version, since: at(i64::from(version) * 60) });
        let given = |asked: Version, minutes| {
            let given = asked.choose(&had, 3, Grace::default(), at(minutes));
            given.map(|given| (given.version, given.is_deprecated))
        };
        for (asked, minutes, expected) in [
            (Version::Latest, 9_999, Some((3, false))),
            (Version::Number(3), 9_999, Some((3, false))),
            (Version::Previous, 181, Some((2, false))),
            (Version::Previous, 239, Some((2, false))),
            (Version::Previous, 240, Some((2, true))),
            (Version::Number(2), 180 + 25 * 60 - 1, Some((2, true))),
            (Version::Number(2), 180 + 25 * 60, None),
            (Version::Number(1), 181, Some((1, true))),
            (Version::Number(4), 181, None),
            (Version::Number(9), 181, None),
        ] {
            assert_eq!(given(asked, minutes), expected, "{asked:?} {minutes}");
        }
        // With no grace at all, and with one that is longer.
        let none = Grace { full: SignedDuration::ZERO, deprecated: SignedDuration::ZERO };
        assert_eq!(Version::Previous.choose(&had, 3, none, at(181)), None);
        let long = Grace { full: SignedDuration::from_hours(3), ..none };
        let given = Version::Previous.choose(&had, 3, long, at(359));
        assert_eq!(given, Some(Given { version: 2, is_in_force: false, is_deprecated: false }));
        // The second is in force again: the third was taken back.
        assert_eq!(Version::Number(3).choose(&had, 2, Grace::default(), at(181)), None);
        assert_eq!(
            Version::Previous.choose(&had, 2, Grace::default(), at(130)).unwrap().version,
            1
        );
        assert_eq!(Version::Previous.choose(&had[..1], 1, Grace::default(), at(61)), None);
    }
}
