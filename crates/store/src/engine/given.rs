//! A connection that a server's pool has given.

use std::time::Duration;

use sqlx::{PgConnection, Postgres, pool::PoolConnection};
use tokio::{runtime::Handle, time::timeout};

/// How long a server may take to give the sign of life that sqlx waits for before the pool has a connection back.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Given back when it is dropped.
///
/// sqlx itself waits without end then, with its place in the pool taken: five that a silent server, or a path that has
/// gone, has never answered would leave none.
#[derive(Debug)]
pub(crate) struct Given {
    connection: PoolConnection<Postgres>,
    closes: bool,
}

impl Given {
    pub(super) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, closes: false }
    }

    pub(super) fn held(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Closes it instead, for which sqlx has a limit of its own.
    pub(super) fn close_on_drop(&mut self) {
        self.closes = true;
        self.connection.close_on_drop();
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.closes {
            return;
        }
        // Without a runtime nothing is left that could wait.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(SIGN_OF_LIFE, self.connection.return_to_pool()));
        }
    }
}
