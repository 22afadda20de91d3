//! A write transaction that leaves nothing behind when it fails.
//!
//! On a full disk SQLite rolls back by itself, and then a second ROLLBACK is an error that would leave
//! the connection unusable. So whatever is not committed is undone by closing its connection, which
//! SQLite rolls back in every case; a new one costs about a millisecond.

use sqlx::{Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection, query};

use super::StoreError;

/// Has the write lock; comes to nothing unless committed.
#[derive(Debug)]
pub(crate) struct WriteTransaction {
    connection: PoolConnection<Sqlite>,
    committed: bool,
}

impl WriteTransaction {
    /// Waits for other writers up to the busy time-out.
    pub(crate) async fn begin(pool: &SqlitePool) -> Result<Self, StoreError> {
        let connection = pool.acquire().await?;
        let mut transaction = Self { connection, committed: false };
        query("BEGIN IMMEDIATE").execute(transaction.connection()).await?;
        Ok(transaction)
    }

    /// On disk when this returns.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        query("COMMIT").execute(self.connection()).await?;
        self.committed = true;
        Ok(())
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        if !self.committed {
            self.connection.close_on_drop();
        }
    }
}
