//! One direction of a WebSocket: frames are read, messages changed, frames written.

use std::{future::poll_fn, time::Duration};

use bytes::{Bytes, BytesMut};
use keyless_core::{Code, Error};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
    time::timeout,
};

use super::{
    Masking,
    head::{CLOSE, CONTINUATION, FrameHead, apply_mask},
};
use crate::{passage::Change, refusal, swap::MAX_WHOLE as PIECE};

/// What is read at once of a message that passes as it is.
const READ: usize = 16 << 10;
/// Policy violation (RFC 6455, section 7.4.1).
const POLICY: u16 = 1008;
/// Going away: another connection may go on (RFC 6455, section 7.4.1).
const GOING_AWAY: u16 = 1001;
/// How long a Close may wait for a peer that doesn't read.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a Close may wait for the other side's own, once nothing more follows it.
const ANSWER: Duration = Duration::from_secs(5);

/// What a message says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Binary,
    Text,
}

impl Kind {
    /// What an opcode says; `None` where it is no message's first.
    fn of(opcode: u8) -> Option<Self> {
        match opcode {
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            _ => None,
        }
    }
}

/// What leads to one side.
pub(super) struct Line<W> {
    writer: W,
    /// Whether a frame has begun there and not ended, so that nothing else may stand.
    within: bool,
}

impl<W: AsyncWrite + Unpin> Line<W> {
    pub(super) fn new(writer: W) -> Mutex<Self> {
        Mutex::new(Self { writer, within: false })
    }

    pub(super) fn into_writer(self) -> W {
        self.writer
    }

    /// Says to its side that it is over, and why. Best effort: it may be gone already.
    async fn close(&mut self, error: &Error, masked: bool) {
        if !self.within {
            let code = if error.code() == Code::Draining { GOING_AWAY } else { POLICY };
            let reason = [&code.to_be_bytes(), error.code().as_str().as_bytes()].concat();
            // The mask hides nothing here: the reason is ours.
            let mask = masked.then_some([0; 4]);
            let mut bytes = Vec::new();
            let length = reason.len() as u64;
            FrameHead { fin: true, opcode: CLOSE, mask, length }.write(&mut bytes);
            bytes.extend_from_slice(&reason);
            let _ = self.writer.write_all(&bytes).await;
        }
        let _ = self.writer.shutdown().await;
    }
}

/// Says to both sides that it is over, once nothing is carried any more.
pub(super) async fn close(
    to_client: &Mutex<Line<impl AsyncWrite + Unpin>>,
    to_upstream: &Mutex<Line<impl AsyncWrite + Unpin>>,
    error: &Error,
) {
    let both = async {
        to_upstream.lock().await.close(error, true).await;
        to_client.lock().await.close(error, false).await;
    };
    let _ = timeout(FAREWELL, both).await;
}

/// One direction.
pub(super) struct Relay<'a, R, W, V> {
    from: R,
    to: &'a Mutex<Line<W>>,
    /// The way back, for a refusal's Close.
    back: &'a Mutex<Line<V>>,
    masking: Masking,
    input: BytesMut,
    /// Whether this side has said that it is over.
    closed: bool,
}

/// A data message that has begun and not ended.
struct Message<C> {
    change: Option<C>,
    kind_sent: bool,
    opcode: u8,
}

impl<'a, R, W, V> Relay<'a, R, W, V>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    V: AsyncWrite + Unpin,
{
    pub(super) fn new(
        from: R,
        to: &'a Mutex<Line<W>>,
        back: &'a Mutex<Line<V>>,
        masking: Masking,
    ) -> Self {
        Self { from, to, back, masking, input: BytesMut::new(), closed: false }
    }

    /// Carries frames until their side ends. `begin` says what is done to a message, by its kind
    /// and first bytes; `control` is applied to the payloads of control frames, in place.
    /// After a Close, its side's end is passed on only once `answered` is over.
    pub(super) async fn run<C: Change>(
        mut self,
        begin: impl Fn(Kind, &[u8]) -> Option<C>,
        control: impl Fn(&mut [u8]),
        answered: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        match self.relay(begin, control).await {
            Err(Ended::Refused(error)) => {
                // What the other direction has begun may end first.
                let masked = self.masking == Masking::FromClient;
                let both = async {
                    self.to.lock().await.close(&error, masked).await;
                    self.back.lock().await.close(&error, !masked).await;
                };
                let _ = timeout(FAREWELL, both).await;
                Err(error)
            }
            // The end of one side is passed on; the other may still have something to say.
            Ok(()) | Err(Ended::Gone) => {
                // Browsers end a stream of HTTP/2 with their Close, and wait for the answer. Many
                // servers can't be half-closed: what ends their reading ends all.
                if self.closed {
                    let _ = timeout(ANSWER, answered).await;
                }
                let _ = self.to.lock().await.writer.shutdown().await;
                Ok(())
            }
        }
    }

    async fn relay<C: Change>(
        &mut self,
        begin: impl Fn(Kind, &[u8]) -> Option<C>,
        control: impl Fn(&mut [u8]),
    ) -> Result<(), Ended> {
        let mut message = None;
        while let Some(head) = self.next_head().await? {
            if head.is_control() {
                let mut payload = self.next_payload(head, 0, head.length).await?;
                control(&mut payload);
                self.send(head, payload).await?;
                self.closed |= head.opcode == CLOSE;
                continue;
            }
            let current: &mut Message<C> = match (&mut message, Kind::of(head.opcode)) {
                (slot @ None, Some(kind)) => {
                    self.fill(usize::try_from(head.length).unwrap_or(READ).min(READ)).await?;
                    let mut beginning = self.input.clone();
                    beginning.truncate(usize::try_from(head.length).unwrap_or(usize::MAX));
                    apply_mask(head.mask, 0, &mut beginning);
                    let change = begin(kind, &beginning);
                    slot.insert(Message { change, kind_sent: false, opcode: head.opcode })
                }
                (Some(current), None) => current,
                _ => return Err(self.fault("a message that begins within another, or not at all")),
            };
            match &mut current.change {
                None => self.pass(head).await?,
                Some(_) => self.change(head, current).await?,
            }
            if head.fin {
                message = None;
            }
        }
        if message.is_some() { Err(Ended::Gone) } else { Ok(()) }
    }

    /// Passes a frame as it is.
    async fn pass(&mut self, head: FrameHead) -> Result<(), Ended> {
        let mut bytes = Vec::with_capacity(14);
        head.write(&mut bytes);
        let mut to = self.to.lock().await;
        to.within = true;
        to.writer.write_all(&bytes).await?;
        let mut left = head.length;
        while left > 0 {
            if self.input.is_empty() {
                self.input.reserve(READ);
                if self.from.read_buf(&mut self.input).await? == 0 {
                    return Err(Ended::Gone);
                }
            }
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(self.input.len());
            to.writer.write_all(&self.input.split_to(piece)).await?;
            left -= piece as u64;
        }
        to.within = false;
        Ok(to.writer.flush().await?)
    }

    /// Sends what the change makes of a frame, as one frame or, if it is long, as several.
    async fn change<C: Change>(
        &mut self,
        head: FrameHead,
        message: &mut Message<C>,
    ) -> Result<(), Ended> {
        let mut done = 0;
        loop {
            let piece = self.next_payload(head, done, PIECE.min(head.length - done)).await?;
            done += piece.len() as u64;
            let ends = head.fin && done == head.length;
            let changed = message.feed(piece.freeze(), ends).await.map_err(Ended::Refused)?;
            if ends || !changed.is_empty() {
                let opcode = if message.kind_sent { CONTINUATION } else { message.opcode };
                message.kind_sent = true;
                self.send(FrameHead { fin: ends, opcode, ..head }, changed).await?;
            }
            if done == head.length {
                return Ok(());
            }
        }
    }

    async fn send(&mut self, head: FrameHead, mut payload: BytesMut) -> Result<(), Ended> {
        apply_mask(head.mask, 0, &mut payload);
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        FrameHead { length: payload.len() as u64, ..head }.write(&mut bytes);
        bytes.extend_from_slice(&payload);
        let mut to = self.to.lock().await;
        to.within = true;
        to.writer.write_all(&bytes).await?;
        to.within = false;
        Ok(to.writer.flush().await?)
    }

    async fn next_head(&mut self) -> Result<Option<FrameHead>, Ended> {
        loop {
            match FrameHead::parse(&self.input, self.masking) {
                Ok(Some((head, length))) => {
                    let _ = self.input.split_to(length);
                    return Ok(Some(head));
                }
                Ok(None) => {}
                Err(words) => return Err(self.fault(words)),
            }
            self.input.reserve(READ);
            if self.from.read_buf(&mut self.input).await? == 0 {
                return if self.input.is_empty() { Ok(None) } else { Err(Ended::Gone) };
            }
        }
    }

    /// Takes `length` bytes of a frame's payload, which stand `offset` bytes into it, unmasked.
    async fn next_payload(
        &mut self,
        head: FrameHead,
        offset: u64,
        length: u64,
    ) -> Result<BytesMut, Ended> {
        let length = usize::try_from(length).map_err(|_| Ended::Gone)?;
        self.fill(length).await?;
        let mut payload = self.input.split_to(length);
        apply_mask(head.mask, offset, &mut payload);
        Ok(payload)
    }

    async fn fill(&mut self, length: usize) -> Result<(), Ended> {
        while self.input.len() < length {
            self.input.reserve(READ);
            if self.from.read_buf(&mut self.input).await? == 0 {
                return Err(Ended::Gone);
            }
        }
        Ok(())
    }

    fn fault(&self, words: &'static str) -> Ended {
        Ended::Refused(self.masking.fault(words))
    }
}

impl<C: Change> Message<C> {
    /// What `piece` becomes, with everything that was held back when the message ends with it.
    async fn feed(&mut self, piece: Bytes, ends: bool) -> Result<BytesMut, Error> {
        let Some(change) = &mut self.change else { return Ok(BytesMut::from(piece)) };
        let mut changed = BytesMut::with_capacity(piece.len());
        change.take(piece);
        drain(change, &mut changed).await?;
        if ends {
            change.end();
            drain(change, &mut changed).await?;
        }
        Ok(changed)
    }
}

async fn drain<C: Change>(change: &mut C, changed: &mut BytesMut) -> Result<(), Error> {
    while let Some(bytes) = poll_fn(|cx| change.poll_give(cx)).await? {
        changed.extend_from_slice(&bytes);
    }
    Ok(())
}

/// Why a direction is over before its side has ended it.
enum Ended {
    /// A side is gone, or broke off within a message.
    Gone,
    /// A frame may not go on.
    Refused(Error),
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        refusal::find(&error).map_or(Self::Gone, Self::Refused)
    }
}
