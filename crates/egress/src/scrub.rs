//! The scrub: values that an upstream echoes become placeholders again on the way back.
//!
//! Looked for are the values that this session has sent out, to whatever host, in header values, trailers and bodies: in the
//! forms in which a server would echo them (`keyless_rewrite::scrubber`), and then, of a body in its first 4 MiB, in every
//! form that the sanitizer of actions knows (`keyless_rewrite::Marking`). What was taken out is told in the log.
//! While none was sent, responses pass untouched, but from a host that some secret names they are
//! watched: a value may go out while an older response still comes. Codings are undone and done again in pieces, with
//! a flush per frame, so that no event waits. What can't be looked into is refused: an unknown
//! coding, or a coded part of a range. A body that turns out not to be in its coding is a 502 while
//! its head is still here, and breaks off later on.
//!
//! Lengths: a small body of known length is read whole and gets its exact `Content-Length`; a
//! larger one is framed anew. A part of a range, and formats with lengths inside (gRPC, protobuf,
//! git's packet lines), keep theirs, with placeholders cut or padded to the value's, so that parts
//! still fit together and messages still parse. `ETag` stays, since it names what the server
//! holds; digests of the body go where the body may change.
//!
//! What can't be looked at does not pass: should the look itself fail, the response breaks off (NL-E308).
//!
//! Deliberately not here: tokens that a response mints. Follows design.md
//! section 5 and reference/egress.md, traps 24 and 25 and tests 82 to 86.

mod body;
mod fields;
mod layers;
mod message;
mod messages;
mod taken;
mod values;

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header, response::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::ext::ReasonPhrase;
use keyless_core::{Authority, Code, Error};
use keyless_rewrite::Tally;

pub(crate) use self::{
    body::{ScrubBody, Scrubbing},
    message::MessageScrub,
    taken::Taken,
    values::ReleasedValues,
};
use self::{fields::scrub_fields, taken::Watch, values::Lengths};
use crate::{
    coding::{Coded, Coding, Recoder},
    media_type::media_type,
    passage::PassageError,
    reading::{Gathered, Held, Reading},
    swap::{DIGESTS, MAX_WHOLE, Route, SwapTable, has_lengths_inside},
};

/// The most of a small coded body, once decoded, that is looked at before its head leaves.
const MAX_AHEAD: usize = 4 << 20;

const PART_OF_CODED: &str = "it is a part of a coded body";
const UNKNOWN_CODING: &str = "its coding is unknown";

/// Scrubs a response to a request with `method`, and tells `taken` of what it takes out. Waits for the body only if that
/// is small.
///
/// The body must know its exact length where `Content-Length` was given, as hyper's does.
pub(crate) async fn scrub_response<B>(
    table: &Arc<SwapTable>,
    route: &Route<'_>,
    method: &Method,
    mut response: Response<B>,
    taken: &Arc<Taken>,
) -> Result<Response<ScrubBody<B>>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if !table.names(&route.authority.host) {
        return Ok(response.map(ScrubBody::untouched));
    }
    let watch = Watch { slot: table.released().slot(), taken: Arc::clone(taken) };
    scrub_whole_head(&watch, &mut response)?;
    let (mut parts, body) = response.into_parts();
    let body = if is_bodiless(method, parts.status) || body.is_end_stream() {
        ScrubBody::untouched(body)
    } else if watch.slot.known().count() == 0 {
        watch_body(watch, &mut parts, body).await?
    } else {
        scrub_body(watch, table.reading(), &mut parts, body).await?
    };
    Ok(Response::from_parts(parts, body))
}

/// Scrubs the head of a response from `authority`.
pub(crate) fn scrub_head<B>(
    table: &SwapTable,
    authority: &Authority,
    response: &mut Response<B>,
    taken: &Arc<Taken>,
) -> Result<(), Error> {
    if !table.names(&authority.host) {
        return Ok(());
    }
    let watch = Watch { slot: table.released().slot(), taken: Arc::clone(taken) };
    scrub_whole_head(&watch, response)
}

fn scrub_whole_head<B>(watch: &Watch, response: &mut Response<B>) -> Result<(), Error> {
    // The server's own words on the status line: nobody needs them, and they could be a value.
    response.extensions_mut().remove::<ReasonPhrase>();
    scrub_fields(watch, response.headers_mut())
}

/// Scrubs the fields of an interim response from `authority`, of which nothing else is passed on.
pub(crate) fn scrub_headers(
    table: &SwapTable,
    authority: &Authority,
    headers: &mut HeaderMap,
    taken: &Arc<Taken>,
) -> Result<(), Error> {
    if !table.names(&authority.host) {
        return Ok(());
    }
    let watch = Watch { slot: table.released().slot(), taken: Arc::clone(taken) };
    scrub_fields(&watch, headers)
}

/// A whole text without any form of a value.
fn clean<'t>(watch: &Watch, text: &'t [u8], lengths: Lengths) -> Result<Cow<'t, [u8]>, Error> {
    let known = watch.slot.known();
    if known.count() == 0 {
        return Ok(Cow::Borrowed(text));
    }
    let mut tally = Tally::default();
    let clean = guarded(|| match known.rewriter(lengths).rewrite_and_tell(text, &mut tally) {
        Cow::Borrowed(text) => known.marking().rewrite(text, lengths, &mut tally),
        Cow::Owned(text) => {
            let clean = known.marking().rewrite(&text, lengths, &mut tally);
            Cow::Owned(clean.into_owned())
        }
    })?;
    watch.taken.note(&known, &mut tally);
    Ok(clean)
}

/// What can't be looked at does not pass (NL-E308).
fn guarded<T>(look: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(look)).map_err(|_| Code::SanitizeFailed.into())
}

/// While nothing was sent there is nothing to look for, but another request may send something
/// before this body has ended. Until then it passes as it is.
async fn watch_body<B>(watch: Watch, parts: &mut Parts, body: B) -> Result<ScrubBody<B>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    match Coded::of(&parts.headers) {
        Coded::By(coding) if parts.status != StatusCode::PARTIAL_CONTENT => {
            scrub_coded(watch, parts, body, coding).await
        }
        Coded::Identity => {
            let declared = body.size_hint().exact().is_some();
            let kept = declared || has_lengths_inside(&parts.headers);
            let lengths = if kept { Lengths::Kept } else { Lengths::Free };
            let scrubbing = Scrubbing::new(watch, None, lengths).of_messages(&parts.headers);
            Ok(ScrubBody::changing(body, scrubbing, None))
        }
        Coded::By(_) => Ok(watched_unread(watch, body, PART_OF_CODED)),
        Coded::Opaque => Ok(watched_unread(watch, body, UNKNOWN_CODING)),
    }
}

/// A body that passes until a value is sent out, and breaks off then.
fn watched_unread<B>(watch: Watch, body: B, why: &'static str) -> ScrubBody<B> {
    ScrubBody::changing(body, Scrubbing::of_unreadable(watch, why), None)
}

async fn scrub_body<B>(
    watch: Watch,
    reading: &Reading,
    parts: &mut Parts,
    mut body: B,
) -> Result<ScrubBody<B>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let partial = parts.status == StatusCode::PARTIAL_CONTENT;
    match Coded::of(&parts.headers) {
        Coded::Identity => {}
        Coded::By(_) if partial => return Err(unreadable(PART_OF_CODED)),
        Coded::By(coding) => return scrub_coded(watch, parts, body, coding).await,
        Coded::Opaque => return Err(unreadable(UNKNOWN_CODING)),
    }
    if partial || has_lengths_inside(&parts.headers) {
        remove_digests(&mut parts.headers);
        let scrubbing = Scrubbing::new(watch, None, Lengths::Kept).of_messages(&parts.headers);
        return Ok(ScrubBody::changing(body, scrubbing, None));
    }
    let short = body.size_hint().exact().filter(|length| *length <= MAX_WHOLE);
    let short = short.and_then(|length| usize::try_from(length).ok());
    // Where there is no room for it, it streams: the request was done, and its answer is not to be lost.
    let (mut begun, mut trailers) = (Bytes::new(), None);
    if let Some(held) = short.and_then(|length| reading.hold(length).ok()) {
        let mut gathered = Gathered::default();
        let whole = read(&mut body, reading, &mut gathered, &mut trailers).await?;
        let data = gathered.into_bytes();
        if whole {
            return scrub_whole(&watch, parts, held, data, trailers);
        }
        begun = held.keep(data);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    remove_digests(&mut parts.headers);
    let scrubbing = Scrubbing::new(watch, None, Lengths::Free).of_messages(&parts.headers);
    Ok(ScrubBody::changing(body, scrubbing.after(begun), trailers))
}

/// Reads a body to its end; false where it comes so slowly that it would hold its room for long, and what has come is
/// better passed on.
async fn read<B>(
    body: &mut B,
    reading: &Reading,
    gathered: &mut Gathered,
    trailers: &mut Option<HeaderMap>,
) -> Result<bool, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let pace = reading.pace();
    while let Ok(next) = pace.wait(gathered.len(), body.frame()).await {
        let Some(frame) = next else { return Ok(true) };
        match frame.map_err(|_| broke_off())?.into_data() {
            Ok(data) => gathered.add(data),
            Err(other) => *trailers = other.into_trailers().ok(),
        }
    }
    Ok(false)
}

/// A coded body is decoded some way before its head is passed on: a server that names a coding and
/// doesn't use it gets its 502, where the client could only see a body that breaks off. Of an event
/// stream the head comes at once, since its first event may be far off.
async fn scrub_coded<B>(
    watch: Watch,
    parts: &mut Parts,
    body: B,
    coding: Coding,
) -> Result<ScrubBody<B>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let small = body.size_hint().exact().is_some_and(|length| length <= MAX_WHOLE);
    parts.headers.remove(header::CONTENT_LENGTH);
    remove_digests(&mut parts.headers);
    let recoder = Recoder::new(coding).map_err(|error| body::uncoded(&error))?;
    let kept = has_lengths_inside(&parts.headers);
    let lengths = if kept { Lengths::Kept } else { Lengths::Free };
    let scrubbing = Scrubbing::new(watch, Some(recoder), lengths).of_messages(&parts.headers);
    let mut body = ScrubBody::changing(body, scrubbing, None);
    if !kept && !is_event_stream(&parts.headers) {
        let enough = if small { MAX_AHEAD } else { 1 };
        body.look_ahead(enough).await.map_err(|error| match error {
            PassageError::Inner(_) => broke_off(),
            PassageError::Refused(error) => error,
        })?;
    }
    Ok(body)
}

fn scrub_whole<B>(
    watch: &Watch,
    parts: &mut Parts,
    held: Held,
    data: Bytes,
    mut trailers: Option<HeaderMap>,
) -> Result<ScrubBody<B>, Error> {
    if let Some(trailers) = &mut trailers {
        scrub_fields(watch, trailers)?;
    }
    Ok(match clean(watch, &data, Lengths::Free)? {
        Cow::Borrowed(_) => ScrubBody::whole(held.keep(data), trailers),
        Cow::Owned(scrubbed) => {
            remove_digests(&mut parts.headers);
            parts.headers.insert(header::CONTENT_LENGTH, scrubbed.len().into());
            ScrubBody::whole(held.keep(scrubbed), trailers)
        }
    })
}

fn remove_digests(headers: &mut HeaderMap) {
    for name in DIGESTS {
        headers.remove(name);
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    media_type(headers).starts_with(b"text/event-stream")
}

/// Whether an answer ends with its head (RFC 9110, sections 9.3.2, 15.2, 15.3.5 and 15.4.5).
pub(crate) fn is_bodiless(method: &Method, status: StatusCode) -> bool {
    let by_status = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    *method == Method::HEAD || by_status || status.is_informational()
}

fn broke_off() -> Error {
    Error::with(Code::UpstreamProtocol, "the response broke off".into())
}

fn unreadable(why: &'static str) -> Error {
    let detail = keyless_core::SafeText::words("the response can't be looked into: ").and(why);
    Error::with(Code::UpstreamProtocol, detail)
}

#[cfg(test)]
mod tests;
