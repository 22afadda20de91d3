//! Tokens that an answer mints: kept by the broker before the agent sees the answer, which then has
//! their placeholders. Using one is a swap like any other.
//!
//! An answer that may hold tokens and can't be read is not passed on, nor one whose tokens are more than a session can look
//! for: those that were replaced can still be shown, and are looked for until it ends. Source: design.md, section 5,
//! "tokens minted on the way"; reference/egress.md (e) 88.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use keyless_core::{Code, Error};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Deserializer;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::Task;
use crate::{
    coding::{Coded, Recoder},
    incoming::{Incoming, IncomingError},
    media_type::media_type,
    ports::{Kept, Minted, Recording},
    reading::Held,
    swap::{self, SwapTable, form_parameters},
};

const FORM: &[u8] = b"application/x-www-form-urlencoded";
/// More than any token endpoint says.
const MAX_ANSWER: usize = 1 << 20;

/// What is done with the answer to a request that may mint tokens.
pub(super) struct Sealing {
    /// The secrets that have the tokens sealed.
    parents: Vec<usize>,
    /// The request is not one of those that are named, but for its method: what is no data passes.
    only_data: bool,
    /// Taken before the request leaves: a token that was minted is lost with an answer that finds none.
    held: Held,
}

/// An answer's body, read if it had to be.
pub(super) enum Sealed {
    Read(Bytes),
    Untouched(Incoming),
}

/// What has the tokens sealed which an answer to this request may mint; none where it may mint none.
pub(super) fn sealing<B>(task: &Task<'_>, request: &Request<B>) -> Result<Option<Sealing>, Error> {
    if !task.table.may_seal() {
        return Ok(None);
    }
    let facts = swap::said_of_head(request.method(), request.uri(), request.headers());
    let parents = task.table.sealing(task.authority, &facts);
    let only_data = parents.is_empty();
    let parents =
        if only_data { task.table.sealing_but_for_method(task.authority, &facts) } else { parents };
    if parents.is_empty() {
        return Ok(None);
    }
    let held = task.table.reading().hold(MAX_ANSWER)?;
    Ok(Some(Sealing { parents, only_data, held }))
}

/// Whether an answer is JSON or a form, and no longer than one with tokens is.
fn is_data(response: &Response<Incoming>) -> bool {
    let media_type = media_type(response.headers());
    let is_short = response.body().size_hint().lower() <= MAX_ANSWER as u64;
    let is_form = media_type.starts_with(FORM);
    is_short && (is_form || media_type.ends_with(b"json") || media_type.is_empty())
}

/// Has every token of an answer kept that one of its secrets says is to be sealed.
pub(super) async fn seal(
    task: &Task<'_>,
    sealing: Sealing,
    response: Response<Incoming>,
) -> Result<Response<Sealed>, Error> {
    let Sealing { parents, only_data, held } = sealing;
    let parents = &parents[..];
    let table = &task.table;
    let is_other = only_data && !is_data(&response);
    if is_other || !response.status().is_success() || response.body().is_end_stream() {
        return Ok(response.map(Sealed::Untouched));
    }
    let (parts, body) = response.into_parts();
    let most = table.reading().pace().most(MAX_ANSWER);
    let body = timeout(most, Limited::new(body, MAX_ANSWER).collect()).await;
    let body = body.map_err(|_| unreadable("it comes too slowly"))?;
    let body = body.map_err(|_| unreadable("it is too long or broke off"))?.to_bytes();
    let plain = plain(&parts.headers, &body)?;
    let is_token = |name: &str| parents.iter().any(|parent| seals(table, *parent, name));
    let tokens = find(&parts.headers, &plain, &is_token)?;
    let values = tokens.iter().map(|(_, value)| value.as_slice());
    if !table.released().has_room(values, task.lane.engine.limits.minted_bytes) {
        let words =
            "the session has had as many tokens as are kept from an agent; begin another session";
        return Err(Error::with(Code::TokenUnavailable, words.into()));
    }
    // All are known to the scrub, and all entries on their way, before anything is waited for.
    let (mut recordings, mut known, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    for (kind, value) in &tokens {
        match keep(task, parents, kind, value) {
            Ok((kept, recording)) => {
                known.push((kept, value));
                recordings.push(recording);
            }
            Err(error) => outcome = Err(error),
        }
    }
    let known = put_in(task, &known);
    try_join_all(recordings).await?;
    outcome.and(known)?;
    Ok(Response::from_parts(parts, Sealed::Read(held.keep(body))))
}

fn seals(table: &SwapTable, parent: usize, name: &str) -> bool {
    table.secret(parent).rule.seal.iter().any(|sealing| sealing.is_token(name))
}

/// Has one token kept: what stands for it, and what resolves when that is on record.
fn keep<'t>(
    task: &'t Task<'_>,
    parents: &[usize],
    kind: &str,
    value: &Zeroizing<Vec<u8>>,
) -> Result<(Kept, Recording<'t>), Error> {
    let parents = parents.iter().filter(|parent| seals(&task.table, **parent, kind));
    let minted = Minted {
        parents: parents.map(|parent| task.table.secret(*parent).path.clone()).collect(),
        correlation_id: task.subject.correlation_id.clone(),
        authority: task.authority.clone(),
        kind: kind.to_owned(),
        value: value.clone(),
    };
    task.table.broker().keep(minted)
}

/// Has kept tokens looked for in all answers from here on, and swapped in all requests.
fn put_in(task: &Task<'_>, kept: &[(Kept, &Zeroizing<Vec<u8>>)]) -> Result<(), Error> {
    let table = &task.table;
    let placeholder = |kept: &'_ Kept| match &kept.younger {
        Some((_, placeholder)) => Some(placeholder.clone()),
        None => table.secret_at(&kept.slot).map(|secret| secret.placeholder.clone()),
    };
    let placed: Vec<_> = kept
        .iter()
        .filter_map(|(kept, value)| Some((kept.path(), placeholder(kept)?, *value)))
        .collect();
    let known: Vec<_> =
        placed.iter().map(|(path, name, value)| (*path, name, value.as_slice())).collect();
    // Also where the session has lost its parent by now: its server may show it all the same.
    table.released().remember_minted(&known);
    if known.len() < kept.len() {
        return Err(Code::Internal.into());
    }
    kept.iter().try_for_each(|(kept, _)| task.lane.session.put_in(kept).map(drop))
}

impl Body for Sealed {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        match &mut *self {
            Self::Read(body) if body.is_empty() => Poll::Ready(None),
            Self::Read(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
            Self::Untouched(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Read(body) => body.is_empty(),
            Self::Untouched(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Read(body) => SizeHint::with_exact(body.len() as u64),
            Self::Untouched(body) => body.size_hint(),
        }
    }
}

fn plain(headers: &HeaderMap, body: &Bytes) -> Result<Zeroizing<Vec<u8>>, Error> {
    let coding = match Coded::of(headers) {
        Coded::Identity => return Ok(Zeroizing::new(body.to_vec())),
        Coded::By(coding) => coding,
        Coded::Opaque => return Err(unreadable("it is coded in an unknown way")),
    };
    let corrupt = |_| unreadable("it is not in its coding");
    let mut recoder = Recoder::new(coding).map_err(corrupt)?;
    let (mut input, mut plain) = (body.clone(), Zeroizing::new(Vec::new()));
    while recoder.decode(&mut input, &mut plain).map_err(corrupt)? {
        if plain.len() > MAX_ANSWER {
            return Err(unreadable("it is too long"));
        }
    }
    recoder.check_end().map_err(corrupt)?;
    Ok(plain)
}

/// A token, with the name of its member.
type Token = (String, Zeroizing<Vec<u8>>);

/// The tokens of a JSON or form body.
fn find(
    headers: &HeaderMap,
    body: &[u8],
    is_token: &dyn Fn(&str) -> bool,
) -> Result<Vec<Token>, Error> {
    let mut found = Found::default();
    if media_type(headers).starts_with(FORM) {
        for (name, value) in form_parameters(body) {
            let name = String::from_utf8_lossy(&name).into_owned();
            if is_token(&name) {
                found.tokens.push((name, Zeroizing::new(value)));
            }
        }
        return Ok(found.tokens);
    }
    let mut json = Deserializer::from_slice(body);
    let read = Members { is_token, of: None, found: &mut found }.deserialize(&mut json);
    read.and_then(|()| json.end()).map_err(|_| unreadable("it is neither JSON nor a form"))?;
    if found.has_other {
        return Err(unreadable("where one is to be stands a number, true or false"));
    }
    Ok(found.tokens)
}

/// What a JSON text holds of tokens.
#[derive(Default)]
struct Found {
    tokens: Vec<Token>,
    /// A token, or a part of one, is no string: a placeholder can't stand there.
    has_other: bool,
}

/// Every member of a JSON text that is a token, at any depth, with all that it holds. One that stands twice counts twice: of
/// two readers each may take another.
struct Members<'a> {
    is_token: &'a dyn Fn(&str) -> bool,
    /// The token's member that this is in the value of.
    of: Option<&'a str>,
    found: &'a mut Found,
}

impl Members<'_> {
    fn no_string(self) {
        self.found.has_other |= self.of.is_some();
    }
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if let Some(name) = self.of.filter(|_| !text.is_empty()) {
            self.found.tokens.push((name.to_owned(), Zeroizing::new(text.as_bytes().to_vec())));
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.no_string();
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.no_string();
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.no_string();
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.no_string();
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { is_token, of, found } = self;
        while items.next_element_seed(Members { is_token, of, found: &mut *found })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { is_token, of, found } = self;
        while let Some(name) = members.next_key::<String>()? {
            let of = if is_token(&name) { Some(&*name) } else { of };
            members.next_value_seed(Members { is_token, of, found: &mut *found })?;
        }
        Ok(())
    }
}

fn unreadable(why: &'static str) -> Error {
    let words = keyless_core::SafeText::words("the answer may hold tokens: ").and(why);
    Error::with(Code::TokenUnavailable, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Result<Vec<(String, String)>, Code> {
        let is_token = |name: &str| name == "access_token";
        let tokens =
            find(&HeaderMap::new(), body.as_bytes(), &is_token).map_err(|error| error.code())?;
        let text = |value: Zeroizing<Vec<u8>>| String::from_utf8(value.to_vec()).unwrap();
        Ok(tokens.into_iter().map(|(name, value)| (name, text(value))).collect())
    }

    #[test]
    fn tokens_are_found_wherever_some_reader_may_find_them() {
        let of = |values: &[&str]| {
            Ok(values
                .iter()
                .map(|value| ("access_token".to_owned(), (*value).to_owned()))
                .collect())
        };
        assert_eq!(found(r#"{"access_token":"a","expires_in":3600}"#), of(&["a"]));
        // Most readers take the last one, and some the first.
        assert_eq!(found(r#"{"access_token":"a","access_token":"b"}"#), of(&["a", "b"]));
        assert_eq!(found(r#"{"access_token":"a","access_token":null}"#), of(&["a"]));
        assert_eq!(found(r#"[{"in":{"access\u005ftoken":"a"}},1.5,-1,true,null,""]"#), of(&["a"]));
        assert_eq!(
            found(r#"{"access_token":["a",{"access_token":"b","c":"d"},[["e"]]],"f":"g"}"#),
            of(&["a", "b", "d", "e"])
        );
        assert_eq!(found(r#"{"access_token":{"value":"a","b":[null]}}"#), of(&["a"]));
        assert_eq!(found(r#"{"access_token":"","other":"b"}"#), of(&[]));
        for odd in ["", "a=b", r#"{"access_token":"a"} {}"#, r#"{"access_token":"a""#] {
            assert_eq!(found(odd), Err(Code::TokenUnavailable), "{odd}");
        }
    }

    #[test]
    fn a_token_that_is_no_string_is_refused() {
        for value in ["12345678", "-1", "1e40", "true", "false", "[1]", r#"{"value":1}"#] {
            let odd = format!(r#"{{"expires_in":1,"access_token":{value}}}"#);
            assert_eq!(found(&odd), Err(Code::TokenUnavailable), "{odd}");
        }
    }
}
