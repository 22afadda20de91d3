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
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use zeroize::Zeroize as _;

use super::broke_off;

/// What a message may hold beside rows.
const MAX_OTHER: usize = 1 << 20;
/// The most columns that PostgreSQL gives (`MaxTupleAttributeNumber`).
const MAX_COLUMNS: usize = 1_664;
/// In bytes; PostgreSQL's own end at 63, unless it is built otherwise.
const MAX_NAME: usize = 256;
/// What a row's cell takes beside its text and its column's name, which each row repeats.
const CELL: usize = 64;
const READ: usize = 16 << 10;
/// `json` and `jsonb` in `pg_type`.
const JSON: [u32; 2] = [114, 3802];

/// A connection that is logged in.
pub(super) struct Conversation<S> {
    stream: S,
    came: BytesMut,
    room: Room,
}

/// What may come.
struct Room {
    /// The bytes of rows, as they are given on.
    left: usize,
    /// What each row takes beside its message.
    row: usize,
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

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) fn new(stream: S, room: usize) -> Self {
        Self { stream, came: BytesMut::new(), room: Room { left: room, row: 0 } }
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
                Message::RowDescription(body) => {
                    prepared.columns = columns(&body)?;
                    self.room.row = repeated(&prepared.columns);
                }
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
                self.room.make(kind, length, self.came.len())?;
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

impl Room {
    /// Whether a message may be as long as it says, of which `came` bytes came. Asked anew whenever
    /// something of it came.
    fn make(&mut self, kind: u8, length: usize, came: usize) -> Result<(), Error> {
        let is_row = kind == b'D';
        // The length counts itself.
        if length < 4 || (!is_row && length > MAX_OTHER) {
            return Err(garbled());
        }
        if is_row {
            let left = self.left.checked_sub(length).and_then(|left| left.checked_sub(self.row));
            let left = left.ok_or(Code::OutputTooLarge)?;
            if came > length {
                self.left = left;
            }
        }
        Ok(())
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
        if field.name().len() > MAX_NAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(DatabaseColumn { name: field.name().to_owned(), type_oid: field.type_oid() })
    };
    let fields = body.fields();
    if fields.size_hint().0 > MAX_COLUMNS {
        return Err(garbled().into());
    }
    fields.map(column).collect().map_err(strange)
}

/// What each row of these columns takes beside its texts.
fn repeated(columns: &[DatabaseColumn]) -> usize {
    columns.iter().map(|column| column.name.len() + CELL).sum()
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
            b'C' => refusal.sqlstate = sqlstate(&after[..end]),
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

/// Five digits and capital letters; anything else is none.
fn sqlstate(said: &[u8]) -> String {
    let is_one = said.len() == 5
        && said.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if is_one { String::from_utf8_lossy(said).into_owned() } else { String::new() }
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

    #[test]
    fn a_sqlstate_is_five_digits_and_capitals() {
        for said in ["23505", "42P01", "XX000"] {
            assert_eq!(sqlstate(said.as_bytes()), said);
        }
        for said in ["", "2350", "235050", "42p01", "4 2P01", "42-01", "42P0\u{e9}", "\u{e9}201"] {
            assert_eq!(sqlstate(said.as_bytes()), "", "{said}");
        }
    }

    /// What a database tells of columns with these names.
    fn told(names: &[String]) -> Result<Vec<DatabaseColumn>, DatabaseFault> {
        let mut fields = u16::try_from(names.len()).unwrap().to_be_bytes().to_vec();
        for name in names {
            fields.extend_from_slice(name.as_bytes());
            fields.extend_from_slice(&[0; 1 + 18]);
        }
        let mut message = BytesMut::from(&b"T"[..]);
        message.extend_from_slice(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
        message.extend_from_slice(&fields);
        let Ok(Some(Message::RowDescription(body))) = Message::parse(&mut message) else {
            panic!("a description of rows")
        };
        columns(&body)
    }

    #[test]
    fn columns_are_no_more_and_no_longer_than_a_database_has_them() {
        let names = |count: usize, length: usize| vec!["n".repeat(length); count];
        for (count, length) in [(0, 0), (1, MAX_NAME), (MAX_COLUMNS, 1)] {
            assert_eq!(told(&names(count, length)).unwrap().len(), count);
        }
        for (count, length) in [(1, MAX_NAME + 1), (MAX_COLUMNS + 1, 1)] {
            let refused = told(&names(count, length));
            assert!(
                matches!(refused, Err(DatabaseFault::Stopped(error)) if error == garbled()),
                "{count} of {length}"
            );
        }
    }

    #[test]
    fn a_row_takes_its_columns_names_as_well() {
        let column = |name: &str| DatabaseColumn { name: name.to_owned(), type_oid: 25 };
        let row = repeated(&[column("id"), column("mail")]);
        assert_eq!(row, 2 + 4 + 2 * CELL);
        let mut room = Room { left: 2 * (row + 20), row };
        // What came in part is not counted yet.
        room.make(b'D', 20, 5).unwrap();
        room.make(b'D', 20, 21).unwrap();
        room.make(b'C', 20, 21).unwrap();
        assert_eq!(room.left, row + 20);
        assert_eq!(room.make(b'D', 21, 5), Err(Error::new(Code::OutputTooLarge)));
        room.make(b'D', 20, 21).unwrap();
        assert_eq!(room.make(b'D', 4, 5), Err(Error::new(Code::OutputTooLarge)));
        assert_eq!(room.make(b'D', usize::MAX, 5), Err(Error::new(Code::OutputTooLarge)));
        for (kind, length) in [(b'D', 3), (b'C', 3), (b'C', MAX_OTHER + 1)] {
            assert_eq!(room.make(kind, length, 5), Err(garbled()));
        }
    }

    proptest! {
        #[test]
        fn whatever_a_database_says_is_read_to_its_end(body in any::<Vec<u8>>()) {
            if let DatabaseFault::Refused(refusal) = refusal(&body) {
                prop_assert!(matches!(refusal.sqlstate.len(), 0 | 5));
            }
        }
    }
}
