//! What becomes of a request's body: it passes, is swapped as a whole before anything leaves, or
//! streams through the swap.
//!
//! A body of known and small length is read whole, so that refusals come before any byte leaves
//! and the exact new `Content-Length` is sent (many servers don't take chunks). A larger one
//! streams; when a swap may change its length it is framed anew. Codings are undone and done again.

use core::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version, header, request::Parts};
use http_body::Body;
use keyless_core::{Code, Error, Location};

use super::{
    Route,
    body::{Streaming, SwapBody},
    digest,
    escape::Escape,
    find::{Find, find, splice},
    head::judge,
    ledger::{Ledger, Values},
    table::{BodyInterest, Facts, SwapTable},
};
use crate::coding::{Coded, Coding, CodingError, Recoder};

/// The largest declared length of a body that is read whole.
pub(crate) const MAX_WHOLE: u64 = 256 * 1024;
/// The most that a small coded body may become when decoded; beyond, it streams.
const MAX_DECODED: usize = 4 * 1024 * 1024;

/// A body whose way is clear.
pub(super) enum Plan<B> {
    Pass(B),
    Whole(Whole),
    Stream(Stream<B>),
}

/// A body that was read, with the places of what will be swapped.
pub(super) struct Whole {
    sent: Bytes,
    /// The decoded bytes and what codes them again, if they were coded.
    decoded: Option<(Vec<u8>, Recoder)>,
    finds: Vec<Find>,
    trailers: Option<HeaderMap>,
}

/// A body that is swapped as it passes.
pub(super) struct Stream<B> {
    pub(super) body: B,
    /// What was already read of it.
    pub(super) begun: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) recoder: Option<Recoder>,
    pub(super) escape: Escape,
    /// A digest in the head forbids a change.
    pub(super) bound: bool,
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
    mut body: B,
    ledger: &mut Ledger,
) -> Result<Plan<B>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if facts.body == BodyInterest::None || body.is_end_stream() {
        return Ok(Plan::Pass(body));
    }
    let coding = match Coded::of(&head.headers) {
        Coded::Identity => None,
        Coded::By(coding) => Some(coding),
        Coded::Opaque if facts.body == BodyInterest::Swap => return Err(Code::BodyCoding.into()),
        Coded::Opaque => return Ok(Plan::Pass(body)),
    };
    let escape = Escape::of_body(&head.headers);
    let small = body.size_hint().exact().is_some_and(|length| length <= MAX_WHOLE);
    let (sent, trailers) = if small {
        let incomplete = |_| Error::with(Code::BadRequest, "the body did not arrive whole".into());
        read_whole(&mut body).await.map_err(incomplete)?
    } else {
        (Bytes::new(), None)
    };
    let decoded = match coding {
        Some(coding) if small => decode_whole(coding, &sent).map_err(|error| refused(&error))?,
        _ => None,
    };
    if !small || (coding.is_some() && decoded.is_none()) {
        let recoder = coding.map(Recoder::new).transpose().map_err(|error| refused(&error))?;
        return Ok(Plan::Stream(Stream {
            body,
            begun: sent,
            trailers,
            recoder,
            escape,
            bound: digest::binds_body(&head.headers),
            swappable: Arc::clone(&facts.swappable),
        }));
    }
    let mut finds = find(table, decoded.as_ref().map_or(&sent, |(plain, _)| plain), escape);
    judge(&mut finds, Location::Body, ledger)?;
    if !finds.is_empty() && digest::binds_body(&head.headers) {
        return Err(Code::BodyDigest.into());
    }
    Ok(Plan::Whole(Whole { sent, decoded, finds, trailers }))
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
            Self::Pass(body) => Ok(SwapBody::untouched(body)),
            Self::Whole(whole) => whole.splice(values, headers),
            Self::Stream(stream) => {
                let framing = stream.framing(values, ledger.table());
                if framing == Framing::Anew {
                    headers.remove(header::CONTENT_LENGTH);
                    if route.upstream_version == Version::HTTP_11 {
                        let chunked = HeaderValue::from_static("chunked");
                        headers.insert(header::TRANSFER_ENCODING, chunked);
                    }
                }
                Ok(SwapBody::streaming(Streaming::new(stream, ledger, framing)))
            }
        }
    }
}

impl Whole {
    fn splice<B>(self, values: &Values, headers: &mut HeaderMap) -> Result<SwapBody<B>, Error> {
        let Self { sent, decoded, finds, trailers } = self;
        if finds.is_empty() {
            return Ok(SwapBody::whole(sent, trailers));
        }
        let swapped = match decoded {
            None => splice(&sent, &finds, values)?.to_vec(),
            Some((plain, mut recoder)) => {
                let plain = splice(&plain, &finds, values)?;
                let mut coded = Vec::with_capacity(sent.len() + 64);
                recoder.encode(&plain, &mut coded).map_err(|error| refused(&error))?;
                recoder.finish(&mut coded).map_err(|error| refused(&error))?;
                coded
            }
        };
        headers.insert(header::CONTENT_LENGTH, swapped.len().into());
        Ok(SwapBody::whole(swapped.into(), trailers))
    }
}

impl<B> Stream<B> {
    /// The length is kept where nothing may be put in, since a digest forbids it or no rule allows
    /// it, and where all that may be is known from the head to be as long as its placeholder
    /// (look-alikes).
    fn framing(&self, values: &Values, table: &SwapTable) -> Framing {
        let fits = |secret: &usize| {
            let value = values.open(*secret);
            value.is_ok_and(|value| table.keeps_length(*secret, value, self.escape))
        };
        let same = self.bound || self.swappable.iter().all(fits);
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
    };
    Error::with(Code::BodyCoding, words.into())
}

/// Reads a body that has said how short it is.
pub(crate) async fn read_whole<B>(body: &mut B) -> Result<(Bytes, Option<HeaderMap>), B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut trailers = None;
    while let Some(frame) = core::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) if all.is_empty() && first.is_empty() => first = data,
            Ok(data) => {
                if all.is_empty() {
                    all.extend_from_slice(&first);
                }
                all.extend_from_slice(&data);
            }
            Err(other) => trailers = other.into_trailers().ok(),
        }
    }
    Ok((if all.is_empty() { first } else { all.into() }, trailers))
}

/// Decodes a small body, unless that makes it large.
fn decode_whole(coding: Coding, sent: &Bytes) -> Result<Option<(Vec<u8>, Recoder)>, CodingError> {
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
