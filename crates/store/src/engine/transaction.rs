//! A transaction that leaves nothing behind when it fails.
//!
//! On a full disk SQLite rolls back by itself, and then a second ROLLBACK is an error that would leave
//! the connection unusable. So whatever is not committed is undone by closing its connection, which
//! the database rolls back in every case; a new one costs about a millisecond.

use super::{Connection, Pool};
use crate::store::StoreError;

/// Statements that are done together; they come to nothing unless committed.
#[derive(Debug)]
pub(crate) struct Transaction {
    connection: Connection,
    ended: bool,
}

impl Transaction {
    /// Begins a change and takes the write lock, so that what it reads stays so. Waits for other writers up to
    /// the busy time-out.
    pub(crate) async fn write(pool: &Pool) -> Result<Self, StoreError> {
        Self::begin(pool, "BEGIN IMMEDIATE").await
    }

    /// Begins a view in which nothing changes; it is to be committed as well.
    pub(crate) async fn view(pool: &Pool) -> Result<Self, StoreError> {
        Self::begin(pool, "BEGIN").await
    }

    async fn begin(pool: &Pool, how: &'static str) -> Result<Self, StoreError> {
        let mut transaction = Self { connection: pool.acquire().await?, ended: false };
        transaction.run(how).await?;
        Ok(transaction)
    }

    /// On disk when this returns.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.run("COMMIT").await?;
        self.ended = true;
        Ok(())
    }

    /// Where its statements run.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    async fn run(&mut self, sql: &'static str) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(held) => {
                sqlx::query(sql).execute(&mut **held).await?;
            }
        }
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            match &mut self.connection {
                Connection::Sqlite(held) => held.close_on_drop(),
            }
        }
    }
}
