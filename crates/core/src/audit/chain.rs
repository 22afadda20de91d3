//! Numbers and hashes entries, one after another.

use data_encoding::HEXLOWER;
use jiff::{Timestamp, fmt::strtime};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Action, Draft, Entry, Links, NL_VERSION, Outcome, Pending};
use crate::{Location, SecretPath};

/// What the first entry names as its predecessor (NL-5.3).
pub const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The end of a log: what the next entry continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    sequence: u64,
    hash: String,
    entry_hash: String,
}

impl Chain {
    /// An empty log.
    pub fn genesis() -> Self {
        Self { sequence: 0, hash: GENESIS.to_owned(), entry_hash: GENESIS.to_owned() }
    }

    /// The log that ends with `last`.
    pub fn after(last: &Entry) -> Self {
        Self {
            sequence: last.sequence,
            hash: last.chain.hash.clone(),
            entry_hash: last.chain.entry_hash.clone(),
        }
    }

    /// The number of the last entry; 0 when there is none.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Gives a draft its place at the end. The chain moves on; if the write fails, start again
    /// from the last entry that is durable.
    pub fn append(&mut self, draft: Draft) -> Pending {
        let mut entry = Entry {
            entry_id: draft.entry_id,
            sequence: self.sequence + 1,
            timestamp: format_timestamp(draft.at),
            nl_version: NL_VERSION.to_owned(),
            agent: draft.agent,
            action: draft.action,
            target: draft.target.to_text(),
            result: draft.outcome,
            secrets_used: draft.secrets_used,
            correlation_id: draft.correlation_id,
            platform: "keyless".to_owned(),
            error_code: draft.error_code.map(|code| code.as_str().to_owned()),
            detail: draft.detail,
            chain: Links {
                hash_algorithm: "sha256".to_owned(),
                prev_hash: self.hash.clone(),
                prev_entry_hash: self.entry_hash.clone(),
                ..Links::default()
            },
        };
        entry.chain.hash = field_hash(&entry);
        entry.chain.entry_hash = whole_hash(&entry);
        *self = Self::after(&entry);
        Pending { entry, allowed: draft.allowed }
    }
}

/// NL's hash: seven fields joined by line feeds (reference/nl.md, section 5).
pub(super) fn field_hash(entry: &Entry) -> String {
    let action = json_word(&entry.action);
    let result = json_word(&entry.result);
    let sequence = entry.sequence.to_string();
    let fields = [
        sequence.as_str(),
        &entry.timestamp,
        &entry.agent.uri,
        &action,
        &entry.target,
        &result,
        &entry.chain.prev_hash,
    ];
    prefixed(&Sha256::digest(fields.join("\n")))
}

/// The hash over everything but itself, in RFC 8785 form: keys sorted, no white space. Every key is
/// ASCII and every number a small integer, so a view whose fields are declared in order is that form.
pub(super) fn whole_hash(entry: &Entry) -> String {
    let canonical = serde_json::to_vec(&Canonical::of(entry)).expect("an entry is plain data");
    prefixed(&Sha256::digest(canonical))
}

/// An entry without its `entry_hash`, its keys in the order of RFC 8785.
#[derive(Serialize)]
struct Canonical<'a> {
    action: &'a Action,
    agent: CanonicalAgent<'a>,
    chain: CanonicalLinks<'a>,
    correlation_id: &'a str,
    detail: CanonicalDetail<'a>,
    entry_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'a str>,
    nl_version: &'a str,
    platform: &'a str,
    result: &'a Outcome,
    secrets_used: &'a [SecretPath],
    sequence: u64,
    target: &'a str,
    timestamp: &'a str,
}

#[derive(Serialize)]
struct CanonicalAgent<'a> {
    organization_id: &'a str,
    session_id: &'a str,
    uri: &'a str,
}

#[derive(Serialize)]
struct CanonicalLinks<'a> {
    hash: &'a str,
    hash_algorithm: &'a str,
    prev_entry_hash: &'a str,
    prev_hash: &'a str,
}

#[derive(Serialize)]
struct CanonicalDetail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    locations: &'a [Location],
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    swaps: Option<u64>,
}

impl<'a> Canonical<'a> {
    fn of(entry: &'a Entry) -> Self {
        let Entry { agent, chain, detail, .. } = entry;
        Self {
            action: &entry.action,
            agent: CanonicalAgent {
                organization_id: &agent.organization_id,
                session_id: &agent.session_id,
                uri: &agent.uri,
            },
            chain: CanonicalLinks {
                hash: &chain.hash,
                hash_algorithm: &chain.hash_algorithm,
                prev_entry_hash: &chain.prev_entry_hash,
                prev_hash: &chain.prev_hash,
            },
            correlation_id: &entry.correlation_id,
            detail: CanonicalDetail {
                authority: detail.authority.as_deref(),
                kind: detail.kind.as_deref(),
                locations: &detail.locations,
                method: detail.method.as_deref(),
                note: detail.note.as_deref(),
                path: detail.path.as_deref(),
                status: detail.status,
                swaps: detail.swaps,
            },
            entry_id: &entry.entry_id,
            error_code: entry.error_code.as_deref(),
            nl_version: &entry.nl_version,
            platform: &entry.platform,
            result: &entry.result,
            secrets_used: &entry.secrets_used,
            sequence: entry.sequence,
            target: &entry.target,
            timestamp: &entry.timestamp,
        }
    }
}

fn prefixed(digest: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(digest))
}

fn json_word(word: &impl serde::Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("actions and outcomes serialize to words"),
    }
}

fn format_timestamp(at: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%S.%3fZ", at).expect("the format has no invalid directive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Agent, Detail, Target};

    /// The example of chapter 05, whose hash the reference implementation gives. Its action is
    /// `exec`, which this door does not record, so the formula is checked on its parts.
    #[test]
    fn the_formula_gives_the_reference_hash() {
        let fields = [
            "1",
            "2026-02-08T10:30:00.000Z",
            "nl://anthropic.com/claude-code/1.5.2",
            "exec",
            "api/API_KEY",
            "success",
            GENESIS,
        ];
        let expected = "sha256:8490cd43d65b39b66d651b6b0614888132665bae214eb83e7000aa2eaed1898b";
        assert_eq!(prefixed(&Sha256::digest(fields.join("\n"))), expected);
    }

    #[test]
    fn the_canonical_form_gives_the_vectors() {
        let vectors = [
            (
                r#"{"zebra":1,"alpha":2}"#,
                "b38943f3398f7057224689aa44865d70c1143669a51b010f27e8495094c97b6e",
            ),
            (
                r#"{"b":{"z":1,"a":2},"a":3}"#,
                "b375125e33a203b70f14be432a2d7b0823e92ae82f505063e8b21ca5b7a73f42",
            ),
            (
                r#"{"key":"café"}"#,
                "6f0a62bb4f435d032b67c7a8719afe68a157bfa0a90897f977ba38dbd9be9d8e",
            ),
            (
                r#"{"t":true,"n":null,"f":false}"#,
                "22e00dc2f7b01420f940fbdbfbdf34fa0667cc6500186495023ba37722cbd05e",
            ),
        ];
        for (json, expected) in vectors {
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(prefixed(&Sha256::digest(value.to_string())), format!("sha256:{expected}"));
        }
    }

    /// The view against the form that sorts by itself: a field that is missing here, or out of
    /// order, shows.
    #[test]
    fn the_view_is_the_canonical_form() {
        let mut full = draft();
        full.error_code = Some(crate::Code::Cleartext);
        full.secrets_used = vec![SecretPath::parse("a/b/c").unwrap()];
        full.detail = Detail {
            authority: Some("a:1".to_owned()),
            method: Some("GET".to_owned()),
            path: Some("/".to_owned()),
            locations: Location::ALL.to_vec(),
            swaps: Some(1),
            status: Some(200),
            kind: Some("tunnel".to_owned()),
            note: Some("\u{e9}\n".to_owned()),
        };
        for draft in [full, draft()] {
            let entry = Chain::genesis().append(draft).entry().clone();
            let mut bare = entry.clone();
            bare.chain.entry_hash.clear();
            let sorted = serde_json::to_value(&bare).unwrap().to_string();
            assert_eq!(serde_json::to_string(&Canonical::of(&entry)).unwrap(), sorted);
        }
    }

    #[test]
    fn entries_are_numbered_and_joined() {
        let mut chain = Chain::genesis();
        let first = chain.append(draft()).entry().clone();
        let second = chain.append(draft()).entry().clone();
        assert_eq!((first.sequence, second.sequence), (1, 2));
        assert_eq!(first.chain.prev_hash, GENESIS);
        assert_eq!(second.chain.prev_hash, first.chain.hash);
        assert_eq!(second.chain.prev_entry_hash, first.chain.entry_hash);
        assert_eq!(first.timestamp, "1970-01-01T00:00:01.002Z");
    }

    fn draft() -> Draft {
        Draft {
            entry_id: "0".to_owned(),
            at: Timestamp::from_millisecond(1002).unwrap(),
            agent: Agent {
                uri: "nl://keyless.dev/run/0.1.0".to_owned(),
                organization_id: "local".to_owned(),
                session_id: "s".to_owned(),
            },
            action: Action::SessionStart,
            target: Target::Session,
            outcome: Outcome::Success,
            secrets_used: Vec::new(),
            correlation_id: "req-0".to_owned(),
            error_code: None,
            detail: Detail::default(),
            allowed: None,
        }
    }
}
