//! The first message of a connection, which shows who this is.

use keyless_core::{Code, action::AgentClaim, nl_message::MessageType};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    Error, Identity,
    error::fault_in,
    identity::Shown,
    line::{message, message_id},
};

/// A connection whose other end knows who this is.
pub struct Greeted {
    /// The half on which the broker's lines come.
    pub reader: BufReader<OwnedReadHalf>,
    /// The half on which lines go to the broker.
    pub writer: OwnedWriteHalf,
    /// This agent, as the broker calls it.
    pub agent: AgentClaim,
}

/// Shows an identity. [`Error::Refused`] where the broker does not take it.
pub async fn greet(stream: UnixStream, identity: &Identity) -> Result<Greeted, Error> {
    introduce(stream, identity.shown()).await
}

/// The same for a connection that is handed to somebody who must not become another agent on it.
pub async fn greet_for_good(stream: UnixStream, identity: &Identity) -> Result<Greeted, Error> {
    introduce(stream, identity.shown_for_good()).await
}

async fn introduce(stream: UnixStream, shown: Shown<'_>) -> Result<Greeted, Error> {
    let gone = |_| Error::from(Code::BrokerNotRunning);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let greeting = message(&message_id(), MessageType::Handshake, &shown)?;
    writer.write_all(&greeting).await.map_err(gone)?;
    let mut answer = String::new();
    if reader.read_line(&mut answer).await.map_err(gone)? == 0 {
        return Err(Code::BrokerNotRunning.into());
    }
    let mut answer: Value = serde_json::from_str(&answer).map_err(|_| Code::Internal)?;
    let mut told = answer["payload"].take();
    if let Some(fault) = fault_in(&mut told) {
        return Err(Error::Refused(Box::new(fault)));
    }
    let agent = serde_json::from_value(told["agent"].take()).map_err(|_| Code::Internal)?;
    Ok(Greeted { reader, writer, agent })
}
