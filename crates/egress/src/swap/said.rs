//! What a request says of itself, as far as rules about requests look: methods, path, and what the
//! body calls or has a server take for the method. Nothing is read of it where no rule asks.

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, request::Parts};
use http_body::Body;
use keyless_core::{BodyCalls, Code, Error, RequestFacts, folded_parameter};

use super::{
    Route, calls,
    digest::is_chunk_framed,
    find::percent_decoded,
    form::Form,
    plan::{MAX_AHEAD, MAX_WHOLE, Sent, decode_whole, refused},
    table::{Facts, SwapTable},
};
use crate::coding::{Coded, Coding};

/// What of a body was not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// JSON that may name another method: it is watched as it passes.
    Method,
    Nothing,
}

/// Reads what the rules of this route look at.
pub(super) async fn of<B>(
    table: &SwapTable,
    facts: &Facts,
    route: &Route<'_>,
    parts: &Parts,
    sent: &mut Sent<B>,
) -> Result<(RequestFacts, Unseen), Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if facts.ruled.is_empty() {
        return Ok((RequestFacts::default(), Unseen::Nothing));
    }
    let mut said = of_head(&parts.method, &parts.uri, &parts.headers);
    let looks_into = |secret: &usize| table.secret(*secret).rule.looks_into(route.authority, &said);
    if facts.ruled.iter().any(looks_into) {
        said.calls = calls(parts, sent).await?;
    }
    let minds_method =
        |secret: &usize| table.secret(*secret).rule.minds_method(route.authority, &said);
    if facts.ruled.iter().any(minds_method)
        && let Some(form) = Form::of(&parts.method, &parts.headers)
    {
        // What is sent to models is long, and comes in crowds.
        if form == Form::Json && !sent.is_small() {
            // What passes without being looked at is not watched either, nor are bytes that could be JSON in their coding.
            said.has_unread_form = match Coded::of(&parts.headers) {
                Coded::Identity => false,
                Coded::By(Coding::Gzip | Coding::Zstd) => is_chunk_framed(&parts.headers),
                Coded::By(Coding::Brotli | Coding::Deflate) | Coded::Opaque => true,
            };
            return Ok((said, Unseen::Method));
        }
        match fields(form, parts, sent).await? {
            Some(fields) => said.add_parameters(fields),
            None => said.has_unread_form = true,
        }
    }
    Ok((said, Unseen::Nothing))
}

/// The fields of a form that may name a method; `None` where it is too long, or can't be read.
async fn fields<B>(
    form: Form,
    parts: &Parts,
    sent: &mut Sent<B>,
) -> Result<Option<Vec<(Vec<u8>, Vec<u8>)>>, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    if !sent.read_up_to(MAX_AHEAD as u64).await? {
        return Ok(None);
    }
    let body = sent.whole().cloned().unwrap_or_default();
    match Coded::of(&parts.headers) {
        Coded::Identity => Ok(form.fields(&body)),
        Coded::Opaque => Ok(None),
        Coded::By(coding) => match decode_whole(coding, &body) {
            Ok(Some((plain, _))) => Ok(fields_of_both(form, [&body, &plain])),
            Ok(None) | Err(_) => Ok(None),
        },
    }
}

/// The fields of a coded form, which servers that look at no coding (PHP) read as it came: a comment of gzip may be one.
fn fields_of_both(form: Form, [sent, plain]: [&[u8]; 2]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = form.fields(sent)?;
    fields.extend(form.fields(plain)?);
    Some(fields)
}

/// What the head says alone.
pub(crate) fn of_head(method: &Method, uri: &Uri, headers: &HeaderMap) -> RequestFacts {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let query = form_parameters(uri.query().unwrap_or_default().as_bytes());
    RequestFacts::of_head((method.as_str(), uri.path()), headers, query)
}

/// What the body calls, and a GraphQL document in the query.
async fn calls<B>(parts: &Parts, sent: &mut Sent<B>) -> Result<BodyCalls, Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let query = parts.uri.query().unwrap_or_default();
    let (documents, named): (Vec<_>, Vec<_>) = in_every_reading(query.as_bytes())
        .partition(|(name, _)| name.eq_ignore_ascii_case("query"));
    let mut documents = documents.into_iter().map(|(_, document)| document);
    if !sent.read_up_to(MAX_WHOLE).await? {
        let words = "its body is too long to look what it calls; send at most 256 KiB";
        return Err(Error::with(Code::RuleDenied, words.into()));
    }
    let sent = sent.whole().cloned().unwrap_or_default();
    let body = plain(&parts.headers, sent.clone())?;
    // To a server that looks at no coding it would call something else.
    if Coded::of(&parts.headers) != Coded::Identity
        && calls::in_body(&parts.headers, &sent) != BodyCalls::default()
    {
        return Ok(BodyCalls::default());
    }
    let document = documents.next();
    let Some(named) = calls::documents_named(named, document.as_deref()) else {
        return Ok(BodyCalls::default());
    };
    let is_named_alone = document.is_none() && body.is_empty() && !named.is_empty();
    let mut calls = match (document, documents.next(), body.is_empty()) {
        (None, _, true) if is_named_alone => {
            BodyCalls { graphql: Some(Vec::new()), ..BodyCalls::default() }
        }
        (None, _, _) => calls::in_body(&parts.headers, &body),
        (Some(document), None, true) => calls::in_document(&document),
        // Two places for one document: servers differ in which one counts.
        _ => BodyCalls::default(),
    };
    if let Some(graphql) = &mut calls.graphql {
        graphql.extend(named);
    }
    Ok(calls)
}

fn plain(headers: &HeaderMap, sent: Bytes) -> Result<Bytes, Error> {
    match Coded::of(headers) {
        Coded::Identity => Ok(sent),
        Coded::Opaque => Err(Code::BodyCoding.into()),
        Coded::By(coding) => {
            let decoded = decode_whole(coding, &sent).map_err(|error| refused(&error))?;
            let (plain, _) = decoded.ok_or_else(|| {
                let words = "its body is too long to look what it calls";
                Error::with(Code::RuleDenied, words.into())
            })?;
            Ok(plain.into())
        }
    }
}

/// The values of a parameter of a query or form, decoded.
pub(super) fn parameters(query: &[u8], name: &'static [u8]) -> impl Iterator<Item = Vec<u8>> {
    form_parameters(query).filter(move |(key, _)| key == name).map(|(_, value)| value)
}

/// The names and values of a query or form, decoded.
pub(crate) fn form_parameters(form: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    form.split(|byte| *byte == b'&').map(form_parameter)
}

fn form_parameter(pair: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &b""[..]),
    };
    (form_decoded(key), form_decoded(value))
}

/// The same with names as PHP folds them and without bytes that are no UTF-8, and what stands behind semicolons, by which
/// some part them too.
fn in_every_reading(query: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let pairs = query
        .split(|byte| *byte == b'&')
        .flat_map(|pair| core::iter::once(pair).chain(pair.split(|byte| *byte == b';').skip(1)));
    pairs.map(form_parameter).map(|(name, value)| {
        let folded: Vec<u8> = folded_parameter(&name).collect();
        (String::from_utf8_lossy(&folded).replace('\u{fffd}', ""), value)
    })
}

/// A key or value of a query as a server reads it.
pub(super) fn form_decoded(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> =
        text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decoded(&spaced).0
}
