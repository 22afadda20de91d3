//! The turn to answer what agents have asked: one process of all that use a store has it at a time.
//!
//! An answer changes secrets before it is recorded, in transactions of its own. Of two at once both would change them, and
//! one be told that it was too late.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use crate::{
    engine::{ANSWERS_LOCK, LOCK_CLASS, Pool, query_owned},
    store::{Store, StoreError, StorePlace},
};

/// How often it is looked whether another process is done.
const LOOK: Duration = Duration::from_millis(20);
/// How often at most: an answer may wait for a service that is asked about its value.
const LOOKS: u32 = 1500;

/// The turn, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Turn {
    _held: Held,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held, and let go when dropped")]
enum Held {
    File(File),
    Server(Pool),
}

impl Store {
    /// Waits for the turn. Fails as any statement does where the store can't be reached, and where another process has it
    /// for too long.
    pub async fn turn(&self) -> Result<Turn, StoreError> {
        let held = match self.place() {
            StorePlace::File(file) => {
                Held::File(locked(&file.with_file_name("answers.lock")).await?)
            }
            StorePlace::Server(_) => {
                // The lock is its session's, so that it has a connection of its own and ends with that.
                let own = self.pool.apart();
                let take = format!("SELECT pg_advisory_lock({LOCK_CLASS}, {ANSWERS_LOCK})");
                query_owned(take).fetch_one(&own).await?;
                Held::Server(own)
            }
        };
        Ok(Turn { _held: held })
    }
}

async fn locked(path: &Path) -> Result<File, StoreError> {
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = open.map_err(StoreError::File)?;
    for _ in 0..LOOKS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
            Err(TryLockError::Error(error)) => return Err(StoreError::File(error)),
        }
    }
    Err(StoreError::File(io::ErrorKind::WouldBlock.into()))
}
