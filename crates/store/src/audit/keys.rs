//! The keys that vouch for entries one by one (NL-5.13): which there are, and which is the one now.
//!
//! A row says that there is a key and since when, under the vault's seal; the key itself comes from the vault's
//! ([`HeadSealer::entry_key`]), so that none can be lost and none is kept. All chains of a database have the same keys, and go
//! over to a new one with their next entry. Older ones stay, to verify by.

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    hmac::{self, HMAC_SHA256},
};
use jiff::Timestamp;
use keyless_core::audit::{Chain, Draft, EntryKey, LogKeyId, LogKeys, Outline, Pending};
use serde::{Deserialize, Serialize};

use super::{HeadSealer, LogError, head, ids::Ids, sha256, writer::insert_rows};
use crate::{
    engine::{Connection, Lock, Row, Transaction, query},
    store::{Store, StoreError},
};

const ROWS: &str = "SELECT number, record, seal FROM audit_keys ORDER BY number";
const NEWEST: &str = "SELECT number, record, seal FROM audit_keys ORDER BY number DESC LIMIT 1";
const TABLE: &str = "audit_keys";
/// More keys than a log comes to have; a head that was changed may say anything.
const MOST: u32 = 4096;

/// A key at hand.
pub(super) struct OpenKey {
    pub(super) id: LogKeyId,
    key: hmac::Key,
}

/// All of a log's keys, to verify by.
pub(super) struct OpenKeys(Vec<OpenKey>);

/// What is stored of a key and sealed. Its fields stand in the order of RFC 8785.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRecord {
    created_at: Timestamp,
    key_id: String,
}

/// A row about a key.
struct KeyRow {
    id: LogKeyId,
    record: String,
    seal: Vec<u8>,
}

impl Store {
    /// The newest key of the log and since when there is it; none before the first entry that one vouches for.
    pub async fn audit_newest_key(&self) -> Result<Option<(LogKeyId, Timestamp)>, StoreError> {
        let Some(row) = query(NEWEST).fetch_optional(&self.pool).await? else { return Ok(None) };
        let row = KeyRow::of(&row)?;
        let record: KeyRecord = serde_json::from_str(&row.record).map_err(|_| damaged())?;
        Ok(Some((row.id, record.created_at)))
    }

    /// Makes a new key and, in one step, its first entry: `marker`, to which the names of both are added. Gives those.
    ///
    /// Fails with [`StoreError::LogTampered`] where the log's end is not what the vault's key vouches for, and with
    /// [`StoreError::Taken`] when another process was faster.
    pub async fn audit_change_key(
        &self,
        mut marker: Draft,
        sealer: &dyn HeadSealer,
    ) -> Result<(LogKeyId, LogKeyId), StoreError> {
        let own = &self.chain;
        let mut change = Transaction::write(&self.pool, Lock::Chain(own.name())).await?;
        let end = head::read(change.connection(), own, Some(sealer), None).await?;
        // A log that was just begun has used none.
        let before = match end.key {
            Some(key) => key.id,
            None => current(change.connection(), sealer, 0).await?.id,
        };
        let next = before.next();
        KeyRow::sealed(next, sealer).insert(change.connection()).await?;
        let key = OpenKey::of(next, sealer);
        marker.detail.kind = Some("hmac_key_rotated".to_owned());
        marker.detail.note = Some(format!("{before} to {next}"));
        let mut chain = end.chain;
        let mut entries = [key.place(&mut chain, Ids::of(self).outline(marker))];
        head::advance(change.connection(), own, &entries[0], Some((sealer, next))).await?;
        insert_rows(change.connection(), own.name(), &mut entries).await?;
        change.commit().await?;
        Ok((before, next))
    }
}

/// The key for what is written now; the first, where there is none yet. Fails with [`StoreError::LogTampered`] where it is
/// older than `used`, one that has vouched for the chain before: keys do not come back.
pub(super) async fn current(
    connection: &mut Connection,
    sealer: &dyn HeadSealer,
    used: i64,
) -> Result<OpenKey, StoreError> {
    let row = query(NEWEST).fetch_optional(&mut *connection).await?;
    let id = match row.as_ref().map(KeyRow::of).transpose()? {
        Some(row) if row.is_sealed_by(sealer) => row.id,
        Some(_) => return Err(StoreError::LogTampered),
        None => {
            KeyRow::sealed(LogKeyId::FIRST, sealer).insert_first(connection).await?;
            LogKeyId::FIRST
        }
    };
    if i64::from(id.number()) < used {
        return Err(StoreError::LogTampered);
    }
    Ok(OpenKey::of(id, sealer))
}

/// Every key of the log; fails with [`LogError::KeySeal`] where the vault's does not vouch for one.
pub(super) async fn all(
    connection: &mut Connection,
    sealer: &dyn HeadSealer,
) -> Result<OpenKeys, LogError> {
    let mut keys = Vec::new();
    for row in &query(ROWS).fetch_all(connection).await? {
        let row = KeyRow::of(row)?;
        if !row.is_sealed_by(sealer) {
            return Err(LogError::KeySeal { key: row.id });
        }
        keys.push(OpenKey::of(row.id, sealer));
    }
    Ok(OpenKeys(keys))
}

/// Sees that every key up to the newest has a row that the vault's key vouches for; whether one had to be put back. How
/// many there are say the rows that are sound, and the head of our chain.
pub(super) async fn put_back(
    connection: &mut Connection,
    chain: &str,
    sealer: &dyn HeadSealer,
) -> Result<bool, StoreError> {
    let (mut sound, mut is_sound) = (Vec::new(), true);
    for row in &query(ROWS).fetch_all(&mut *connection).await? {
        match KeyRow::of(row) {
            Ok(row) if row.is_sealed_by(sealer) => sound.push(row.id),
            _ => is_sound = false,
        }
    }
    let used = query("SELECT key_number FROM audit_head WHERE chain = $1").bind(chain);
    let used = used.fetch_optional(&mut *connection).await?;
    let used: u32 = used.map_or(Ok(0), |row| row.number(0, "audit_head")).unwrap_or(0);
    let newest = sound.iter().map(|id| id.number()).max().unwrap_or(0).max(used.min(MOST));
    let missing: Vec<LogKeyId> =
        (1..=newest).filter_map(LogKeyId::new).filter(|id| !sound.contains(id)).collect();
    if is_sound && missing.is_empty() {
        return Ok(false);
    }
    query("DELETE FROM audit_keys").execute(&mut *connection).await?;
    for id in (1..=newest).filter_map(LogKeyId::new) {
        KeyRow::sealed(id, sealer).insert(&mut *connection).await?;
    }
    Ok(true)
}

impl OpenKey {
    fn of(id: LogKeyId, sealer: &dyn HeadSealer) -> Self {
        Self { id, key: hmac::Key::new(HMAC_SHA256, &*sealer.entry_key(id)) }
    }

    fn hmac(&self, text: &str) -> [u8; 32] {
        let tag = hmac::sign(&self.key, text.as_bytes());
        tag.as_ref().try_into().expect("HMAC-SHA256 gives 32 bytes")
    }

    /// Gives an outline its place at the end of `chain`, with this key's word.
    pub(super) fn place(&self, chain: &mut Chain, outline: Outline) -> Pending {
        let hmac = |text: &str| self.hmac(text);
        chain.append(outline, sha256, Some(EntryKey { id: self.id, hmac: &hmac }))
    }
}

impl LogKeys for OpenKeys {
    fn hmac(&self, key: LogKeyId, text: &str) -> Option<[u8; 32]> {
        self.0.iter().find(|one| one.id == key).map(|key| key.hmac(text))
    }
}

impl KeyRow {
    fn of(row: &Row) -> Result<Self, StoreError> {
        let id = LogKeyId::new(row.number(0, TABLE)?).ok_or_else(damaged)?;
        Ok(Self { id, record: row.try_get(1)?, seal: row.try_get(2)? })
    }

    fn sealed(id: LogKeyId, sealer: &dyn HeadSealer) -> Self {
        let record = KeyRecord { created_at: Timestamp::now(), key_id: id.to_string() };
        let record = serde_json::to_string(&record).expect("a record is plain data");
        let seal = sealer.seal_key(&record);
        Self { id, record, seal }
    }

    fn is_sealed_by(&self, sealer: &dyn HeadSealer) -> bool {
        let names = |record: KeyRecord| record.key_id == self.id.to_string();
        verify_slices_are_equal(&sealer.seal_key(&self.record), &self.seal).is_ok()
            && serde_json::from_str(&self.record).is_ok_and(names)
    }

    async fn insert(self, connection: &mut Connection) -> Result<(), StoreError> {
        self.put("INSERT INTO audit_keys (number, record, seal) VALUES ($1, $2, $3)", connection)
            .await
    }

    /// The first of all, which another chain of the database may have put there by now.
    async fn insert_first(self, connection: &mut Connection) -> Result<(), StoreError> {
        let insert = "INSERT INTO audit_keys (number, record, seal) VALUES ($1, $2, $3) \
            ON CONFLICT (number) DO NOTHING";
        self.put(insert, connection).await
    }

    async fn put(
        self,
        insert: &'static str,
        connection: &mut Connection,
    ) -> Result<(), StoreError> {
        let insert = query(insert).bind(i64::from(self.id.number())).bind(self.record);
        insert.bind(self.seal).execute(connection).await?;
        Ok(())
    }
}

fn damaged() -> StoreError {
    StoreError::DamagedRow { table: TABLE }
}
