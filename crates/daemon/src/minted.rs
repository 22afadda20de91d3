//! Tokens that servers mint for the agent: it holds placeholders, they are kept here until the
//! session ends.
//!
//! The placeholders are there from the start, eight for each kind of token of each secret that has
//! answers sealed, so that nothing of a session changes while it runs. The ninth token of a kind
//! takes the first one's place: by then that has been refreshed eight times.

use std::collections::HashMap;

use keyless_core::{
    Binding, Code, EgressRule, Error, Placeholder, PlaceholderForm, SafeText, SecretPath,
    SecretValue, SessionKey,
};
use keyless_egress::{Minted, SessionSecret};
use parking_lot::Mutex;
use zeroize::Zeroizing;

/// Tokens of one kind that are kept at a time.
const SLOTS: usize = 8;

/// The minted tokens of one session.
#[derive(Default)]
pub(crate) struct MintedTokens(Mutex<HashMap<(SecretPath, String), Ring>>);

/// The tokens of one kind, youngest in the slot before `next`.
#[derive(Default)]
struct Ring {
    tokens: Vec<(SecretPath, Zeroizing<Vec<u8>>)>,
    next: usize,
}

/// The secrets that stand for what `secret` has sealed.
pub(crate) fn slots(secret: &SessionSecret, key: &SessionKey) -> Result<Vec<SessionSecret>, Error> {
    let mut slots: Vec<SessionSecret> = Vec::new();
    for sealing in &secret.rule.seal {
        let to = sealing.to().iter().chain(&secret.rule.to).cloned().collect();
        for field in sealing.fields() {
            for number in 0..SLOTS {
                let path = slot_path(&secret.path, field, number)?;
                if slots.iter().any(|slot| slot.path == path) {
                    continue;
                }
                let placeholder = Placeholder::derive(key, &path, &PlaceholderForm::Default);
                let rule = EgressRule::to(Vec::clone(&to));
                slots.push(SessionSecret { path, placeholder, rule });
            }
        }
    }
    Ok(slots)
}

impl MintedTokens {
    /// Keeps a token; the same one again stays where it is. Gives the secret that stands for it.
    pub(crate) fn keep(&self, minted: &Minted) -> Result<SecretPath, Error> {
        let mut rings = self.0.lock();
        let ring = rings.entry((minted.parent.clone(), minted.kind.clone())).or_default();
        if let Some((path, _)) = ring.tokens.iter().find(|(_, value)| *value == minted.value) {
            return Ok(path.clone());
        }
        let path = slot_path(&minted.parent, &minted.kind, ring.next)?;
        value_of(&path, &minted.value)?;
        let token = (path.clone(), minted.value.clone());
        match ring.tokens.get_mut(ring.next) {
            Some(slot) => *slot = token,
            None => ring.tokens.push(token),
        }
        ring.next = (ring.next + 1) % SLOTS;
        Ok(path)
    }

    /// The token that a secret stands for, if it is one of ours.
    pub(crate) fn open(&self, path: &SecretPath) -> Option<Result<SecretValue, Error>> {
        let rings = self.0.lock();
        let mut tokens = rings.values().flat_map(|ring| &ring.tokens);
        let (path, value) = tokens.find(|(slot, _)| slot == path)?;
        Some(value_of(path, value))
    }
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
    use keyless_core::{Authority, Destination, Sealing};

    use super::*;

    fn parent() -> SecretPath {
        SecretPath::parse("team/google/client").unwrap()
    }

    fn minted(kind: &str, value: &str) -> Minted {
        Minted {
            parent: parent(),
            correlation_id: String::new(),
            authority: Authority::parse("auth.test:443").unwrap(),
            kind: kind.to_owned(),
            value: Zeroizing::new(value.as_bytes().to_vec()),
        }
    }

    #[test]
    fn each_token_has_its_slot_and_the_oldest_makes_room() {
        let tokens = MintedTokens::default();
        let keep = |value: &str| tokens.keep(&minted("access_token", value)).unwrap().to_string();
        assert_eq!(keep("token-number-1"), "team/google/client/access-token-1");
        assert_eq!(keep("token-number-2"), "team/google/client/access-token-2");
        assert_eq!(keep("token-number-1"), "team/google/client/access-token-1");
        for number in 3..=9 {
            keep(&format!("token-number-{number}"));
        }
        assert_eq!(keep("token-number-9"), "team/google/client/access-token-1");
        let second = SecretPath::parse("team/google/client/access-token-2").unwrap();
        assert!(tokens.open(&second).unwrap().unwrap().occurs_in(b"token-number-2"));
        assert!(tokens.open(&parent()).is_none());
        assert!(tokens.keep(&minted("id_token", "short")).is_err());
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
