//! What stands in an entry's `metadata`: which of the protocol's texts rules, that the clock is not kept in step (NL-5.8), and what the
//! operator wants noted about uses of some secrets, for the rules that they answer to (NL-5.19).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Draft, Target};
use crate::{
    grant::{Categories, Forms, SecretPattern, Subject},
    nl_message::Profile,
};

/// The member that tells of the clock.
const CLOCK: &str = "clock_synced";
/// The member that tells of the profile; discovery and health have the same one.
const PROFILE: &str = "nl_profile";
/// The longest text, in characters.
const MAX_TEXT: usize = 200;
/// Numbers that every reader of JSON has room for.
const MAX_NUMBER: u64 = 1 << 53;

/// What is noted in entries beside what happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// Which of the protocol's two texts rules what is done, where that is known.
    pub profile: Option<Profile>,
    /// Whether the system's clock is known not to be kept in step.
    pub clock_lost: bool,
    /// What the operator wants noted.
    pub marks: Vec<Mark>,
}

/// What is noted in one entry. Most have the profile alone, which is written without making anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noted {
    pub(super) profile: Option<Profile>,
    pub(super) members: BTreeMap<String, Value>,
}

/// What is noted in entries about some secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    secrets: Vec<SecretPattern>,
    metadata: BTreeMap<String, Value>,
}

impl Mark {
    /// These members in entries about these secrets; why it can't be, else. A member is a word of small letters, digits and `_`; its
    /// value true, false, a whole number or a text.
    pub fn new(
        secrets: Vec<SecretPattern>,
        metadata: BTreeMap<String, Value>,
    ) -> Result<Self, &'static str> {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = |name: &String| (1..=64).contains(&name.len()) && name.bytes().all(letters);
        let is_plain = |value: &Value| match value {
            Value::Bool(_) => true,
            Value::Number(number) => {
                number.as_i64().is_some_and(|number| number.unsigned_abs() <= MAX_NUMBER)
            }
            Value::String(text) => {
                text.chars().count() <= MAX_TEXT && !text.chars().any(char::is_control)
            }
            _ => false,
        };
        if secrets.is_empty() || metadata.is_empty() {
            return Err("it names secrets and what is noted about them");
        }
        if metadata.contains_key(CLOCK) || metadata.contains_key(PROFILE) {
            return Err("clock_synced and nl_profile are Keyless's own words");
        }
        if !metadata.keys().all(is_name) {
            return Err("a name has small letters, digits and _");
        }
        if !metadata.values().all(is_plain) {
            return Err("a value is true, false, a whole number or a text of one line");
        }
        Ok(Self { secrets, metadata })
    }

    fn is_about(&self, secrets: &[Forms<'_>]) -> bool {
        secrets.iter().any(|forms| self.secrets.iter().any(|pattern| pattern.matches(forms)))
    }
}

impl Annotations {
    /// What is noted about this draft.
    pub fn of(&self, draft: &Draft) -> Noted {
        Noted { profile: self.profile, members: self.members(draft) }
    }

    fn members(&self, draft: &Draft) -> BTreeMap<String, Value> {
        let mut noted = BTreeMap::new();
        if self.clock_lost {
            noted.insert(CLOCK.to_owned(), Value::Bool(false));
        }
        if self.marks.is_empty() {
            return noted;
        }
        let target = match &draft.target {
            Target::Secrets(paths) => paths.as_slice(),
            _ => &[],
        };
        let subjects = draft.secrets_used.iter().chain(target).cloned().map(Subject::from);
        let (subjects, categories) = (subjects.collect::<Vec<_>>(), Categories::default());
        let secrets: Vec<_> = subjects.iter().map(|subject| subject.forms(&categories)).collect();
        for mark in self.marks.iter().filter(|mark| mark.is_about(&secrets)) {
            noted.extend(mark.metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        noted
    }
}

impl Noted {
    /// Appends the member `metadata`, if there is something to note: words of small letters in their order, and plain values, as
    /// RFC 8785 has it.
    pub(super) fn push(mut self, text: &mut String) {
        if self.members.is_empty() {
            if let Some(profile) = self.profile {
                for piece in [",\"metadata\":{\"", PROFILE, "\":\"", profile.as_str(), "\"}"] {
                    text.push_str(piece);
                }
            }
            return;
        }
        if let Some(profile) = self.profile {
            self.members.insert(PROFILE.to_owned(), profile.as_str().into());
        }
        text.push_str(",\"metadata\":");
        text.push_str(&serde_json::to_string(&self.members).expect("plain data"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::audit::{Action, Agent, Chain, Entry, Outcome, Outline, portable_sha256, verify};

    fn mark(pattern: &str, metadata: &Value) -> Result<Mark, &'static str> {
        let metadata = serde_json::from_value(metadata.clone()).unwrap();
        Mark::new(vec![SecretPattern::parse(pattern).unwrap()], metadata)
    }

    fn draft(path: &str) -> Draft {
        let agent = Agent {
            uri: "nl://acme.corp/bot/1.0.0".into(),
            organization_id: "local".into(),
            session_id: "s".into(),
            delegated_by: "human:ann".into(),
        };
        let target = Target::Secrets(vec![path.parse().unwrap()]);
        let (at, id) = (Timestamp::UNIX_EPOCH, "req-1".to_owned());
        Draft::new(at, Arc::new(agent), Action::Exec, Outcome::Success, target, id)
    }

    #[test]
    fn what_the_operator_wants_noted_is_in_the_entry() {
        let marks = vec![
            mark("team/billing/**", &json!({ "cardholder_data": true, "impact_level": "high" }))
                .unwrap(),
            mark("api/*", &json!({ "phi_involved": true })).unwrap(),
        ];
        let annotations = Annotations { profile: Some(Profile::Seed), clock_lost: true, marks };
        let entry = written(&annotations, "team/billing/stripe/key");
        let expected = json!({
            "cardholder_data": true, "clock_synced": false, "impact_level": "high", "nl_profile": "seed"
        });
        assert_eq!(json!(entry.metadata), expected);
        assert_eq!(entry.delegated_by.as_deref(), Some("human:ann"));
    }

    #[test]
    fn the_profile_is_in_each_entry() {
        for (profile, expected) in [
            (None, json!({})),
            (Some(Profile::Seed), json!({ "nl_profile": "seed" })),
            (Some(Profile::Final), json!({ "nl_profile": "final" })),
        ] {
            let annotations = Annotations { profile, ..Annotations::default() };
            assert_eq!(json!(written(&annotations, "team/billing/key").metadata), expected);
        }
    }

    /// The entry about a use of `path`, as it is stored and read, whose text is the canonical one.
    fn written(annotations: &Annotations, path: &str) -> Entry {
        let mut draft = draft(path);
        draft.metadata = annotations.of(&draft);
        let id = "01953f2a-7b3c-7def-8a12-4b5c6d7e8f90";
        let mut chain = Chain::genesis();
        let pending = chain.append(Outline::new(draft, id), portable_sha256, None);
        let entry: Entry = serde_json::from_str(pending.text()).unwrap();
        assert_eq!(entry.as_stored(), pending.text());
        assert_eq!(verify([&entry], &chain), Ok(1));
        entry
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        for metadata in [
            json!({}),
            json!({ "clock_synced": true }),
            json!({ "nl_profile": "final" }),
            json!({ "A": true }),
            json!({ "a": [] }),
            json!({ "a": 1.5 }),
            json!({ "a": "two\nlines" }),
            json!({ "a": null }),
        ] {
            assert!(mark("api/*", &metadata).is_err(), "{metadata}");
        }
    }
}
