//! A row of an answer.

use sqlx::{Decode, Postgres, Row as _, Sqlite, Type, postgres::PgRow, sqlite::SqliteRow};

use crate::store::StoreError;

/// A row of an answer.
pub(crate) enum Row {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

/// What a column can be read as: `i64`, texts, bytes, and each where it may be NULL. Other numbers: [`Row::number`].
pub(crate) trait Column<'r>:
    Decode<'r, Postgres> + Type<Postgres> + Decode<'r, Sqlite> + Type<Sqlite>
{
}

impl<'r, T> Column<'r> for T where
    T: Decode<'r, Postgres> + Type<Postgres> + Decode<'r, Sqlite> + Type<Sqlite>
{
}

impl Row {
    /// The column at `index`, from 0.
    pub(crate) fn try_get<'r, T: Column<'r>>(&'r self, index: usize) -> Result<T, StoreError> {
        match self {
            Self::Postgres(row) => Ok(row.try_get(index)?),
            Self::Sqlite(row) => Ok(row.try_get(index)?),
        }
    }

    /// The text in the column at `index` as it stands there: in a file that was damaged it need not be UTF-8.
    pub(crate) fn raw_text(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Postgres(row) => {
                let text: Option<&str> = row.try_get(index)?;
                Ok(text.map(|text| text.as_bytes().to_vec()))
            }
            Self::Sqlite(row) => Ok(row.try_get(index)?),
        }
    }

    /// The text in the column at `index`; `table` is named where it is not UTF-8.
    pub(crate) fn text(
        &self,
        index: usize,
        table: &'static str,
    ) -> Result<Option<String>, StoreError> {
        let damaged = |_| StoreError::DamagedRow { table };
        self.raw_text(index)?.map(String::from_utf8).transpose().map_err(damaged)
    }

    /// The number in the column at `index`, in the type that it has with us; `table` is named where it does not fit.
    pub(crate) fn number<T: TryFrom<i64>>(
        &self,
        index: usize,
        table: &'static str,
    ) -> Result<T, StoreError> {
        let number: i64 = self.try_get(index)?;
        T::try_from(number).map_err(|_| StoreError::DamagedRow { table })
    }
}

impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self::Postgres(row)
    }
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Self {
        Self::Sqlite(row)
    }
}
