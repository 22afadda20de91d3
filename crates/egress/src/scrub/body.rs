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

use super::{
    fields::scrub_fields, guarded, layers::Layers, messages::Messages, taken::Watch, unreadable,
    values::Lengths,
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
    watch: Watch,
    layers: Layers,
    lengths: Lengths,
    messages: Option<Messages>,
    /// Why nothing may pass once there is something to look for.
    unreadable: Option<&'static str>,
}

impl Scrubbing {
    pub(super) fn new(watch: Watch, recoder: Option<Recoder>, lengths: Lengths) -> Self {
        Self {
            input: Bytes::new(),
            more: false,
            ended: false,
            recoder,
            layers: Layers::new(watch.slot.known(), lengths, Arc::clone(&watch.taken)),
            watch,
            lengths,
            messages: None,
            unreadable: None,
        }
    }

    /// The scrub of a body that can't be looked into: it passes as long as nothing was sent out.
    pub(super) fn of_unreadable(watch: Watch, why: &'static str) -> Self {
        Self { unreadable: Some(why), ..Self::new(watch, None, Lengths::Kept) }
    }

    /// The scrub of a body of which this came before.
    pub(super) fn after(self, begun: Bytes) -> Self {
        Self { input: begun, ..self }
    }

    /// The scrub of a body that may consist of messages.
    pub(super) fn of_messages(self, headers: &HeaderMap) -> Self {
        Self { messages: Messages::of(headers), ..self }
    }

    fn give(&mut self) -> Result<Option<Bytes>, Error> {
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
    fn step(&mut self) -> Result<Bytes, Error> {
        let Self { input, recoder, watch, layers, messages, .. } = self;
        let mut pass = |chunk| {
            guarded(|| {
                layers.learn(watch.slot.known());
                pass_messages(messages, layers, chunk)
            })
        };
        let Some(recoder) = recoder else { return pass(core::mem::take(input)) };
        let mut plain = Vec::new();
        self.more = recoder.decode(input, &mut plain).map_err(|error| uncoded(&error))?;
        let scrubbed = pass(plain.into())?;
        let mut coded = Vec::new();
        recoder.encode(&scrubbed, &mut coded).map_err(|error| uncoded(&error))?;
        if self.input.is_empty() && !self.more {
            recoder.flush(&mut coded).map_err(|error| uncoded(&error))?;
        }
        Ok(coded.into())
    }

    /// Gives everything that was held back, through the layers behind, and ends the coding.
    fn rest(&mut self) -> Result<Bytes, Error> {
        let rest = guarded(|| self.layers.settle())?;
        let Some(recoder) = &mut self.recoder else { return Ok(rest.into()) };
        let mut coded = Vec::new();
        recoder.encode(&rest, &mut coded).map_err(|error| uncoded(&error))?;
        recoder.finish(&mut coded).map_err(|error| uncoded(&error))?;
        Ok(coded.into())
    }
}

impl Change for Scrubbing {
    fn take(&mut self, data: Bytes) {
        self.input = data;
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn poll_give(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if let Some(why) = self.unreadable.filter(|_| self.watch.slot.known().count() > 0) {
            return Poll::Ready(Err(unreadable(why)));
        }
        Poll::Ready(self.give())
    }

    fn trailers(&self, trailers: &mut HeaderMap) {
        if scrub_fields(&self.watch, trailers).is_err() {
            trailers.clear();
        }
    }

    fn keeps_length(&self) -> bool {
        self.lengths == Lengths::Kept && self.recoder.is_none() && self.layers.is_settled()
    }
}

pub(super) fn uncoded(error: &CodingError) -> Error {
    unreadable(words(error))
}

fn words(error: &CodingError) -> &'static str {
    match error {
        CodingError::Corrupt => "it is not in the coding that its Content-Encoding names",
        CodingError::Truncated => "it ended before its coding did",
        CodingError::Encode(_) => "it could not be coded again",
        CodingError::Crowded => "too many bodies are coded with br or zstd by now; ask for gzip",
    }
}

/// What `chunk` becomes, with nothing held back at the end of a message.
fn pass_messages(messages: &mut Option<Messages>, layers: &mut Layers, mut chunk: Bytes) -> Bytes {
    let mut out = Vec::new();
    while let Some(end) = messages.as_mut().and_then(|messages| messages.end_in(&chunk)) {
        out.extend_from_slice(&layers.pass(chunk.split_to(end)));
        out.append(&mut layers.settle());
    }
    let rest = layers.pass(chunk);
    if out.is_empty() {
        return rest;
    }
    out.extend_from_slice(&rest);
    out.into()
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
        let watch = Watch { slot: released.slot(), taken: Arc::default() };
        let key = SessionKey::from_random([7; 32]);
        let path = SecretPath::parse("team/api/token").unwrap();
        let placeholder = Placeholder::derive(&key, &path, &PlaceholderForm::Default);
        let mut scrubbing = Scrubbing::new(watch, None, Lengths::Free);
        let mut come = Vec::new();
        let mut take = |scrubbing: &mut Scrubbing, chunk: &[u8]| {
            scrubbing.take(Bytes::copy_from_slice(chunk));
            while let Some(out) = scrubbing.give().unwrap() {
                come.extend_from_slice(&out);
            }
        };
        for number in 0..20 {
            let value = format!("value-number-{number:04}");
            released.remember(&path, &placeholder, value.as_bytes());
            take(&mut scrubbing, format!("<{value}>").as_bytes());
            assert!(
                scrubbing.layers.rewriting() <= 2,
                "{number}: {}",
                scrubbing.layers.rewriting()
            );
        }
        // One that may be in the middle of a value stays until that is settled.
        take(&mut scrubbing, b"<value-number-00");
        released.remember(&path, &placeholder, b"another-value-0001");
        take(&mut scrubbing, b"07>another-value-0001");
        scrubbing.end();
        take(&mut scrubbing, b"");
        let text = String::from_utf8(come).unwrap();
        let replaced = format!("<{}>", placeholder.as_str());
        assert_eq!(text, replaced.repeat(21) + placeholder.as_str());
    }
}
