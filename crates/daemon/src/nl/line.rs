//! A connection to the broker over which many messages wait for their answers at once.
//!
//! An action may take ten minutes, and what is asked meanwhile, above all that something be revoked, is not to wait for it.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use keyless_core::{
    Code, Error,
    nl_message::{MessageType, NL_VERSION},
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{mpsc, oneshot},
};
use zeroize::Zeroizing;

use super::answer::message_id;

/// Messages that wait for being written.
const OUTBOX: usize = 16;

/// The connection's near end; it is closed when the last of these is gone.
#[derive(Clone)]
pub(super) struct Line {
    outbox: mpsc::Sender<Zeroizing<String>>,
    waiting: Arc<Waiting>,
}

/// Who waits for the answer to which message.
#[derive(Default)]
struct Waiting(Mutex<HashMap<String, oneshot::Sender<Value>>>);

impl Line {
    /// A line over a connection whose other end knows who this is.
    pub(super) fn over(reader: BufReader<OwnedReadHalf>, writer: OwnedWriteHalf) -> Self {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let waiting = Arc::<Waiting>::default();
        tokio::spawn(carry(reader, writer, inbox, Arc::clone(&waiting)));
        Self { outbox, waiting }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.outbox.is_closed()
    }

    /// Sends one message and waits for its answer's payload. [`Code::BrokerNotRunning`] when the connection breaks off.
    pub(super) async fn call(
        &self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> Result<Value, Error> {
        let id = message_id();
        let (tell, told) = oneshot::channel();
        self.waiting.0.lock().insert(id.clone(), tell);
        let _leaving = Leaving { waiting: &self.waiting, id: &id };
        let gone = || Error::from(Code::BrokerNotRunning);
        self.outbox.send(message(&id, kind, &payload)).await.map_err(|_| gone())?;
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
    mut inbox: mpsc::Receiver<Zeroizing<String>>,
    waiting: Arc<Waiting>,
) {
    let sending = async {
        while let Some(line) = inbox.recv().await {
            if writer.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let reading = async {
        let mut lines = reader.lines();
        while let Ok(Some(line)) = lines.next_line().await {
            waiting.tell(&line);
        }
    };
    tokio::select! {
        () = sending => {}
        () = reading => {}
    }
}

/// A message as a line.
pub(super) fn message(
    id: &str,
    kind: MessageType,
    payload: &Map<String, Value>,
) -> Zeroizing<String> {
    let message = json!({
        "nl_version": NL_VERSION,
        "message_type": kind.as_str(),
        "message_id": id,
        "timestamp": format!("{:.3}", Timestamp::now()),
        "payload": payload,
    });
    Zeroizing::new(format!("{message}\n"))
}
