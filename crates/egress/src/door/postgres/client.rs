//! The agent's side of a login: its start-up packet and its password.

use std::time::Duration;

use keyless_core::{Code, Error, Host};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::packet::{CANCEL_REQUEST, GSS_REQUEST, Garbled, SSL_REQUEST, read_packet};
use crate::{
    Session,
    door::AnyStream,
    tls::{self, Prefixed, Spoken},
};

/// PostgreSQL's own bound on a password message.
const MAX_PASSWORD: usize = 10_000;
/// `AuthenticationCleartextPassword`.
const ASK_PASSWORD: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
/// `AuthenticationOk`.
const WELCOME: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 0];

/// An agent that wants to log in, and has said as whom and with which password.
pub(super) struct Client {
    stream: AnyStream,
    startup: Startup,
    password: Vec<u8>,
}

/// Who came.
pub(super) enum Met {
    Login(Client),
    /// The request to cancel another connection's query, as it came.
    Cancel(Vec<u8>),
    Nobody,
}

/// A start-up packet: who, to which database.
#[derive(Debug)]
pub struct Startup {
    /// The packet as it came, length and all.
    packet: Vec<u8>,
    user: Vec<u8>,
    database: Vec<u8>,
}

impl Client {
    /// Hears what the client wants: over TLS if it asks for that, as `host`.
    pub(super) async fn meet(
        session: &Session,
        host: &Host,
        stream: Prefixed<AnyStream>,
        patience: Duration,
    ) -> Result<Met, Error> {
        let meeting = Self::hear(session, host, Box::new(stream), patience);
        timeout(patience, meeting).await.map_err(|_| Error::new(Code::HeadTimeout))?
    }

    async fn hear(
        session: &Session,
        host: &Host,
        mut stream: AnyStream,
        patience: Duration,
    ) -> Result<Met, Error> {
        let mut is_encrypted = false;
        loop {
            let (code, packet) = match read_packet(&mut stream).await {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(Met::Nobody),
                Err(Garbled) => return Err(garbled()),
            };
            match code {
                SSL_REQUEST if !is_encrypted => {
                    say(&mut stream, b"S").await?;
                    let spoken = Spoken::Postgres;
                    let tls = tls::accept(session, host, spoken, stream, patience).await?;
                    stream = Box::new(tls);
                    is_encrypted = true;
                }
                GSS_REQUEST if !is_encrypted => say(&mut stream, b"N").await?,
                CANCEL_REQUEST => return Ok(Met::Cancel(packet)),
                _ => {
                    let startup = parse_startup(packet).ok_or_else(garbled)?;
                    say(&mut stream, &ASK_PASSWORD).await?;
                    // A person who is asked by psql comes back on another connection.
                    let Some(password) = read_password(&mut stream).await? else {
                        return Ok(Met::Nobody);
                    };
                    return Ok(Met::Login(Self { stream, startup, password }));
                }
            }
        }
    }

    /// The start-up packet, to be said to the database as it is.
    pub(super) fn packet(&self) -> &[u8] {
        &self.startup.packet
    }

    pub(super) fn user(&self) -> &[u8] {
        &self.startup.user
    }

    /// The database's name as a path, for the log.
    pub(super) fn database(&self) -> String {
        format!("/{}", String::from_utf8_lossy(&self.startup.database))
    }

    /// The password as the agent has it: a placeholder, as a rule.
    pub(super) fn password(&self) -> &[u8] {
        &self.password
    }

    /// The login has succeeded.
    pub(super) async fn welcome(&mut self) -> Result<(), Error> {
        say(&mut self.stream, &WELCOME).await
    }

    /// A message of the database that comes with the login.
    pub(super) async fn pass(&mut self, message: &[u8]) -> Result<(), Error> {
        say(&mut self.stream, message).await
    }

    /// The last words. Best effort: the client may be gone already.
    pub(super) async fn tell(mut self, words: &[u8]) {
        if say(&mut self.stream, words).await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }

    pub(super) fn into_stream(self) -> AnyStream {
        self.stream
    }
}

/// A `PasswordMessage`; nothing when the client has none.
async fn read_password(stream: &mut AnyStream) -> Result<Option<Vec<u8>>, Error> {
    let mut head = [0; 5];
    if stream.read_exact(&mut head).await.is_err() {
        return Ok(None);
    }
    let [kind, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if kind != b'p' || !(5..=MAX_PASSWORD).contains(&length) {
        return Err(garbled());
    }
    let mut password = vec![0; length - 4];
    stream.read_exact(&mut password).await.map_err(|_| garbled())?;
    let ends_once = password.iter().position(|byte| *byte == 0) == Some(password.len() - 1);
    password.pop();
    if ends_once { Ok(Some(password)) } else { Err(garbled()) }
}

/// Reads a whole start-up packet of protocol 3: pairs of C strings after eight bytes, and a last
/// NUL. Nothing when it is none.
pub fn parse_startup(packet: Vec<u8>) -> Option<Startup> {
    let (head, pairs) = packet.split_first_chunk::<8>()?;
    let [a, b, c, d, 0, 3, _, _] = *head else { return None };
    if usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()? != packet.len() {
        return None;
    }
    let pairs = pairs.strip_suffix(b"\0")?;
    let mut words = pairs.split(|byte| *byte == 0);
    let (mut user, mut database) = (None, None);
    // Every string ends with a NUL, so the last piece is empty.
    if words.next_back()? != b"" {
        return None;
    }
    while let Some(name) = words.next() {
        let value = words.next()?;
        match name {
            b"user" if user.is_none() => user = Some(value.to_vec()),
            b"database" if database.is_none() => database = Some(value.to_vec()),
            // Two users: we and the database could take different ones.
            b"user" | b"database" | b"" => return None,
            _ => {}
        }
    }
    let user = user.filter(|user| !user.is_empty())?;
    let database = database.unwrap_or_else(|| user.clone());
    Some(Startup { packet, user, database })
}

async fn say(stream: &mut AnyStream, words: &[u8]) -> Result<(), Error> {
    let saying = async {
        stream.write_all(words).await?;
        stream.flush().await
    };
    saying.await.map_err(|_: std::io::Error| {
        Error::with(Code::BadRequest, "the client has left during its login".into())
    })
}

fn garbled() -> Error {
    Error::with(Code::BadRequest, "its login is not PostgreSQL's, version 3".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pairs: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + pairs.len()).unwrap().to_be_bytes();
        [&length[..], &[0, 3, 0, 0], pairs].concat()
    }

    #[test]
    fn a_startup_names_a_user_and_a_database() {
        let startup = parse_startup(packet(b"user\0ana\0database\0shop\0x\0y\0\0")).unwrap();
        assert_eq!((&startup.user[..], &startup.database[..]), (&b"ana"[..], &b"shop"[..]));
        let startup = parse_startup(packet(b"user\0ana\0\0")).unwrap();
        assert_eq!(startup.database, b"ana");
    }

    #[test]
    fn what_two_could_read_differently_is_refused() {
        for pairs in [
            &b"user\0ana\0user\0root\0\0"[..],
            b"user\0ana",
            b"user\0ana\0",
            b"user\0ana\0database\0\0",
            b"database\0shop\0\0",
            b"user\0\0\0",
            b"user\0ana\0\0more\0\0",
            b"\0",
            b"",
        ] {
            assert!(parse_startup(packet(pairs)).is_none(), "{pairs:?}");
        }
        let mut long = packet(b"user\0ana\0\0");
        long.push(0);
        assert!(parse_startup(long).is_none());
        let mut old = packet(b"user\0ana\0\0");
        old[5] = 2;
        assert!(parse_startup(old).is_none());
    }
}
