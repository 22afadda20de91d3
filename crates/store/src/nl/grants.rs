//! Scope grants, and the uses that were had of them.

use std::collections::HashMap;

use keyless_core::grant::{Grant, GrantId, PermissionRef};

use super::json;
use crate::{
    audit::Told,
    engine::{Connection, Lock, Place, Row, Transaction, of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// A grant and the seal over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRow {
    /// What it permits.
    pub grant: Grant,
    /// The vault's word on it: a MAC over [`GrantRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

/// A use that is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseOf {
    /// The permission that is used.
    pub permission: PermissionRef,
    /// How many there are; no limit when absent.
    pub max_uses: Option<u64>,
}

/// Why no use was had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untaken {
    /// All uses of this permission were had.
    Exhausted(PermissionRef),
    /// The grant of this permission was revoked.
    Revoked(PermissionRef),
}

/// The uses that were had, of permissions that have a limit.
pub type Uses = HashMap<PermissionRef, u64>;

impl GrantRow {
    /// What a seal covers.
    pub fn sealed_bytes(grant: &Grant) -> Vec<u8> {
        json(&("grant", grant)).into_bytes()
    }
}

impl Store {
    /// Records a grant; [`StoreError::Taken`] when its name is. On disk when this returns.
    pub async fn insert_grant(&self, row: &GrantRow, told: Told<'_>) -> Result<(), StoreError> {
        let insert =
            query("INSERT INTO grants (grant_id, body, revoked, seal) VALUES ($1, $2, $3, $4)")
                .bind(row.grant.grant_id.as_str())
                .bind(json(&row.grant))
                .bind(row.grant.revoked)
                .bind(&row.seal);
        self.run_told(insert, told).await.map(drop)
    }

    /// Puts `new` in the place of `old`, which has the same name; `false` when somebody was faster.
    pub async fn replace_grant(
        &self,
        old: &GrantRow,
        new: &GrantRow,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        let update = query(
            "UPDATE grants SET body = $1, revoked = $2, seal = $3 WHERE grant_id = $4 AND seal = $5",
        );
        let update = update
            .bind(json(&new.grant))
            .bind(new.grant.revoked)
            .bind(&new.seal)
            .bind(old.grant.grant_id.as_str())
            .bind(&old.seal);
        self.run_told(update, told).await
    }

    /// All grants, oldest first. A row that can't be read is left out: it permits nothing.
    pub async fn grants(&self) -> Result<Vec<GrantRow>, StoreError> {
        let select = format!("SELECT {}, seal FROM grants", of_a_size("body"));
        let rows = query_owned(select).fetch_all(&self.pool).await?;
        let mut all: Vec<_> = rows.iter().filter_map(|row| grant_row(row).ok()).collect();
        all.sort_by_key(|row| (row.grant.granted_by.granted_at, row.grant.grant_id.clone()));
        Ok(all)
    }

    /// The uses that were had.
    pub async fn grant_uses(&self) -> Result<Uses, StoreError> {
        let select = query("SELECT grant_id, permission, used FROM grant_uses");
        let rows = select.fetch_all(self.pool.soon()).await?;
        Ok(rows.iter().filter_map(|row| use_row(row).ok().flatten()).collect())
    }

    /// Takes one use of each, or none of any; of a permission without a limit it finds that its grant is in force.
    /// On disk when this returns.
    pub async fn take_uses(&self, wanted: &[UseOf]) -> Result<Result<(), Untaken>, StoreError> {
        if wanted.iter().all(|one| one.max_uses.is_none()) {
            // Nothing is written, so that nobody who writes is waited for.
            for UseOf { permission, .. } in wanted {
                if !is_in_force(self.pool.soon(), permission).await? {
                    return Ok(Err(Untaken::Revoked(permission.clone())));
                }
            }
            return Ok(Ok(()));
        }
        let mut transaction = Transaction::write(&self.pool, Lock::Rows).await?;
        for one in wanted {
            if let Err(untaken) = take_use(transaction.connection(), one).await? {
                return Ok(Err(untaken));
            }
        }
        transaction.commit().await.map(Ok)
    }

    /// Gives uses back, of an action that did not begin.
    pub async fn give_uses_back(&self, had: &[PermissionRef]) -> Result<(), StoreError> {
        let mut transaction = Transaction::write(&self.pool, Lock::Rows).await?;
        for one in had {
            query(
                "UPDATE grant_uses SET used = used - 1 \
                 WHERE grant_id = $1 AND permission = $2 AND used > 0",
            )
            .bind(one.grant.as_str())
            .bind(one.index)
            .execute(transaction.connection())
            .await?;
        }
        transaction.commit().await
    }
}

/// One statement decides: whether the grant still holds, whether a use is left, and that it is had.
async fn take_use(
    connection: &mut Connection,
    UseOf { permission, max_uses }: &UseOf,
) -> Result<Result<(), Untaken>, StoreError> {
    let is_had = match max_uses {
        None => is_in_force(&mut *connection, permission).await?,
        Some(most) => had_use(connection, permission, *most).await?,
    };
    if is_had {
        return Ok(Ok(()));
    }
    let why = if is_in_force(connection, permission).await? {
        Untaken::Exhausted
    } else {
        Untaken::Revoked
    };
    Ok(Err(why(permission.clone())))
}

async fn had_use(
    connection: &mut Connection,
    permission: &PermissionRef,
    most: u64,
) -> Result<bool, StoreError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let done = query(
        "INSERT INTO grant_uses (grant_id, permission, used) \
         SELECT grant_id, $2, 1 FROM grants WHERE grant_id = $1 AND revoked = 0 AND $3 > 0 \
         ON CONFLICT (grant_id, permission) \
         DO UPDATE SET used = grant_uses.used + 1 WHERE grant_uses.used < $3",
    )
    .bind(permission.grant.as_str())
    .bind(permission.index)
    .bind(most)
    .execute(connection)
    .await?;
    Ok(done == 1)
}

async fn is_in_force(
    place: impl Into<Place<'_>>,
    permission: &PermissionRef,
) -> Result<bool, StoreError> {
    let select = query("SELECT 1 FROM grants WHERE grant_id = $1 AND revoked = 0");
    let found = select.bind(permission.grant.as_str()).fetch_optional(place).await?;
    Ok(found.is_some())
}

fn grant_row(row: &Row) -> Result<GrantRow, StoreError> {
    let damaged = |_| StoreError::DamagedRow { table: "grants" };
    let grant = serde_json::from_str(row.try_get(0)?).map_err(damaged)?;
    Ok(GrantRow { grant, seal: row.try_get(1)? })
}

fn use_row(row: &Row) -> Result<Option<(PermissionRef, u64)>, StoreError> {
    let (grant, index): (&str, u32) = (row.try_get(0)?, row.number(1, "grant_uses")?);
    let used: i64 = row.try_get(2)?;
    let at = GrantId::parse(grant).map(|grant| PermissionRef { grant, index });
    Ok(at.map(|at| (at, u64::try_from(used).unwrap_or(0))))
}
