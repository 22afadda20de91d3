//! The index, and the keyed commitment that makes every change to it visible.
//!
//! HMAC-SHA256 under a key derived from the vault's, over one encoding of every row: header,
//! envelopes, secrets, and each version with the SHA-256 of nonce and ciphertext, led by a generation
//! that counts the mutations. So a version row that is deleted can't revive the one before it, and rows that are
//! swapped, edited or put in are found. It can't know that a whole older file was put back;
//! within one process the generation never goes down. Source: design.md, section 5.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_store::{CommitmentRow, Rows, SecretRow, VersionRow};
use sha2::{Digest, Sha256};

use crate::{
    key::{Purpose, VaultKey},
    metadata::Metadata,
    vault::Secret,
};

const DOMAIN: &[u8] = b"keyless/v1/index";

/// The version of the vault's rows as a whole.
pub(crate) const FORMAT: u32 = 1;

/// What the rows say, vouched for by the commitment.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) generation: u64,
    /// What was agreed to of how long the store stays open.
    pub(crate) agreed: Option<String>,
    pub(crate) secrets: BTreeMap<SecretPath, Indexed>,
    /// What [`Index::listed`] gives, once it was asked.
    listed: OnceLock<Arc<[Secret]>>,
}

/// One secret of the index.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) metadata: Metadata,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// The version in use, where that is not the newest.
    pub(crate) pinned: Option<u32>,
    pub(crate) removed_at: Option<Timestamp>,
    /// Ascending.
    pub(crate) versions: Vec<IndexedVersion>,
}

/// One version, by what its row must hash to.
#[derive(Clone, Debug)]
pub(crate) struct IndexedVersion {
    pub(crate) version: u32,
    pub(crate) digest: [u8; 32],
    pub(crate) created_at: Timestamp,
}

impl Index {
    /// Checks the rows against their commitment and reads them. [`Code::StoreTampered`] when they
    /// are not what the vault wrote last.
    pub(crate) fn verify(rows: &Rows, key: &VaultKey) -> Result<Self, Error> {
        let commitment = rows.commitment.as_ref().ok_or_else(tampered)?;
        mac(rows, commitment.generation, key)
            .verify_slice(&commitment.mac)
            .map_err(|_| tampered())?;
        Self::read_unverified(rows, commitment.generation)
    }

    /// Reads the rows without a key: what they say, though nothing vouches for it.
    pub(crate) fn read_unverified(rows: &Rows, generation: u64) -> Result<Self, Error> {
        let agreed = rows.header.as_ref().and_then(|header| header.agreed.clone());
        let mut index = Self { generation, agreed, ..Self::default() };
        for row in &rows.secrets {
            index.secrets.insert(row.path.clone(), Indexed::read(row)?);
        }
        for row in &rows.versions {
            let secret = index.secrets.get_mut(&row.path).ok_or_else(tampered)?;
            secret.versions.push(IndexedVersion::of(row));
        }
        Ok(index)
    }

    /// The secret at `path`; [`Code::SecretNotFound`] when there is none, or it was removed.
    pub(crate) fn find(&self, path: &SecretPath) -> Result<&Indexed, Error> {
        let secret = self.find_even_removed(path)?;
        if secret.removed_at.is_none() {
            return Ok(secret);
        }
        let words = SafeText::default().and(path);
        let words = words.and(" was removed; keyless secret restore brings it back");
        Err(Error::with(Code::SecretNotFound, words))
    }

    /// The secret at `path`, also when it was removed and not purged.
    pub(crate) fn find_even_removed(&self, path: &SecretPath) -> Result<&Indexed, Error> {
        let not_found = || Error::with(Code::SecretNotFound, SafeText::default().and(path));
        self.secrets.get(path).ok_or_else(not_found)
    }

    /// What may be told of the secrets that were not removed, by path. Made once for all who ask.
    pub(crate) fn listed(&self) -> Arc<[Secret]> {
        let made = || self.present().map(|(path, secret)| Secret::of(path, secret)).collect();
        Arc::clone(self.listed.get_or_init(made))
    }

    /// The secrets that were not removed.
    pub(crate) fn present(&self) -> impl Iterator<Item = (&SecretPath, &Indexed)> {
        self.secrets.iter().filter(|(_, secret)| secret.removed_at.is_none())
    }
}

impl Indexed {
    fn read(row: &SecretRow) -> Result<Self, Error> {
        Ok(Self {
            metadata: Metadata::from_stored(row.format, &row.metadata)?,
            created_at: row.created_at,
            updated_at: row.updated_at,
            pinned: row.current,
            removed_at: row.removed_at,
            versions: Vec::new(),
        })
    }

    /// The version in use.
    pub(crate) fn current(&self) -> Option<&IndexedVersion> {
        match self.pinned {
            None => self.versions.last(),
            Some(pinned) => self.versions.iter().find(|version| version.version == pinned),
        }
    }

    /// The number of the next version: none that was ever another's, though that be purged.
    pub(crate) fn next_version(&self) -> Result<u32, Error> {
        let last = self.versions.last().map_or(0, |version| version.version);
        let withheld = self.metadata.compromised.map_or(0, |known| known.through);
        let purged = self.metadata.purged_through;
        last.max(withheld).max(purged).checked_add(1).ok_or_else(|| Code::Internal.into())
    }
}

impl IndexedVersion {
    fn of(row: &VersionRow) -> Self {
        Self { version: row.version, digest: digest(row), created_at: row.created_at }
    }

    /// Whether `row` is the one that the index means.
    pub(crate) fn fits(&self, row: &VersionRow) -> bool {
        self.version == row.version && self.digest == digest(row)
    }
}

/// The commitment to `rows` as the mutation `generation` left them.
pub(crate) fn commit_to(rows: &Rows, generation: u64, key: &VaultKey) -> CommitmentRow {
    CommitmentRow { generation, mac: mac(rows, generation, key).finalize().into_bytes().to_vec() }
}

/// SHA-256 of nonce and ciphertext.
fn digest(row: &VersionRow) -> [u8; 32] {
    Sha256::new().chain_update(&row.nonce).chain_update(&row.ciphertext).finalize().into()
}

fn tampered() -> Error {
    Code::StoreTampered.into()
}

fn mac(rows: &Rows, generation: u64, key: &VaultKey) -> Hmac<Sha256> {
    let mut encoder = Encoder::new(key);
    encoder.number(generation);
    encoder.number(u64::from(rows.header.is_some()));
    if let Some(header) = &rows.header {
        encoder.number(header.format.into());
        encoder.time(header.created_at);
    }
    encoder.count(rows.envelopes.len());
    for row in &rows.envelopes {
        encoder.text(&row.kind);
        encoder.text(&row.parameters);
        encoder.bytes(&row.nonce);
        encoder.bytes(&row.wrapped);
        encoder.time(row.created_at);
    }
    encoder.count(rows.secrets.len());
    for row in &rows.secrets {
        encoder.text(row.path.as_str());
        encoder.number(row.format.into());
        encoder.text(&row.metadata);
        encoder.time(row.created_at);
        encoder.time(row.updated_at);
    }
    encoder.count(rows.versions.len());
    for row in &rows.versions {
        encoder.text(row.path.as_str());
        encoder.number(row.version.into());
        encoder.bytes(&digest(row));
        encoder.time(row.created_at);
    }
    // Stores from before these columns have none of it, and the same commitment as ever: what
    // stands before says where it ends, so more after it can't be mistaken.
    let states = rows.secrets.iter();
    let states = states.filter(|row| row.current.is_some() || row.removed_at.is_some());
    for row in states {
        encoder.text(row.path.as_str());
        encoder.number(row.current.unwrap_or(0).into());
        encoder.text(&row.removed_at.map(|at| at.to_string()).unwrap_or_default());
    }
    // No path is called so.
    if let Some(agreed) = rows.header.as_ref().and_then(|header| header.agreed.as_ref()) {
        encoder.text("agreed");
        encoder.text(agreed);
    }
    encoder.0
}

/// Writes fields so that no two lists of fields give the same bytes: numbers have eight bytes,
/// everything else its length before it.
struct Encoder(Hmac<Sha256>);

impl Encoder {
    fn new(key: &VaultKey) -> Self {
        let key = key.derive(Purpose::Index);
        let mut encoder =
            Self(Hmac::new_from_slice(&*key).expect("HMAC takes a key of any length"));
        encoder.bytes(DOMAIN);
        encoder
    }

    fn number(&mut self, number: u64) {
        self.0.update(&number.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn time(&mut self, at: Timestamp) {
        self.text(&at.to_string());
    }
}

#[cfg(test)]
mod tests {
    use keyless_store::{EnvelopeRow, HeaderRow};

    use super::*;

    fn key() -> VaultKey {
        VaultKey::from_bytes(vec![7; 32]).unwrap()
    }

    fn rows() -> Rows {
        let at = Timestamp::UNIX_EPOCH;
        let path = |text| SecretPath::parse(text).unwrap();
        let secret = |text| SecretRow {
            path: path(text),
            format: 1,
            metadata: Metadata::default().to_stored(),
            created_at: at,
            updated_at: at,
            current: None,
            removed_at: None,
        };
        let version = |text, version, byte| VersionRow {
            path: path(text),
            version,
            nonce: vec![byte; 24],
            ciphertext: vec![byte; 40],
            created_at: at,
        };
        Rows {
            header: Some(HeaderRow { format: 1, created_at: at, agreed: Some("{}".to_owned()) }),
            envelopes: vec![EnvelopeRow {
                kind: "passphrase".to_owned(),
                parameters: "{}".to_owned(),
                nonce: vec![0; 24],
                wrapped: vec![0; 48],
                created_at: at,
            }],
            secrets: vec![secret("a/b/c"), secret("a/b/d")],
            versions: vec![version("a/b/c", 1, 1), version("a/b/c", 2, 2), version("a/b/d", 1, 3)],
            commitment: None,
        }
    }

    fn committed() -> Rows {
        let mut rows = rows();
        rows.commitment = Some(commit_to(&rows, 5, &key()));
        rows
    }

    #[test]
    fn what_was_committed_to_is_read() {
        let index = Index::verify(&committed(), &key()).unwrap();
        let secret = index.find(&SecretPath::parse("a/b/c").unwrap()).unwrap();
        assert_eq!((index.generation, secret.current().unwrap().version), (5, 2));
        assert!(Index::verify(&committed(), &VaultKey::from_bytes(vec![8; 32]).unwrap()).is_err());
    }

    #[test]
    fn every_kind_of_change_is_found() {
        type Change = fn(&mut Rows, Timestamp);
        let later = Timestamp::from_second(1).unwrap();
        let changes: [(&str, Change); 21] = [
            ("no commitment", |rows, _| rows.commitment = None),
            ("generation", |rows, _| rows.commitment.as_mut().unwrap().generation = 4),
            ("mac", |rows, _| rows.commitment.as_mut().unwrap().mac[0] ^= 1),
            ("short mac", |rows, _| rows.commitment.as_mut().unwrap().mac.truncate(8)),
            ("no header", |rows, _| rows.header = None),
            ("no agreement", |rows, _| rows.header.as_mut().unwrap().agreed = None),
            ("agreement", |rows, _| {
                rows.header.as_mut().unwrap().agreed = Some(String::new());
            }),
            ("no envelope", |rows, _| rows.envelopes.clear()),
            ("envelope", |rows, _| rows.envelopes[0].wrapped[0] ^= 1),
            ("newest version gone", |rows, _| drop(rows.versions.remove(1))),
            ("version number", |rows, _| rows.versions[1].version = 3),
            ("versions swapped", |rows, _| {
                let (first, second) = rows.versions.split_at_mut(2);
                std::mem::swap(&mut first[0].ciphertext, &mut second[0].ciphertext);
            }),
            ("nonce", |rows, _| {
                let byte = rows.versions[0].nonce.remove(23);
                rows.versions[0].nonce.push(byte ^ 1);
            }),
            ("version's time", |rows, later| rows.versions[0].created_at = later),
            ("secret gone", |rows, _| {
                rows.secrets.remove(1);
                rows.versions.remove(2);
            }),
            ("metadata", |rows, _| rows.secrets[0].metadata = r#"{"env":"A"}"#.to_owned()),
            ("secret's format", |rows, _| rows.secrets[0].format = 0),
            ("secret's time", |rows, later| rows.secrets[0].updated_at = later),
            ("older version put in use", |rows, _| rows.secrets[0].current = Some(1)),
            ("removed", |rows, later| rows.secrets[0].removed_at = Some(later)),
            ("another one's state", |rows, _| rows.secrets[1].current = Some(1)),
        ];
        for (name, change) in changes {
            let mut rows = committed();
            change(&mut rows, later);
            let error = Index::verify(&rows, &key()).unwrap_err();
            assert_eq!(error.code(), Code::StoreTampered, "{name}");
        }
    }
}
