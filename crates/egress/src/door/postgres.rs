//! PostgreSQL toward a secret's host and port: the agent logs in with a placeholder for a password,
//! and the server sees the value.
//!
//! ```text
//! agent ── start-up, "kloak_…" ──► Client      Server ── TLS, start-up, SCRAM with the value ──► database
//!                                     └── both are logged in: messages pass, the server's scrubbed ──┘
//! ```
//!
//! The agent is asked for its password in the clear, on a connection that ends here: a placeholder
//! is worth nothing to whoever reads it. The database is reached over verified TLS alone, and asked
//! by whichever method it wants. What follows the login is not looked into on its way out; a
//! placeholder in a query arrives as it is. Source: PostgreSQL's "Message Flow" and "SASL
//! Authentication"; RFC 5802; issue "Egress, complete", point 9.

mod client;
pub(super) mod packet;
mod relay;

use std::sync::Arc;

use http::Version;
use keyless_core::{Authority, Error, Scheme};

use self::{
    client::{Client, Met},
    relay::Relay,
};
use super::{AnyStream, farewell, log, named};
use crate::{
    Engine, Session,
    account::Account,
    database::{Hello, LoginFault, Message, Server},
    reach::Standing,
    scrub::MessageScrub,
    swap::{self, Route},
    tls::Prefixed,
    tunnel,
    withdrawal::Ground,
};

pub use self::client::parse_startup;
/// Serves one connection of a PostgreSQL client to a destination that some secret names.
pub(super) async fn serve(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: Prefixed<AnyStream>,
    authority: Authority,
    standing: Standing,
) {
    let login = Login { engine, session, authority: &authority, standing: &standing };
    match Client::meet(session, &authority.host, stream, engine.limits.head_time).await {
        Ok(Met::Login(mut client)) => match login.open(&mut client).await {
            Ok((ground, account, server)) => login.join(ground, account, client, server).await,
            Err(Refused::By(error)) => {
                log(session, Some(&authority), &error);
                client.tell(&farewell::postgres(&error)).await;
            }
            Err(Refused::ByServer(words)) => client.tell(&words).await,
        },
        Ok(Met::Cancel(request)) => login.cancel(&request).await,
        // It left without a word.
        Ok(Met::Nobody) => {}
        Err(error) => log(session, Some(&authority), &error),
    }
}

/// What it takes to log in at one destination.
struct Login<'a> {
    engine: &'a Arc<Engine>,
    session: &'a Arc<Session>,
    authority: &'a Authority,
    standing: &'a Standing,
}

/// Why nobody is logged in.
enum Refused {
    /// By us, or on the way.
    By(Error),
    /// By the database, with its own message.
    ByServer(Vec<u8>),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::By(error)
    }
}

impl Login<'_> {
    /// Connects to the database, swaps the password once its certificate is verified, and logs in.
    async fn open(&self, client: &mut Client) -> Result<(Ground, Arc<Account>, Server), Refused> {
        let Self { engine, session, authority, standing } = self;
        let flight = engine.begin()?;
        let (tcp, ground, account) =
            named::dial_and_record(engine, session, authority, standing, flight).await?;
        let patience = engine.limits.handshake_time;
        let mut server = Server::meet(&engine.roots(), authority, tcp, patience).await?;
        let password = {
            let route = Route {
                scheme: Scheme::Https,
                authority,
                correlation_id: &account.subject().correlation_id,
                upstream_version: Version::HTTP_11,
            };
            let (database, password) = (client.database(), client.password());
            swap::swap_password(&ground.table, &route, &database, password).await?
        };
        // It waits for a login for a minute, a person may take longer.
        if server.has_left().await {
            ground.holds()?;
            let tcp = engine.reach().dialer.dial(&ground.pinned).await?;
            server = Server::meet(&engine.roots(), authority, tcp, patience).await?;
        }
        let scrub = MessageScrub::new(&ground.table, account.taken());
        let hello = Hello { packet: client.packet(), user: client.user() };
        let remarks = match server.log_in(&hello, &password, patience).await {
            Ok(remarks) => remarks,
            Err(LoginFault::By(error)) => return Err(error.into()),
            Err(LoginFault::ByServer(message)) => {
                return Err(Refused::ByServer(scrubbed(&message, &scrub)?));
            }
        };
        // Before they are let in, libpq takes nothing else, and no notice of anything.
        let (notices, about_version): (Vec<_>, Vec<_>) =
            remarks.into_iter().partition(Message::is_notice);
        for message in about_version {
            client.pass(&scrubbed(&message, &scrub)?).await?;
        }
        client.welcome().await?;
        for notice in notices {
            client.pass(&scrubbed(&notice, &scrub)?).await?;
        }
        Ok((ground, account, server))
    }

    /// Both are logged in: messages pass until one side ends or it may not go on.
    async fn join(&self, ground: Ground, account: Arc<Account>, client: Client, server: Server) {
        let scrub = MessageScrub::new(&ground.table, account.taken());
        let relay = Relay::new(server.into_stream(), scrub);
        tunnel::join(ground, account, client.into_stream(), relay).await;
    }

    /// A request to cancel holds a key that the database gave to the agent, and nothing of ours.
    async fn cancel(&self, request: &[u8]) {
        let Self { engine, session, authority, standing } = self;
        let patience = engine.limits.handshake_time;
        let passing = async {
            let flight = engine.begin()?;
            let (tcp, _ground, _account) =
                named::dial_and_record(engine, session, authority, standing, flight).await?;
            let server = Server::meet(&engine.roots(), authority, tcp, patience).await?;
            server.say_last(request).await
        };
        if let Err(error) = passing.await {
            log(session, Some(authority), &error);
        }
    }
}

/// A whole message, for the client.
fn scrubbed(message: &Message, scrub: &MessageScrub) -> Result<Vec<u8>, Error> {
    let mut whole = Vec::with_capacity(5 + message.body.len());
    whole.push(message.kind);
    let length = u32::try_from(message.body.len() + 4).unwrap_or(u32::MAX);
    whole.extend_from_slice(&length.to_be_bytes());
    whole.extend_from_slice(&relay::scrubbed(scrub, &message.body)?);
    Ok(whole)
}
