//! The vault's rows: what is sealed, and what stands about it in the clear.
//!
//! The store moves them and guards that a change is whole; what they mean, and whether they are
//! genuine, the vault says with the commitment. [`Rows`] is always one consistent view.

use std::{fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use keyless_core::{SecretPath, audit::Draft};

use crate::{
    audit::{self, AuditLog, HeadSealer, NewEnd},
    engine::{Connection, LARGEST, Lock, Query, Row, Transaction, query, query_owned},
    store::{OwnChain, Store, StoreError},
};

/// The vault's tables, and their columns of which the database does not know how large they are.
const SIZED: &[(&str, &[&str])] = &[
    ("envelopes", &["kind", "parameters", "nonce", "wrapped", "created_at"]),
    ("secrets", &["path", "metadata", "created_at", "updated_at", "removed_at"]),
    ("versions", &["path", "nonce", "ciphertext", "created_at"]),
    ("commitment", &["mac"]),
    ("vault", &["agreed"]),
];

/// That a vault was made here, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRow {
    /// The version of the vault's formats.
    pub format: u32,
    /// When the vault was made.
    pub created_at: Timestamp,
    /// What was agreed to of how long it stays open.
    pub agreed: Option<String>,
}

/// The vault key, wrapped for one factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeRow {
    /// Which factor opens it, such as `passphrase`.
    pub kind: String,
    /// What the factor needs beside itself, as JSON.
    pub parameters: String,
    /// The nonce of the wrapping.
    pub nonce: Vec<u8>,
    /// The wrapped key.
    pub wrapped: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A secret without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// Its identity.
    pub path: SecretPath,
    /// The version of the metadata's format.
    pub format: u32,
    /// Everything else about it, as JSON.
    pub metadata: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its metadata last changed.
    pub updated_at: Timestamp,
    /// The version in use; the newest when none is named.
    pub current: Option<u32>,
    /// When it was removed; it can be restored until it is purged.
    pub removed_at: Option<Timestamp>,
}

/// One sealed value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow {
    /// The secret whose value it is.
    pub path: SecretPath,
    /// From 1; the highest is the one in use, unless the secret names another.
    pub version: u32,
    /// The nonce of the sealing.
    pub nonce: Vec<u8>,
    /// The sealed value.
    pub ciphertext: Vec<u8>,
    /// When the version was made.
    pub created_at: Timestamp,
}

/// The vault's word on all other rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitmentRow {
    /// Counts the mutations.
    pub generation: u64,
    /// Made with the vault's key.
    pub mac: Vec<u8>,
}

/// Everything that the commitment covers, and the commitment. Sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Absent when no vault was made yet.
    pub header: Option<HeaderRow>,
    /// By kind.
    pub envelopes: Vec<EnvelopeRow>,
    /// By path.
    pub secrets: Vec<SecretRow>,
    /// By path, then version.
    pub versions: Vec<VersionRow>,
    /// Absent when no vault was made yet.
    pub commitment: Option<CommitmentRow>,
}

/// A mutation under way. It has the write lock, and comes to nothing unless committed.
#[derive(Debug)]
pub struct Writing {
    transaction: Transaction,
    chain: Arc<OwnChain>,
    seals: bool,
    /// What is told of it in the log.
    told: Option<(AuditLog, NewEnd)>,
}

impl Store {
    /// Reads all rows of the vault in one consistent view.
    pub async fn rows(&self) -> Result<Rows, StoreError> {
        let mut view = Transaction::view(&self.pool).await?;
        let rows = read_rows(view.connection()).await?;
        view.commit().await?;
        Ok(rows)
    }

    /// Reads what opens the vault, by kind; none when there is no vault.
    pub async fn envelopes(&self) -> Result<Option<Vec<EnvelopeRow>>, StoreError> {
        let mut view = Transaction::view(&self.pool).await?;
        let header = read_header(view.connection()).await?;
        refuse_oversized(view.connection()).await?;
        let envelopes = read_envelopes(view.connection()).await?;
        view.commit().await?;
        Ok(header.map(|_| envelopes))
    }

    /// Reads one version.
    pub async fn version(
        &self,
        path: &SecretPath,
        version: u32,
    ) -> Result<Option<VersionRow>, StoreError> {
        let row = query(
            "SELECT path, version, nonce, ciphertext, created_at FROM versions \
             WHERE path = $1 AND version = $2",
        )
        .bind(path.as_str())
        .bind(version)
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref().map(version_row).transpose()
    }

    /// Begins a mutation; waits for other writers up to the busy time-out.
    pub async fn write(&self) -> Result<Writing, StoreError> {
        let transaction = Transaction::write(&self.pool, Lock::Rows).await?;
        Ok(Writing { transaction, chain: Arc::clone(&self.chain), seals: false, told: None })
    }
}

impl Writing {
    /// Puts the vault's header; [`StoreError::Taken`] when there is one.
    pub async fn insert_header(&mut self, row: &HeaderRow) -> Result<(), StoreError> {
        let insert = query("INSERT INTO vault (id, format, created_at) VALUES (1, $1, $2)")
            .bind(row.format)
            .bind(row.created_at.to_string());
        self.run(insert).await.map(drop)
    }

    /// Puts what was agreed to into the vault's header.
    pub async fn put_agreed(&mut self, agreed: &str) -> Result<(), StoreError> {
        self.run(query("UPDATE vault SET agreed = $1").bind(agreed)).await.map(drop)
    }

    /// Puts an envelope in place of the one of its kind.
    pub async fn put_envelope(&mut self, row: &EnvelopeRow) -> Result<(), StoreError> {
        let put = query(
            "INSERT INTO envelopes (kind, parameters, nonce, wrapped, created_at) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (kind) DO UPDATE SET \
             parameters = excluded.parameters, nonce = excluded.nonce, \
             wrapped = excluded.wrapped, created_at = excluded.created_at",
        )
        .bind(&row.kind)
        .bind(&row.parameters)
        .bind(&row.nonce)
        .bind(&row.wrapped)
        .bind(row.created_at.to_string());
        self.run(put).await.map(drop)
    }

    /// Adds a secret; [`StoreError::Taken`] when its path is.
    pub async fn insert_secret(&mut self, row: &SecretRow) -> Result<(), StoreError> {
        let insert = query(
            "INSERT INTO secrets \
             (path, format, metadata, created_at, updated_at, current, removed_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(row.path.as_str())
        .bind(row.format)
        .bind(&row.metadata)
        .bind(row.created_at.to_string())
        .bind(row.updated_at.to_string())
        .bind(row.current)
        .bind(row.removed_at.map(|at| at.to_string()));
        self.run(insert).await.map(drop)
    }

    /// Changes a secret's metadata, the version in use, and whether it is removed.
    pub async fn update_secret(&mut self, row: &SecretRow) -> Result<(), StoreError> {
        let update = query(
            "UPDATE secrets SET format = $1, metadata = $2, updated_at = $3, current = $4, \
             removed_at = $5 WHERE path = $6",
        )
        .bind(row.format)
        .bind(&row.metadata)
        .bind(row.updated_at.to_string())
        .bind(row.current)
        .bind(row.removed_at.map(|at| at.to_string()))
        .bind(row.path.as_str());
        self.run(update).await.map(drop)
    }

    /// Removes a secret with all its versions.
    pub async fn remove_secret(&mut self, path: &SecretPath) -> Result<(), StoreError> {
        let remove = query("DELETE FROM secrets WHERE path = $1").bind(path.as_str());
        self.run(remove).await.map(drop)
    }

    /// Adds a version; [`StoreError::Taken`] when its number is.
    pub async fn insert_version(&mut self, row: &VersionRow) -> Result<(), StoreError> {
        let insert = query(
            "INSERT INTO versions (path, version, nonce, ciphertext, created_at) \
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(row.path.as_str())
        .bind(row.version)
        .bind(&row.nonce)
        .bind(&row.ciphertext)
        .bind(row.created_at.to_string());
        self.run(insert).await.map(drop)
    }

    /// Removes one version for good.
    pub async fn remove_version(
        &mut self,
        path: &SecretPath,
        version: u32,
    ) -> Result<(), StoreError> {
        let remove = query("DELETE FROM versions WHERE path = $1 AND version = $2")
            .bind(path.as_str())
            .bind(version);
        self.run(remove).await.map(drop)
    }

    /// Removes the envelope of a kind.
    pub async fn remove_envelope(&mut self, kind: &str) -> Result<(), StoreError> {
        let remove = query("DELETE FROM envelopes WHERE kind = $1").bind(kind);
        self.run(remove).await.map(drop)
    }

    /// Puts the commitment to what the rows now are.
    pub async fn put_commitment(&mut self, row: &CommitmentRow) -> Result<(), StoreError> {
        let generation = i64::try_from(row.generation)
            .map_err(|_| StoreError::DamagedRow { table: "commitment" })?;
        let put = query(
            "INSERT INTO commitment (id, generation, mac) VALUES (1, $1, $2) \
             ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, mac = excluded.mac",
        )
        .bind(generation)
        .bind(&row.mac);
        self.run(put).await.map(drop)
    }

    /// Vouches for the audit log as it now ends, with a new vault's key.
    pub async fn seal_audit_head(&mut self, sealer: &dyn HeadSealer) -> Result<(), StoreError> {
        self.seals = true;
        audit::seal_head(self.transaction.connection(), &self.chain, sealer).await
    }

    /// Puts the mutation on record; the entries are durable when it is. Once for each mutation.
    ///
    /// Fails with [`StoreError::Unrecorded`]: then the mutation must not be committed.
    pub async fn record(&mut self, log: &AuditLog, drafts: Vec<Draft>) -> Result<(), StoreError> {
        if drafts.is_empty() {
            return Ok(());
        }
        self.transaction.also(Lock::Chain(self.chain.name())).await?;
        let written = log.write_in(self.transaction.connection(), &self.chain, drafts);
        let end = Box::pin(written).await?;
        self.told = Some((log.clone(), end));
        Ok(())
    }

    /// Makes the mutation durable.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.transaction.commit().await?;
        if let Some((log, end)) = self.told {
            log.know(end);
            // Should it fail, the next start of a process here begins another chain.
            let _ = self.chain.begin();
        }
        if self.seals { self.chain.begin() } else { Ok(()) }
    }

    /// Reads all rows as this mutation has left them so far.
    pub async fn rows(&mut self) -> Result<Rows, StoreError> {
        read_rows(self.transaction.connection()).await
    }

    /// Gives how many rows it changed.
    pub(crate) async fn run(&mut self, statement: Query) -> Result<u64, StoreError> {
        statement.execute(self.transaction.connection()).await
    }
}

async fn read_rows(connection: &mut Connection) -> Result<Rows, StoreError> {
    let header = read_header(connection).await?;
    refuse_oversized(connection).await?;
    let envelopes = read_envelopes(connection).await?;
    let secrets = query(
        "SELECT path, format, metadata, created_at, updated_at, current, removed_at \
         FROM secrets ORDER BY path",
    )
    .fetch_all(&mut *connection)
    .await?;
    let versions = query(
        "SELECT path, version, nonce, ciphertext, created_at FROM versions ORDER BY path, version",
    )
    .fetch_all(&mut *connection)
    .await?;
    let commitment =
        query("SELECT generation, mac FROM commitment").fetch_optional(&mut *connection).await?;
    Ok(Rows {
        header,
        envelopes,
        secrets: secrets.iter().map(secret_row).collect::<Result<_, _>>()?,
        versions: versions.iter().map(version_row).collect::<Result<_, _>>()?,
        commitment: commitment.as_ref().map(commitment_row).transpose()?,
    })
}

/// Fails with [`StoreError::Oversized`] before anything that large is read: a database hands a column over whole. What a
/// column's size is stands before it, so the columns themselves are not looked at.
async fn refuse_oversized(connection: &mut Connection) -> Result<(), StoreError> {
    let mut cases = String::new();
    for (number, (table, columns)) in SIZED.iter().enumerate() {
        let large: Vec<String> =
            columns.iter().map(|column| format!("octet_length({column}) > {LARGEST}")).collect();
        let large = large.join(" OR ");
        let _ = write!(cases, " WHEN EXISTS (SELECT 1 FROM {table} WHERE {large}) THEN {number}");
    }
    let row = query_owned(format!("SELECT CAST(CASE{cases} ELSE -1 END AS bigint)"))
        .fetch_one(&mut *connection)
        .await?;
    let number: i64 = row.try_get(0)?;
    match usize::try_from(number).ok().and_then(|number| SIZED.get(number)) {
        Some(&(table, _)) => Err(StoreError::Oversized { table }),
        None => Ok(()),
    }
}

async fn read_header(connection: &mut Connection) -> Result<Option<HeaderRow>, StoreError> {
    let header = query("SELECT format, created_at, agreed FROM vault").fetch_optional(connection);
    header.await?.as_ref().map(header_row).transpose()
}

async fn read_envelopes(connection: &mut Connection) -> Result<Vec<EnvelopeRow>, StoreError> {
    let all =
        query("SELECT kind, parameters, nonce, wrapped, created_at FROM envelopes ORDER BY kind");
    all.fetch_all(connection).await?.iter().map(envelope_row).collect()
}

fn header_row(row: &Row) -> Result<HeaderRow, StoreError> {
    Ok(HeaderRow {
        format: row.number(0, "vault")?,
        created_at: time(row, 1, "vault")?,
        agreed: row.try_get(2)?,
    })
}

fn envelope_row(row: &Row) -> Result<EnvelopeRow, StoreError> {
    Ok(EnvelopeRow {
        kind: row.try_get(0)?,
        parameters: row.try_get(1)?,
        nonce: row.try_get(2)?,
        wrapped: row.try_get(3)?,
        created_at: time(row, 4, "envelopes")?,
    })
}

fn secret_row(row: &Row) -> Result<SecretRow, StoreError> {
    Ok(SecretRow {
        path: path(row, "secrets")?,
        format: row.number(1, "secrets")?,
        metadata: row.try_get(2)?,
        created_at: time(row, 3, "secrets")?,
        updated_at: time(row, 4, "secrets")?,
        current: match row.try_get::<Option<i64>>(5)? {
            None => None,
            Some(_) => Some(row.number(5, "secrets")?),
        },
        removed_at: match row.try_get::<Option<&str>>(6)? {
            None => None,
            Some(_) => Some(time(row, 6, "secrets")?),
        },
    })
}

fn version_row(row: &Row) -> Result<VersionRow, StoreError> {
    Ok(VersionRow {
        path: path(row, "versions")?,
        version: row.number(1, "versions")?,
        nonce: row.try_get(2)?,
        ciphertext: row.try_get(3)?,
        created_at: time(row, 4, "versions")?,
    })
}

fn commitment_row(row: &Row) -> Result<CommitmentRow, StoreError> {
    Ok(CommitmentRow { generation: row.number(0, "commitment")?, mac: row.try_get(1)? })
}

fn path(row: &Row, table: &'static str) -> Result<SecretPath, StoreError> {
    let text: &str = row.try_get(0)?;
    SecretPath::parse(text).map_err(|_| StoreError::DamagedRow { table })
}

fn time(row: &Row, column: usize, table: &'static str) -> Result<Timestamp, StoreError> {
    let text: &str = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::DamagedRow { table })
}
