//! An agent's calls to the broker, from its side: a greeting, then questions.

use std::path::Path;

use keyless_core::{Code, Error, SafeText, SecretPath, approval::WantedDeploy};
use keyless_mcp::{Ask, Reply};
use tokio::net::UnixStream;

use super::{
    client::{call, connect, while_it_answers},
    protocol::{Answer, Call, Ticket},
};
use crate::deploys::{DeployBy, DeployWord};

/// Connects, and gives the session that the connection stands for.
pub(crate) async fn greet(
    socket: &Path,
    ticket: Option<&Ticket>,
) -> Result<(UnixStream, Ticket), Error> {
    let mut stream = connect(socket).await.map_err(no_broker)?;
    let ticket = ticket.cloned();
    match call(&mut stream, &Call::Hello { ticket }).await.map_err(no_broker)? {
        Answer::Hello { ticket } => Ok((stream, ticket)),
        _ => Err(unexpected()),
    }
}

/// Asks one thing. [`Code::BrokerNotRunning`] when the broker went away.
pub(crate) async fn ask(
    stream: &mut UnixStream,
    manifest: Option<&str>,
    ask: &Ask,
) -> Result<Reply, Error> {
    let manifest = manifest.map(ToOwned::to_owned);
    let answer = call(stream, &Call::Secrets { manifest, ask: ask.clone() }).await;
    match answer.map_err(no_broker)? {
        Answer::Secrets { reply } => Ok(*reply),
        _ => Err(unexpected()),
    }
}

/// Asks what stands for these secrets in the session whose socket this is, in their order.
pub(crate) async fn placeholders(socket: &Path, of: Vec<SecretPath>) -> Result<Vec<String>, Error> {
    let asking = async { call(&mut connect(socket).await?, &Call::Placeholders { of }).await };
    match while_it_answers(socket, asking).await.map_err(no_broker)? {
        Answer::Placeholders { placeholders } => Ok(placeholders),
        _ => Err(unexpected()),
    }
}

/// Asks whether a plan of the pack may be carried out. [`Code::BrokerNotRunning`] when there is nobody to ask.
pub(crate) async fn deploy(
    socket: &Path,
    by: DeployBy,
    wanted: WantedDeploy,
) -> Result<DeployWord, Error> {
    let asked = Call::Deploy { by, wanted: Box::new(wanted) };
    let asking = async { call(&mut connect(socket).await?, &asked).await };
    match while_it_answers(socket, asking).await.map_err(no_broker)? {
        Answer::Deploy { word } => Ok(word),
        _ => Err(unexpected()),
    }
}

/// To an agent, a broker that is not there is another thing than one that is locked.
fn no_broker(error: Error) -> Error {
    match error.code() {
        Code::Locked => Code::BrokerNotRunning.into(),
        _ => error,
    }
}

fn unexpected() -> Error {
    Error::with(Code::Internal, SafeText::words("the broker answered another call"))
}
