//! The row that says where a chain ends: the last entry once more, and the vault's seal on it.

use keyless_core::audit::{Chain, Entry, GENESIS, Pending};

use super::HeadSealer;
use crate::{
    engine::{Connection, query},
    store::{OwnChain, StoreError},
};

/// The end of our chain, for the next entry to continue. A chain that was not begun is, which takes the vault's word:
/// each that is there has a seal, so that one without was tampered with.
pub(super) async fn read(
    connection: &mut Connection,
    own: &OwnChain,
    sealer: Option<&dyn HeadSealer>,
) -> Result<Chain, StoreError> {
    let last = match last(&mut *connection, own.name()).await? {
        Some(last) => last,
        None if own.has_begun() => return Err(damaged()),
        None => {
            let sealer = sealer.ok_or(StoreError::NotBegun)?;
            let insert = query("INSERT INTO audit_head (chain) VALUES ($1)").bind(own.name());
            insert.execute(&mut *connection).await?;
            put_seal(connection, own.name(), (0, GENESIS), sealer).await?;
            None
        }
    };
    Ok(last.as_ref().map_or_else(Chain::genesis, Chain::after))
}

/// Moves the end of our chain to `entry`.
pub(super) async fn advance(
    connection: &mut Connection,
    own: &OwnChain,
    entry: &Pending,
    sealer: Option<&dyn HeadSealer>,
) -> Result<(), StoreError> {
    query("UPDATE audit_head SET last = $1 WHERE chain = $2")
        .bind(entry.text())
        .bind(own.name())
        .execute(&mut *connection)
        .await?;
    let end = (entry.sequence(), entry.entry_hash());
    match sealer {
        None => Ok(()),
        Some(sealer) => put_seal(connection, own.name(), end, sealer).await,
    }
}

/// Seals the end of our chain as it is; a vault does so when it is made, so that from then on a
/// missing seal tells.
pub(crate) async fn seal_head(
    connection: &mut Connection,
    own: &OwnChain,
    sealer: &dyn HeadSealer,
) -> Result<(), StoreError> {
    read(&mut *connection, own, Some(sealer)).await?;
    match last(&mut *connection, own.name()).await?.flatten() {
        None => put_seal(connection, own.name(), (0, GENESIS), sealer).await,
        Some(entry) => {
            let end = (entry.sequence, entry.chain.entry_hash.as_str());
            put_seal(connection, own.name(), end, sealer).await
        }
    }
}

/// The last entry of a chain; no answer when it has no head.
async fn last(
    connection: &mut Connection,
    chain: &str,
) -> Result<Option<Option<Entry>>, StoreError> {
    let select = query("SELECT last FROM audit_head WHERE chain = $1").bind(chain);
    let Some(head) = select.fetch_optional(connection).await? else { return Ok(None) };
    let text: Option<&str> = head.try_get(0)?;
    text.map(serde_json::from_str).transpose().map(Some).map_err(|_| damaged())
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
    put.bind(i64::try_from(sequence).expect("no log grows to 2^63 entries"))
        .bind(hash)
        .bind(sealer.seal(chain, sequence, hash))
        .bind(chain)
        .execute(connection)
        .await?;
    Ok(())
}

fn damaged() -> StoreError {
    StoreError::DamagedRow { table: "audit_head" }
}
