//! A transaction that leaves nothing behind when it fails.
//!
//! On a full disk SQLite rolls back by itself, and then a second ROLLBACK is an error that would leave
//! the connection unusable. So whatever is not committed is undone by closing its connection, which
//! the database rolls back in every case; a new one costs about a millisecond.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, raw_sql};
use tokio::{task::spawn_blocking, time::timeout};

use super::{Connection, Pool, answered, query, query_owned};
use crate::store::StoreError;

/// Marks our locks among others of one server: "KLS1".
pub(crate) const LOCK_CLASS: i32 = 0x4b4c_5331;
/// Taken while tables are made.
pub(crate) const SCHEMA_LOCK: i32 = -1;
/// Taken while an answer to a request is applied.
pub(crate) const ANSWERS_LOCK: i32 = -2;
const ROWS_LOCK: i32 = 0;
/// A server ends a transaction in which nothing is said for 20 s.
const SILENCE: Duration = Duration::from_secs(5);

/// What a change takes for itself. A file has one lock for all.
#[derive(Clone, Copy)]
pub(crate) enum Lock<'a> {
    /// One chain of the audit log.
    Chain(&'a str),
    /// Everything else.
    Rows,
}

/// Statements that are done together; they come to nothing unless committed.
#[derive(Debug)]
pub(crate) struct Transaction {
    connection: Connection,
    ended: bool,
}

impl Transaction {
    /// Begins a change and takes the lock, so that what it reads stays so. Waits for other writers up to the busy
    /// time-out.
    pub(crate) async fn write(pool: &Pool, lock: Lock<'_>) -> Result<Self, StoreError> {
        // Statements after the lock see all that was committed before it: none is lost, none to be tried again.
        let number = lock.number();
        let locked = format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK_CLASS}, {number})");
        Self::begin(pool, "BEGIN IMMEDIATE", locked).await
    }

    /// Takes one more lock, as [`Self::write`] takes the first. Whoever takes several takes [`Lock::Rows`] first.
    pub(crate) async fn also(&mut self, lock: Lock<'_>) -> Result<(), StoreError> {
        // A file has one lock for all.
        if let Connection::Postgres(_) = &self.connection {
            let number = lock.number();
            let take = format!("SELECT pg_advisory_xact_lock({LOCK_CLASS}, {number})");
            query_owned(take).fetch_all(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Begins a view in which nothing changes; it is to be committed as well.
    pub(crate) async fn view(pool: &Pool) -> Result<Self, StoreError> {
        let frozen = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned();
        Self::begin(pool, "BEGIN", frozen).await
    }

    fn begin<'p>(
        pool: &'p Pool,
        sqlite: &'static str,
        postgres: String,
    ) -> BoxFuture<'p, Result<Self, StoreError>> {
        Box::pin(async move {
            let mut transaction = Self { connection: pool.acquire().await?, ended: false };
            match &mut transaction.connection {
                Connection::Postgres(given) => {
                    let begin = raw_sql(AssertSqlSafe(postgres));
                    answered(async { Ok(begin.execute(given.held()).await?) }).await?;
                }
                Connection::Sqlite(held) => {
                    sqlx::query(sqlite).execute(&mut **held).await?;
                }
            }
            Ok(transaction)
        })
    }

    /// On disk when this returns. When it fails on a server, it may have been done all the same.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        query("COMMIT").execute(&mut self.connection).await?;
        self.ended = true;
        Ok(())
    }

    /// Where its statements run.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Does `work` on a thread, beside a transaction that is to be there afterwards.
pub(crate) async fn meanwhile<T: Send + 'static>(
    connection: &mut Connection,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let mut work = spawn_blocking(work);
    loop {
        // At first as well: what was done before may have taken a while.
        query("SELECT 1").fetch_one(&mut *connection).await?;
        if let Ok(done) = timeout(SILENCE, &mut work).await {
            return Ok(done.expect("it does not panic"));
        }
    }
}

impl Lock<'_> {
    /// Its number on a server. Two chains may have one: then they take turns.
    fn number(self) -> i32 {
        match self {
            // FNV-1a: the same in every version and on every machine.
            Self::Chain(name) => {
                let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
                });
                i32::try_from(hash >> 2).unwrap_or(0) + 1
            }
            Self::Rows => ROWS_LOCK,
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}
