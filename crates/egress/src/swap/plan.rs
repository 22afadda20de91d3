//! What becomes of a request's body: it passes, is swapped as a whole before anything leaves, or
//! streams through the swap.
//!
//! A body of known and small length is read whole, so that refusals come before any byte leaves
//! and the exact new `Content-Length` is sent (many servers don't take chunks). So is a larger one
//! that a swap may make longer or shorter, up to 8 MiB and while there is room to spare. What is
//! larger still, or tells no length, streams; when a swap may change its length it is framed anew.
//! Codings are undone and done again.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use keyless_core::{Code, Error, Location};
use zeroize::Zeroizing;

use super::{
    Route,
    body::{SwapBody, Swapping},
    digest::{Bound, is_chunk_framed},
    escape::Escape,
    find::{Find, find, splice},
    head::judge,
    hidden::Lookout,
    ledger::{Ledger, Values},
    parts::Delimiter,
    table::{BodyInterest, Facts, SwapTable},
};
use crate::{
    coding::{Coded, Coding, CodingError, Recoder},
    reading::{Gathered, Held, Late, Reading},
};

/// The largest declared length of a body that is read whole.
pub(crate) const MAX_WHOLE: u64 = 256 * 1024;
/// The largest that is read, if there is room to spare, so that its length is still known after the swap: what programs
/// send to interfaces that want a length. Of more, files aside, there are few, and their servers know chunks.
pub(crate) const MAX_AHEAD: usize = 8 << 20;
/// The most placeholders of such a body, since each may become longer; beyond, it streams.
const MAX_FINDS: usize = 1_000;
/// The most that a small coded body may become when decoded; beyond, it streams.
const MAX_DECODED: usize = 4 * 1024 * 1024;

/// A body as it was sent, and all of it if it had to be read before.
pub(super) struct Sent<B> {
    pub(super) body: B,
    pub(super) read: Option<(Bytes, Option<HeaderMap>)>,
    /// What was read of one that turned out to be better streamed.
    begun: Bytes,
    reading: Reading,
}

/// A body whose way is clear.
pub(super) enum Plan<B> {
    Pass(Sent<B>),
    Whole(Whole),
    Stream(Stream<B>),
}

/// A body that was read, with the places of what will be swapped.
pub(super) struct Whole {
    sent: Bytes,
    /// The decoded bytes and what codes them again, if they were coded.
    decoded: Option<(Vec<u8>, Recoder)>,
    finds: Vec<Find>,
    bound: Bound,
    trailers: Option<HeaderMap>,
    /// What is decoded of it, and what it becomes.
    room: Held,
}

/// A body that is swapped as it passes.
pub(super) struct Stream<B> {
    pub(super) body: B,
    /// What was already read of it.
    pub(super) begun: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) recoder: Option<Recoder>,
    pub(super) escape: Escape,
    pub(super) bound: Bound,
    /// Where it is multipart.
    pub(super) delimiter: Option<Delimiter>,
    /// The secrets whose values may be put in.
    pub(super) swappable: Arc<[usize]>,
}

/// What becomes of the length that the sender declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Anew,
    Kept,
}

/// Chooses the way, and judges what a small body holds.
pub(super) async fn read<B>(
    table: &SwapTable,
    facts: &Facts,
    head: &Parts,
    mut sent: Sent<B>,
    ledger: &mut Ledger,
) -> Result<Plan<B>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if facts.body == BodyInterest::None || sent.is_empty() {
        return sent.passed(facts, head);
    }
    let coding = match Coded::of(&head.headers) {
        Coded::Identity => None,
        // What is coded within S3's framing can't be looked into, and nothing may be put in.
        _ if is_chunk_framed(&head.headers) => return sent.passed(facts, head),
        Coded::By(coding) => Some(coding),
        Coded::Opaque if facts.body == BodyInterest::Swap => return Err(Code::BodyCoding.into()),
        Coded::Opaque => return sent.passed(facts, head),
    };
    let small = sent.is_small();
    if small {
        sent.read().await?;
    } else if coding.is_none() && facts.body == BodyInterest::Swap {
        sent.read_ahead(&head.headers).await?;
    }
    let Some((data, trailers)) = sent.read.clone() else {
        return sent.streamed(facts, head, coding);
    };
    let decoded = match coding {
        Some(coding) => match decode_whole(coding, &data).map_err(|error| refused(&error))? {
            Some(decoded) => Some(decoded),
            None => return sent.streamed(facts, head, Some(coding)),
        },
        None => None,
    };
    let mut room = sent.reading.hold(decoded.as_ref().map_or(0, |(plain, _)| plain.len()))?;
    let plain = decoded.as_ref().map_or(&data[..], |(plain, _)| plain);
    let escape = Escape::of_body(&head.headers);
    let mut finds = find(table, plain, escape);
    if !small && !finds.is_empty() {
        if finds.len() > MAX_FINDS || !room.take_spare(data.len()) {
            return sent.streamed(facts, head, None);
        }
    } else if !finds.is_empty() {
        room.take(data.len())?;
    }
    ledger.look(plain)?;
    if let Some(secret) = Lookout::new(escape).look(table, plain) {
        ledger.refuse_hidden(secret, Location::Body)?;
    }
    judge(&mut finds, Location::Body, ledger)?;
    let bound = Bound::of(&head.headers);
    if !finds.is_empty() && bound == Bound::Digest {
        return Err(Code::BodyDigest.into());
    }
    Ok(Plan::Whole(Whole { sent: data, decoded, finds, bound, trailers, room }))
}

impl<B: Body<Data = Bytes> + Unpin> Sent<B> {
    pub(super) fn new(body: B, reading: &Reading) -> Self {
        Self { body, read: None, begun: Bytes::new(), reading: reading.clone() }
    }

    /// All of the body, if it was read before.
    pub(super) fn whole(&self) -> Option<&Bytes> {
        self.read.as_ref().map(|(data, _)| data)
    }

    /// Whether the body was read, or says that it is short.
    pub(super) fn is_small(&self) -> bool {
        let is_short = || self.body.size_hint().exact().is_some_and(|n| n <= MAX_WHOLE);
        self.read.is_some() || (self.begun.is_empty() && is_short())
    }

    /// Reads a body that is short.
    pub(super) async fn read(&mut self) -> Result<(), Error> {
        if self.read.is_none() {
            self.read_within(u64::MAX).await?;
        }
        Ok(())
    }

    /// Reads a longer one whose length a swap may change, if it says its length, there is room to spare and it comes at
    /// its pace.
    async fn read_ahead(&mut self, headers: &HeaderMap) -> Result<(), Error> {
        let declared =
            self.body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let Some(length) = declared.filter(|length| *length <= MAX_AHEAD) else { return Ok(()) };
        if Bound::of(headers) != Bound::No {
            return Ok(());
        }
        let Some(held) = self.reading.spare(length) else { return Ok(()) };
        let pace = self.reading.pace();
        let mut all = Vec::with_capacity(length);
        let mut trailers = None;
        let whole = loop {
            let Ok(next) = pace.wait(all.len(), self.body.frame()).await else { break false };
            let Some(frame) = next else { break true };
            match frame.map_err(incomplete)?.into_data() {
                Ok(data) => all.extend_from_slice(&data),
                Err(other) => trailers = other.into_trailers().ok(),
            }
        };
        let data = held.keep(all);
        if whole {
            self.read = Some((data, trailers));
        } else {
            self.begun = data;
        }
        Ok(())
    }

    /// Reads a body that has to be known as a whole, whether it says its length or not. False where
    /// it is longer than `most`.
    pub(super) async fn read_up_to(&mut self, most: u64) -> Result<bool, Error> {
        if self.is_empty() {
            self.read = Some((Bytes::new(), None));
        }
        if self.read.is_none() && self.body.size_hint().lower() <= most {
            self.read_within(most).await?;
        }
        Ok(self.read.is_some())
    }

    /// Reads on with trailers, to the end or until there are more than `most` bytes.
    async fn read_within(&mut self, most: u64) -> Result<(), Error> {
        let (mut held, pace) = (self.reading.begin(), self.reading.pace());
        let (mut gathered, mut trailers) = (Gathered::default(), None);
        let begun = core::mem::take(&mut self.begun);
        held.take(begun.len())?;
        gathered.add(begun);
        while gathered.len() as u64 <= most {
            let next = pace.wait(gathered.len(), self.body.frame()).await.map_err(Late::refusal)?;
            let Some(frame) = next else {
                self.read = Some((held.keep(gathered.into_bytes()), trailers));
                return Ok(());
            };
            match frame.map_err(incomplete)?.into_data() {
                Ok(data) => {
                    held.take(data.len())?;
                    gathered.add(data);
                }
                Err(other) => trailers = other.into_trailers().ok(),
            }
        }
        self.begun = held.keep(gathered.into_bytes());
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.read.is_none() && self.body.is_end_stream()
    }

    /// The plan of one that nothing is done to.
    fn passed(self, facts: &Facts, head: &Parts) -> Result<Plan<B>, Error> {
        if self.begun.is_empty() { Ok(Plan::Pass(self)) } else { self.streamed(facts, head, None) }
    }

    /// The plan of one that is swapped as it passes, what was read of it first.
    fn streamed(
        self,
        facts: &Facts,
        head: &Parts,
        coding: Option<Coding>,
    ) -> Result<Plan<B>, Error> {
        let (begun, trailers) = self.read.unwrap_or((self.begun, None));
        let recoder = coding.map(Recoder::new).transpose().map_err(|error| refused(&error))?;
        let is_declared = self.body.size_hint().exact().is_some();
        let of = if is_declared { Bound::of_declared } else { Bound::of };
        Ok(Plan::Stream(Stream {
            body: self.body,
            begun,
            trailers,
            recoder,
            escape: Escape::of_body(&head.headers),
            bound: of(&head.headers),
            delimiter: Delimiter::of(&head.headers),
            swappable: Arc::clone(&facts.swappable),
        }))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Plan<B> {
    /// Puts the values in, or sets up doing so on the way, and makes the head fit.
    pub(super) fn splice(
        self,
        values: &Values,
        route: &Route<'_>,
        ledger: Ledger,
        headers: &mut HeaderMap,
    ) -> Result<SwapBody<B>, Error> {
        match self {
            Self::Pass(Sent { read: Some((data, trailers)), .. }) => {
                Ok(SwapBody::whole(data, trailers))
            }
            Self::Pass(Sent { body, read: None, .. }) => Ok(SwapBody::untouched(body)),
            Self::Whole(whole) => whole.splice(values, headers),
            Self::Stream(mut stream) => {
                let framing = stream.framing(values, ledger.table());
                if framing == Framing::Anew {
                    headers.remove(header::CONTENT_LENGTH);
                    if route.upstream_version == Version::HTTP_11 {
                        let chunked = HeaderValue::from_static("chunked");
                        headers.insert(header::TRANSFER_ENCODING, chunked);
                    }
                }
                let trailers = stream.trailers.take();
                let (body, swapping) = Swapping::new(stream, ledger, framing);
                Ok(SwapBody::changing(body, swapping, trailers))
            }
        }
    }
}

impl Whole {
    fn splice<B>(self, values: &Values, headers: &mut HeaderMap) -> Result<SwapBody<B>, Error> {
        let Self { sent, decoded, finds, bound, trailers, mut room } = self;
        let mut longer: usize = 0;
        for found in &finds {
            let (placeholder, value) = (found.range.len(), found.length(values)?);
            bound.check(placeholder, value)?;
            longer += value.saturating_sub(placeholder);
        }
        if finds.is_empty() {
            return Ok(SwapBody::whole(sent, trailers));
        }
        room.take(longer)?;
        let delimiter = Delimiter::of(headers);
        let splice = |text: &[u8]| {
            let plain = splice(text, &finds, values)?;
            match &delimiter {
                Some(delimiter) => delimiter.set_right(text, plain),
                None => Ok(plain),
            }
        };
        let swapped: Zeroizing<Vec<u8>> = match decoded {
            None => splice(&sent)?,
            Some((plain, mut recoder)) => {
                let plain = splice(&plain)?;
                // Each fills a buffer of its own, once: one that grew would leave a copy behind unwiped.
                let (mut most, mut end) = (Zeroizing::default(), Zeroizing::default());
                recoder.encode(&plain, &mut most).map_err(|error| refused(&error))?;
                recoder.finish(&mut end).map_err(|error| refused(&error))?;
                Zeroizing::new([&most[..], &end[..]].concat())
            }
        };
        headers.insert(header::CONTENT_LENGTH, swapped.len().into());
        Ok(SwapBody::whole(room.keep(swapped), trailers))
    }
}

impl<B> Stream<B> {
    /// The length is kept where nothing may be put in, since a digest forbids it or no rule allows
    /// it, where what is put in has to be as long, and where all that may be is known from the head to be
    /// as long as its placeholder (look-alikes).
    fn framing(&self, values: &Values, table: &SwapTable) -> Framing {
        let fits = |secret: &usize| {
            let value = values.open(*secret);
            value.is_ok_and(|value| table.keeps_length(*secret, value, self.escape))
        };
        let same = self.bound != Bound::No || self.swappable.iter().all(fits);
        let keeps = self.recoder.is_none() && same;
        if keeps { Framing::Kept } else { Framing::Anew }
    }
}

/// What the agent is told of a coding that does not work out.
pub(super) fn refused(error: &CodingError) -> Error {
    let words = match error {
        CodingError::Corrupt => "the body is not in its coding",
        CodingError::Truncated => "the body ended before its coding did",
        CodingError::Encode(_) => "the body could not be coded again",
        CodingError::Crowded => "too many bodies are coded with br or zstd by now; use gzip",
    };
    Error::with(Code::BodyCoding, words.into())
}

fn incomplete<E>(_: E) -> Error {
    Error::with(Code::BadRequest, "the body did not arrive whole".into())
}

/// Decodes a small body, unless that makes it large.
pub(super) fn decode_whole(
    coding: Coding,
    sent: &Bytes,
) -> Result<Option<(Vec<u8>, Recoder)>, CodingError> {
    let mut recoder = Recoder::new(coding)?;
    let mut input = sent.clone();
    let mut plain = Vec::new();
    while recoder.decode(&mut input, &mut plain)? {
        if plain.len() > MAX_DECODED {
            return Ok(None);
        }
    }
    recoder.check_end()?;
    Ok(Some((plain, recoder)))
}
