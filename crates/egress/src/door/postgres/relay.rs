//! The database's messages on their way to the agent, each scrubbed by itself.
//!
//! A message is passed on to its end as soon as it has come: what looks like the beginning of a
//! value is held back within a message, never between two, where a client may be waiting. Lengths
//! stay, since every message, and most fields in it, say how long they are.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use keyless_core::Error;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    door::Cut,
    passage::Change,
    scrub::{MessageScrub, Scrubbing},
    write_through::write_through,
};

/// Kind and length.
const HEAD: usize = 5;
/// How much is read at a time.
const READ: usize = 16 << 10;

/// The database's side of a connection.
pub(super) struct Relay<S> {
    inner: S,
    scrub: MessageScrub,
    state: State,
    /// What came and was not yet looked at.
    came: BytesMut,
    /// What may go on to the agent.
    ready: BytesMut,
}

enum State {
    Head,
    /// This many bytes are to come.
    Body(usize, Box<Scrubbing>),
}

/// Its messages say their lengths, so that an end before the last one's tells by itself.
impl<S> Cut for Relay<S> {
    fn cut(&self) {}
}

impl<S> Relay<S> {
    pub(super) fn new(inner: S, scrub: MessageScrub) -> Self {
        let (came, ready) = (BytesMut::new(), BytesMut::new());
        Self { inner, scrub, state: State::Head, came, ready }
    }

    /// Looks at all that came.
    fn advance(&mut self) -> io::Result<()> {
        loop {
            match &mut self.state {
                State::Head => {
                    let Some(head) = self.came.first_chunk::<HEAD>() else { return Ok(()) };
                    let [_, length @ ..] = *head;
                    let length = u32::from_be_bytes(length);
                    let body = usize::try_from(length).ok().and_then(|all| all.checked_sub(4));
                    let body = body.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                    self.ready.extend_from_slice(head);
                    self.came.advance(HEAD);
                    self.state = State::Body(body, Box::new(self.scrub.begin(false)));
                }
                State::Body(left, scrubbing) => {
                    let part = self.came.split_to(self.came.len().min(*left));
                    if part.is_empty() && *left > 0 {
                        return Ok(());
                    }
                    *left -= part.len();
                    let ends = *left == 0;
                    give(scrubbing, part.freeze(), ends, &mut self.ready)
                        .map_err(io::Error::other)?;
                    if ends {
                        self.state = State::Head;
                    }
                }
            }
        }
    }
}

/// A message's body that is there as a whole, scrubbed.
pub(super) fn scrubbed(scrub: &MessageScrub, body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut scrubbing = scrub.begin(false);
    let mut out = BytesMut::with_capacity(body.len());
    give(&mut scrubbing, Bytes::copy_from_slice(body), true, &mut out)?;
    Ok(out.into())
}

/// Passes `part` through the scrub, and what it holds back at the message's end.
fn give(
    scrubbing: &mut Scrubbing,
    part: Bytes,
    ends: bool,
    out: &mut BytesMut,
) -> Result<(), Error> {
    scrubbing.take(part);
    if ends {
        scrubbing.end();
    }
    let mut cx = Context::from_waker(std::task::Waker::noop());
    // The scrub of bytes in no coding waits for nothing.
    while let Poll::Ready(Some(bytes)) = scrubbing.poll_give(&mut cx)? {
        out.extend_from_slice(&bytes);
    }
    Ok(())
}

impl<S: AsyncRead + Unpin> AsyncRead for Relay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let mut read = [0; READ];
            let mut read = ReadBuf::new(&mut read);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.came.extend_from_slice(read.filled());
            this.advance()?;
        }
        let taken = this.ready.len().min(buf.remaining());
        buf.put_slice(&this.ready[..taken]);
        this.ready.advance(taken);
        Poll::Ready(Ok(()))
    }
}

write_through!(Relay<S>);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::swap::testing::{Bench, VALUE};

    /// The messages' bytes, passed in pieces of these sizes.
    fn passed(bench: &Bench, bytes: &[u8], sizes: &[usize]) -> io::Result<Vec<u8>> {
        let mut relay = Relay::new((), MessageScrub::new(&bench.table, Arc::default()));
        let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
        while !rest.is_empty() {
            let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
            relay.came.extend_from_slice(&rest[..size]);
            relay.advance()?;
            rest = &rest[size..];
        }
        assert!(relay.came.len() < HEAD, "whole messages leave nothing behind");
        Ok(relay.ready.to_vec())
    }

    fn message(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [b"D", &length[..], body].concat()
    }

    proptest! {
        #[test]
        fn messages_keep_their_lengths_and_lose_values(
            texts in prop::collection::vec(("[a-z]{0,9}", any::<bool>(), "[a-z]{0,9}"), 1..6),
            sizes in prop::collection::vec(1_usize..40, 1..8),
        ) {
            let bench = Bench::one();
            let secret = &bench.secrets[0];
            bench.table.released().remember(&secret.path, &secret.placeholder, VALUE.as_bytes());
            let stands_for = |text: &str| {
                texts
                    .iter()
                    .flat_map(|(before, has, after)| {
                        let middle = if *has { text } else { "" };
                        message(format!("{before}{middle}{after}").as_bytes())
                    })
                    .collect::<Vec<u8>>()
            };
            let placeholder = bench.placeholder(0).get(..VALUE.len()).unwrap();
            let passed = passed(&bench, &stands_for(VALUE), &sizes).unwrap();
            prop_assert_eq!(passed, stands_for(placeholder));
        }
    }

    #[test]
    fn nothing_waits_between_two_messages() {
        let bench = Bench::one();
        let secret = &bench.secrets[0];
        bench.table.released().remember(&secret.path, &secret.placeholder, VALUE.as_bytes());
        // Ends as the value begins.
        let half = message(&VALUE.as_bytes()[..5]);
        assert_eq!(passed(&bench, &half, &[half.len()]).unwrap(), half);
    }

    #[test]
    fn a_length_that_is_none_ends_it() {
        assert!(passed(&Bench::one(), b"D\0\0\0\x03xxxx", &[9]).is_err());
    }
}
