//! The client's side of `agent.sock`.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use keyless_client::{PATIENCE, connect_in_time, hangs_for, process_at, while_alive};
use keyless_core::{Code, Error, SafeText};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::protocol::{
    Answer, Call, MAX_LINE, OURS, SessionOffer, Status, UNREADABLE_CALL, other_version,
};
use crate::{
    broker::{Inherited, Wanted},
    places::unusable,
    sockets::told_error,
};

/// How long the word for a broker that hangs may take to find a place in its queue.
const LEAVING: Duration = Duration::from_millis(500);

/// A session of the service; it ends when this is dropped.
pub struct RemoteSession {
    offer: SessionOffer,
    connection: UnixStream,
}

impl RemoteSession {
    /// What the service offered.
    pub fn offer(&self) -> &SessionOffer {
        &self.offer
    }

    /// Ends the session and waits until the service has closed its side; gives whether it was over before. A service of
    /// another version does not say, and is taken at its best.
    pub(crate) async fn end(mut self) -> bool {
        let says = self.offer.other_version().is_none();
        let mut last = Vec::new();
        // A service that is gone has ended the session too.
        if self.connection.shutdown().await.is_ok() {
            let _ = (&mut self.connection).take(MAX_LINE as u64).read_to_end(&mut last).await;
        }
        says && !matches!(serde_json::from_slice(&last), Ok(Answer::Lasted))
    }
}

/// Opens a session at the service, whose command won't see what is at `hide`. `Code::Locked` when there is none.
pub async fn open_session(
    socket: &Path,
    wanted: &Wanted,
    inherited: Vec<Inherited>,
    manifest: Option<String>,
    hide: &[PathBuf],
) -> Result<RemoteSession, Error> {
    let mut connection = connect_awake(socket).await?;
    let wanted = wanted.clone();
    let hide = hide.iter().map(|path| path.clone().into_os_string()).collect();
    match call(&mut connection, &Call::OpenSession { wanted, inherited, manifest, hide }).await? {
        Answer::Session(offer) => Ok(RemoteSession { offer, connection }),
        other => Err(unexpected(&other)),
    }
}

/// How the service is; `None` when there is none, or none any more.
pub async fn status(socket: &Path) -> Result<Option<Status>, Error> {
    let asking = async { call_within(PATIENCE, &mut connect(socket).await?, &Call::Status).await };
    match asking.await {
        Ok(Answer::Status(status)) => Ok(Some(status)),
        Ok(other) => Err(unexpected(&other)),
        Err(error) if error.code() == Code::Locked => Ok(None),
        Err(error) => Err(error),
    }
}

/// What came of asking whoever listens at a socket how they are.
pub(super) enum Asked {
    Answered(Box<Status>),
    /// Somebody is there and says nothing, in time.
    Hangs {
        process: Option<u64>,
    },
    /// Nobody, or nobody who can be asked that.
    Nobody,
}

/// Asks whoever listens at a socket how they are, for as long as one that is well may take.
pub(super) async fn ask(socket: &Path) -> Asked {
    let mut connection = match connect_in_time(socket).await {
        Ok(connection) => connection,
        // Those that wait for who takes no connection any more have filled its queue.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Asked::Hangs { process: None };
        }
        Err(_) => return Asked::Nobody,
    };
    let process = process_at(&connection);
    match call_within(PATIENCE, &mut connection, &Call::Status).await {
        Ok(Answer::Status(status)) => Asked::Answered(Box::new(status)),
        Err(error) if error.code() == Code::BrokerHangs => Asked::Hangs { process },
        _ => Asked::Nobody,
    }
}

/// Opens a store that has locked itself, by a code of the operator's authenticator app; gives for
/// how long.
pub async fn reopen(socket: &Path, code: &str, seconds: Option<u64>) -> Result<u64, Error> {
    let mut connection = connect_awake(socket).await?;
    let asked = Call::Reopen { code: code.to_owned().into(), seconds };
    match call(&mut connection, &asked).await? {
        Answer::Reopened { seconds } => Ok(seconds),
        other => Err(unexpected(&other)),
    }
}

/// Closes the store; `false` when it was closed already.
pub async fn lock(socket: &Path) -> Result<bool, Error> {
    let mut connection = match connect(socket).await {
        Ok(connection) => connection,
        Err(error) if error.code() == Code::Locked => return Ok(false),
        Err(error) => return Err(error),
    };
    match call_within(PATIENCE, &mut connection, &Call::Lock).await? {
        Answer::Locked => Ok(true),
        other => Err(unexpected(&other)),
    }
}

/// Leaves the word to close the store with a broker that hangs, which takes it when it goes on, and waits for no answer.
pub async fn leave_lock(socket: &Path) {
    let leaving = async {
        let line = serde_json::to_vec(&Call::Lock).map_err(|_| Error::new(Code::Internal))?;
        let written = connect(socket).await?.write_all(&[&line[..], b"\n"].concat()).await;
        written.map_err(|error| unusable(socket, &error))
    };
    // One whose queue is full takes no more; that it hangs is told all the same.
    let _: Result<Result<(), Error>, _> = tokio::time::timeout(LEAVING, leaving).await;
}

pub(super) async fn connect(socket: &Path) -> Result<UnixStream, Error> {
    connect_in_time(socket).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Code::Locked.into(),
        // Those that wait for who takes no connection any more have filled its queue.
        io::ErrorKind::WouldBlock => hangs(None),
        _ => unusable(socket, &error),
    })
}

/// A connection to a broker that answers, before a call that may take long for good reasons: a source waits for a
/// person, say. [`Code::BrokerHangs`] where it does not.
async fn connect_awake(socket: &Path) -> Result<UnixStream, Error> {
    let mut connection = connect(socket).await?;
    let process = process_at(&connection);
    let alive = tokio::time::timeout(PATIENCE, shows_life(&mut connection)).await;
    alive.unwrap_or_else(|_| Err(hangs(process))).map(|()| connection)
}

async fn is_awake(socket: &Path) -> Result<(), Error> {
    connect_awake(socket).await.map(drop)
}

/// Has whoever is at the other end say that they are there. One of before says that it does not know the call.
async fn shows_life(connection: &mut UnixStream) -> Result<(), Error> {
    let answer = exchange(connection, &Call::Alive).await?;
    match Answer::read(&answer) {
        // That there are too many connections, say.
        Ok(Answer::Error { code, detail, retry_after }) if detail != UNREADABLE_CALL => {
            Err(told_error(&code, &detail).again_after(retry_after))
        }
        _ => Ok(()),
    }
}

pub(super) async fn call(connection: &mut UnixStream, call: &Call) -> Result<Answer, Error> {
    let answer = exchange(connection, call).await?;
    match Answer::read(&answer) {
        Ok(Answer::Error { detail, .. }) if detail == UNREADABLE_CALL => {
            Err(outdated(connection).await)
        }
        Ok(Answer::Error { code, detail, retry_after }) => {
            Err(told_error(&code, &detail).again_after(retry_after))
        }
        Ok(answer) => Ok(answer),
        Err(_) => Err(outdated(connection).await),
    }
}

/// A call's answer, if it comes in time: a broker that is stopped or stuck holds its socket open for ever.
/// [`Code::BrokerHangs`] with the process otherwise.
async fn call_within(
    patience: Duration,
    connection: &mut UnixStream,
    asked: &Call,
) -> Result<Answer, Error> {
    let process = process_at(connection);
    tokio::time::timeout(patience, call(connection, asked))
        .await
        .unwrap_or_else(|_| Err(hangs_for(patience, process)))
}

/// What comes of asking the broker at `socket`, however long it takes for good reasons: a person or a source is waited for,
/// say. [`Code::BrokerHangs`] with the process as soon as it does not even say how it is.
pub(crate) async fn while_it_answers<T>(
    socket: &Path,
    asking: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    while_alive(|| is_awake(socket), asking).await
}

fn hangs(process: Option<u64>) -> Error {
    hangs_for(PATIENCE, process)
}

/// A call's answer, a line that is not empty.
async fn exchange(connection: &mut UnixStream, call: &Call) -> Result<Vec<u8>, Error> {
    let lost = |_: io::Error| Error::with(Code::Locked, SafeText::words("the broker went away"));
    let mut line = serde_json::to_vec(call).map_err(|_| Error::new(Code::Internal))?;
    line.push(b'\n');
    connection.write_all(&line).await.map_err(lost)?;
    let mut answer = Vec::new();
    let limit = MAX_LINE as u64;
    let mut reader = BufReader::new(&mut *connection).take(limit);
    reader.read_until(b'\n', &mut answer).await.map_err(lost)?;
    if answer.is_empty() { Err(lost(io::ErrorKind::UnexpectedEof.into())) } else { Ok(answer) }
}

/// Call and answer were not understood: who is there? The call for that is the oldest, and nothing but the version is
/// read of its answer.
async fn outdated(connection: &mut UnixStream) -> Error {
    let status = exchange(connection, &Call::Status).await.unwrap_or_default();
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap_or_default();
    let words = match other_version(status["version"].as_str()) {
        Some(other) => {
            SafeText::words("it is ").as_they_wrote(&other).and(", this is keyless ").and(OURS)
        }
        None => SafeText::words("both say that they are keyless ").and(OURS),
    };
    Error::with(Code::BrokerOutdated, words)
}

fn unexpected(_: &Answer) -> Error {
    Error::with(Code::Internal, SafeText::words("the broker answered another call"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A broker of another version, which gives these lines for answers whatever it is asked.
    async fn other_broker(answers: &[serde_json::Value]) -> Error {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let answers: Vec<String> = answers.iter().map(|answer| format!("{answer}\n")).collect();
        tokio::spawn(async move {
            let mut stream = BufReader::new(theirs);
            for answer in answers {
                stream.read_line(&mut String::new()).await.unwrap();
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
        });
        call(&mut ours, &Call::Hello { ticket: None }).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_broker_of_another_version_is_said_to_be_one() {
        let unknown =
            json!({ "answer": "error", "code": "bad_request", "detail": UNREADABLE_CALL });
        let status =
            |version| json!({ "answer": "status", "version": version, "is": "unlike ours" });
        let another = json!({ "answer": "other", "than": "ours" });
        for (answers, words) in [
            ([unknown.clone(), json!({ "answer": "status", "pid": 1 })], "it is an older keyless"),
            ([unknown, status("9.8.7")], "it is keyless 9.8.7"),
            ([another.clone(), status("9.8.7")], "it is keyless 9.8.7"),
            ([another, status(OURS)], "both say that they are keyless"),
        ] {
            let error = other_broker(&answers).await;
            assert_eq!(error.code(), Code::BrokerOutdated, "{words}");
            assert!(error.message().contains(words), "{}", error.message());
        }
    }

    #[test]
    fn an_older_brokers_offer_is_taken() {
        let offer: SessionOffer = serde_json::from_value(json!({
            "id": "s-1", "socket": "/s", "agent_socket": "/a", "proxy_url": "",
            "environment": { "variables": [], "trust_pem": "", "conceal": [], "remove": [] },
        }))
        .unwrap();
        assert_eq!(
            (&offer.environment.unnamed[..], offer.other_version().as_deref()),
            (&[][..], Some("an older keyless"))
        );
        let now = SessionOffer { version: Some(OURS.to_owned()), ..offer };
        assert_eq!(now.other_version(), None);
    }
}
