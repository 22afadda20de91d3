//! Scripts: bytes sent verbatim, for what no well-behaved server library would send.
//!
//! Early hints, broken framing, truncation, silence: all of it HTTP/1.1 by hand. Requests are not
//! parsed here; the transcript has them.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::sleep,
};

/// What happens on every connection of a scripted origin, in order; then the connection is closed.
#[derive(Clone, Debug, Default)]
pub struct Script {
    steps: Vec<Step>,
}

/// One step of a [`Script`].
#[derive(Clone, Debug)]
pub enum Step {
    /// Drops the connection without TLS's close_notify: a truncation, not an end.
    Abort,
    /// Waits.
    Pause(Duration),
    /// Reads this many bytes.
    ReadBytes(usize),
    /// Reads up to and with the empty line that ends a request's head.
    ReadHead,
    /// Reads until the client has no more to say.
    ReadToEnd,
    /// Sends bytes verbatim.
    Send(Bytes),
    /// Sends bytes `chunk` at a time, waiting `pause` after each.
    SendSlowly {
        /// What to send.
        bytes: Bytes,
        /// Bytes per write.
        chunk: usize,
        /// Time after each write.
        pause: Duration,
    },
    /// Starts again at the first step, for the next request of a kept connection.
    StartOver,
}

impl Script {
    /// Plays these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect() }
    }

    /// Answers every request's head with these bytes, on kept connections.
    pub fn answer(bytes: impl Into<Bytes>) -> Self {
        Self::new([Step::ReadHead, Step::Send(bytes.into()), Step::StartOver])
    }

    /// Answers every request's head with `103 Early Hints`, then 200 with `body`.
    pub fn early_hints(body: &str) -> Self {
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
        let length = body.len();
        Self::answer(format!("{hints}HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"))
    }

    /// Plays on one connection; ends early when the client leaves.
    pub(super) async fn play(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at = match step {
                Step::Abort => return,
                Step::StartOver => 0,
                _ => at + 1,
            };
            if step.play(&mut stream).await.is_err() {
                return;
            }
        }
        let _ = stream.shutdown().await;
    }
}

impl Step {
    async fn play(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        match self {
            Self::Abort | Self::StartOver => {}
            Self::Pause(time) => sleep(*time).await,
            Self::ReadBytes(count) => {
                stream.read_exact(&mut vec![0; *count]).await?;
            }
            Self::ReadHead => read_head(stream).await?,
            Self::ReadToEnd => {
                stream.read_to_end(&mut Vec::new()).await?;
            }
            Self::Send(bytes) => {
                stream.write_all(bytes).await?;
                stream.flush().await?;
            }
            Self::SendSlowly { bytes, chunk, pause } => {
                for piece in bytes.chunks((*chunk).max(1)) {
                    stream.write_all(piece).await?;
                    stream.flush().await?;
                    sleep(*pause).await;
                }
            }
        }
        Ok(())
    }
}

/// Byte by byte, so that not one byte of the body is taken.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(())
}
