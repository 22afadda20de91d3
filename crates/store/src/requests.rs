//! Requests to a person: rows that are written, narrowed in time, answered once, and swept.
//!
//! An answer replaces the row that was read, or nothing: of two answers at once one wins, whichever
//! process it comes from. What a row means, and whether it is genuine, others say.

use jiff::Timestamp;
use keyless_core::{
    PathError, SecretPath,
    approval::{FullRequestId, Request, RequestId},
};

use crate::{
    audit::Told,
    engine::{Row, of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// A request and the seal over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// The request.
    pub request: Request,
    /// The vault's word on it: a MAC over [`RequestRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

const COLUMNS: &str = "id, path, session, asked, created_at, expires_at, settled, seal, full_id";

/// All requests, with [`COLUMNS`] in their order.
fn select() -> String {
    let column = |name: &str| match name {
        "asked" | "path" | "session" | "settled" => of_a_size(name),
        other => other.to_owned(),
    };
    let columns: Vec<String> = COLUMNS.split(", ").map(column).collect();
    format!("SELECT {} FROM requests", columns.join(", "))
}

impl RequestRow {
    /// What a seal covers: the whole request, in one form.
    pub fn sealed_bytes(request: &Request) -> Vec<u8> {
        let Request { id, full_id, path, asked, session, created_at, expires_at, settled } =
            request;
        let all = (id, path, session, asked, created_at, expires_at, settled);
        let mut bytes = serde_json::to_vec(&all).expect("a request is plain data");
        // What was sealed before there were full ids goes on to fit.
        bytes.extend(full_id.iter().flat_map(|full| full.as_str().bytes()));
        bytes
    }
}

impl Store {
    /// Records a request; [`StoreError::Taken`] when one of the same name is kept, by whichever broker of this store; then nothing is told. On disk when this returns.
    pub async fn insert_request(&self, row: &RequestRow, told: Told<'_>) -> Result<(), StoreError> {
        let Request { id, full_id, path, asked, session, created_at, expires_at, settled } =
            &row.request;
        let insert = query_owned(format!(
            "INSERT INTO requests ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ))
        .bind(id.as_str())
        .bind(path.as_ref().map_or("", SecretPath::as_str))
        .bind(session)
        .bind(json(asked))
        .bind(created_at.to_string())
        .bind(expires_at.to_string())
        .bind(settled.as_ref().map(json))
        .bind(&row.seal)
        .bind(full_id.as_ref().map(FullRequestId::as_str));
        self.run_told(insert, told).await.map(drop)
    }

    /// Puts `new` in the place of `old`; `false` when somebody was faster.
    pub async fn replace_request(
        &self,
        old: &RequestRow,
        new: &RequestRow,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        let update =
            query(
                "UPDATE requests SET settled = $1, expires_at = $2, seal = $3 WHERE id = $4 AND seal = $5",
            )
            .bind(new.request.settled.as_ref().map(json))
            .bind(new.request.expires_at.to_string())
            .bind(&new.seal)
            .bind(old.request.id.as_str())
            .bind(&old.seal);
        self.run_told(update, told).await
    }

    /// One request.
    pub async fn request(&self, id: &RequestId) -> Result<Option<RequestRow>, StoreError> {
        let row = query_owned(format!("{} WHERE id = $1", select()))
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(request_row).transpose()
    }

    /// All requests, oldest first. A row that can't be read is left out: it is nobody's answer.
    pub async fn requests(&self) -> Result<Vec<RequestRow>, StoreError> {
        let rows = query_owned(select()).fetch_all(&self.pool).await?;
        let mut all: Vec<_> = rows.iter().filter_map(|row| request_row(row).ok()).collect();
        all.sort_by_key(|row| row.request.created_at);
        Ok(all)
    }

    /// Removes requests for good.
    pub async fn remove_requests(&self, ids: &[RequestId]) -> Result<(), StoreError> {
        for id in ids {
            let remove = query("DELETE FROM requests WHERE id = $1").bind(id.as_str());
            remove.execute(&self.pool).await?;
        }
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a request is plain data")
}

/// A request without a secret has an empty path.
fn path_of(text: &str) -> Result<Option<SecretPath>, PathError> {
    if text.is_empty() { Ok(None) } else { SecretPath::parse(text).map(Some) }
}

fn request_row(row: &Row) -> Result<RequestRow, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "requests" };
    let text = |column: usize| row.try_get::<&str>(column);
    let time = |column| text(column)?.parse::<Timestamp>().map_err(|_| damaged());
    let settled: Option<&str> = row.try_get(6)?;
    let settled = settled.map(serde_json::from_str).transpose().map_err(|_| damaged())?;
    let full_id: Option<&str> = row.try_get(8)?;
    Ok(RequestRow {
        request: Request {
            id: RequestId::parse(text(0)?).ok_or_else(damaged)?,
            full_id: full_id.map(|id| FullRequestId::parse(id).ok_or_else(damaged)).transpose()?,
            path: path_of(text(1)?).map_err(|_| damaged())?,
            session: text(2)?.to_owned(),
            asked: serde_json::from_str(text(3)?).map_err(|_| damaged())?,
            created_at: time(4)?,
            expires_at: time(5)?,
            settled,
        },
        seal: row.try_get(7)?,
    })
}
