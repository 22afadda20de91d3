//! NL over a pair of streams, one message a line: the Unix socket, and `keyless serve --stdio`.
//!
//! A connection begins with a handshake that shows the credential; after that, messages are done at
//! the same time and answered as they end, each naming what it answers. One task owns the way out, so
//! that no line is cut by another. What is no message is answered, and the connection lives on; only a line that does
//! not end in time ends it, since its rest would be taken for a line of its own.

use std::{sync::Arc, time::Duration};

use keyless_client::SETTLES;
use keyless_core::{
    ActionType, Code, SafeText,
    agent::Aid,
    nl_message::{MAX_MESSAGE_BYTES, Message, MessageType, Named, NlFault, Shape},
};
use keyless_sockets::Seat;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{Semaphore, mpsc},
    time::timeout,
};

use super::{
    answer::Outcome,
    apart::{SMALL, Weight, apart},
    caller::{Presented, Standing},
    service::NlService,
};

/// How long the rest of a line may take.
const LINE_TIME: Duration = Duration::from_secs(30);
/// Messages of one connection that are done at the same time.
const AT_ONCE: usize = 32;
/// Answers that may wait for a client which does not read.
const OUTBOX: usize = 64;

/// Serves one connection until it ends. On that of a `session` nothing needs to be shown. `seat` is told what it is doing.
pub(crate) async fn serve(
    service: Arc<NlService>,
    from: impl AsyncRead + Send + Unpin,
    to: impl AsyncWrite + Send + Unpin + 'static,
    session: Option<&Aid>,
    seat: Arc<Seat>,
) {
    serve_within(LINE_TIME, service, from, to, session, seat).await;
}

async fn serve_within(
    line_time: Duration,
    service: Arc<NlService>,
    from: impl AsyncRead + Send + Unpin,
    to: impl AsyncWrite + Send + Unpin + 'static,
    session: Option<&Aid>,
    seat: Arc<Seat>,
) {
    let (outbox, inbox) = mpsc::channel(OUTBOX);
    let writer = tokio::spawn(write_until_left(to, inbox, Arc::clone(&seat)));
    let whose = session.map(|aid| Arc::new(Presented::session(aid)));
    let (presented, is_settled) = (whose.clone(), false);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut conversation =
        Conversation { service, presented, whose, is_settled, outbox, room, seat };
    let mut lines = Lines { from: BufReader::new(from), line: Vec::new(), line_time };
    while let Some(read) = lines.next(conversation.most()).await {
        if conversation.take(read).await.is_none() {
            break;
        }
    }
    drop(conversation);
    // What is under way is answered first.
    let _ = writer.await;
}

struct Conversation {
    service: Arc<NlService>,
    /// What messages are done as; nothing behind a handshake that failed, until one succeeds.
    presented: Option<Arc<Presented>>,
    /// Whose the connection is.
    whose: Option<Arc<Presented>>,
    /// Whether that is said for good: behind `serve --stdio` by the environment, and never by what comes from stdin.
    is_settled: bool,
    outbox: mpsc::Sender<Value>,
    room: Arc<Semaphore>,
    seat: Arc<Seat>,
}

impl Conversation {
    /// How long a line may be, in bytes: who has shown nothing yet says little, and gets little room.
    fn most(&self) -> usize {
        if self.presented.is_some() { MAX_MESSAGE_BYTES } else { SMALL }
    }

    /// Does one line; `None` when nobody hears any more, or nothing can be told apart any more.
    async fn take(&mut self, read: Read) -> Option<()> {
        let line = match read {
            Read::Line(line) => line,
            Read::Late => {
                let words = SafeText::words(
                    "the line did not end within 30 seconds, so the connection ends",
                );
                let fault = NlFault::new(Code::MessageMalformed, words);
                self.refuse(fault, Named::default()).await;
                return None;
            }
            Read::TooLong => {
                // On streams it is a malformed message, elsewhere one that is too large (C-36).
                let most = self.most();
                let words =
                    SafeText::words("a line has at most ").number(most as u64).and(" bytes");
                let before = if most == SMALL { " before the handshake" } else { "" };
                let fault = NlFault::new(Code::MessageMalformed, words.and(before));
                let fault = fault.with("also", "NL-E803").with("max_bytes", most);
                return self.refuse(fault, Named::default()).await;
            }
        };
        let (weight, clock) = (Weight::of_bytes(line.len()), self.service.clock());
        let reading = move || {
            let read = Message::read(&line, MessageType::ActionRequest, clock);
            read.map_err(|fault| (fault, Box::new(Named::read(&line))))
        };
        let message = match apart(weight, reading).await {
            Ok(Ok(message)) => message,
            Ok(Err((fault, named))) => return self.refuse(fault, *named).await,
            Err(fault) => return self.refuse(fault, Named::default()).await,
        };
        if message.kind == MessageType::Handshake {
            return self.greet(message).await;
        }
        let Some(presented) = &self.presented else {
            let words = if self.whose.is_some() {
                "the last handshake here failed; first comes one that succeeds"
            } else {
                "the first message is a handshake with the credential"
            };
            let words = SafeText::words(words);
            let fault = NlFault::new(Code::AgentUnknown, words);
            let outcome = Outcome::failed(MessageType::Error, json!({}), fault);
            return self.outbox.send(outcome.to(&message, None).body).await.ok();
        };
        let place = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let (service, presented) = (Arc::clone(&self.service), Arc::clone(presented));
        let (outbox, under_way) = (self.outbox.clone(), self.seat.begin());
        tokio::spawn(async move {
            let answered = service.answer(presented, message).await;
            // Who doesn't read the answer only sits there.
            drop(under_way);
            let _ = outbox.send(answered.body).await;
            drop(place);
        });
        Some(())
    }

    async fn greet(&mut self, mut message: Message) -> Option<()> {
        let under_way = self.seat.begin();
        // What else it says is not kept while the credential waits to be looked at.
        let shown = std::mem::take(&mut message.payload);
        // Who doesn't wait for the answer takes what follows for the new one's: it is not done as the one before.
        self.presented = None;
        let introduced = self.introduced(shown).await;
        drop(under_way);
        let outcome = match introduced {
            Ok(aid) => {
                let greeting = greeting(&aid, self.service.rates.agent_limit());
                Outcome::done(MessageType::HandshakeAck, 200, greeting)
            }
            Err(fault) => Outcome::failed(MessageType::Error, json!({}), fault),
        };
        self.outbox.send(outcome.to(&message, None).body).await.ok()
    }

    async fn introduced(&mut self, shown: Map<String, Value>) -> Result<Aid, NlFault> {
        let shows_credential = shown.contains_key("credential");
        if self.is_settled && shows_credential {
            let words = "a credential is not taken from stdin: the environment of keyless serve --stdio says who this is";
            return Err(NlFault::new(Code::AgentUnknown, SafeText::words(words)));
        }
        let settles = shown.get(SETTLES) == Some(&Value::Bool(true));
        let own = self.whose.as_ref().filter(|whose| {
            !shows_credential && (self.is_settled || whose.standing == Standing::Session)
        });
        let presented = match own {
            Some(own) if !self.is_settled || own.is_named_by(&shown) => Arc::clone(own),
            _ => Arc::new(Presented::of_handshake(&shown)?),
        };
        drop(shown);
        if self.whose.as_ref().is_some_and(|whose| whose.is_stranger_to(&presented)) {
            let words = "this connection is another agent's; connect anew to be this one";
            return Err(NlFault::new(Code::AgentUnknown, SafeText::words(words)));
        }
        let aid = self.service.handshake(&presented).await?;
        (self.presented, self.whose) = (Some(Arc::clone(&presented)), Some(presented));
        self.is_settled |= settles;
        self.seat.note_known();
        Ok(aid)
    }

    async fn refuse(&self, fault: NlFault, named: Named) -> Option<()> {
        let presented = self.presented.as_deref();
        let said = (MessageType::ActionRequest, named);
        let answered = self.service.refuse_unread(presented, said, fault, Shape::Enveloped).await;
        self.outbox.send(answered.body).await.ok()
    }
}

fn greeting(aid: &Aid, limit: u32) -> Value {
    json!({
        "status": "authenticated",
        "session_id": aid.instance_id,
        "agent": { "agent_uri": aid.agent_uri, "instance_id": aid.instance_id },
        "server_capabilities": {
            "nl_version": "1.0",
            "action_types": ActionType::ACTIONS,
            "max_message_size_bytes": MAX_MESSAGE_BYTES,
            "rate_limit": { "requests_per_minute": limit },
        },
    })
}

/// What a stream gave.
enum Read {
    Late,
    Line(Vec<u8>),
    TooLong,
}

struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    line_time: Duration,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The next line that has something in it; `None` at the end.
    async fn next(&mut self, most: usize) -> Option<Read> {
        loop {
            // A client may be silent for as long as it likes; a line that has begun is to end.
            if self.from.fill_buf().await.ok()?.is_empty() {
                return None;
            }
            self.line.clear();
            let read =
                timeout(self.line_time, read_line(&mut self.from, &mut self.line, most)).await;
            match read {
                Err(_) => return Some(Read::Late),
                Ok(None) => return None,
                Ok(Some(false)) => return Some(Read::TooLong),
                Ok(Some(true)) => {}
            }
            if !self.line.trim_ascii().is_empty() {
                return Some(Read::Line(std::mem::take(&mut self.line)));
            }
        }
    }
}

/// Reads to the line's end, or the stream's, and says whether it fitted; what is too long is read and dropped.
async fn read_line(
    from: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    most: usize,
) -> Option<bool> {
    let mut fits = true;
    loop {
        let chunk = from.fill_buf().await.ok()?;
        if chunk.is_empty() {
            // Who ends its side behind the last message means it, line break or not.
            return (!fits || !line.is_empty()).then_some(fits);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(chunk.len(), |end| end + 1);
        fits &= line.len() + taken <= most + 1;
        if fits {
            line.extend_from_slice(&chunk[..taken]);
        }
        from.consume(taken);
        if end.is_some() {
            return Some(fits);
        }
    }
}

async fn write_until_left(
    to: impl AsyncWrite + Unpin,
    inbox: mpsc::Receiver<Value>,
    seat: Arc<Seat>,
) {
    tokio::select! {
        () = write_lines(to, inbox) => {}
        // To who does not read, it would go on for ever.
        () = seat.left() => {}
    }
}

async fn write_lines(mut to: impl AsyncWrite + Unpin, mut inbox: mpsc::Receiver<Value>) {
    while let Some(message) = inbox.recv().await {
        let line = format!("{message}\n");
        if to.write_all(line.as_bytes()).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex, split};

    use super::*;
    use crate::nl::scene::Served;

    #[tokio::test]
    async fn a_last_line_is_one_without_its_line_break() {
        let read = async |sent: &[u8]| {
            let from = BufReader::new(sent);
            let mut lines = Lines { from, line: Vec::new(), line_time: LINE_TIME };
            let mut all = Vec::new();
            while let Some(read) = lines.next(MAX_MESSAGE_BYTES).await {
                all.push(match read {
                    Read::Line(line) => String::from_utf8(line).unwrap().trim_end().to_owned(),
                    Read::TooLong => "too long".to_owned(),
                    Read::Late => "late".to_owned(),
                });
            }
            all
        };
        assert_eq!(read(b"{}\n{\"a\":1}").await, ["{}", "{\"a\":1}"]);
        assert_eq!(read(b"{}\n\n").await, ["{}"]);
        assert!(read(b" \n  ").await.is_empty());
        assert_eq!(read(&vec![b'x'; MAX_MESSAGE_BYTES + 2]).await, ["too long"]);
    }

    /// Whoever can reach the socket could have the broker hold a megabyte for each of hundreds of connections.
    #[tokio::test]
    async fn who_has_shown_nothing_gets_little_room() {
        let served = Served::new().await;
        let (mut ours, theirs) = duplex(64 * 1024);
        let (from, to) = split(theirs);
        let serving = serve(Arc::clone(&served.nl), from, to, None, Arc::default());
        let talking = async {
            let long = format!("{{\"x\":\"{}\"}}\n{{}}\n", "a".repeat(SMALL));
            ours.write_all(long.as_bytes()).await.unwrap();
            ours.shutdown().await.unwrap();
            let mut told = String::new();
            ours.read_to_string(&mut told).await.unwrap();
            told
        };
        let ((), told) = tokio::join!(serving, talking);
        assert!(told.contains("at most 65536 bytes before the handshake"), "{told}");
        assert_eq!(told.lines().count(), 2, "the connection lives on: {told}");
    }

    /// Its rest would be taken for a line of its own.
    #[tokio::test]
    async fn a_line_that_does_not_end_in_time_ends_the_connection() {
        let served = Served::new().await;
        let (mut ours, theirs) = duplex(64 * 1024);
        let (from, to) = split(theirs);
        let (brief, service) = (Duration::from_millis(50), Arc::clone(&served.nl));
        let serving = serve_within(brief, service, from, to, None, Arc::default());
        let serving = async { timeout(Duration::from_secs(10), serving).await.unwrap() };
        let talking = async {
            ours.write_all(b"{\"half\": ").await.unwrap();
            tokio::time::sleep(brief * 4).await;
            // Who is gone hears none of it.
            let _ = ours.write_all(b"\"a line\"}\n{}\n").await;
            let mut told = String::new();
            ours.read_to_string(&mut told).await.unwrap();
            told
        };
        let ((), told) = tokio::join!(serving, talking);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("did not end within 30 seconds"), "{told}");
    }
}
