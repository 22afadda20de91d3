//! The operator's passkeys: public keys that others seal and judge.
//!
//! A use replaces the row that was read, or nothing: of two proofs at once that count alike one wins.

use jiff::Timestamp;

use crate::{
    engine::{Row, query},
    store::{Store, StoreError},
};

/// A public key that proves the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    /// The credential's id, in base64url.
    pub id: String,
    /// The operator's word for it.
    pub name: String,
    /// `SubjectPublicKeyInfo`, in DER.
    pub public_key: Vec<u8>,
    /// COSE's number of the algorithm.
    pub algorithm: i64,
    /// Uses, as the authenticator counts them; 0 when it doesn't.
    pub counter: u32,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it proved the operator last.
    pub used_at: Option<Timestamp>,
}

/// A passkey and the seal over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyRow {
    /// The passkey.
    pub passkey: Passkey,
    /// The vault's word on it: a MAC over [`PasskeyRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

impl PasskeyRow {
    /// What a seal covers: the whole passkey, in one form.
    pub fn sealed_bytes(passkey: &Passkey) -> Vec<u8> {
        let Passkey { id, name, public_key, algorithm, counter, created_at, used_at } = passkey;
        let all = (id, name, public_key, algorithm, counter, created_at, used_at);
        serde_json::to_vec(&all).expect("a passkey is plain data")
    }
}

impl Store {
    /// Records a passkey; [`StoreError::Taken`] when its id is. On disk when this returns.
    pub async fn insert_passkey(&self, row: &PasskeyRow) -> Result<(), StoreError> {
        let Passkey { id, name, public_key, algorithm, counter, created_at, used_at } =
            &row.passkey;
        query(
            "INSERT INTO passkeys (id, name, public_key, algorithm, counter, created_at, used_at, seal) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(id)
        .bind(name)
        .bind(public_key)
        .bind(*algorithm)
        .bind(i64::from(*counter))
        .bind(created_at.to_string())
        .bind(used_at.map(|time| time.to_string()))
        .bind(&row.seal)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Puts the count and time of `new` in the place of those of `old`; `false` when somebody was faster.
    pub async fn replace_passkey(
        &self,
        old: &PasskeyRow,
        new: &PasskeyRow,
    ) -> Result<bool, StoreError> {
        let update =
            "UPDATE passkeys SET counter = $1, used_at = $2, seal = $3 WHERE id = $4 AND seal = $5";
        let done = query(update)
            .bind(i64::from(new.passkey.counter))
            .bind(new.passkey.used_at.map(|time| time.to_string()))
            .bind(&new.seal)
            .bind(&old.passkey.id)
            .bind(&old.seal)
            .execute(&self.pool)
            .await?;
        Ok(done == 1)
    }

    /// All passkeys, oldest first. A row that can't be read is left out: it proves nobody.
    pub async fn passkeys(&self) -> Result<Vec<PasskeyRow>, StoreError> {
        let select = "SELECT id, name, public_key, algorithm, counter, created_at, used_at, seal \
                      FROM passkeys";
        let rows = query(select).fetch_all(&self.pool).await?;
        let mut all: Vec<_> = rows.iter().filter_map(|row| passkey_row(row).ok()).collect();
        all.sort_by_key(|row| row.passkey.created_at);
        Ok(all)
    }

    /// Removes a passkey; `false` when there is none of that id.
    pub async fn remove_passkey(&self, id: &str) -> Result<bool, StoreError> {
        let done = query("DELETE FROM passkeys WHERE id = $1").bind(id).execute(&self.pool).await?;
        Ok(done == 1)
    }
}

fn passkey_row(row: &Row) -> Result<PasskeyRow, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "passkeys" };
    let time = |text: &str| text.parse::<Timestamp>().map_err(|_| damaged());
    let used_at: Option<&str> = row.try_get(6)?;
    Ok(PasskeyRow {
        passkey: Passkey {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            public_key: row.try_get(2)?,
            algorithm: row.try_get(3)?,
            counter: row.number(4, "passkeys")?,
            created_at: time(row.try_get(5)?)?,
            used_at: used_at.map(time).transpose()?,
        },
        seal: row.try_get(7)?,
    })
}
