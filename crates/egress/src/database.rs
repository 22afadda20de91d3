//! PostgreSQL as Keyless itself speaks it: the login, for the agent's connections and our own, and one
//! statement of the broker's own.
//!
//! Verified TLS alone, and whichever method of login the database asks for. Source: PostgreSQL's
//! "Message Flow", "Extended Query" and "SASL Authentication"; RFC 5802.

mod conversation;
mod server;

use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use keyless_core::{
    Authority, Code, Error, SafeText,
    database::{DatabaseFault, DatabaseQuery, DatabaseRows},
};
use postgres_protocol::message::frontend;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use self::conversation::{CancelKey, Conversation, garbled, refusal};
pub(crate) use self::server::{Hello, LoginFault, Message, Server};
use crate::{Client, dial::Pinned, limits::CANCEL_TIME};

impl Client {
    /// Runs one statement in a transaction of its own, on a connection of its own. Names, zones and
    /// roots are those of agents' traffic.
    pub fn query<'a>(
        &'a self,
        query: &'a DatabaseQuery,
    ) -> BoxFuture<'a, Result<DatabaseRows, DatabaseFault>> {
        Box::pin(self.query_in_time(query))
    }

    async fn query_in_time(&self, query: &DatabaseQuery) -> Result<DatabaseRows, DatabaseFault> {
        let mut course = Course::default();
        let work = self.query_within(query, &mut course);
        if let Ok(done) = timeout(query.patience, work).await {
            return done.map_err(|fault| course.explain(fault));
        }
        if let Some((pinned, key)) = course.running.take() {
            // Best effort: the statement's own time is over as well.
            let cancelling = self.cancel(&query.authority, &pinned, key);
            let _ = timeout(CANCEL_TIME, cancelling).await;
        }
        Err(course.explain(Error::new(Code::ActionTimeout).into()))
    }

    async fn query_within(
        &self,
        query: &DatabaseQuery,
        course: &mut Course,
    ) -> Result<DatabaseRows, DatabaseFault> {
        let pinned = self.dialer.pin(&query.authority).await?;
        let server = self.reach(&query.authority, &pinned).await?;
        let (mut conversation, key) = log_in(server, query, self.limits.handshake_time).await?;
        course.running = key.map(|key| (pinned, key));
        conversation.begin(query).await?;
        let rows = conversation.run(query).await?;
        course.is_ending = query.may_write;
        conversation.end(query.may_write).await?;
        course.is_ending = false;
        Ok(rows)
    }

    async fn reach(&self, authority: &Authority, pinned: &Pinned) -> Result<Server, Error> {
        let tcp: TcpStream = self.dialer.dial(pinned).await?;
        Server::meet(&self.roots, authority, tcp, self.limits.handshake_time).await
    }

    /// Asks the database to give up what a connection does.
    async fn cancel(
        &self,
        authority: &Authority,
        pinned: &Pinned,
        key: CancelKey,
    ) -> Result<(), Error> {
        let server = self.reach(authority, pinned).await?;
        let mut request = BytesMut::new();
        frontend::cancel_request(key.process, key.secret, &mut request);
        server.say_last(&request).await
    }
}

/// How far a statement has come.
#[derive(Default)]
struct Course {
    /// What it takes to cancel it.
    running: Option<(Pinned, CancelKey)>,
    /// Whether its changes are being committed.
    is_ending: bool,
}

impl Course {
    /// Who lost the connection while changes were committed can't know what became of them.
    fn explain(&self, fault: DatabaseFault) -> DatabaseFault {
        match fault {
            DatabaseFault::Stopped(error) if self.is_ending => {
                let words = "the database did not say whether it has kept the changes";
                Error::with(error.code(), SafeText::words(words)).into()
            }
            other => other,
        }
    }
}

/// Logs in, and waits until the database takes statements.
async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    mut server: Server<S>,
    query: &DatabaseQuery,
    patience: Duration,
) -> Result<(Conversation<S>, Option<CancelKey>), DatabaseFault> {
    let packet = startup(query)?;
    let hello = Hello { packet: &packet, user: query.user.as_bytes() };
    let login = server.log_in(&hello, &query.password, patience).await;
    login.map_err(|fault| match fault {
        LoginFault::By(error) => error.into(),
        LoginFault::ByServer(message) => refusal(&message.body),
    })?;
    let mut conversation = Conversation::new(server.into_stream(), query.max_bytes);
    let key = conversation.settle().await?;
    Ok((conversation, key))
}

/// What a statement gives at a database that says all of `said` and then leaves: for the fuzz target.
pub async fn heard(said: &[u8], query: &DatabaseQuery) -> Result<DatabaseRows, DatabaseFault> {
    let server = Server::over(tokio::io::join(said, tokio::io::sink()));
    let (mut conversation, _) = log_in(server, query, query.patience).await?;
    conversation.begin(query).await?;
    let rows = conversation.run(query).await?;
    conversation.end(query.may_write).await?;
    Ok(rows)
}

fn startup(query: &DatabaseQuery) -> Result<BytesMut, Error> {
    let mut packet = BytesMut::new();
    let parameters = [
        ("user", query.user.as_str()),
        ("database", query.database.as_str()),
        ("application_name", "keyless"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO"),
    ];
    frontend::startup_message(parameters, &mut packet).map_err(|_| garbled())?;
    Ok(packet)
}

pub(crate) fn broke_off() -> Error {
    Error::with(Code::UpstreamProtocol, SafeText::words("the database ended the connection"))
}
