//! What can go wrong with the file or the server, and how each case is told.

use std::io;

use keyless_core::{Code, Error, SafeText};
use sqlx::{error::DatabaseError, sqlite::SqliteError};

use crate::audit::told_unwritten;

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
    /// Nothing is left of the file.
    #[error("the file is empty")]
    Emptied,
    /// The file or its folder can't be made or opened.
    #[error("the file can't be opened")]
    File(#[source] io::Error),
    /// Something else that lies at the store's place.
    #[error("the file is not a Keyless store")]
    Foreign,
    /// Another process closed a part of the audit log meanwhile.
    #[error("another process has closed a part of the audit log meanwhile")]
    LogClosedElsewhere,
    /// The audit log does not contain what the vault's key vouched for, or what this process wrote.
    #[error("the audit log was cut or replaced")]
    LogTampered,
    /// The disk fails, or a limit on the size of files is reached.
    #[error("reading or writing the file fails")]
    Io(#[source] sqlx::Error),
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
    /// This home has no chain of the audit log yet, and the vault is locked.
    #[error("this machine's audit log begins when the vault is unlocked here")]
    NotBegun,
    /// The file or its folder may not be written, or is on a disk that can't be.
    #[error("the file can't be written")]
    ReadOnly(#[source] sqlx::Error),
    /// A row of ours has more in a column than is ever written there.
    #[error("a row of `{table}` is larger than any that Keyless writes")]
    Oversized {
        /// Which table.
        table: &'static str,
    },
    /// The server does not let us in, or not do this.
    #[error("the database server refuses it")]
    Refused(#[source] sqlx::Error),
    /// A row with this key is already there.
    #[error("a row with this key exists")]
    Taken(#[source] sqlx::Error),
    /// The server does not answer, or the connection to it was lost.
    #[error("the database server can't be reached")]
    Unreachable(#[source] sqlx::Error),
    /// The server did not prove by a certificate who it is.
    #[error("the database server is not believed")]
    Untrusted(#[source] sqlx::Error),
    /// What was to be changed could not be put on record, so it was not.
    #[error("the audit log can't be written")]
    Unrecorded(#[source] Box<StoreError>),
}

/// How [`StoreError::LogTampered`] is told.
pub(crate) const LOG_TAMPERED: &str = "the log was cut or replaced; run keyless audit verify";

/// How [`StoreError::Io`] is told.
pub(crate) const IO_FAILS: &str =
    "reading or writing its file fails: the disk, or a limit on the size of files (ulimit -f)";

/// How [`StoreError::ReadOnly`] is told.
pub(crate) const READ_ONLY: &str = "you may not write its file or the folder that it lies in";

// SQLite's primary result codes, https://www.sqlite.org/rescode.html; extended ones carry them in
// the low byte.
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const CONSTRAINT: i32 = 19;
const NOTADB: i32 = 26;
/// The shared memory file could not grow: the disk is full as well.
const IOERR_SHMSIZE: i32 = 4874;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Busy(error),
            sqlx::Error::Tls(_) => Self::Untrusted(error),
            // As rustls tells of a certificate.
            sqlx::Error::Io(fault) if fault.kind() == io::ErrorKind::InvalidData => {
                Self::Untrusted(error)
            }
            sqlx::Error::Io(_) => Self::Unreachable(error),
            sqlx::Error::Database(fault) => {
                let code = fault.code().unwrap_or_default().into_owned();
                match fault.try_downcast_ref::<SqliteError>() {
                    Some(_) => of_sqlite(code.parse().unwrap_or(0), error),
                    None => of_postgres(&code, error),
                }
            }
            _ => Self::Engine(error),
        }
    }
}

fn of_sqlite(code: i32, error: sqlx::Error) -> StoreError {
    if code == IOERR_SHMSIZE {
        return StoreError::DiskFull(error);
    }
    match code & 0xff {
        BUSY | LOCKED => StoreError::Busy(error),
        CONSTRAINT => StoreError::Taken(error),
        CORRUPT => StoreError::Damaged(error),
        FULL => StoreError::DiskFull(error),
        IOERR => StoreError::Io(error),
        NOTADB => StoreError::Foreign,
        PERM | READONLY => StoreError::ReadOnly(error),
        CANTOPEN => StoreError::File(io::Error::other(error)),
        _ => StoreError::Engine(error),
    }
}

/// By PostgreSQL's error codes, appendix A of its manual; the first two characters are the class.
fn of_postgres(code: &str, error: sqlx::Error) -> StoreError {
    match code {
        // serialization_failure, deadlock_detected, lock_not_available
        "40001" | "40P01" | "55P03" => StoreError::Busy(error),
        "53100" => StoreError::DiskFull(error),
        // data_corrupted, index_corrupted
        "XX001" | "XX002" => StoreError::Damaged(error),
        // insufficient_privilege, invalid_catalog_name; read_only_sql_transaction, as a standby says
        "42501" | "3D000" | "25006" => StoreError::Refused(error),
        // idle_in_transaction_session_timeout, which ends the connection
        "25P03" => StoreError::Unreachable(error),
        _ => match code.get(..2) {
            Some("23") => StoreError::Taken(error),
            Some("28") => StoreError::Refused(error),
            // Connections, resources, shutdown.
            Some("08" | "53" | "57") => StoreError::Unreachable(error),
            _ => StoreError::Engine(error),
        },
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let unusable = |words| Self::with(Code::StoreUnusable, SafeText::words(words));
        let no_server = |words| Self::with(Code::StoreUnreachable, SafeText::words(words));
        match error {
            StoreError::Busy(_) => unusable("another process keeps it locked; retry"),
            StoreError::Damaged(_) => unusable("the database file is damaged"),
            StoreError::DamagedRow { table } => {
                let words = SafeText::words("a row can't be read, in table ").and(table);
                Self::with(Code::StoreUnusable, words)
            }
            StoreError::Oversized { table } => {
                let words =
                    SafeText::words("a row is larger than any that Keyless writes, in table ");
                Self::with(Code::StoreTampered, words.and(table))
            }
            StoreError::DiskFull(_) => Code::DiskFull.into(),
            StoreError::Emptied => unusable(
                "its file is empty, so it is damaged: restore a backup; where there never was a store, remove the file",
            ),
            StoreError::Engine(_) => unusable("the database engine failed"),
            StoreError::File(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                unusable("its path is not in UTF-8, which SQLite wants; KEYLESS_HOME names another")
            }
            StoreError::File(error) => {
                let words = SafeText::words("the file can't be opened: ").and(error.kind());
                Self::with(Code::StoreUnusable, words)
            }
            StoreError::Foreign => unusable("the file there is not a Keyless store"),
            StoreError::Io(_) => unusable(IO_FAILS),
            StoreError::LogClosedElsewhere => {
                unusable("another process has closed a part of the log meanwhile; nothing is lost")
            }
            StoreError::LogTampered => {
                Self::with(Code::AuditTampered, SafeText::words(LOG_TAMPERED))
            }
            StoreError::Missing => Code::NotInitialised.into(),
            StoreError::Newer { found, known } => {
                let number = |schema: i64| schema.unsigned_abs();
                let words = SafeText::words("the store has schema ").number(number(found));
                let words = words.and(", and this one knows ").number(number(known));
                Self::with(Code::KeylessOutdated, words)
            }
            StoreError::NotBegun => {
                unusable("this machine's audit log begins when the vault is unlocked here")
            }
            StoreError::ReadOnly(_) => unusable(READ_ONLY),
            StoreError::Refused(error) => refusal(&error),
            StoreError::Taken(_) => unusable("two writers met on one row; retry"),
            StoreError::Unreachable(_) => no_server(
                "it can't be reached, or gives no connection in time; nothing is allowed until it does",
            ),
            StoreError::Unrecorded(why) => told_unwritten(&why),
            StoreError::Untrusted(_) => {
                no_server("its certificate is not trusted, or it offers no TLS; see [store] roots")
            }
        }
    }
}

fn refusal(error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(DatabaseError::code).unwrap_or_default();
    let words = match &*code {
        "25006" => {
            // Which may change by itself, when a standby takes over.
            let words = "it is read-only, as a standby is: name the one that is written to";
            return Error::with(Code::StoreUnreachable, SafeText::words(words));
        }
        "28P01" => "the password is not this user's; see password_file",
        "3D000" => "it has no database of that name; see url",
        "42501" => "this user may not do that there",
        _ => "it does not let this user in from here",
    };
    Error::with(Code::StoreRefused, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_and_a_transaction_that_was_ended_are_told_as_the_servers_doing() {
        let told = |code| of_postgres(code, sqlx::Error::PoolClosed);
        assert!(matches!(told("25006"), StoreError::Refused(_)));
        assert!(matches!(told("25P03"), StoreError::Unreachable(_)));
        assert!(matches!(told("25001"), StoreError::Engine(_)));
    }
}
