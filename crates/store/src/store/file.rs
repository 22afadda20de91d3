//! A store in a file: where it lies, who may read it, and the connections to it.
//!
//! `store.db` is 0600 in a folder of 0700, in WAL mode with every commit synced.

mod schema;

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sqlx::{
    ConnectOptions, SqliteConnection, query_scalar,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};

use super::StoreError;
use crate::engine::InFile;

/// How long a writer waits for its turn. SQLite asks ten times a second in the end, and seldom meets
/// the moment between two transactions of a writer in another process that never rests.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Readers beside the one writer; each is a thread and about 100 KiB.
const CONNECTIONS: u32 = 4;
/// How often the switch to WAL is tried, and the file's first page is looked for: the steps that SQLite does not wait
/// for.
const ATTEMPTS: u32 = 100;
/// How long between them.
const PAUSE: Duration = Duration::from_millis(20);

/// What can be set about a store in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    /// The most pages of 4 KiB that the file may have; at the cap, writes fail as on a full disk.
    pub max_pages: Option<u32>,
}

/// Connects, and brings the file to our schema.
pub(super) async fn connect(file: &Path, options: StoreOptions) -> Result<InFile, StoreError> {
    refuse_unnameable(file).map_err(StoreError::File)?;
    let connect = connect_options(file, options);
    let mut reader = connect.connect().await?;
    use_wal(&mut reader).await?;
    schema::migrate(&mut reader).await?;
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .test_before_acquire(false)
        .acquire_timeout(BUSY_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(connect);
    Ok(InFile::new(pool, reader))
}

/// Whether this process has just made the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Now,
    Before,
}

/// Fails with [`StoreError::Missing`] where there is no file, and with [`StoreError::Emptied`] where SQLite would take
/// what is there for a new database, and drop the write-ahead log beside it; keeps one that is there private.
pub(super) async fn refuse_missing(file: &Path, made: Made) -> Result<(), StoreError> {
    for _ in 1..ATTEMPTS {
        match refuse_missing_now(file, made) {
            // Another process may be making it at this moment.
            Err(StoreError::Emptied) if is_new(file, SystemTime::now()) => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
    refuse_missing_now(file, made)
}

/// Whether a file is so young that who made it may not have written its first page yet.
fn is_new(file: &Path, now: SystemTime) -> bool {
    let made = fs::metadata(file).and_then(|found| found.created().or_else(|_| found.modified()));
    // One of the future is of a clock that was put back, and of no known age.
    made.is_ok_and(|made| now.duration_since(made).is_ok_and(|age| age < PAUSE * ATTEMPTS))
}

fn refuse_missing_now(file: &Path, made: Made) -> Result<(), StoreError> {
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => Err(StoreError::Foreign),
        Ok(found) if found.len() < 2 && made == Made::Before => Err(StoreError::Emptied),
        Ok(found) => keep_private(file, &found),
        // A link that leads nowhere: its store may be on a disk that is not there now.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !file.is_symlink() => {
            Err(StoreError::Missing)
        }
        Err(error) => Err(StoreError::File(error)),
    }
}

/// A name that is no UTF-8 can't be given to SQLite; sqlx's own word for that would be taken for a server's.
fn refuse_unnameable(file: &Path) -> io::Result<()> {
    if file.to_str().is_some() { Ok(()) } else { Err(io::ErrorKind::InvalidFilename.into()) }
}

/// Makes an empty file, unless there is one.
pub(super) fn make_private(file: &Path) -> io::Result<Made> {
    refuse_unnameable(file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => Ok(Made::Now),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Made::Before),
        Err(error) => Err(error),
    }
}

/// Takes away the file that this process has made, if nothing came to stand in it: to the next one it would be a store that
/// was lost.
pub(super) fn unmake(file: &Path, made: Made) {
    if made == Made::Now && fs::metadata(file).is_ok_and(|found| found.len() == 0) {
        let _ = fs::remove_file(file);
    }
}

fn connect_options(file: &Path, options: StoreOptions) -> SqliteConnectOptions {
    let connect = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        // Removed rows are overwritten, so that a removed version does not stay on a free page.
        .pragma("secure_delete", "ON")
        .pragma("trusted_schema", "OFF")
        // In pages. A busy log rewrites its last pages over and over: each is copied once per round.
        .pragma("wal_autocheckpoint", "4000")
        .disable_statement_logging();
    match options.max_pages {
        None => connect,
        Some(pages) => connect.pragma("max_page_count", pages.to_string()),
    }
}

/// Switches the file to WAL, which it then stays in. SQLite answers busy at once when another
/// process does the same, instead of waiting.
async fn use_wal(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    for _ in 1..ATTEMPTS {
        match try_wal(connection).await {
            Err(StoreError::Busy(_)) => tokio::time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
    try_wal(connection).await
}

async fn try_wal(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let mode: String = query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
    if mode == "wal" {
        return Ok(());
    }
    // Never turn another program's database into WAL.
    schema::refuse_foreign(connection).await?;
    let _: String = query_scalar("PRAGMA journal_mode = WAL").fetch_one(connection).await?;
    Ok(())
}

/// Takes away what others may do with the file. SQLite gives its side files the same mode.
fn keep_private(file: &Path, found: &fs::Metadata) -> Result<(), StoreError> {
    let others = found.permissions().mode() & 0o077;
    if others == 0 {
        return Ok(());
    }
    fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(StoreError::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_new_for_as_long_as_its_making_may_take() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        make_private(&file).unwrap();
        let now = SystemTime::now();
        let after = |seconds| is_new(&file, now + Duration::from_secs(seconds));
        assert!(after(0) && !after(3));
        assert!(
            !is_new(&file, now - Duration::from_mins(1))
                && !is_new(folder.path(), now + Duration::from_secs(3))
        );
    }
}
