//! Tokens that servers mint for the agent: it holds placeholders, they are kept here until the
//! session ends.
//!
//! There is room for eight of each kind of token of each secret that has answers sealed, from the session's start on, so
//! that its hosts and rules don't change while it runs. A ninth token of a kind has the first one's room, under a name and
//! placeholder of its own: the first one, which has been refreshed eight times by then, is dropped, and its placeholder
//! stands for nothing.

use std::collections::HashMap;

use keyless_core::{
    Binding, Code, Error, Placeholder, PlaceholderForm, SafeText, SecretPath, SecretValue,
    SessionKey,
};
use keyless_egress::{Kept, Minted, SessionSecret};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::broker::session_key;

/// Tokens of one kind that are kept at a time.
const SLOTS: usize = 8;

/// The minted tokens of one session.
#[derive(Default)]
pub(crate) struct MintedTokens(Mutex<HashMap<(SecretPath, String), Ring>>);

/// The tokens of one kind, the youngest eight, each at its number's place.
#[derive(Default)]
struct Ring {
    tokens: Vec<Token>,
    /// How many there have been.
    count: usize,
}

struct Token {
    kept: Kept,
    value: Zeroizing<Vec<u8>>,
}

/// The secrets that stand for what `secret` has sealed.
pub(crate) fn slots(secret: &SessionSecret, key: &SessionKey) -> Result<Vec<SessionSecret>, Error> {
    let mut slots: Vec<SessionSecret> = Vec::new();
    for sealing in &secret.rule.seal {
        let rule = secret.rule.of_tokens(sealing);
        for field in sealing.fields() {
            for number in 0..SLOTS {
                let path = slot_path(&secret.path, field, number)?;
                if slots.iter().any(|slot| slot.path == path) {
                    continue;
                }
                let placeholder = Placeholder::derive(key, &path, &PlaceholderForm::Default);
                slots.push(SessionSecret { path, placeholder, rule: rule.clone() });
            }
        }
    }
    Ok(slots)
}

impl MintedTokens {
    /// Keeps a token; the same one again stays where it is. Gives what stands for it.
    pub(crate) fn keep(
        &self,
        parent: &SecretPath,
        Minted { kind, value, .. }: &Minted,
    ) -> Result<Kept, Error> {
        let mut rings = self.0.lock();
        let ring = rings.entry((parent.clone(), kind.clone())).or_default();
        if let Some(token) = ring.tokens.iter().find(|token| token.value == *value) {
            return Ok(token.kept.clone());
        }
        let number = ring.count;
        let slot = slot_path(parent, kind, number % SLOTS)?;
        let younger = if number < SLOTS {
            None
        } else {
            let path = slot_path(parent, kind, number)?;
            // By a key of its own: nobody has to find it again.
            let form = PlaceholderForm::Default;
            let placeholder = Placeholder::derive(&session_key()?, &path, &form);
            Some((path, placeholder))
        };
        let kept = Kept { slot, younger };
        value_of(kept.path(), value)?;
        let token = Token { kept: kept.clone(), value: value.clone() };
        match ring.tokens.get_mut(number % SLOTS) {
            Some(oldest) => *oldest = token,
            None => ring.tokens.push(token),
        }
        ring.count += 1;
        Ok(kept)
    }

    /// The token that a secret stands for, if it is one of ours; [`Code::SecretWithdrawn`] of one that made room.
    pub(crate) fn open(&self, path: &SecretPath) -> Option<Result<SecretValue, Error>> {
        let rings = self.0.lock();
        let (number, ring) = find(&rings, path)?;
        if ring.has_dropped(number) {
            let words = "younger tokens took its room";
            return Some(Err(Error::with(Code::SecretWithdrawn, words.into())));
        }
        Some(value_of(path, &ring.tokens[number % SLOTS].value))
    }

    /// The secret whose answer brought the token that this path is, if it is one of ours.
    pub(crate) fn parent_of(&self, path: &SecretPath) -> Option<SecretPath> {
        let rings = self.0.lock();
        let of = |(parent, kind): &&(SecretPath, String)| number_of(path, parent, kind).is_some();
        rings.keys().find(of).map(|(parent, _)| parent.clone())
    }

    /// Whether it stood for a token that made room for another.
    pub(crate) fn has_dropped(&self, path: &SecretPath) -> bool {
        find(&self.0.lock(), path).is_some_and(|(number, ring)| ring.has_dropped(number))
    }
}

impl Ring {
    fn has_dropped(&self, number: usize) -> bool {
        number + SLOTS < self.count
    }
}

/// Which token of which ring this path is.
fn find<'r>(
    rings: &'r HashMap<(SecretPath, String), Ring>,
    path: &SecretPath,
) -> Option<(usize, &'r Ring)> {
    rings.iter().find_map(|((parent, kind), ring)| {
        let number = number_of(path, parent, kind).filter(|number| *number < ring.count)?;
        Some((number, ring))
    })
}

/// Which token of a kind this path is, from zero.
fn number_of(path: &SecretPath, parent: &SecretPath, kind: &str) -> Option<usize> {
    let (_, number) = path.as_str().rsplit_once('-')?;
    let number = number.parse::<usize>().ok()?.checked_sub(1)?;
    slot_path(parent, kind, number).is_ok_and(|one| one == *path).then_some(number)
}

/// `team/google/client/access-token-1`.
fn slot_path(parent: &SecretPath, field: &str, number: usize) -> Result<SecretPath, Error> {
    let words = field.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase);
    let name = words.collect::<Vec<_>>().join("-");
    let path = format!("{parent}/{name}-{}", number + 1);
    SecretPath::parse(&path).map_err(|error| {
        let words = SafeText::words("the tokens of ").and(parent).and(" can't be named: ");
        Error::with(Code::Usage, words.and(error))
    })
}

fn value_of(path: &SecretPath, value: &[u8]) -> Result<SecretValue, Error> {
    SecretValue::new(path.clone(), value.to_vec(), Binding::Destinations).map_err(|error| {
        let words = SafeText::words("a token for ").and(path).and(" can't be kept: ");
        Error::with(Code::TokenUnavailable, words.and(error))
    })
}

#[cfg(test)]
mod tests {
    use keyless_core::{Authority, Destination, EgressRule, Sealing};

    use super::*;

    fn parent() -> SecretPath {
        SecretPath::parse("team/google/client").unwrap()
    }

    fn minted(kind: &str, value: &str) -> Minted {
        Minted {
            parents: vec![parent()],
            correlation_id: String::new(),
            authority: Authority::parse("auth.test:443").unwrap(),
            kind: kind.to_owned(),
            value: Zeroizing::new(value.as_bytes().to_vec()),
        }
    }

    #[test]
    fn each_token_has_its_slot_and_the_oldest_makes_room() {
        let tokens = MintedTokens::default();
        let kept = |value: &str| tokens.keep(&parent(), &minted("access_token", value)).unwrap();
        let keep = |value: &str| kept(value).path().to_string();
        let opened = |path: &str| tokens.open(&SecretPath::parse(path).unwrap());
        assert_eq!(keep("token-number-1"), "team/google/client/access-token-1");
        assert_eq!(keep("token-number-2"), "team/google/client/access-token-2");
        assert_eq!(keep("token-number-1"), "team/google/client/access-token-1");
        for number in 3..=9 {
            keep(&format!("token-number-{number}"));
        }
        // In the room of the first, and not under its name.
        let ninth = kept("token-number-9");
        assert_eq!(ninth.slot.as_str(), "team/google/client/access-token-1");
        assert_eq!(ninth.path().as_str(), "team/google/client/access-token-9");
        assert_eq!(kept("token-number-9"), ninth);
        let ninth = opened("team/google/client/access-token-9").unwrap().unwrap();
        assert!(ninth.occurs_in(b"token-number-9"));
        let first = opened("team/google/client/access-token-1").unwrap();
        assert_eq!(first.err().map(|error| error.code()), Some(Code::SecretWithdrawn));
        let second = opened("team/google/client/access-token-2").unwrap().unwrap();
        assert!(second.occurs_in(b"token-number-2"));
        assert!(opened("team/google/client/access-token-10").is_none());
        assert!(tokens.open(&parent()).is_none());
        assert!(tokens.keep(&parent(), &minted("id_token", "short")).is_err());
    }

    #[test]
    fn slots_are_there_from_the_start() {
        let rule = EgressRule {
            seal: vec![Sealing::parse("POST auth.test/token to=api.test").unwrap()],
            ..EgressRule::to(vec![Destination::parse("auth.test").unwrap()])
        };
        let key = SessionKey::from_random([1; 32]);
        let placeholder = Placeholder::derive(&key, &parent(), &PlaceholderForm::Default);
        let slots = slots(&SessionSecret { path: parent(), placeholder, rule }, &key).unwrap();
        assert_eq!(slots.len(), 3 * SLOTS);
        assert!(slots.iter().all(|slot| slot.rule.to.len() == 2 && slot.rule.seal.is_empty()));
    }
}
