//! What the bytes of one body or message go through, one after the other.
//!
//! First the forms in which servers echo, in which a response stays as it can be parsed, for as long as the body is. Then, of
//! its first MiBs, every form that the sanitizer knows.

use std::sync::Arc;

use bytes::Bytes;
use keyless_rewrite::{RewriteStream, SanitizedStream, Tally};

use super::{
    Taken,
    values::{Known, Lengths},
};
use crate::limits::MAX_DISGUISED;

/// The layers of one body.
pub(super) struct Layers {
    /// A value that was released while this body came gets a layer of its own behind the others, since those may hold bytes
    /// back.
    rewriting: Vec<RewriteStream>,
    /// There once there is something to look for and to look at.
    sanitizing: Option<SanitizedStream>,
    /// How much is still looked at in every form.
    left: usize,
    /// The youngest values.
    known: Arc<Known>,
    lengths: Lengths,
    tally: Tally,
    taken: Arc<Taken>,
}

impl Layers {
    pub(super) fn new(known: Arc<Known>, lengths: Lengths, taken: Arc<Taken>) -> Self {
        let first = (known.count() > 0).then(|| known.rewriter(lengths).stream());
        let (rewriting, left) = (Vec::from_iter(first), MAX_DISGUISED);
        let tally = Tally::default();
        Self { rewriting, sanitizing: None, left, known, lengths, tally, taken }
    }

    /// Looks for these values from here on.
    pub(super) fn learn(&mut self, known: Arc<Known>) {
        if known.count() == self.known.count() {
            return;
        }
        // The new one looks for all that they did.
        self.rewriting.retain(|layer| layer.held() > 0);
        self.rewriting.push(known.rewriter(self.lengths).stream());
        if let Some(sanitizing) = &mut self.sanitizing {
            sanitizing.turn_to(Arc::clone(known.marking()));
        }
        self.known = known;
    }

    /// What `chunk` becomes; the chunk itself, without a copy, where nothing is found.
    pub(super) fn pass(&mut self, chunk: Bytes) -> Bytes {
        let rewritten = self.rewriting.iter_mut().fold(chunk, |chunk, layer| {
            let mut out = Vec::new();
            let plain = layer.feed_or_slice(&chunk, &mut out);
            plain.map_or_else(|| out.into(), |range| chunk.slice(range))
        });
        let passed = self.sanitize(rewritten);
        self.tell();
        passed
    }

    /// What every layer held back, through the layers behind.
    pub(super) fn settle(&mut self) -> Vec<u8> {
        let rest = self.rewriting.iter_mut().fold(Vec::new(), |rest, layer| {
            let mut out = Vec::new();
            layer.feed(&rest, &mut out);
            layer.finish(&mut out);
            out
        });
        let mut settled = Vec::from(self.sanitize(rest.into()));
        if let Some(sanitizing) = &mut self.sanitizing {
            sanitizing.settle(&mut settled, &mut self.tally);
        }
        self.tell();
        settled
    }

    /// Whether nothing is held back.
    pub(super) fn is_settled(&self) -> bool {
        self.rewriting.iter().all(|layer| layer.held() == 0)
            && self.sanitizing.as_ref().is_none_or(|layer| layer.held() == 0)
    }

    /// How many look for what servers echo.
    #[cfg(test)]
    pub(super) fn rewriting(&self) -> usize {
        self.rewriting.len()
    }

    /// Looks at what is still to be looked at in every form.
    fn sanitize(&mut self, mut chunk: Bytes) -> Bytes {
        if self.left == 0 || self.known.count() == 0 || chunk.is_empty() {
            return chunk;
        }
        let first = chunk.split_to(chunk.len().min(self.left));
        self.left -= first.len();
        let (known, lengths) = (&self.known, self.lengths);
        let begin = || SanitizedStream::new(Arc::clone(known.marking()), lengths);
        let sanitizing = self.sanitizing.get_or_insert_with(begin);
        let mut out = Vec::new();
        let plain = sanitizing.feed_or_slice(&first, &mut out, &mut self.tally);
        let first = plain.map_or_else(|| out.into(), |length| first.slice(..length));
        if self.left > 0 {
            return first;
        }
        let mut out = Vec::from(first);
        sanitizing.settle(&mut out, &mut self.tally);
        self.sanitizing = None;
        out.extend_from_slice(&chunk);
        out.into()
    }

    fn tell(&mut self) {
        for layer in &mut self.rewriting {
            self.tally.append(layer.tally());
        }
        self.taken.note(&self.known, &mut self.tally);
    }
}
