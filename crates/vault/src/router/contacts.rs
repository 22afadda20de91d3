//! How each source was when it was last asked for a value or given one, until the store keeps it.

use std::{collections::BTreeMap, time::Duration};

use crate::{moment::Moment, source::State};

/// The least time between two records of one outcome.
const PAUSE: Duration = Duration::from_secs(10);

/// The last contact of each source with this process.
#[derive(Default)]
pub(super) struct Contacts(BTreeMap<String, Contact>);

struct Contact {
    outcome: State,
    noted: Moment,
    is_new: bool,
}

impl Contacts {
    /// Notes a contact.
    pub(super) fn note(&mut self, source: &str, outcome: State, now: Moment) {
        let known = self.0.get(source);
        if known.is_none_or(|last| last.outcome != outcome || now.since(last.noted) >= PAUSE) {
            self.0.insert(source.to_owned(), Contact { outcome, noted: now, is_new: true });
        }
    }

    /// Those that nobody took yet.
    pub(super) fn take_new(&mut self) -> Vec<(String, State)> {
        let new = self.0.iter_mut().filter(|(_, contact)| contact.is_new);
        new.map(|(source, contact)| {
            contact.is_new = false;
            (source.clone(), contact.outcome)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_new_after_a_while() {
        let (mut contacts, now) = (Contacts::default(), Moment::now());
        let told = |contacts: &mut Contacts| contacts.take_new().len();
        contacts.note("a", State::Available, now);
        contacts.note("b", State::Locked, now);
        assert_eq!((told(&mut contacts), told(&mut contacts)), (2, 0));
        contacts.note("a", State::Available, now + Duration::from_secs(9));
        assert_eq!(told(&mut contacts), 0);
        contacts.note("a", State::Available, now + PAUSE);
        contacts.note("b", State::Available, now);
        assert_eq!(told(&mut contacts), 2);
    }
}
