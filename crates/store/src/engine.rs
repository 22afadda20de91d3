//! The one face that statements are run through, whatever the database.
//!
//! A statement is written once, with numbered parameters (`$1`), numbers as `i64`, texts and bytes. What an engine
//! does in its own way (locks, files, versions of the schema) is beside this, in `store`.
//!
//! Its futures are boxed: an `async fn` is compiled again wherever it is awaited, and everything that uses a store
//! awaits these.

mod given;
mod query;
mod row;
mod transaction;
mod words;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{
    Connection as _, PgConnection, PgPool, Sqlite, SqliteConnection, SqlitePool,
    pool::PoolConnection,
};
use tokio::{sync::Mutex, time::timeout};

use self::given::Given;
pub(crate) use self::{
    query::{Query, Value, query, query_owned},
    row::Row,
    transaction::{ANSWERS_LOCK, LOCK_CLASS, Lock, SCHEMA_LOCK, Transaction, meanwhile},
    words::{LARGEST, of_a_size},
};
use crate::store::{StoreError, apart};

/// How long one statement may take on a server, from which there may come no answer at all.
const ANSWER: Duration = Duration::from_secs(30);

/// The connections to one database.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Postgres(PgPool),
    Sqlite(InFile),
}

/// The connections to a file.
#[derive(Clone, Debug)]
pub(crate) struct InFile {
    pool: SqlitePool,
    /// For short questions: one of the pool's is asked for a sign of life each time that it is given back, which takes as
    /// long as the question. Absent once closed.
    reader: Arc<Mutex<Option<SqliteConnection>>>,
}

/// One of them, in use.
#[derive(Debug)]
pub(crate) enum Connection {
    Postgres(Given),
    Sqlite(PoolConnection<Sqlite>),
}

/// Where a statement runs.
pub(crate) enum Place<'a> {
    /// By itself, on any connection.
    Any(&'a Pool),
    /// By itself, where a question that reads a row or two is answered soonest.
    Soon(&'a Pool),
    /// Among others of a transaction.
    This(&'a mut Connection),
}

/// A connection of sqlx.
pub(crate) enum Held<'a> {
    Postgres(&'a mut PgConnection),
    Sqlite(&'a mut SqliteConnection),
}

impl InFile {
    /// A pool of them, and one beside it.
    pub(crate) fn new(pool: SqlitePool, reader: SqliteConnection) -> Self {
        Self { pool, reader: Arc::new(Mutex::new(Some(reader))) }
    }
}

impl Pool {
    /// Waits for a connection that is free.
    pub(crate) fn acquire(&self) -> BoxFuture<'_, Result<Connection, StoreError>> {
        Box::pin(async move {
            match self {
                Self::Postgres(pool) => {
                    let acquired = answered(async { pool.acquire().await.map_err(unreachable) });
                    Ok(Connection::Postgres(Given::new(acquired.await?)))
                }
                Self::Sqlite(file) => Ok(Connection::Sqlite(file.pool.acquire().await?)),
            }
        })
    }

    /// The place for a question that reads a row or two.
    pub(crate) fn soon(&self) -> Place<'_> {
        Place::Soon(self)
    }

    /// Connections to the same database for a thread that has a runtime of its own.
    pub(crate) fn apart(&self) -> Self {
        match self {
            Self::Postgres(pool) => Self::Postgres(apart(pool)),
            Self::Sqlite(file) => Self::Sqlite(file.clone()),
        }
    }

    /// Closes all connections. Waits for statements under way.
    pub(crate) async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(InFile { pool, reader }) => {
                pool.close().await;
                if let Some(reader) = reader.lock().await.take() {
                    // Nothing was written on it that could fail to be.
                    let _ = reader.close().await;
                }
            }
        }
    }
}

impl Connection {
    pub(crate) fn held(&mut self) -> Held<'_> {
        match self {
            Self::Postgres(given) => Held::Postgres(given.held()),
            Self::Sqlite(held) => Held::Sqlite(held),
        }
    }

    /// Closes it when it is dropped, whatever is under way on it.
    pub(crate) fn close_on_drop(&mut self) {
        match self {
            Self::Postgres(given) => given.close_on_drop(),
            Self::Sqlite(held) => held.close_on_drop(),
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
