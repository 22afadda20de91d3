//! Delegation tokens, and the uses that were had of them.

use jiff::Timestamp;
use keyless_core::delegation::{Token, TokenId};

use super::json;
use crate::{
    audit::Told,
    engine::{Lock, Row, Transaction, of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// How long a proof is kept beyond its time, in seconds: the clocks of two brokers may differ.
const PROOFS_KEPT: i64 = 60;

/// A token and the seal over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationRow {
    /// What was handed on.
    pub token: Token,
    /// How many uses were had.
    pub used: u64,
    /// The vault's word on it: a MAC over [`DelegationRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

impl DelegationRow {
    /// What a seal covers.
    pub fn sealed_bytes(token: &Token) -> Vec<u8> {
        json(&("delegation", token)).into_bytes()
    }
}

impl Store {
    /// Records a token; [`StoreError::Taken`] when its name is. On disk when this returns.
    pub async fn insert_delegation(
        &self,
        row: &DelegationRow,
        told: Told<'_>,
    ) -> Result<(), StoreError> {
        let insert = query(
            "INSERT INTO delegations (token_id, body, max_uses, used, revoked, seal) \
             VALUES ($1, $2, $3, 0, $4, $5)",
        );
        let insert = insert
            .bind(row.token.token_id.as_str())
            .bind(json(&row.token))
            .bind(integer(row.token.scope.max_uses))
            .bind(row.token.revoked.is_some())
            .bind(&row.seal);
        self.run_told(insert, told).await.map(drop)
    }

    /// Puts tokens in the place of those with their names, all or none.
    pub async fn replace_delegations(
        &self,
        rows: &[DelegationRow],
        told: Told<'_>,
    ) -> Result<(), StoreError> {
        told.settle().await;
        let mut writing = self.write().await?;
        for row in rows {
            let update = query(
                "UPDATE delegations SET body = $1, revoked = $2, seal = $3 WHERE token_id = $4",
            );
            let update = update
                .bind(json(&row.token))
                .bind(row.token.revoked.is_some())
                .bind(&row.seal)
                .bind(row.token.token_id.as_str());
            writing.run(update).await?;
        }
        if let Some((log, drafts)) = told.into_entries() {
            writing.record(log, drafts).await?;
        }
        writing.commit().await
    }

    /// Puts a token in the place of itself as it was read; `false` when it has changed since, or was revoked.
    pub async fn rewrite_delegation(
        &self,
        old: &DelegationRow,
        new: &DelegationRow,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        let update = query(
            "UPDATE delegations SET body = $1, seal = $2 \
             WHERE token_id = $3 AND seal = $4 AND revoked = 0",
        );
        let update = update.bind(json(&new.token)).bind(&new.seal);
        let update = update.bind(old.token.token_id.as_str()).bind(&old.seal);
        self.run_told(update, told).await
    }

    /// One token; none where its row can't be read, since that hands nothing on.
    pub async fn delegation(&self, token: &TokenId) -> Result<Option<DelegationRow>, StoreError> {
        let select = format!(
            "SELECT {}, used, seal FROM delegations WHERE token_id = $1",
            of_a_size("body")
        );
        let select = query_owned(select);
        let row = select.bind(token.as_str()).fetch_optional(&self.pool).await?;
        Ok(row.and_then(|row| delegation_row(&row).ok()))
    }

    /// All tokens, oldest first. A row that can't be read is left out: it hands nothing on.
    pub async fn delegations(&self) -> Result<Vec<DelegationRow>, StoreError> {
        let select =
            query_owned(format!("SELECT {}, used, seal FROM delegations", of_a_size("body")));
        let rows = select.fetch_all(&self.pool).await?;
        let mut all: Vec<_> = rows.iter().filter_map(|row| delegation_row(row).ok()).collect();
        all.sort_by_key(|row| (row.token.issued_at, row.token.token_id.clone()));
        Ok(all)
    }

    /// Takes so many uses of a token, or none; `false` when fewer are left or it was revoked.
    pub async fn take_delegation_uses(
        &self,
        token: &TokenId,
        number: u64,
    ) -> Result<bool, StoreError> {
        let take = query(
            "UPDATE delegations SET used = used + $2 \
             WHERE token_id = $1 AND revoked = 0 AND used <= max_uses - $2",
        );
        let done = take.bind(token.as_str()).bind(integer(number)).execute(&self.pool).await?;
        Ok(done == 1)
    }

    /// Gives uses back, of what did not begin.
    pub async fn give_delegation_uses_back(
        &self,
        token: &TokenId,
        number: u64,
    ) -> Result<(), StoreError> {
        let give =
            query("UPDATE delegations SET used = used - $2 WHERE token_id = $1 AND used >= $2");
        give.bind(token.as_str()).bind(integer(number)).execute(&self.pool).await?;
        Ok(())
    }

    /// Takes a presenter's proof, which is good until then; `false` when it was taken before, by whichever broker.
    ///
    /// What is too old goes, so that there are never more than agents may send in the time for which one is good.
    pub async fn take_delegation_proof(
        &self,
        proof: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let bound = now.as_second().saturating_sub(PROOFS_KEPT);
        query("DELETE FROM delegation_proofs WHERE until < $1")
            .bind(bound)
            .execute(&self.pool)
            .await?;
        let insert = query(
            "INSERT INTO delegation_proofs (proof, until) VALUES ($1, $2) ON CONFLICT (proof) DO NOTHING",
        );
        let done = insert.bind(proof).bind(until.as_second()).execute(&self.pool).await?;
        Ok(done == 1)
    }

    /// Forgets tokens for good, all or none.
    pub async fn remove_delegations(&self, tokens: &[TokenId]) -> Result<(), StoreError> {
        if tokens.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::write(&self.pool, Lock::Rows).await?;
        for token in tokens {
            let remove = query("DELETE FROM delegations WHERE token_id = $1").bind(token.as_str());
            remove.execute(transaction.connection()).await?;
        }
        transaction.commit().await
    }
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn delegation_row(row: &Row) -> Result<DelegationRow, StoreError> {
    let damaged = |_| StoreError::DamagedRow { table: "delegations" };
    let used: i64 = row.try_get(1)?;
    Ok(DelegationRow {
        token: serde_json::from_str(row.try_get(0)?).map_err(damaged)?,
        used: u64::try_from(used).unwrap_or(0),
        seal: row.try_get(2)?,
    })
}
