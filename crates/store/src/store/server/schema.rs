//! Brings a database to the schema of this version, and tells ours from others.
//!
//! `keyless_schema` says that the database is ours, which migrations it has, and what it is called among databases. All
//! that are missing run in one transaction under a lock, so several brokers may start at once.

use sqlx::{AssertSqlSafe, Connection, PgConnection, query, query_as, query_scalar, raw_sql};

use super::Absent;
use crate::{
    engine::{LOCK_CLASS, SCHEMA_LOCK},
    store::{
        StoreError,
        migrations::{KNOWN, MIGRATIONS},
    },
};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS keyless_schema ( \
    id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL, database TEXT NOT NULL)";
const ROW: &str = "INSERT INTO keyless_schema (id, version, database) \
    VALUES (1, 0, gen_random_uuid()::text) ON CONFLICT (id) DO NOTHING";
/// `duplicate_table`: somebody else's.
const DUPLICATE: &str = "42P07";

/// Runs the migrations that the database lacks; does not write when there are none. Gives its id.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    absent: Absent,
) -> Result<String, StoreError> {
    match (found(connection).await?, absent) {
        (Some((KNOWN, database)), _) => return Ok(database),
        (None, Absent::Refuse) => return Err(StoreError::Missing),
        _ => {}
    }
    let mut transaction = connection.begin().await?;
    let lock = query("SELECT pg_advisory_xact_lock($1, $2)").bind(LOCK_CLASS).bind(SCHEMA_LOCK);
    lock.execute(&mut *transaction).await?;
    raw_sql(TABLE).execute(&mut *transaction).await?;
    raw_sql(ROW).execute(&mut *transaction).await?;
    // Asked again under the lock: another broker may have been faster.
    let (version, database) = found(&mut transaction).await?.ok_or(StoreError::Foreign)?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        let step = raw_sql(AssertSqlSafe(migration.postgres())).execute(&mut *transaction).await;
        step.map_err(
            |error| if is_duplicate(&error) { StoreError::Foreign } else { error.into() },
        )?;
    }
    let update = query("UPDATE keyless_schema SET version = $1").bind(KNOWN);
    update.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(database)
}

/// The schema that the database has, and its id.
async fn found(connection: &mut PgConnection) -> Result<Option<(i64, String)>, StoreError> {
    let there: bool = query_scalar("SELECT to_regclass('keyless_schema') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !there {
        return Ok(None);
    }
    let row: Option<(i64, String)> =
        query_as("SELECT version, database FROM keyless_schema").fetch_optional(connection).await?;
    match row {
        Some((found, _)) if found > KNOWN => Err(StoreError::Newer { found, known: KNOWN }),
        row => Ok(row),
    }
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.as_deref() == Some(DUPLICATE)
}
