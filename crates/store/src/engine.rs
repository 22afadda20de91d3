//! The one face that statements are run through, whatever the database.
//!
//! A statement is written once, with numbered parameters (`$1`), numbers as `i64`, texts and bytes. What an engine
//! does in its own way (locks, files, versions of the schema) is beside this, in `store`.
//!
//! Its futures are boxed: an `async fn` is compiled again wherever it is awaited, and everything that uses a store
//! awaits these.

mod query;
mod row;
mod transaction;
mod words;

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, pool::PoolConnection};
use tokio::time::timeout;

pub(crate) use self::{
    query::{Query, Value, query, query_owned},
    row::Row,
    transaction::{LOCK_CLASS, Lock, SCHEMA_LOCK, Transaction},
};
use crate::store::{StoreError, apart};

/// How long one statement may take on a server, from which there may come no answer at all.
const ANSWER: Duration = Duration::from_secs(30);

/// The connections to one database.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// One of them, in use.
#[derive(Debug)]
pub(crate) enum Connection {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// Where a statement runs.
pub(crate) enum Place<'a> {
    /// By itself, on any connection.
    Any(&'a Pool),
    /// Among others of a transaction.
    This(&'a mut Connection),
}

impl Pool {
    /// Waits for a connection that is free.
    pub(crate) fn acquire(&self) -> BoxFuture<'_, Result<Connection, StoreError>> {
        Box::pin(async move {
            match self {
                Self::Postgres(pool) => {
                    let acquired = answered(async { pool.acquire().await.map_err(unreachable) });
                    Ok(Connection::Postgres(acquired.await?))
                }
                Self::Sqlite(pool) => Ok(Connection::Sqlite(pool.acquire().await?)),
            }
        })
    }

    /// Connections to the same database for a thread that has a runtime of its own.
    pub(crate) fn apart(&self) -> Self {
        match self {
            Self::Postgres(pool) => Self::Postgres(apart(pool)),
            Self::Sqlite(pool) => Self::Sqlite(pool.clone()),
        }
    }

    /// Closes all connections. Waits for statements under way.
    pub(crate) async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}

impl<'a> From<&'a Pool> for Place<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self::Any(pool)
    }
}

impl<'a> From<&'a mut Connection> for Place<'a> {
    fn from(connection: &'a mut Connection) -> Self {
        Self::This(connection)
    }
}

/// Of a server that gives no connection in time, whatever the reason is.
pub(crate) fn unreachable(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::PoolTimedOut => StoreError::Unreachable(error),
        error => error.into(),
    }
}

/// Ends a wait for a server that does not answer. Boxed, since it would make the future of everything that uses a store large.
fn answered<'a, T: 'a>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(async move {
        let answer = timeout(ANSWER, work).await;
        answer.unwrap_or(Err(StoreError::Unreachable(sqlx::Error::PoolTimedOut)))
    })
}
