//! The swap: placeholders in a request become values, only toward their secrets' destinations.
//!
//! Everything is edited in place, never re-serialised: header values, the decoded user and password
//! of Basic, path, query and body. What may happen to each placeholder is decided by
//! `keyless_core::decide_egress`; the values come from the session's [`Broker`] after its log has
//! the use on disk; a refusal happens before any byte leaves, but for bodies that stream.
//!
//! A placeholder of our form that no secret of the session has is refused in the head of a request
//! toward a host that some secret names. In bodies it is left alone: it is useless anywhere, and
//! logs and documents that quote one must pass. One of the session's that is written with escapes is refused (`hidden.rs`),
//! as is one in a trailer (`trailers.rs`).
//!
//! Deliberately not here: which hosts are intercepted and what is sent (the doors and the
//! pipeline), and the way back (`scrub.rs`). Follows spec/egress-secret-proxy.md (decisions 1 and
//! 3), design.md section 5, and reference/egress.md, traps 12 to 18 and tests 1 to 39.

mod basic;
mod body;
mod calls;
mod client_key;
mod digest;
mod escape;
mod find;
mod form;
mod head;
mod hidden;
mod inject;
mod ledger;
mod member;
mod message;
mod nesting;
mod parts;
mod password;
mod plan;
mod said;
mod sign;
mod table;
mod trailers;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Version, request::Parts};
use http_body::Body;
use keyless_core::{Authority, Error, RequestFacts, Scheme};

use self::{
    body::SwapBody,
    head::Head,
    inject::Injections,
    ledger::Ledger,
    plan::Sent,
    sign::{ChunkSigner, Signing},
    trailers::WatchedTrailers,
};
pub use self::{
    calls::{body_calls, document_calls},
    sign::resigned,
};
pub(crate) use self::{
    client_key::client_identity,
    digest::{DIGESTS, has_lengths_inside},
    message::MessageSwap,
    password::swap_password,
    plan::MAX_WHOLE,
    said::{form_parameters, of_head as said_of_head},
    table::SwapTable,
};
use crate::{coding, passage::Passage, ports::RequestInfo};

/// A request's body, swapped, and signed anew where its chunks are signed.
pub(crate) type SignedBody<B> = WatchedTrailers<Passage<SwapBody<B>, ChunkSigner>>;

/// Where a request goes, verified and canonical.
pub(crate) struct Route<'a> {
    /// How it travels.
    pub(crate) scheme: Scheme,
    /// The one authority that connection and request agree on.
    pub(crate) authority: &'a Authority,
    /// Joins the entries of this request, `req-<uuid>`.
    pub(crate) correlation_id: &'a str,
    /// What the upstream connection speaks, which decides how a re-framed body is framed.
    pub(crate) upstream_version: Version,
}

/// Swaps the placeholders of one request. The values of the head and of a small body are asked for
/// at once; those of a body that streams when it comes to them.
///
/// The body must know its exact length where `Content-Length` was given, as hyper's does.
pub(crate) async fn swap_request<B>(
    table: &Arc<SwapTable>,
    route: &Route<'_>,
    request: Request<B>,
) -> Result<Request<SignedBody<B>>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut parts, body) = request.into_parts();
    let facts = table.facts(route);
    let mut body = Sent::new(body, table.reading());
    let (said, unseen) = said::of(table, &facts, route, &parts, &mut body).await?;
    let mut ledger = Ledger::new(table, route.scheme, request_info(route, &parts), said);
    ledger.watch_method(unseen);
    let signing =
        Signing::prepare(table, &facts, route, &mut parts, &mut body, &mut ledger).await?;
    let injections = Injections::make_room(table, &facts, &mut parts, &mut ledger)?;
    let head = Head::read(table, &facts, &parts)?.judge(&mut ledger)?;
    let body = plan::read(table, &facts, &parts, body, &mut ledger).await?;
    let values = ledger.release().await?;
    head.splice(&values, &mut parts)?;
    injections.set(&values, &mut parts)?;
    if facts.named {
        coding::narrow_accept_encoding(&mut parts.headers);
    }
    let body = body.splice(&values, route, ledger, &mut parts.headers)?;
    let chunks = signing.sign(&values, route, &mut parts, body.whole_bytes())?;
    let body = match chunks {
        Some(chunks) => Passage::changing(body, chunks, None),
        None => Passage::untouched(body),
    };
    let body = WatchedTrailers::new(body, facts.named.then(|| Arc::clone(table)));
    Ok(Request::from_parts(parts, body))
}

/// Judges the placeholders of a head in cleartext without swapping any: what would be refused is
/// refused. Rules about requests are left for later, since they may need the body.
pub(crate) fn judge_head(
    table: &Arc<SwapTable>,
    route: &Route<'_>,
    parts: &Parts,
) -> Result<(), Error> {
    let facts = table.facts(route);
    if !facts.ruled.is_empty() {
        return Ok(());
    }
    let info = request_info(route, parts);
    let mut ledger = Ledger::new(table, route.scheme, info, RequestFacts::default());
    Head::read(table, &facts, parts)?.judge(&mut ledger).map(drop)
}

fn request_info(route: &Route<'_>, parts: &Parts) -> RequestInfo {
    RequestInfo {
        correlation_id: route.correlation_id.to_owned(),
        authority: route.authority.clone(),
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        locations: Vec::new(),
        rules: Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
