//! The body of a response on its way through the scrub.
//!
//! At most a piece is decoded at a time, and bytes are held back only where some value may be
//! starting, whichever (`keyless_rewrite`'s cover).

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use keyless_core::Error;
use keyless_rewrite::RewriteStream;

use super::{
    messages::Messages,
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
    messages: Option<Messages>,
    /// Why nothing may pass once there is something to look for.
    unreadable: Option<&'static str>,
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
            messages: None,
            unreadable: None,
        }
    }

    /// The scrub of a body that can't be looked into: it passes as long as nothing was sent out.
    pub(super) fn of_unreadable(slot: Arc<Slot>, why: &'static str) -> Self {
        Self { unreadable: Some(why), ..Self::new(slot, None, Lengths::Kept) }
    }

    /// The scrub of a body of which this came before.
    pub(super) fn after(self, begun: Bytes) -> Self {
        Self { input: begun, ..self }
    }

    /// The scrub of a body that may consist of messages.
    pub(super) fn of_messages(self, headers: &HeaderMap) -> Self {
        Self { messages: Messages::of(headers), ..self }
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
            return Ok(pass_messages(&mut self.messages, &mut self.layers, chunk));
        };
        let mut plain = Vec::new();
        self.more = recoder.decode(&mut self.input, &mut plain)?;
        let scrubbed = pass_messages(&mut self.messages, &mut self.layers, plain.into());
        let mut coded = Vec::new();
        recoder.encode(&scrubbed, &mut coded)?;
        if self.input.is_empty() && !self.more {
            recoder.flush(&mut coded)?;
        }
        Ok(coded.into())
    }

    /// Gives everything that was held back, through the layers behind, and ends the coding.
    fn rest(&mut self) -> Result<Bytes, CodingError> {
        let rest = settle(&mut self.layers);
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
            // The new one looks for all that they did.
            self.layers.retain(|layer| layer.held() > 0);
            self.layers.push(known.rewriter(self.lengths).stream());
        }
        self.input = data;
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn poll_give(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if let Some(why) = self.unreadable.filter(|_| self.slot.known().count() > 0) {
            return Poll::Ready(Err(unreadable(why)));
        }
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

pub(super) fn words(error: &CodingError) -> &'static str {
    match error {
        CodingError::Corrupt => "it is not in the coding that its Content-Encoding names",
        CodingError::Truncated => "it ended before its coding did",
        CodingError::Encode(_) => "it could not be coded again",
        CodingError::Crowded => "too many bodies are coded with br or zstd by now; ask for gzip",
    }
}

/// What `chunk` becomes, with nothing held back at the end of a message.
fn pass_messages(
    messages: &mut Option<Messages>,
    layers: &mut [RewriteStream],
    mut chunk: Bytes,
) -> Bytes {
    let mut out = Vec::new();
    while let Some(end) = messages.as_mut().and_then(|messages| messages.end_in(&chunk)) {
        out.extend_from_slice(&pass_through(layers, chunk.split_to(end)));
        out.append(&mut settle(layers));
    }
    let rest = pass_through(layers, chunk);
    if out.is_empty() {
        return rest;
    }
    out.extend_from_slice(&rest);
    out.into()
}

/// What every layer held back, through the layers behind.
fn settle(layers: &mut [RewriteStream]) -> Vec<u8> {
    layers.iter_mut().fold(Vec::new(), |rest, layer| {
        let mut out = Vec::new();
        layer.feed(&rest, &mut out);
        layer.finish(&mut out);
        out
    })
}

/// What `chunk` becomes; the chunk itself, without a copy, where nothing is found.
fn pass_through(layers: &mut [RewriteStream], chunk: Bytes) -> Bytes {
    layers.iter_mut().fold(chunk, |chunk, layer| {
        let mut out = Vec::new();
        let plain = layer.feed_or_slice(&chunk, &mut out);
        plain.map_or_else(|| out.into(), |range| chunk.slice(range))
    })
}

#[cfg(test)]
mod tests {
    use keyless_core::{Placeholder, PlaceholderForm, SecretPath, SessionKey};

    use super::*;
    use crate::scrub::values::ReleasedValues;

    /// A body may come for hours, and a value be released each minute.
    #[test]
    fn a_layer_goes_once_it_holds_nothing_back() {
        let released = ReleasedValues::default();
        let key = SessionKey::from_random([7; 32]);
        let path = SecretPath::parse("team/api/token").unwrap();
        let placeholder = Placeholder::derive(&key, &path, &PlaceholderForm::Default);
        let mut scrubbing = Scrubbing::new(released.slot(), None, Lengths::Free);
        let mut come = Vec::new();
        let mut take = |scrubbing: &mut Scrubbing, chunk: &[u8]| {
            scrubbing.take(Bytes::copy_from_slice(chunk));
            while let Some(out) = scrubbing.give().unwrap() {
                come.extend_from_slice(&out);
            }
        };
        for number in 0..20 {
            let value = format!("value-number-{number:04}");
            released.remember(&placeholder, value.as_bytes());
            take(&mut scrubbing, format!("<{value}>").as_bytes());
            assert!(scrubbing.layers.len() <= 2, "{number}: {}", scrubbing.layers.len());
        }
        // One that may be in the middle of a value stays until that is settled.
        take(&mut scrubbing, b"<value-number-00");
        released.remember(&placeholder, b"another-value-0001");
        take(&mut scrubbing, b"07>another-value-0001");
        scrubbing.end();
        take(&mut scrubbing, b"");
        let text = String::from_utf8(come).unwrap();
        let replaced = format!("<{}>", placeholder.as_str());
        assert_eq!(text, replaced.repeat(21) + placeholder.as_str());
    }
}
