//! What can go wrong with the file, and how each case is told.

use std::io;

use keyless_core::{Code, Error, SafeText};

/// Why the store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process kept the write lock longer than the busy time-out.
    #[error("another process keeps the store locked")]
    Busy(#[source] sqlx::Error),
    /// SQLite finds its own pages or rows damaged.
    #[error("the file is damaged")]
    Damaged(#[source] sqlx::Error),
    /// A row of ours can't be read.
    #[error("a row of `{table}` can't be read")]
    DamagedRow {
        /// Which table.
        table: &'static str,
    },
    /// No space is left, or the file has reached its cap.
    #[error("the disk is full")]
    DiskFull(#[source] sqlx::Error),
    /// The engine failed in another way.
    #[error("the database engine failed")]
    Engine(#[source] sqlx::Error),
    /// The file or its folder can't be made or opened.
    #[error("the file can't be opened")]
    File(#[source] io::Error),
    /// Something else that lies at the store's place.
    #[error("the file is not a Keyless store")]
    Foreign,
    /// There is no file.
    #[error("there is no store")]
    Missing,
    /// The file was written by a later version.
    #[error("the store has schema {found}, this Keyless knows {known}")]
    Newer {
        /// The file's schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A row with this key is already there.
    #[error("a row with this key exists")]
    Taken(#[source] sqlx::Error),
}

// SQLite's primary result codes, https://www.sqlite.org/rescode.html; extended ones carry them in
// the low byte.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const CONSTRAINT: i32 = 19;
const NOTADB: i32 = 26;
/// The shared memory file could not grow: the disk is full as well.
const IOERR_SHMSIZE: i32 = 4874;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if matches!(error, sqlx::Error::PoolTimedOut) {
            return Self::Busy(error);
        }
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .and_then(|code| code.parse::<i32>().ok());
        match code {
            Some(IOERR_SHMSIZE) => Self::DiskFull(error),
            Some(code) => match code & 0xff {
                BUSY | LOCKED => Self::Busy(error),
                CONSTRAINT => Self::Taken(error),
                CORRUPT => Self::Damaged(error),
                FULL => Self::DiskFull(error),
                NOTADB => Self::Foreign,
                CANTOPEN => Self::File(io::Error::other(error)),
                _ => Self::Engine(error),
            },
            None => Self::Engine(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let unusable = |words| Self::with(Code::StoreUnusable, SafeText::words(words));
        match error {
            StoreError::Busy(_) => unusable("another process keeps it locked; retry"),
            StoreError::Damaged(_) => unusable("the database file is damaged"),
            StoreError::DamagedRow { table } => {
                let words = SafeText::words("a row can't be read, in table ").and(table);
                Self::with(Code::StoreUnusable, words)
            }
            StoreError::DiskFull(_) => Code::DiskFull.into(),
            StoreError::Engine(_) => unusable("the database engine failed"),
            StoreError::File(error) => {
                let words = SafeText::words("the file can't be opened: ").and(error.kind());
                Self::with(Code::StoreUnusable, words)
            }
            StoreError::Foreign => unusable("the file there is not a Keyless store"),
            StoreError::Missing => Code::NotInitialised.into(),
            StoreError::Newer { .. } => {
                unusable("it was written by a newer Keyless; update this one")
            }
            StoreError::Taken(_) => unusable("two writers met on one row; retry"),
        }
    }
}
