//! Where a chain of the log ended, signed, to be kept where the log is not (NL-5.14).

use serde::{Deserialize, Serialize};

use super::{Chain, Entry};

/// The end of a chain at a time. Its fields stand in the order of RFC 8785.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Which chain of the log; empty for the only one of a file.
    pub chain: String,
    /// `chk_` and a UUID.
    pub checkpoint_id: String,
    /// How many entries the chain had.
    pub entry_count: u64,
    /// The whole hash of the last one.
    pub last_entry_hash: String,
    /// NL's hash of the last one.
    pub last_hash: String,
    /// The HMAC of that hash, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hmac: Option<String>,
    /// Its number.
    pub last_sequence: u64,
    /// Always `keyless`.
    pub platform: String,
    /// The Ed25519 key that has signed, in base64url.
    pub public_key: String,
    /// `EdDSA:` and the signature over [`Checkpoint::signed_text`] in base64url.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// When, UTC with milliseconds.
    pub timestamp: String,
}

impl Checkpoint {
    /// The end that `last` makes of a chain, without a signature.
    pub fn of(
        chain: &str,
        last: &Entry,
        id: String,
        public_key: String,
        timestamp: String,
    ) -> Self {
        Self {
            chain: chain.to_owned(),
            checkpoint_id: id,
            entry_count: last.sequence,
            last_entry_hash: last.chain.entry_hash.clone(),
            last_hash: last.chain.hash.clone(),
            last_hmac: last.chain.hmac.clone(),
            last_sequence: last.sequence,
            platform: "keyless".to_owned(),
            public_key,
            signature: String::new(),
            timestamp,
        }
    }

    /// What is signed: everything but the signature.
    pub fn signed_text(&self) -> String {
        let bare = Self { signature: String::new(), ..self.clone() };
        serde_json::to_string(&bare).expect("a checkpoint is plain data")
    }

    /// The end of the chain, for what follows it.
    pub fn end(&self) -> Chain {
        Chain::at(self.last_sequence, (&self.last_hash, &self.last_entry_hash))
    }

    /// Whether `entry` is the one that was last.
    pub fn fits(&self, entry: &Entry) -> bool {
        Chain::after(entry) == self.end()
    }
}
