//! The one face that statements are run through, whatever the database.
//!
//! A statement is written once, with numbered parameters (`$1`), numbers as `i64`, texts and bytes. What an engine
//! does in its own way (locks, files, versions of the schema) is beside this, in `store`.

mod query;
mod row;
mod transaction;

use sqlx::{Sqlite, SqlitePool, pool::PoolConnection};

pub(crate) use self::{
    query::{Query, Value, query, query_owned},
    row::Row,
    transaction::Transaction,
};
use crate::store::StoreError;

/// The connections to one database.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
}

/// One of them, in use.
#[derive(Debug)]
pub(crate) enum Connection {
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
    pub(crate) async fn acquire(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite(pool) => Ok(Connection::Sqlite(pool.acquire().await?)),
        }
    }

    /// Closes all connections. Waits for statements under way.
    pub(crate) async fn close(&self) {
        match self {
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
