//! The row that says where the log ends: the last entry once more, and the vault's seal on it.

use keyless_core::audit::{Chain, Entry, GENESIS, Pending};

use super::HeadSealer;
use crate::{
    engine::{Connection, query},
    store::StoreError,
};

/// The end of the log, for the next entry to continue.
pub(super) async fn read(connection: &mut Connection) -> Result<Chain, StoreError> {
    Ok(last(connection).await?.as_ref().map_or_else(Chain::genesis, Chain::after))
}

/// Moves the end of the log to `entry`.
pub(super) async fn advance(
    connection: &mut Connection,
    entry: &Pending,
    sealer: Option<&dyn HeadSealer>,
) -> Result<(), StoreError> {
    query("UPDATE audit_head SET last = $1 WHERE id = 1")
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
    connection: &mut Connection,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    match last(connection).await? {
        None => put_seal(connection, 0, GENESIS, sealer).await,
        Some(entry) => put_seal(connection, entry.sequence, &entry.chain.entry_hash, sealer).await,
    }
}

async fn last(connection: &mut Connection) -> Result<Option<Entry>, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "audit_head" };
    let head = query("SELECT last FROM audit_head WHERE id = 1").fetch_optional(connection).await?;
    let head = head.ok_or_else(damaged)?;
    let text: Option<&str> = head.try_get(0)?;
    text.map(serde_json::from_str).transpose().map_err(|_| damaged())
}

async fn put_seal(
    connection: &mut Connection,
    sequence: u64,
    hash: &str,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    query("UPDATE audit_head SET sealed_sequence = $1, sealed_hash = $2, seal = $3 WHERE id = 1")
        .bind(i64::try_from(sequence).expect("no log grows to 2^63 entries"))
        .bind(hash)
        .bind(sealer.seal(sequence, hash))
        .execute(connection)
        .await?;
    Ok(())
}
