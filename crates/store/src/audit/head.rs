//! The row that says where a chain ends: the last entry once more, and the vault's seal on it.
//!
//! What stands there is not believed: who can write the store can cut the log and set its head back, and a seal on what
//! we then append would make that good. So an end is continued only if it contains what the key vouched for, and what
//! this process wrote last. Where it is just that, which is the usual case, comparing is all; where others have appended
//! since, what they wrote is followed up to it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use keyless_core::audit::{Chain, Entry, GENESIS, LogKeyId, Pending, Verifier};

use super::{
    HeadSealer,
    keys::{self, OpenKey},
    read::parse,
    segments::{self, AcceptedAt},
    verify::{read_block, verify_block},
};
use crate::{
    engine::{Connection, Row, query},
    store::{OwnChain, StoreError},
};

const TABLE: &str = "audit_head";
const HEAD: &str = "SELECT chain, last, sealed_sequence, sealed_hash, seal, key_number FROM audit_head WHERE chain = $1";

/// What the store has for the end of a chain.
pub(super) struct Head {
    pub(super) chain: String,
    /// The last entry as it stands there.
    pub(super) text: Option<String>,
    /// The end that it makes.
    pub(super) end: Chain,
    pub(super) seal: Option<HeadSeal>,
    last: Option<Entry>,
    /// The newest key that has vouched for an entry.
    used_key: i64,
}

/// The end that this process made last, and what it knew then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(super) end: Chain,
    /// The last break that the operator had accepted.
    pub(super) accepted: Option<AcceptedAt>,
}

/// What the next entry continues.
pub(super) struct End {
    pub(super) chain: Chain,
    /// The last break that the operator has accepted.
    pub(super) accepted: Option<AcceptedAt>,
    /// The key that vouches for it, if the vault's is at hand.
    pub(super) key: Option<OpenKey>,
}

/// That a key vouched for the chain up to here.
pub(super) struct HeadSeal {
    pub(super) sequence: u64,
    pub(super) hash: String,
    mac: Vec<u8>,
}

/// The end of our chain, for the next entry to continue; it contains `known`, the end that this process made last. A
/// chain that was not begun is, which takes the vault's word: each that is there has a seal, so that one without was
/// tampered with.
pub(super) async fn read(
    connection: &mut Connection,
    own: &OwnChain,
    sealer: Option<&dyn HeadSealer>,
    known: Option<&Known>,
) -> Result<End, StoreError> {
    let (Known { end: chain, accepted }, used_key) =
        match find_or_begin(&mut *connection, own, sealer).await? {
            None => (Known { end: Chain::genesis(), accepted: None }, 0),
            Some(head) => (continued(&mut *connection, &head, sealer, known).await?, head.used_key),
        };
    let key = match sealer {
        None => None,
        Some(sealer) => Some(keys::current(connection, sealer, used_key).await?),
    };
    Ok(End { chain, accepted, key })
}

/// The end of this head, if it contains what the key vouched for and `known`.
async fn continued(
    connection: &mut Connection,
    head: &Head,
    sealer: Option<&dyn HeadSealer>,
    known: Option<&Known>,
) -> Result<Known, StoreError> {
    let vouched = match sealer {
        None => None,
        Some(sealer) => Some(head.check_vouched(&mut *connection, sealer).await?),
    };
    let end = head.end.clone();
    if let Some(Known { end: known, accepted }) = known
        && (*known == end || vouched.as_ref() == Some(known))
    {
        return Ok(Known { end, accepted: accepted.clone() });
    }
    let accepted = segments::last_accepted(&mut *connection, &head.chain, sealer).await?;
    if let Some(known) = known {
        // Where a break was accepted since, the operator has seen that what this process wrote is not there.
        let is_seen = accepted.is_some() && accepted != known.accepted;
        let earlier = if is_seen { Chain::genesis() } else { known.end.clone() };
        head.check_contains(connection, earlier, sealer).await?;
    }
    Ok(Known { end, accepted })
}

/// Moves the end of our chain to `entry`; with the vault's key at hand it is sealed, and the key named that vouches for the
/// entry.
pub(super) async fn advance(
    connection: &mut Connection,
    own: &OwnChain,
    entry: &Pending,
    vouched: Option<(&dyn HeadSealer, LogKeyId)>,
) -> Result<(), StoreError> {
    let Some((sealer, key)) = vouched else {
        let put = query("UPDATE audit_head SET last = $1 WHERE chain = $2");
        put.bind(entry.text()).bind(own.name()).execute(connection).await?;
        return Ok(());
    };
    let (chain, sequence, hash) = (own.name(), entry.sequence(), entry.entry_hash());
    let put = query(
        "UPDATE audit_head SET last = $1, key_number = $2, sealed_sequence = $3, sealed_hash = $4, \
         seal = $5 WHERE chain = $6",
    );
    put.bind(entry.text())
        .bind(i64::from(key.number()))
        .bind(stored(sequence))
        .bind(hash)
        .bind(sealer.seal(chain, sequence, hash))
        .bind(chain)
        .execute(connection)
        .await?;
    Ok(())
}

/// Seals the end of our chain as it is; a vault does so when it is made, so that from then on a
/// missing seal tells.
pub(crate) async fn seal_head(
    connection: &mut Connection,
    own: &OwnChain,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    match find_or_begin(&mut *connection, own, Some(sealer)).await? {
        // Sealed as it was begun.
        None => Ok(()),
        Some(head) => put_seal(connection, own.name(), head.last(), sealer).await,
    }
}

/// The head of our chain; none where this call has begun it.
async fn find_or_begin(
    connection: &mut Connection,
    own: &OwnChain,
    sealer: Option<&dyn HeadSealer>,
) -> Result<Option<Head>, StoreError> {
    if let Some(head) = find(&mut *connection, own.name()).await? {
        return Ok(Some(head));
    }
    if own.has_begun() {
        return Err(damaged());
    }
    let sealer = sealer.ok_or(StoreError::NotBegun)?;
    let insert = query("INSERT INTO audit_head (chain) VALUES ($1)").bind(own.name());
    insert.execute(&mut *connection).await?;
    put_seal(connection, own.name(), (0, GENESIS), sealer).await?;
    Ok(None)
}

/// The head of a chain, if it has one.
pub(super) async fn find(
    connection: &mut Connection,
    chain: &str,
) -> Result<Option<Head>, StoreError> {
    let row = query(HEAD).bind(chain).fetch_optional(connection).await?;
    row.as_ref().map(Head::of).transpose()
}

impl Head {
    /// A row of chain, last, `sealed_sequence`, `sealed_hash`, seal and `key_number`.
    pub(super) fn of(row: &Row) -> Result<Self, StoreError> {
        let text = row.text(1, TABLE)?;
        let last: Option<Entry> =
            text.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
        let end = last.as_ref().map_or_else(Chain::genesis, Chain::after);
        let sequence: Option<i64> = row.try_get(2)?;
        let sequence = sequence.map(u64::try_from).transpose().map_err(|_| damaged())?;
        let seal = match (sequence, row.text(3, TABLE)?, row.try_get(4)?) {
            (Some(sequence), Some(hash), Some(mac)) => Some(HeadSeal { sequence, hash, mac }),
            _ => None,
        };
        Ok(Self { chain: row.try_get(0)?, text, end, seal, last, used_key: row.try_get(5)? })
    }

    /// The last entry and where the chain ends, if it has one.
    pub(super) fn into_end(self) -> Option<(String, Entry)> {
        self.last.map(|last| (self.chain, last))
    }

    /// The seal, if this key made it. One that is missing was taken away: each vault has sealed since it was made.
    pub(super) fn sealed_by(&self, sealer: &dyn HeadSealer) -> Option<&HeadSeal> {
        let ours = |seal: &&HeadSeal| {
            let expected = sealer.seal(&self.chain, seal.sequence, &seal.hash);
            verify_slices_are_equal(&expected, &seal.mac).is_ok()
        };
        self.seal.as_ref().filter(ours)
    }

    /// Fails with [`StoreError::LogTampered`] unless the key vouches for this end, or for one that it contains; gives
    /// that one.
    pub(super) async fn check_vouched(
        &self,
        connection: &mut Connection,
        sealer: &dyn HeadSealer,
    ) -> Result<Chain, StoreError> {
        let seal = self.sealed_by(sealer).ok_or(StoreError::LogTampered)?;
        if (seal.sequence, seal.hash.as_str()) == self.last() {
            return Ok(self.end.clone());
        }
        // Who writes with the vault locked leaves the seal where it is.
        let vouched = seal.end(&mut *connection, &self.chain).await?;
        self.check_contains(connection, vouched.clone(), Some(sealer)).await?;
        Ok(vouched)
    }

    /// Fails with [`StoreError::LogTampered`] unless what is stored behind `earlier` continues it, up to this end.
    async fn check_contains(
        &self,
        connection: &mut Connection,
        earlier: Chain,
        sealer: Option<&dyn HeadSealer>,
    ) -> Result<(), StoreError> {
        let tampered = |_| StoreError::LogTampered;
        // What was closed since was whole then, or the operator has seen that it was not; its row has the key's word.
        let base = segments::base(&mut *connection, &self.chain, sealer).await?;
        let earlier = if earlier.sequence() <= base.sequence() { base } else { earlier };
        if earlier == self.end {
            return Ok(());
        }
        let (last, hash) = self.last();
        let mut at = i64::try_from(earlier.sequence()).unwrap_or(i64::MAX);
        let mut verifier = Verifier::after(earlier);
        let mut reached = false;
        while let Some((to, text)) =
            read_block(&mut *connection, &self.chain, (at, i64::MAX)).await?
        {
            let stretch = verify_block(&text, Some(last), None).map_err(tampered)?;
            let stretch = stretch.ok_or(StoreError::LogTampered)?;
            verifier.join(&stretch).map_err(tampered)?;
            reached |= stretch.marked() == Some(hash);
            at = to;
        }
        verifier.finish(self.end.sequence()).map_err(tampered)?;
        if reached { Ok(()) } else { Err(StoreError::LogTampered) }
    }

    /// The last entry's number and whole hash.
    fn last(&self) -> (u64, &str) {
        match &self.last {
            None => (0, GENESIS),
            Some(entry) => (entry.sequence, &entry.chain.entry_hash),
        }
    }
}

impl HeadSeal {
    /// The end that it is on. Fails with [`StoreError::LogTampered`] when that entry is not there.
    async fn end(&self, connection: &mut Connection, chain: &str) -> Result<Chain, StoreError> {
        if (self.sequence, self.hash.as_str()) == (0, GENESIS) {
            return Ok(Chain::genesis());
        }
        let select = query("SELECT entry FROM audit WHERE chain = $1 AND sequence = $2");
        let select = select.bind(chain).bind(i64::try_from(self.sequence).unwrap_or(i64::MAX));
        let row = &select.fetch_optional(connection).await?.ok_or(StoreError::LogTampered)?;
        let entry = parse(row).map_err(|_| StoreError::LogTampered)?;
        if (entry.sequence, &entry.chain.entry_hash) == (self.sequence, &self.hash) {
            Ok(Chain::after(&entry))
        } else {
            Err(StoreError::LogTampered)
        }
    }
}

async fn put_seal(
    connection: &mut Connection,
    chain: &str,
    (sequence, hash): (u64, &str),
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    let put = query(
        "UPDATE audit_head SET sealed_sequence = $1, sealed_hash = $2, seal = $3 WHERE chain = $4",
    );
    put.bind(stored(sequence))
        .bind(hash)
        .bind(sealer.seal(chain, sequence, hash))
        .bind(chain)
        .execute(connection)
        .await?;
    Ok(())
}

/// A place in a chain, as the database has it.
pub(super) fn stored(sequence: u64) -> i64 {
    i64::try_from(sequence).expect("no log grows to 2^63 entries")
}

fn damaged() -> StoreError {
    StoreError::DamagedRow { table: TABLE }
}
