//! An open store: on SQLite in a file of one machine, or on PostgreSQL for a team.
//!
//! Several processes may use one store at once: readers never wait, writers take turns. What differs between the
//! two is here and in `engine`; statements are the same. Source: design.md, sections 5 and 8.

mod chain;
mod error;
mod file;
mod migrations;
mod place;
mod server;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use keyless_core::audit::Annotations;
use parking_lot::RwLock;

pub(crate) use self::chain::OwnChain;
pub(crate) use self::error::{IO_FAILS, LOG_TAMPERED, READ_ONLY};
pub(crate) use self::server::apart;
pub use self::{
    error::StoreError,
    file::StoreOptions,
    place::StorePlace,
    server::{Server, ServerFault},
};
use crate::engine::{Pool, query};

/// An open store. Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: Pool,
    /// Where the audit log of this home is written.
    pub(crate) chain: Arc<OwnChain>,
    /// Where closed parts of it are kept.
    pub(crate) segments: Arc<Path>,
    /// What is noted in entries of it.
    pub(crate) annotations: Arc<RwLock<Annotations>>,
    place: Arc<StorePlace>,
}

/// Changes with every change of the vault's rows, by whatever program, and with nothing else. Equal marks of one
/// [`Store`] mean that they are what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMark {
    /// How many changes were counted.
    revision: i64,
    /// The commitment's, so that another store in the place of this one is none that was seen.
    mac: Option<Vec<u8>>,
}

impl Store {
    /// Opens the store; [`StoreError::Missing`] when there is none.
    pub async fn open(place: impl Into<StorePlace>) -> Result<Self, StoreError> {
        Self::open_with(place, StoreOptions::default()).await
    }

    /// Opens the store with options for a file; [`StoreError::Missing`] when there is none.
    pub async fn open_with(
        place: impl Into<StorePlace>,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        match place.into() {
            StorePlace::File(file) => Self::in_file(file, file::Made::Before, options).await,
            StorePlace::Server(server) => Self::on_server(server, server::Absent::Refuse).await,
        }
    }

    /// The name of the chain of the log that is written here; empty for the only one of a file.
    pub fn audit_chain(&self) -> &str {
        self.chain.name()
    }

    /// Opens the store, or makes an empty one; also finishes one whose making was cut short.
    pub async fn create_or_open(place: impl Into<StorePlace>) -> Result<Self, StoreError> {
        match place.into() {
            StorePlace::File(file) => {
                let made = file::make_private(&file).map_err(StoreError::File)?;
                Self::in_file(file, made, StoreOptions::default()).await
            }
            StorePlace::Server(server) => Self::on_server(server, server::Absent::Make).await,
        }
    }

    async fn in_file(
        file: PathBuf,
        made: file::Made,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        file::refuse_missing(&file, made).await?;
        let connected = file::connect(&file, options).await;
        if connected.is_err() {
            file::unmake(&file, made);
        }
        let pool = Pool::Sqlite(connected?);
        let chain = Arc::new(OwnChain::only());
        let segments = file.with_file_name("audit").into();
        Ok(Self::around(pool, chain, segments, StorePlace::File(file)))
    }

    async fn on_server(server: Box<Server>, absent: server::Absent) -> Result<Self, StoreError> {
        let (pool, database) = server.connect(absent).await?;
        let chain = Arc::new(OwnChain::of_home(server.home(), &database)?);
        let segments = server.home().join("audit").join(chain.name()).into();
        let pool = Pool::Postgres(pool);
        Ok(Self::around(pool, chain, segments, StorePlace::Server(server)))
    }

    fn around(pool: Pool, chain: Arc<OwnChain>, segments: Arc<Path>, place: StorePlace) -> Self {
        let annotations = Arc::default();
        Self { pool, chain, segments, annotations, place: Arc::new(place) }
    }

    /// What is noted in entries of its logs from now on, beside what happened.
    pub fn annotate(&self, annotations: Annotations) {
        *self.annotations.write() = annotations;
    }

    /// Closes the connections of all clones; a file's write-ahead log is folded into it, unless another process has
    /// it open. Waits for writes under way.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Where the store lies.
    pub fn place(&self) -> &StorePlace {
        &self.place
    }

    /// The mark of this moment.
    pub async fn change_mark(&self) -> Result<ChangeMark, StoreError> {
        let select =
            query("SELECT revision, mac FROM vault_revision LEFT JOIN commitment USING (id)");
        let row = select.fetch_one(self.pool.soon()).await?;
        Ok(ChangeMark { revision: row.try_get(0)?, mac: row.try_get(1)? })
    }

    /// Lets the database look through the whole file, in time in proportion to its size; of a server, whether it
    /// answers.
    pub async fn check(&self) -> Result<(), StoreError> {
        let Pool::Sqlite(_) = &self.pool else {
            return query("SELECT 1").fetch_one(&self.pool).await.map(drop);
        };
        let found = query("PRAGMA integrity_check(1)").fetch_one(&self.pool).await?;
        match found.try_get(0)? {
            "ok" => Ok(()),
            found => Err(StoreError::Damaged(sqlx::Error::Protocol(str::to_owned(found)))),
        }
    }
}
