//! Brings a file to the schema of this version, and tells ours from others.
//!
//! `application_id` says that the file is ours, `user_version` which migrations it has. All that
//! are missing run in one transaction, so a file is never between two schemas.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection, query_scalar, raw_sql};

use crate::store::{
    StoreError,
    migrations::{KNOWN, MIGRATIONS},
};

/// "KLS1".
const APPLICATION_ID: i64 = 0x4b4c_5331;
/// Runs the migrations that the file lacks; does not write when there are none.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    if check_at_once(connection).await? == KNOWN {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    // Asked again under the lock: another process may have been faster.
    let found = check(&mut transaction).await?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        raw_sql(migration.sqlite).execute(&mut *transaction).await?;
    }
    // Pragmas take no parameters.
    for (pragma, number) in [("application_id", APPLICATION_ID), ("user_version", KNOWN)] {
        let set = AssertSqlSafe(format!("PRAGMA {pragma} = {number}"));
        raw_sql(set).execute(&mut *transaction).await?;
    }
    Ok(transaction.commit().await?)
}

/// Fails when the file belongs to another program. Only reads.
pub(super) async fn refuse_foreign(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    check_at_once(connection).await.map(|_| ())
}

/// [`check`] on one snapshot: a file that another process is just making must not look like half
/// of one and half of the other.
async fn check_at_once(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let mut snapshot = connection.begin().await?;
    let found = check(&mut snapshot).await;
    snapshot.rollback().await?;
    found
}

/// The schema that the file has; 0 for an empty file. Reads three times: inside a transaction only.
async fn check(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let owner: i64 = query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await?;
    let found: i64 = query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    let tables: i64 =
        query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut *connection).await?;
    match (owner, found, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, 1..=KNOWN, _) => Ok(found),
        (APPLICATION_ID, found, _) if found > KNOWN => {
            Err(StoreError::Newer { found, known: KNOWN })
        }
        _ => Err(StoreError::Foreign),
    }
}
