//! One statement, from a login to its rows.
//!
//! The statement goes by itself through the extended protocol, which takes no second one. It runs
//! inside a transaction of ours; without leave to write that one is read-only from its first
//! statement on, so that neither a function nor a `SET` can make it another, and what gives no rows
//! (`COPY … TO PROGRAM`, `DO`, `SET`) is not run at all.

use std::io;

use bytes::{Buf as _, BytesMut};
use fallible_iterator::FallibleIterator as _;
use keyless_core::{
    Code, Error, SafeText,
    database::{
        DatabaseColumn, DatabaseFault, DatabaseParameter, DatabaseQuery, DatabaseRefusal,
        DatabaseRows,
    },
};
use postgres_protocol::{
    IsNull,
    message::{
        backend::{DataRowBody, Message, RowDescriptionBody},
        frontend,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use zeroize::Zeroize as _;

use super::broke_off;

/// What a message may hold beside rows.
const MAX_OTHER: usize = 1 << 20;
const READ: usize = 16 << 10;
/// `json` and `jsonb` in `pg_type`.
const JSON: [u32; 2] = [114, 3802];

/// A connection that is logged in.
pub(super) struct Conversation {
    stream: TlsStream<TcpStream>,
    came: BytesMut,
    /// The bytes of rows that may still come.
    room: usize,
}

/// What lets one cancel a connection's statement.
#[derive(Clone, Copy)]
pub(super) struct CancelKey {
    pub(super) process: i32,
    pub(super) secret: i32,
}

/// A statement as the database has understood it.
#[derive(Default)]
struct Prepared {
    parameters: Vec<u32>,
    columns: Vec<DatabaseColumn>,
}

impl Conversation {
    pub(super) fn new(stream: TlsStream<TcpStream>, room: usize) -> Self {
        Self { stream, came: BytesMut::new(), room }
    }

    /// Waits until the database takes statements.
    pub(super) async fn settle(&mut self) -> Result<Option<CancelKey>, DatabaseFault> {
        let mut key = None;
        loop {
            match self.next().await? {
                Message::BackendKeyData(data) => {
                    key = Some(CancelKey { process: data.process_id(), secret: data.secret_key() });
                }
                Message::ReadyForQuery(_) => return Ok(key),
                _ => {}
            }
        }
    }

    /// Opens the transaction, with the statement's time.
    pub(super) async fn begin(&mut self, query: &DatabaseQuery) -> Result<(), DatabaseFault> {
        let access = if query.may_write { "READ WRITE" } else { "READ ONLY" };
        let time = query.patience.as_millis();
        self.command(&format!(
            "BEGIN {access}; SET LOCAL statement_timeout = {time}; \
             SET LOCAL idle_in_transaction_session_timeout = {time}"
        ))
        .await
    }

    /// Runs the statement.
    pub(super) async fn run(
        &mut self,
        query: &DatabaseQuery,
    ) -> Result<DatabaseRows, DatabaseFault> {
        let prepared = self.prepare(&query.statement).await?;
        if prepared.parameters.len() != query.parameters.len() {
            let words = SafeText::words("the statement has ").and(prepared.parameters.len());
            let words = words.and(" parameters, and ").and(query.parameters.len());
            return Err(Error::with(Code::BadRequest, words.and(" values were given")).into());
        }
        if !query.may_write && prepared.columns.is_empty() {
            let words = "the statement gives no rows: a query reads, and `execute` does the rest";
            return Err(Error::with(Code::BadRequest, SafeText::words(words)).into());
        }
        self.execute(query, prepared).await
    }

    /// Ends the transaction: keeps what was changed, if something may be.
    pub(super) async fn end(mut self, keep: bool) -> Result<(), DatabaseFault> {
        self.command(if keep { "COMMIT" } else { "ROLLBACK" }).await?;
        let mut goodbye = BytesMut::new();
        frontend::terminate(&mut goodbye);
        // It is done: a database that has left already takes nothing back.
        let _ = self.say(goodbye).await;
        Ok(())
    }

    async fn prepare(&mut self, statement: &str) -> Result<Prepared, DatabaseFault> {
        let mut out = BytesMut::new();
        frontend::parse("", statement, [], &mut out).map_err(|_| garbled())?;
        frontend::describe(b'S', "", &mut out).map_err(|_| garbled())?;
        frontend::sync(&mut out);
        self.say(out).await?;
        let mut prepared = Prepared::default();
        loop {
            match self.next().await? {
                Message::ParameterDescription(body) => {
                    prepared.parameters = body.parameters().collect().map_err(strange)?;
                }
                Message::RowDescription(body) => prepared.columns = columns(&body)?,
                Message::ReadyForQuery(_) => return Ok(prepared),
                _ => {}
            }
        }
    }

    async fn execute(
        &mut self,
        query: &DatabaseQuery,
        prepared: Prepared,
    ) -> Result<DatabaseRows, DatabaseFault> {
        let most = usize::try_from(query.max_rows).unwrap_or(usize::MAX);
        // One more tells whether there are more.
        let asked = i32::try_from(query.max_rows.saturating_add(1)).unwrap_or(i32::MAX);
        let mut out = BytesMut::new();
        bind(&query.parameters, &prepared.parameters, &mut out)?;
        frontend::execute("", asked, &mut out).map_err(|_| garbled())?;
        frontend::sync(&mut out);
        self.say(out).await?;
        let mut rows = DatabaseRows { columns: prepared.columns, ..DatabaseRows::default() };
        loop {
            match self.next().await? {
                Message::DataRow(body) if rows.rows.len() < most => rows.rows.push(row(&body)?),
                Message::DataRow(_) | Message::PortalSuspended => rows.is_cut = true,
                Message::CommandComplete(body) => {
                    body.tag().map_err(strange)?.clone_into(&mut rows.command);
                }
                Message::CopyInResponse(_) | Message::CopyOutResponse(_) => {
                    let words = "COPY with this connection is not carried: name a table's rows";
                    return Err(Error::with(Code::BadRequest, SafeText::words(words)).into());
                }
                Message::ReadyForQuery(_) => return Ok(rows),
                _ => {}
            }
        }
    }

    /// Statements of our own that give nothing.
    async fn command(&mut self, statements: &str) -> Result<(), DatabaseFault> {
        let mut out = BytesMut::new();
        frontend::query(statements, &mut out).map_err(|_| garbled())?;
        self.say(out).await?;
        loop {
            if let Message::ReadyForQuery(_) = self.next().await? {
                return Ok(());
            }
        }
    }

    /// The next message; a refusal ends the conversation.
    async fn next(&mut self) -> Result<Message, DatabaseFault> {
        loop {
            if let Some(head) = self.came.first_chunk::<5>() {
                let [kind, length @ ..] = *head;
                let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.make_room(kind, length)?;
                if self.came.len() > length {
                    if kind == b'E' {
                        return Err(refusal(&self.came[5..=length]));
                    }
                    return Message::parse(&mut self.came)
                        .ok()
                        .flatten()
                        .ok_or_else(|| garbled().into());
                }
            }
            self.came.reserve(READ);
            match self.stream.read_buf(&mut self.came).await {
                Ok(0) | Err(_) => return Err(broke_off().into()),
                Ok(_) => {}
            }
        }
    }

    /// Whether a message may be as long as it says. Asked anew whenever something of it came.
    fn make_room(&mut self, kind: u8, length: usize) -> Result<(), Error> {
        let most = if kind == b'D' { self.room } else { MAX_OTHER };
        if length > most && kind == b'D' {
            return Err(Code::OutputTooLarge.into());
        }
        // The length counts itself.
        if !(4..=most).contains(&length) {
            return Err(garbled());
        }
        if kind == b'D' && self.came.len() > length {
            self.room -= length;
        }
        Ok(())
    }

    /// Parameters may be values: what was said is wiped.
    async fn say(&mut self, mut out: BytesMut) -> Result<(), Error> {
        let saying = async {
            self.stream.write_all(&out).await?;
            self.stream.flush().await
        };
        let said = saying.await.map_err(|_: io::Error| broke_off());
        out[..].zeroize();
        said
    }
}

fn bind(
    parameters: &[DatabaseParameter],
    types: &[u32],
    out: &mut BytesMut,
) -> Result<(), DatabaseFault> {
    // A buffer that grows leaves what it held where it was: it is as large as it needs to be.
    let size: usize = parameters.iter().map(|parameter| 8 + size(parameter)).sum();
    out.reserve(size + 64);
    let write = |(parameter, oid): (&DatabaseParameter, &u32), out: &mut BytesMut| {
        let text = match parameter {
            DatabaseParameter::Null => return Ok(IsNull::Yes),
            DatabaseParameter::Text(text) => text,
            DatabaseParameter::List { json, .. } if JSON.contains(oid) => json,
            DatabaseParameter::List { array, .. } => array,
        };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    };
    let pairs = parameters.iter().zip(types);
    frontend::bind("", "", [], pairs, write, [], out).map_err(|_| {
        Error::with(Code::BadRequest, SafeText::words("the parameters are too many or too long"))
            .into()
    })
}

fn size(parameter: &DatabaseParameter) -> usize {
    match parameter {
        DatabaseParameter::List { array, json } => array.len().max(json.len()),
        DatabaseParameter::Null => 0,
        DatabaseParameter::Text(text) => text.len(),
    }
}

fn columns(body: &RowDescriptionBody) -> Result<Vec<DatabaseColumn>, DatabaseFault> {
    let column = |field: postgres_protocol::message::backend::Field<'_>| {
        Ok(DatabaseColumn { name: field.name().to_owned(), type_oid: field.type_oid() })
    };
    body.fields().map(column).collect().map_err(strange)
}

fn row(body: &DataRowBody) -> Result<Vec<Option<String>>, DatabaseFault> {
    let text = |range: Option<std::ops::Range<usize>>| {
        Ok(range.map(|range| String::from_utf8_lossy(&body.buffer()[range]).into_owned()))
    };
    body.ranges().map(text).collect().map_err(strange)
}

/// What a database says in an error's body, without detail and hint.
pub(super) fn refusal(body: &[u8]) -> DatabaseFault {
    let mut refusal = DatabaseRefusal::default();
    let mut rest = body;
    while let Some((&kind, after)) = rest.split_first() {
        let Some(end) = after.iter().position(|byte| *byte == 0) else { break };
        let text = || String::from_utf8_lossy(&after[..end]).into_owned();
        match kind {
            b'C' => refusal.sqlstate = text().chars().filter(char::is_ascii_alphanumeric).collect(),
            b'M' => refusal.message = text(),
            b'P' => refusal.position = text().parse().ok(),
            _ => {}
        }
        rest.advance(1 + end + 1);
    }
    // It was asked to stop when its time was over.
    if refusal.sqlstate == "57014" {
        return Error::new(Code::ActionTimeout).into();
    }
    DatabaseFault::Refused(refusal)
}

fn strange(_: io::Error) -> DatabaseFault {
    garbled().into()
}

pub(super) fn garbled() -> Error {
    let words = "the database's answer, or the statement, is not PostgreSQL's protocol";
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refusal_is_told_without_what_it_quotes() {
        let body = b"SERROR\0C23505\0Mduplicate key\0DKey (mail)=(ann@a.test)\0P7\0Hhint\0\0";
        let DatabaseFault::Refused(refusal) = refusal(body) else { panic!("a refusal") };
        let message = "duplicate key".to_owned();
        let told = DatabaseRefusal { sqlstate: "23505".to_owned(), message, position: Some(7) };
        assert_eq!(refusal, told);
        let late = super::refusal(b"C57014\0Mcanceling statement\0\0");
        assert!(
            matches!(late, DatabaseFault::Stopped(error) if error.code() == Code::ActionTimeout)
        );
    }

    proptest! {
        #[test]
        fn whatever_a_database_says_is_read_to_its_end(body in any::<Vec<u8>>()) {
            if let DatabaseFault::Refused(refusal) = refusal(&body) {
                prop_assert!(refusal.sqlstate.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            }
        }
    }
}
