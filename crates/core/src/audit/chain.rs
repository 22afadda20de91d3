//! Numbers and hashes entries, one after another.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Action, Entry, EntryKey, Mismatch, Outcome, Outline, Pending, Revoked, Stopped, Tampered,
    outline::decimal,
};
use crate::{Location, SecretPath};

/// What the first entry names as its predecessor (NL-5.3).
pub const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// SHA-256 of some pieces, one after the other. An argument, for the fast ones are written in
/// assembly, which this crate does not bring: without the processor's own instructions for it,
/// hashing is the largest part of what an entry costs.
pub type Sha256Of = fn(&[&[u8]]) -> [u8; 32];

/// The one that this crate brings.
pub fn portable_sha256(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize().into()
}

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

    /// The end that the entry of this number makes, by its two hashes: NL's and the whole one.
    pub(super) fn at(sequence: u64, (hash, entry_hash): (&str, &str)) -> Self {
        Self { sequence, hash: hash.to_owned(), entry_hash: entry_hash.to_owned() }
    }

    /// Whether what follows `self` may follow `end`: that is, whether they are the same.
    pub(super) fn continues(&self, end: &Self) -> Result<(), Tampered> {
        if self.sequence != end.sequence {
            return Err(Tampered::Gap { expected: end.sequence + 1 });
        }
        let pairs = [(&*end.hash, &*self.hash), (&*end.entry_hash, &*self.entry_hash)];
        match Mismatch::first(pairs) {
            None => Ok(()),
            hashes => Err(Tampered::Unlinked { sequence: self.sequence + 1, hashes }),
        }
    }

    /// The number of the last entry; 0 when there is none.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// NL's hash and the whole hash of the last entry; [`GENESIS`] when there is none.
    pub(super) fn hashes(&self) -> (&str, &str) {
        (&self.hash, &self.entry_hash)
    }

    /// The whole hash of the last entry; [`GENESIS`] when there is none.
    pub(super) fn entry_hash(&self) -> &str {
        &self.entry_hash
    }

    /// Gives an outline its place at the end, vouched for by `key` if there is one. The chain moves on; if the write
    /// fails, start again from the last entry that is durable.
    pub fn append(
        &mut self,
        outline: Outline,
        sha256: Sha256Of,
        key: Option<EntryKey<'_>>,
    ) -> Pending {
        let sequence = self.sequence + 1;
        let hash = prefixed(&field_hash(sequence, &[outline.words()], &self.hash, sha256));
        // Put together in one piece each, since this runs for every request.
        let vouched = key.map_or_else(String::new, |key| {
            let (hmac, id) = (prefixed(&(key.hmac)(&hash)), key.id.to_string());
            ["\"hmac\":\"", &hmac, "\",\"hmac_key_id\":\"", &id, "\","].concat()
        });
        let links = [
            "\"hash\":\"",
            &hash,
            "\",\"hash_algorithm\":\"sha256\",",
            &vouched,
            "\"prev_entry_hash\":\"",
            &self.entry_hash,
            "\",\"prev_hash\":\"",
            &self.hash,
            "\"",
        ]
        .concat();
        let (mut text, chain_at) = outline.placed(sequence, &links);
        // Each in front of the other links, where RFC 8785 sorts it; the hash is over the HMAC as well.
        if let Some(key) = key {
            let content = prefixed(&sha256(&[text.as_bytes()]));
            let hmac = prefixed(&(key.hmac)(&content));
            text.insert_str(chain_at, &[OWN_HMAC, &hmac, "\","].concat());
        }
        let entry_hash = prefixed(&sha256(&[text.as_bytes()]));
        text.insert_str(chain_at, &[OWN_HASH, &entry_hash, "\","].concat());
        *self = Self { sequence, hash, entry_hash: entry_hash.clone() };
        Pending { outline, sequence, text, entry_hash }
    }
}

const PREFIX: &str = "sha256:";
/// How an entry's own hash begins among its links, and the HMAC of that.
pub(super) const OWN_HASH: &str = "\"entry_hash\":\"";
pub(super) const OWN_HMAC: &str = "\"entry_hmac\":\"";

/// NL's hash: seven fields joined by line feeds (reference/nl.md, section 5). `words` are the five
/// between the number and the hash before, in pieces, with the line feeds around and between them.
pub(super) fn field_hash(
    sequence: u64,
    words: &[&str],
    before: &str,
    sha256: Sha256Of,
) -> [u8; 32] {
    let mut digits = [0; 20];
    let number = decimal(sequence, &mut digits);
    let length = words.iter().map(|words| words.len()).sum::<usize>();
    let mut text = String::with_capacity(number.len() + length + before.len());
    text.push_str(number);
    text.extend(words.iter().copied());
    text.push_str(before);
    sha256(&[text.as_bytes()])
}

/// The hashes of an entry in RFC 8785 form: keys sorted, no white space. Every key is ASCII and every number a small
/// integer, so a view whose fields are declared in order is that form.
pub(super) struct WholeHashes {
    /// Over everything but itself.
    pub(super) own: [u8; 32],
    /// Over everything but itself and the entry's HMAC, which is made of it.
    pub(super) content: [u8; 32],
}

impl WholeHashes {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut view = Canonical::of(entry);
        let hash = |view: &Canonical<'_>| {
            portable_sha256(&[&serde_json::to_vec(view).expect("an entry is plain data")])
        };
        let own = hash(&view);
        view.chain.entry_hmac = None;
        Self { own, content: hash(&view) }
    }
}

/// An entry without its `entry_hash`, its keys in the order of RFC 8785.
#[derive(Serialize)]
struct Canonical<'a> {
    action: &'a Action,
    agent: CanonicalAgent<'a>,
    chain: CanonicalLinks<'a>,
    correlation_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    delegated_by: Option<&'a str>,
    detail: CanonicalDetail<'a>,
    entry_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, Value>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    entry_hmac: Option<&'a str>,
    hash: &'a str,
    hash_algorithm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hmac: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hmac_key_id: Option<&'a str>,
    prev_entry_hash: &'a str,
    prev_hash: &'a str,
}

#[derive(Serialize)]
struct CanonicalDetail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    action_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted_action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    delegation: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    grants: &'a [String],
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
    purpose: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<&'a Revoked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    secrets_named: &'a [SecretPath],
    #[serde(skip_serializing_if = "Option::is_none")]
    source_ip: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'a Stopped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    swaps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threat_score: Option<u64>,
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
                entry_hmac: chain.entry_hmac.as_deref(),
                hash: &chain.hash,
                hash_algorithm: &chain.hash_algorithm,
                hmac: chain.hmac.as_deref(),
                hmac_key_id: chain.hmac_key_id.as_deref(),
                prev_entry_hash: &chain.prev_entry_hash,
                prev_hash: &chain.prev_hash,
            },
            correlation_id: &entry.correlation_id,
            delegated_by: entry.delegated_by.as_deref(),
            detail: CanonicalDetail {
                action_id: detail.action_id.as_deref(),
                attempted_action: detail.attempted_action.as_deref(),
                authority: detail.authority.as_deref(),
                broker: detail.broker.as_deref(),
                bytes_received: detail.bytes_received,
                bytes_sent: detail.bytes_sent,
                delegation: &detail.delegation,
                duration_ms: detail.duration_ms,
                exit_code: detail.exit_code,
                grants: &detail.grants,
                kind: detail.kind.as_deref(),
                locations: &detail.locations,
                method: detail.method.as_deref(),
                note: detail.note.as_deref(),
                path: detail.path.as_deref(),
                purpose: detail.purpose.as_deref(),
                redacted_count: detail.redacted_count,
                request_id: detail.request_id.as_deref(),
                revocation: detail.revocation.as_deref(),
                rule: detail.rule.as_deref(),
                rule_id: detail.rule_id.as_deref(),
                secrets_named: &detail.secrets_named,
                source_ip: detail.source_ip.as_deref(),
                status: detail.status,
                stopped: detail.stopped.as_deref(),
                swaps: detail.swaps,
                threat_score: detail.threat_score,
            },
            entry_id: &entry.entry_id,
            error_code: entry.error_code.as_deref(),
            metadata: &entry.metadata,
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

/// A SHA-256 as the log writes it: `sha256:` and hex.
pub fn prefixed(digest: &[u8]) -> String {
    let mut text = String::with_capacity(GENESIS.len());
    text.push_str(PREFIX);
    HEXLOWER.encode_append(digest, &mut text);
    text
}

/// Whether `text` is this SHA-256 as the log writes it.
pub(super) fn is_prefixed(text: &str, digest: &[u8; 32]) -> bool {
    let mut hex = [0; 64];
    HEXLOWER.encode_mut(digest, &mut hex);
    text.strip_prefix(PREFIX).is_some_and(|found| found.as_bytes() == hex)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::{
        audit::{Agent, Detail, Draft, LogKeyId, Noted, Target},
        nl_message::Profile,
    };

    /// The example of chapter 05, whose hash the reference implementation gives.
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
                r#"{"val":1,"big":100}"#,
                "c2ee8c03a063b35bf4b71b34c34508544022597b6b06f0990f0cc592b91a1ab6",
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

    /// What is written and the view against the form that sorts by itself: a field that is missing
    /// in one of them, or out of order, shows.
    #[test]
    fn what_is_written_is_the_canonical_form() {
        let mut full = draft();
        full.error_code = Some(crate::Code::Cleartext);
        let members = [("a".to_owned(), Value::Bool(true)), ("z".to_owned(), 7.into())].into();
        full.metadata = Noted { profile: Some(Profile::Seed), members };
        full.secrets_used = vec![SecretPath::parse("a/b/c").unwrap()];
        full.detail = Detail {
            action_id: Some("act_1".to_owned()),
            attempted_action: Some("exec".to_owned()),
            broker: Some("0b".repeat(16)),
            delegation: vec!["nl://a.b/c/1.0.0".to_owned(), "\"".to_owned()],
            exit_code: Some(-1),
            grants: vec!["grant_1".to_owned()],
            purpose: Some("p\n".to_owned()),
            redacted_count: Some(2),
            request_id: Some("0a".repeat(16)),
            revocation: Some(Box::new(Revoked {
                cascade_depth: Some(1),
                reason: "it was \"lent\"\n".to_owned(),
                root_revocation_id: "0".to_owned(),
            })),
            rule: Some("allow GET /**".to_owned()),
            rule_id: Some("NL-4-DENY-001".to_owned()),
            secrets_named: vec![SecretPath::parse("a/b/c").unwrap()],
            source_ip: Some("127.0.0.1".to_owned()),
            threat_score: Some(30),
            bytes_received: Some(2),
            bytes_sent: Some(1),
            duration_ms: Some(3),
            authority: Some("a:1".to_owned()),
            method: Some("GET".to_owned()),
            path: Some("/".to_owned()),
            locations: Location::ALL.to_vec(),
            swaps: Some(1),
            status: Some(200),
            stopped: Some(Box::new(Stopped {
                exit_reason: "timeout".to_owned(),
                graceful_attempted: true,
                graceful_exit: false,
                graceful_wait_ms: 5000,
                signals: vec![15, 9],
                timeout_ms: 1000,
            })),
            kind: Some("tunnel".to_owned()),
            note: Some("\u{e9}\n\"\u{1}".to_owned()),
        };
        let hmac = |text: &str| portable_sha256(&[text.as_bytes()]);
        let key = EntryKey { id: LogKeyId::FIRST, hmac: &hmac };
        for (draft, key) in [(full, Some(key)), (draft(), None)] {
            let outline = Outline::new(draft, "0");
            let pending = Chain::genesis().append(outline, portable_sha256, key);
            let entry: Entry = serde_json::from_str(pending.text()).unwrap();
            assert_eq!(entry.as_stored(), pending.text());
            assert!(is_prefixed(&entry.chain.entry_hash, &WholeHashes::of(&entry).own));
            let mut bare = entry.clone();
            bare.chain.entry_hash.clear();
            let sorted = serde_json::to_value(&bare).unwrap().to_string();
            assert_eq!(serde_json::to_string(&Canonical::of(&entry)).unwrap(), sorted);
        }
    }

    #[test]
    fn entries_are_numbered_and_joined() {
        let mut chain = Chain::genesis();
        let [first, second]: [Entry; 2] =
            [(); 2].map(|()| serde_json::from_str(append(&mut chain, draft()).text()).unwrap());
        assert_eq!((first.sequence, second.sequence), (1, 2));
        assert_eq!(first.chain.prev_hash, GENESIS);
        assert_eq!(second.chain.prev_hash, first.chain.hash);
        assert_eq!(second.chain.prev_entry_hash, first.chain.entry_hash);
        assert_eq!(first.timestamp, "1970-01-01T00:00:01.002Z");
    }

    fn append(chain: &mut Chain, draft: Draft) -> Pending {
        chain.append(Outline::new(draft, "0"), portable_sha256, None)
    }

    fn draft() -> Draft {
        Draft {
            at: Timestamp::from_millisecond(1002).unwrap(),
            agent: Arc::new(Agent {
                uri: "nl://keyless.dev/run/0.1.0".to_owned(),
                organization_id: "local".to_owned(),
                session_id: "s".to_owned(),
                delegated_by: "human:operator".to_owned(),
            }),
            action: Action::SessionStart,
            target: Target::Session,
            outcome: Outcome::Success,
            secrets_used: Vec::new(),
            correlation_id: "req-0".to_owned(),
            error_code: None,
            detail: Detail::default(),
            metadata: Noted::default(),
            allowed: None,
        }
    }
}
