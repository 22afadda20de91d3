//! What was sent over each stream of events, for a client that lost it and comes back to read on (MCP, Streamable HTTP,
//! "Resumability and Redelivery").
//!
//! An id begins with its stream's name, which cannot be guessed: it finds nothing of another client's.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream;
use keyless_core::json_size;
use parking_lot::Mutex;
use rmcp::{
    model::JsonRpcMessage,
    transport::{
        common::server_side_http::ServerSseMessage,
        streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream},
    },
};
use tokio::sync::watch;

/// Of all streams together; the oldest go first.
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 32 << 20;

/// The events of all streams, in memory.
#[derive(Default)]
pub(super) struct Events(Arc<Shared>);

#[derive(Default)]
struct Shared {
    kept: Mutex<Kept>,
    /// The number of the newest.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    bytes: usize,
    count: u64,
    /// The number of the newest of those that had to go.
    gone: u64,
}

struct Event {
    stream: String,
    number: u64,
    bytes: usize,
    message: ServerSseMessage,
}

impl Event {
    /// Whether nothing follows it: the answer to the request that the stream is for.
    fn is_last(&self) -> bool {
        let message = self.message.message.as_deref();
        matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
    }
}

impl Kept {
    fn put(&mut self, stream: &str, message: &ServerSseMessage) -> EventId {
        self.count += 1;
        let (number, bytes) = (self.count, size(message));
        let id = format!("{stream}/{number}");
        let mut message = message.clone();
        message.event_id = Some(id.clone());
        self.events.push_back(Event { stream: stream.to_owned(), number, bytes, message });
        self.bytes += bytes;
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.gone = oldest.number;
        }
        id
    }

    fn find(&self, id: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.message.event_id.as_deref() == Some(id))
    }

    fn next(&self, stream: &str, after: u64) -> Option<&Event> {
        self.events.iter().find(|event| event.number > after && event.stream == stream)
    }
}

/// Reads on in one stream, and waits for what is still to come.
struct Reading {
    shared: Arc<Shared>,
    newest: watch::Receiver<u64>,
    stream: String,
    after: u64,
    is_over: bool,
}

impl Reading {
    async fn next(mut self) -> Option<(ServerSseMessage, Self)> {
        loop {
            if self.is_over {
                return None;
            }
            self.newest.borrow_and_update();
            {
                let kept = self.shared.kept.lock();
                if let Some(event) = kept.next(&self.stream, self.after) {
                    let message = event.message.clone();
                    (self.after, self.is_over) = (event.number, event.is_last());
                    drop(kept);
                    return Some((message, self));
                }
                // Some of this stream may have gone unread.
                if kept.gone > self.after {
                    return None;
                }
            }
            self.newest.changed().await.ok()?;
        }
    }
}

#[async_trait::async_trait]
impl EventStore for Events {
    async fn store_event(
        &self,
        stream_id: &str,
        event: &ServerSseMessage,
    ) -> Result<EventId, EventStoreError> {
        let mut kept = self.0.kept.lock();
        let id = kept.put(stream_id, event);
        self.0.newest.send_replace(kept.count);
        Ok(id)
    }

    async fn replay_events_after(
        &self,
        last_event_id: &str,
    ) -> Result<EventStream, EventStoreError> {
        let kept = self.0.kept.lock();
        let last = kept.find(last_event_id).ok_or("the event is not kept any more")?;
        let reading = Reading {
            shared: Arc::clone(&self.0),
            newest: self.0.newest.subscribe(),
            stream: last.stream.clone(),
            after: last.number,
            is_over: last.is_last(),
        };
        Ok(Box::pin(stream::unfold(reading, Reading::next)))
    }
}

/// Bytes of a message as it is sent, and of what is kept with it.
fn size(event: &ServerSseMessage) -> usize {
    64 + event.message.as_deref().map_or(0, |message| json_size(message).min(MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt as _, StreamExt as _};
    use rmcp::model::{EmptyResult, RequestId, ServerResult};

    use super::*;

    fn priming() -> ServerSseMessage {
        ServerSseMessage::retry(Duration::from_secs(3))
    }

    fn answer() -> ServerSseMessage {
        let result = ServerResult::EmptyResult(EmptyResult {});
        ServerSseMessage::from_message(JsonRpcMessage::response(result, RequestId::Number(1)))
    }

    #[tokio::test]
    async fn a_client_that_comes_back_reads_on_to_the_answer() {
        let events = Events::default();
        let first = events.store_event("a", &priming()).await.unwrap();
        events.store_event("b", &answer()).await.unwrap();
        let mut reading = events.replay_events_after(&first).await.unwrap();
        // Nothing of another stream's, and the end is not reached.
        assert!(reading.next().now_or_never().is_none());
        let last = events.store_event("a", &answer()).await.unwrap();
        assert_eq!(reading.next().await.unwrap().event_id.as_ref(), Some(&last));
        assert!(reading.next().await.is_none());
        // Also once it is over, as often as it is asked.
        let again = events.replay_events_after(&first).await.unwrap();
        assert_eq!(again.count().await, 1);
        let nothing = events.replay_events_after(&last).await.unwrap();
        assert_eq!(nothing.count().await, 0);
        assert!(events.replay_events_after("a/9").await.is_err());
    }

    #[tokio::test]
    async fn so_much_is_kept_and_no_more() {
        let events = Events::default();
        let first = events.store_event("a", &priming()).await.unwrap();
        let reading = events.replay_events_after(&first).await.unwrap();
        for _ in 0..=MAX_EVENTS {
            events.store_event("b", &priming()).await.unwrap();
        }
        assert!(events.replay_events_after(&first).await.is_err());
        // Who was reading is not told that nothing was left out.
        assert_eq!(reading.count().await, 0);
    }
}
