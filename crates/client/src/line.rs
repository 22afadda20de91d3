//! A connection to the broker over which many messages wait for their answers at once.
//!
//! An action may take ten minutes, and what is asked meanwhile, above all that something be revoked, is not to wait for it.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use keyless_core::{
    Code, Error, json_size,
    nl_message::{MAX_MESSAGE_BYTES, MessageType, NL_VERSION},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{mpsc, oneshot},
};
use uuid::Uuid;
use zeroize::Zeroizing;

/// Messages that wait for being written.
const OUTBOX: usize = 16;

/// The connection's near end; it is closed when the last of these is gone.
#[derive(Clone)]
pub(crate) struct Line {
    outbox: mpsc::Sender<Zeroizing<Vec<u8>>>,
    waiting: Arc<Waiting>,
}

/// The callers that wait for an answer, by the message's id.
#[derive(Default)]
struct Waiting(Mutex<HashMap<String, oneshot::Sender<Value>>>);

impl Line {
    /// A line over a connection whose other end knows who this is.
    pub(crate) fn over(reader: BufReader<OwnedReadHalf>, writer: OwnedWriteHalf) -> Self {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(carry(reader, writer, inbox, Arc::clone(&waiting)));
        Self { outbox, waiting }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.outbox.is_closed()
    }

    /// Sends one message and waits for its answer's payload. [`Code::BrokerNotRunning`] when the connection breaks off,
    /// [`Code::MessageTooLarge`] for what the broker would not read: its refusal could not say which message it answers.
    pub(crate) async fn call(
        &self,
        kind: MessageType,
        payload: &impl Serialize,
    ) -> Result<Value, Error> {
        let id = message_id();
        let line = message(&id, kind, payload)?;
        // With its line break.
        if line.len() > MAX_MESSAGE_BYTES + 1 {
            return Err(Code::MessageTooLarge.into());
        }
        let (tell, told) = oneshot::channel();
        self.waiting.0.lock().insert(id.clone(), tell);
        let _leaving = Leaving { waiting: &self.waiting, id: &id };
        let gone = || Error::from(Code::BrokerNotRunning);
        self.outbox.send(line).await.map_err(|_| gone())?;
        tokio::select! {
            biased;
            answer = told => answer.map_err(|_| gone()),
            () = self.outbox.closed() => Err(gone()),
        }
    }
}

/// Takes a message off the list, answered or given up.
struct Leaving<'a> {
    waiting: &'a Waiting,
    id: &'a str,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.waiting.0.lock().remove(self.id);
    }
}

impl Waiting {
    fn tell(&self, line: &str) {
        let Ok(mut answer) = serde_json::from_str::<Value>(line) else { return };
        let payload = answer["payload"].take();
        let mut waiting = self.0.lock();
        let to = match payload["correlation_id"].as_str() {
            Some(id) => waiting.remove(id),
            // What was no message at all is answered without naming one: with one that waits it is plain whose it was.
            None if waiting.len() == 1 => waiting.drain().next().map(|(_, tell)| tell),
            None => None,
        };
        if let Some(to) = to {
            let _ = to.send(payload);
        }
    }
}

/// Writes and reads until either end is gone.
async fn carry(
    reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    mut inbox: mpsc::Receiver<Zeroizing<Vec<u8>>>,
    waiting: Arc<Waiting>,
) {
    let sending = async {
        while let Some(line) = inbox.recv().await {
            if writer.write_all(&line).await.is_err() {
                break;
            }
        }
    };
    let reading = async {
        let mut lines = reader.lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // What accepting a delegation gives is a key.
            waiting.tell(&Zeroizing::new(line));
        }
    };
    tokio::select! {
        () = sending => {}
        () = reading => {}
    }
}

/// A name for a message of ours.
pub(crate) fn message_id() -> String {
    format!("msg_{}", Uuid::now_v7())
}

/// A message as it travels.
#[derive(Serialize)]
struct Envelope<'a, P> {
    nl_version: &'a str,
    message_type: &'a str,
    message_id: &'a str,
    timestamp: &'a str,
    payload: &'a P,
}

/// A message as a line, wiped once it is sent: the first one has the credential.
pub(crate) fn message(
    id: &str,
    kind: MessageType,
    payload: &impl Serialize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let envelope = Envelope {
        nl_version: NL_VERSION,
        message_type: kind.as_str(),
        message_id: id,
        timestamp: &format!("{:.3}", Timestamp::now()),
        payload,
    };
    // A buffer that grows leaves what it held behind.
    let mut line = Zeroizing::new(Vec::with_capacity(json_size(&envelope).saturating_add(1)));
    serde_json::to_writer(&mut *line, &envelope).map_err(|_| Code::Internal)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_its_whole_room_from_the_start() {
        let payload = json!({ "credential": "nlk_\"\u{1}…".repeat(1000) });
        let line = message("m-1", MessageType::Handshake, &payload).unwrap();
        assert_eq!(line.capacity(), line.len());
        let read: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&read["message_id"], &read["payload"]), (&json!("m-1"), &payload));
        assert!(line.ends_with(b"\n"));
    }
}
