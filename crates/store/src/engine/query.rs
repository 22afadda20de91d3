//! A statement with its values.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

use super::{Held, Place, Pool, Row, answered};
use crate::store::StoreError;

/// A statement that is about to run.
#[must_use]
pub(crate) struct Query {
    sql: Cow<'static, str>,
    values: Vec<Value>,
}

/// What stands for a parameter.
#[derive(Debug)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Number(Option<i64>),
    Text(Option<String>),
}

/// A statement that stands in the code as it is.
pub(crate) fn query(sql: &'static str) -> Query {
    Query { sql: Cow::Borrowed(sql), values: Vec::new() }
}

/// A statement that was put together, from words of ours alone: what others wrote is a value.
pub(crate) fn query_owned(sql: String) -> Query {
    Query { sql: Cow::Owned(sql), values: Vec::new() }
}

/// Runs `$work` with the statement and the connection as sqlx has them for the engine at hand.
macro_rules! run {
    ($self:ident, $place:ident, |$query:ident, $connection:ident| -> $answer:ty { $work:expr }) => {{
        fn run(this: Query, place: Place<'_>) -> BoxFuture<'_, Result<$answer, StoreError>> {
            Box::pin(async move {
                let (mut alone, mut reader);
                let held = match place {
                    Place::This(connection) => connection.held(),
                    Place::Soon(Pool::Sqlite(file)) => {
                        reader = file.reader.lock().await;
                        let closed = StoreError::Engine(sqlx::Error::PoolClosed);
                        Held::Sqlite(reader.as_mut().ok_or(closed)?)
                    }
                    Place::Any(pool) | Place::Soon(pool) => {
                        alone = pool.acquire().await?;
                        alone.held()
                    }
                };
                match held {
                    Held::Postgres($connection) => {
                        let $query = bound::<sqlx::Postgres>(this);
                        answered(async move { Ok($work) }).await
                    }
                    Held::Sqlite($connection) => {
                        let $query = bound::<sqlx::Sqlite>(this);
                        Ok($work)
                    }
                }
            })
        }
        run($self, $place.into())
    }};
}

impl Query {
    /// Gives the next parameter its value.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Runs it; gives how many rows it changed.
    pub(crate) fn execute<'p>(
        self,
        place: impl Into<Place<'p>>,
    ) -> BoxFuture<'p, Result<u64, StoreError>> {
        run!(self, place, |query, connection| -> u64 {
            query.execute(connection).await?.rows_affected()
        })
    }

    /// Its rows.
    pub(crate) fn fetch_all<'p>(
        self,
        place: impl Into<Place<'p>>,
    ) -> BoxFuture<'p, Result<Vec<Row>, StoreError>> {
        run!(self, place, |query, connection| -> Vec<Row> {
            query.fetch_all(connection).await?.into_iter().map(Row::from).collect()
        })
    }

    /// Its one row.
    pub(crate) fn fetch_one<'p>(
        self,
        place: impl Into<Place<'p>>,
    ) -> BoxFuture<'p, Result<Row, StoreError>> {
        run!(self, place, |query, connection| -> Row { query.fetch_one(connection).await?.into() })
    }

    /// Its one row, if there is one.
    pub(crate) fn fetch_optional<'p>(
        self,
        place: impl Into<Place<'p>>,
    ) -> BoxFuture<'p, Result<Option<Row>, StoreError>> {
        run!(self, place, |query, connection| -> Option<Row> {
            query.fetch_optional(connection).await?.map(Row::from)
        })
    }
}

fn bound<DB: Database>(this: Query) -> sqlx::query::Query<'static, DB, DB::Arguments>
where
    Option<i64>: Encode<'static, DB> + Type<DB>,
    Option<String>: Encode<'static, DB> + Type<DB>,
    Option<Vec<u8>>: Encode<'static, DB> + Type<DB>,
{
    let query = match this.sql {
        Cow::Borrowed(sql) => sqlx::query(sql),
        Cow::Owned(sql) => sqlx::query(AssertSqlSafe(sql)),
    };
    this.values.into_iter().fold(query, |query, value| match value {
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Number(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
    })
}

/// `From` for each type, and for the same type where there may be none.
macro_rules! values {
    ($($kind:ident: $type:ty, |$it:ident| $as_stored:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($it: $type) -> Self {
                Self::$kind(Some($as_stored))
            }
        }

        impl From<Option<$type>> for Value {
            fn from(it: Option<$type>) -> Self {
                Self::$kind(it.map(|$it| $as_stored))
            }
        }
    )*};
}

values! {
    Bytes: Vec<u8>, |bytes| bytes;
    Bytes: &[u8], |bytes| bytes.to_vec();
    Bytes: &Vec<u8>, |bytes| bytes.clone();
    // SQLite has no type for it.
    Number: bool, |yes| i64::from(yes);
    Number: i64, |number| number;
    Number: u32, |number| i64::from(number);
    Text: &str, |text| text.to_owned();
    Text: &String, |text| text.clone();
    Text: String, |text| text;
}
