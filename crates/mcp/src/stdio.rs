//! The protocol over a pair of streams, one message a line, by the rules of JSON-RPC.
//!
//! The SDK reads messages; what is none of its messages is answered here, and the server lives on: lines
//! that are too long, not JSON, batches, and requests before `initialize`. One task owns the way out,
//! so that no line is ever cut by another. Nothing but protocol is written.

mod door;

use std::{future::Future, io};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText};
use rmcp::{
    RoleServer, ServiceExt,
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
};

use self::door::{Door, Passed};
use crate::server::Server;

/// The longest line, in bytes.
pub const MAX_LINE: usize = 1024 * 1024;
/// Messages that may wait for a client which does not read.
const OUTBOX: usize = 64;

/// Serves on this process's stdin and stdout until stdin ends.
// Boxed like `serve_http`: the SDK is compiled here once, and not again where it is awaited.
pub fn serve_stdio(server: Server) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(serve_streams(server, tokio::io::stdin(), tokio::io::stdout()))
}

/// Serves on a pair of streams until the first one ends.
pub async fn serve_streams(
    server: Server,
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error> {
    let transport = Lines::new(BufReader::new(from), to);
    match server.serve(transport).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|_| Code::Internal.into()),
        // It ended before it began: nothing was asked.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(_) => {
            let words = SafeText::words("the client did not begin with initialize");
            Err(Error::with(Code::BadRequest, words))
        }
    }
}

/// The transport.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// Inside a line that was too long.
    skipping: bool,
    door: Door,
    /// An answer of ours that waits for room; kept here so that nothing is lost when `receive` is dropped.
    answer: Option<Vec<u8>>,
    outbox: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

/// What was read.
enum Read {
    End,
    Line,
    TooLong,
}

impl<R: AsyncBufRead + Send + Unpin> Lines<R> {
    fn new(from: R, to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let writer = Some(tokio::spawn(write_lines(to, inbox)));
        let (line, door) = (Vec::new(), Door::default());
        Self { from, line, skipping: false, door, answer: None, outbox: Some(outbox), writer }
    }

    /// Reads on until a line has ended. Whatever was read before stays when this is dropped.
    async fn read(&mut self) -> Read {
        loop {
            let Ok(chunk) = self.from.fill_buf().await else { return Read::End };
            if chunk.is_empty() {
                // Who ends without a line end has said it all the same.
                return if self.line.is_empty() { Read::End } else { Read::Line };
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(chunk.len(), |end| end + 1);
            let fits = self.line.len() + taken <= MAX_LINE;
            if !self.skipping && fits {
                self.line.extend_from_slice(&chunk[..taken]);
            }
            self.from.consume(taken);
            let was_skipping = self.skipping;
            self.skipping = (was_skipping || !fits) && end.is_none();
            match (was_skipping, fits, end) {
                (false, false, _) => {
                    self.line.clear();
                    return Read::TooLong;
                }
                (false, true, Some(_)) => return Read::Line,
                _ => {}
            }
        }
    }
}

impl<R: AsyncBufRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.door.answered(&item);
        let outbox = self.outbox.clone();
        async move {
            let outbox = outbox.ok_or(io::ErrorKind::NotConnected)?;
            let line = serde_json::to_vec(&item)?;
            outbox.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.answer.is_some() {
                let room = self.outbox.as_ref()?.reserve().await.ok()?;
                room.send(self.answer.take()?);
            }
            let passed = match self.read().await {
                Read::End => return None,
                Read::TooLong => self.door.too_long(),
                Read::Line => {
                    let passed = self.door.pass(&self.line);
                    self.line.clear();
                    passed
                }
            };
            match passed {
                Passed::Answer(answer) => self.answer = Some(answer),
                Passed::Message(message) => return Some(*message),
                Passed::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.outbox = None;
        match self.writer.take() {
            Some(writer) => writer.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }
}

/// Writes whole lines, and flushes whenever nothing more waits.
async fn write_lines(
    mut to: impl AsyncWrite + Unpin,
    mut inbox: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut line) = inbox.recv().await {
        line.push(b'\n');
        to.write_all(&line).await?;
        if inbox.is_empty() {
            to.flush().await?;
        }
    }
    to.flush().await
}
