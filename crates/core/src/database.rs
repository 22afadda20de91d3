//! One statement for a database, and what came of it: what `sdk_proxy` and egress say to each other.
//!
//! Who may send it is decided elsewhere; how PostgreSQL is spoken is `egress`'s. Source: issue "NL
//! Protocol", point 4.

use std::time::Duration;

use zeroize::Zeroizing;

use crate::{Authority, Error, SafeText};

/// The provider that speaks PostgreSQL.
pub const DATABASE_PROVIDER: &str = "postgres";
/// The service of the provider `postgres` that takes statements.
pub const DATABASE_SERVICE: &str = "database";
/// The operation that reads, and no more.
pub const DATABASE_READ: &str = "query";
/// The operation that may change something.
pub const DATABASE_WRITE: &str = "execute";

/// One statement, as whom, and within which bounds.
pub struct DatabaseQuery {
    /// Where the database is.
    pub authority: Authority,
    /// The database user as which it logs in.
    pub user: String,
    /// The name of the database.
    pub database: String,
    /// The password of that user.
    pub password: Zeroizing<Vec<u8>>,
    /// The statement, with `$1`, `$2`, … for its parameters.
    pub statement: String,
    /// The parameters, which may be values of secrets.
    pub parameters: Vec<DatabaseParameter>,
    /// Whether it may change something; else it runs in a read-only transaction.
    pub may_write: bool,
    /// The most rows that are given.
    pub max_rows: u32,
    /// The most bytes of rows; with more nothing is given, and nothing is kept.
    pub max_bytes: usize,
    /// For everything, from the name to the last row.
    pub patience: Duration,
}

/// One parameter, in PostgreSQL's text form.
pub enum DatabaseParameter {
    /// A list, which is written otherwise where the statement wants JSON.
    List {
        /// `{1,2}`.
        array: Zeroizing<String>,
        /// `[1,2]`.
        json: Zeroizing<String>,
    },
    /// Nothing.
    Null,
    /// Anything else.
    Text(Zeroizing<String>),
}

/// What a statement gave. Not cleaned yet: a database may hold values.
#[derive(Debug, Default)]
pub struct DatabaseRows {
    /// The columns; none for a statement that gives no rows.
    pub columns: Vec<DatabaseColumn>,
    /// Each row's columns in PostgreSQL's text form; nothing is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Whether there were more rows.
    pub is_cut: bool,
    /// What was done, such as `UPDATE 3`.
    pub command: String,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseColumn {
    /// Its name.
    pub name: String,
    /// The number of its type in `pg_type`.
    pub type_oid: u32,
}

/// Why a statement gave nothing.
#[derive(Debug)]
pub enum DatabaseFault {
    /// The database refuses it.
    Refused(DatabaseRefusal),
    /// It did not get that far, or we would not have it.
    Stopped(Error),
}

/// A database's no. Its detail and hint, which quote rows, are left out. Not cleaned yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DatabaseRefusal {
    /// Five capitals and digits, such as `42P01`; empty where the database said something else.
    pub sqlstate: String,
    /// In one line.
    pub message: String,
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
}

impl From<Error> for DatabaseFault {
    fn from(error: Error) -> Self {
        Self::Stopped(error)
    }
}

impl DatabaseRefusal {
    /// For a message: the code alone, which is the standard's.
    pub fn words(&self) -> SafeText {
        SafeText::words("the database refused it: ").as_they_wrote(&self.sqlstate)
    }
}
