//! The body of a response on its way through the scrub.
//!
//! At most a piece is decoded at a time, and bytes are held back only where a value may be
//! starting.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use keyless_core::Error;
use keyless_rewrite::RewriteStream;

use super::{
    scrub_values, unreadable,
    values::{Lengths, Slot},
};
use crate::{
    coding::{CodingError, Recoder},
    passage::{Change, Passage},
};

/// A response's body, scrubbed.
pub(crate) type ScrubBody<B> = Passage<B, Scrubbing>;

/// The scrub of one body.
pub(crate) struct Scrubbing {
    /// Coded or plain bytes that were not yet looked at.
    input: Bytes,
    /// The decoder has more to give without input.
    more: bool,
    ended: bool,
    recoder: Option<Recoder>,
    slot: Arc<Slot>,
    /// How many values the youngest layer knows.
    known: usize,
    /// One after another: a value that was released while this body came gets a layer of its own
    /// behind the others, since those may hold bytes back.
    layers: Vec<RewriteStream>,
    lengths: Lengths,
}

impl Scrubbing {
    pub(super) fn new(slot: Arc<Slot>, recoder: Option<Recoder>, lengths: Lengths) -> Self {
        let known = slot.known();
        Self {
            input: Bytes::new(),
            more: false,
            ended: false,
            recoder,
            known: known.count(),
            layers: Vec::from_iter((known.count() > 0).then(|| known.rewriter(lengths).stream())),
            slot,
            lengths,
        }
    }

    fn give(&mut self) -> Result<Option<Bytes>, CodingError> {
        while !self.input.is_empty() || self.more {
            let out = self.step()?;
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        if core::mem::take(&mut self.ended) {
            let rest = self.rest()?;
            return Ok((!rest.is_empty()).then_some(rest));
        }
        Ok(None)
    }

    /// Scrubs the next piece of input, and gives what it becomes.
    fn step(&mut self) -> Result<Bytes, CodingError> {
        let Some(recoder) = &mut self.recoder else {
            let chunk = core::mem::take(&mut self.input);
            return Ok(pass_through(&mut self.layers, chunk));
        };
        let mut plain = Vec::new();
        self.more = recoder.decode(&mut self.input, &mut plain)?;
        let scrubbed = pass_through(&mut self.layers, plain.into());
        let mut coded = Vec::new();
        recoder.encode(&scrubbed, &mut coded)?;
        if self.input.is_empty() && !self.more {
            recoder.flush(&mut coded)?;
        }
        Ok(coded.into())
    }

    /// Gives everything that was held back, through the layers behind, and ends the coding.
    fn rest(&mut self) -> Result<Bytes, CodingError> {
        let mut rest = Vec::new();
        for layer in &mut self.layers {
            let mut out = Vec::new();
            layer.feed(&rest, &mut out);
            layer.finish(&mut out);
            rest = out;
        }
        let Some(recoder) = &mut self.recoder else { return Ok(rest.into()) };
        let mut coded = Vec::new();
        recoder.encode(&rest, &mut coded)?;
        recoder.finish(&mut coded)?;
        Ok(coded.into())
    }
}

impl Change for Scrubbing {
    fn take(&mut self, data: Bytes) {
        let known = self.slot.known();
        if known.count() != self.known {
            self.known = known.count();
            self.layers.push(known.rewriter(self.lengths).stream());
        }
        self.input = data;
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn poll_give(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        Poll::Ready(self.give().map_err(|error| unreadable(words(&error))))
    }

    fn trailers(&self, trailers: &mut HeaderMap) {
        scrub_values(&self.slot.known(), trailers);
    }

    fn keeps_length(&self) -> bool {
        self.lengths == Lengths::Kept
            && self.recoder.is_none()
            && self.layers.iter().all(|layer| layer.held() == 0)
    }
}

fn words(error: &CodingError) -> &'static str {
    match error {
        CodingError::Corrupt => "it is not in the coding that its Content-Encoding names",
        CodingError::Truncated => "it ended before its coding did",
        CodingError::Encode(_) => "it could not be coded again",
    }
}

/// What `chunk` becomes; the chunk itself, without a copy, where nothing is found.
fn pass_through(layers: &mut [RewriteStream], chunk: Bytes) -> Bytes {
    layers.iter_mut().fold(chunk, |chunk, layer| {
        let mut out = Vec::new();
        let plain = layer.feed_or_slice(&chunk, &mut out);
        plain.map_or_else(|| out.into(), |range| chunk.slice(range))
    })
}
