//! The row that says where the log ends: the last entry once more, and the vault's seal on it.

use keyless_core::audit::{Chain, Entry, GENESIS, Pending};
use sqlx::{SqliteConnection, query, query_scalar};

use super::HeadSealer;
use crate::store::StoreError;

/// The end of the log, for the next entry to continue.
pub(super) async fn read(connection: &mut SqliteConnection) -> Result<Chain, StoreError> {
    Ok(last(connection).await?.as_ref().map_or_else(Chain::genesis, Chain::after))
}

/// Moves the end of the log to `entry`.
pub(super) async fn advance(
    connection: &mut SqliteConnection,
    entry: &Pending,
    sealer: Option<&dyn HeadSealer>,
) -> Result<(), StoreError> {
    query("UPDATE audit_head SET last = ? WHERE id = 1")
        .bind(entry.text())
        .execute(&mut *connection)
        .await?;
    match sealer {
        None => Ok(()),
        Some(sealer) => put_seal(connection, entry.sequence(), entry.entry_hash(), sealer).await,
    }
}

/// Seals the end of the log as it is; a vault does so when it is made, so that from then on a
/// missing seal tells.
pub(crate) async fn seal_head(
    connection: &mut SqliteConnection,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    match last(connection).await? {
        None => put_seal(connection, 0, GENESIS, sealer).await,
        Some(entry) => put_seal(connection, entry.sequence, &entry.chain.entry_hash, sealer).await,
    }
}

async fn last(connection: &mut SqliteConnection) -> Result<Option<Entry>, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "audit_head" };
    let text: Option<Option<String>> =
        query_scalar("SELECT last FROM audit_head WHERE id = 1").fetch_optional(connection).await?;
    let text = text.ok_or_else(damaged)?;
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| damaged())
}

async fn put_seal(
    connection: &mut SqliteConnection,
    sequence: u64,
    hash: &str,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    query("UPDATE audit_head SET sealed_sequence = ?, sealed_hash = ?, seal = ? WHERE id = 1")
        .bind(i64::try_from(sequence).expect("no log grows to 2^63 entries"))
        .bind(hash)
        .bind(sealer.seal(sequence, hash))
        .execute(connection)
        .await?;
    Ok(())
}
