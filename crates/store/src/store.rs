//! The file: where it lies, who may read it, and the connections to it.
//!
//! `store.db` is 0600 in a folder of 0700, in WAL mode with every commit synced. Several processes
//! may use it at once: readers never wait, writers take turns. Source: design.md, sections 5 and 8.

mod error;
mod schema;

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, SqliteConnection, query_scalar,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::Mutex;

pub use self::error::StoreError;
use crate::engine::{Pool, query};

/// How long a writer waits for its turn. SQLite asks ten times a second in the end, and seldom meets
/// the moment between two transactions of a writer in another process that never rests.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Readers beside the one writer; each is a thread and about 100 KiB.
const CONNECTIONS: u32 = 4;
/// How often the switch to WAL is tried: the one step that SQLite does not wait for.
const WAL_ATTEMPTS: u32 = 100;

/// An open store. Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: Pool,
    /// Never writes; absent once closed.
    watch: Arc<Mutex<Option<SqliteConnection>>>,
    file: Arc<Path>,
}

/// What can be set about a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    /// The most pages of 4 KiB that the file may have; at the cap, writes fail as on a full disk.
    pub max_pages: Option<u32>,
}

/// Changes with every commit, by whatever process. Equal marks of one [`Store`] mean that
/// nothing was written in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeMark(i64);

impl Store {
    /// Opens the store at `file`; [`StoreError::Missing`] when there is none.
    pub async fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_with(file, StoreOptions::default()).await
    }

    /// Opens the store at `file` with options; [`StoreError::Missing`] when there is none.
    pub async fn open_with(file: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        match fs::metadata(file) {
            Ok(found) if found.is_file() => keep_private(file, &found)?,
            Ok(_) => return Err(StoreError::Foreign),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing);
            }
            Err(error) => return Err(StoreError::File(error)),
        }
        Self::connect(file, options).await
    }

    /// Opens the store at `file`, or makes an empty one; also finishes one whose making was cut short.
    pub async fn create_or_open(file: &Path) -> Result<Self, StoreError> {
        Self::create_or_open_with(file, StoreOptions::default()).await
    }

    /// [`Store::create_or_open`] with options.
    pub async fn create_or_open_with(
        file: &Path,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        make_private_file(file).map_err(StoreError::File)?;
        Self::open_with(file, options).await
    }

    async fn connect(file: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let connect = connect_options(file, options);
        let mut watch = connect.connect().await?;
        use_wal(&mut watch).await?;
        schema::migrate(&mut watch).await?;
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .test_before_acquire(false)
            .acquire_timeout(BUSY_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(connect);
        let pool = Pool::Sqlite(pool);
        Ok(Self { pool, watch: Arc::new(Mutex::new(Some(watch))), file: file.into() })
    }

    /// Closes the connections of all clones, and so folds the write-ahead log into the file unless
    /// another process has it open. Waits for writes under way.
    pub async fn close(&self) {
        self.pool.close().await;
        if let Some(watch) = self.watch.lock().await.take() {
            // Nothing was written on it that could fail to be.
            let _ = watch.close().await;
        }
    }

    /// Where the store lies.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The mark of this moment.
    pub async fn change_mark(&self) -> Result<ChangeMark, StoreError> {
        // On a connection that never writes, as SQLite doesn't count a connection's own commits.
        let mut watch = self.watch.lock().await;
        let watch = watch.as_mut().ok_or(StoreError::Engine(sqlx::Error::PoolClosed))?;
        Ok(ChangeMark(query_scalar("PRAGMA data_version").fetch_one(watch).await?))
    }

    /// Lets SQLite look through the whole file. Takes time in proportion to its size.
    pub async fn check(&self) -> Result<(), StoreError> {
        let found = query("PRAGMA integrity_check(1)").fetch_one(&self.pool).await?;
        match found.try_get(0)? {
            "ok" => Ok(()),
            found => Err(StoreError::Damaged(sqlx::Error::Protocol(found.to_owned()))),
        }
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
    for _ in 1..WAL_ATTEMPTS {
        match try_wal(connection).await {
            Err(StoreError::Busy(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
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

fn make_private_file(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes away what others may do with the file. SQLite gives its side files the same mode.
fn keep_private(file: &Path, found: &fs::Metadata) -> Result<(), StoreError> {
    let others = found.permissions().mode() & 0o077;
    if others == 0 {
        return Ok(());
    }
    fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(StoreError::File)
}
