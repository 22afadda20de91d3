//! What comes in: who it is from, and the fields of a form.
//!
//! A form is believed only with the word that the visit's own pages carry. What is typed goes into buffers
//! that are wiped, as far as they are ours: the bytes pass through the HTTP library's as well.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, header, request::Parts},
};
use keyless_core::{Code, Error, SafeText};
use keyless_sockets::{Seat, UnderWay};
use keyless_vault::MAX_VALUE_BYTES;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{Web, frame::Failure, visitors::Visit};

/// The visit's cookie.
pub(super) const COOKIE: &str = "keyless";
/// What the page's own scripts set: the request is no act of a person.
pub(super) const BY_SCRIPT: &str = "x-keyless-script";
/// The field with the visit's word.
pub(super) const FORM_WORD: &str = "form";
/// Every byte of a value may come as `%XX`.
const MAX_FORM_BYTES: usize = 3 * MAX_VALUE_BYTES + 16 * 1024;
/// For all of a form, over whatever carries the page's port elsewhere.
const FORM_TIME: Duration = Duration::from_secs(30);

/// A browser that came by a link; it may have proven nothing.
pub(super) struct Guest(pub(super) Arc<Visit>);

/// The operator: the factor was proven, and that still holds.
pub(super) struct Proven(pub(super) Arc<Visit>);

/// A form of the operator's.
pub(super) struct Sent {
    pub(super) visit: Arc<Visit>,
    pub(super) fields: Fields,
    pub(super) _under_way: Option<UnderWay>,
}

/// A form of somebody who may have proven nothing.
pub(super) struct SentByGuest {
    pub(super) visit: Arc<Visit>,
    pub(super) fields: Fields,
    /// Until its answer is there nobody takes the connection's seat.
    pub(super) under_way: Option<UnderWay>,
}

/// The fields of a form; wiped when dropped.
pub(super) struct Fields(HashMap<String, Vec<Zeroizing<String>>>);

impl FromRequestParts<Arc<Web>> for Guest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, web).await;
        let params = params.map_err(|_| Failure::NoVisit)?;
        let place = params.iter().find(|(name, _)| *name == "place").map(|(_, place)| place);
        let visit = cookies(&parts.headers)
            .find_map(|cookie| web.visitors.visit(place.unwrap_or_default(), cookie));
        let visit = visit.ok_or(Failure::NoVisit)?;
        if visit.is_proven() {
            if let Some(seat) = seat(parts) {
                seat.note_operator();
            }
            if !parts.headers.contains_key(BY_SCRIPT) {
                visit.act();
            }
        }
        Ok(Self(visit))
    }
}

impl FromRequestParts<Arc<Web>> for Proven {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Failure> {
        let Guest(visit) = Guest::from_request_parts(parts, web).await?;
        if visit.is_proven() && web.desk.vault.is_open() {
            return Ok(Self(visit));
        }
        Err(Failure::Unproven(visit, None, web.desk.vault.is_open()))
    }
}

impl FromRequest<Arc<Web>> for SentByGuest {
    type Rejection = Failure;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let Guest(visit) = Guest::from_request_parts(&mut parts, web).await?;
        let too_large = |_| bad_form("the form is too large");
        let coming = timeout(FORM_TIME, to_bytes(body, MAX_FORM_BYTES)).await;
        let bytes =
            coming.map_err(|_| bad_form("the form did not come in time"))?.map_err(too_large)?;
        let under_way = seat(&parts).map(Seat::begin);
        let fields = Fields::read(&bytes);
        if !visit.is_own_form(fields.text(FORM_WORD)) {
            return Err(bad_form("the form is not from this visit; load the page again").into());
        }
        Ok(Self { visit, fields, under_way })
    }
}

impl FromRequest<Arc<Web>> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Failure> {
        let SentByGuest { visit, fields, under_way } =
            SentByGuest::from_request(request, web).await?;
        if visit.is_proven() && web.desk.vault.is_open() {
            return Ok(Self { visit, fields, _under_way: under_way });
        }
        Err(Failure::Unproven(visit, None, web.desk.vault.is_open()))
    }
}

impl Fields {
    fn read(bytes: &[u8]) -> Self {
        let mut fields: HashMap<String, Vec<Zeroizing<String>>> = HashMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            let value = Zeroizing::new(value.into_owned());
            fields.entry(name.into_owned()).or_default().push(value);
        }
        Self(fields)
    }

    /// The field's text; empty when it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(|values| values.first()).map_or("", |value| value.as_str())
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All values of a field that may stand several times.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(|value| value.as_str())
    }

    /// Takes a field out.
    pub(super) fn take(&mut self, name: &str) -> Zeroizing<String> {
        self.0.remove(name).and_then(|mut values| values.pop()).unwrap_or_default()
    }
}

/// The fields of a query, as a filter has them.
pub(super) fn query(text: Option<&str>) -> Fields {
    Fields::read(text.unwrap_or_default().as_bytes())
}

/// The connection that it came by.
fn seat(parts: &Parts) -> Option<&Arc<Seat>> {
    parts.extensions.get::<Arc<Seat>>()
}

/// Every cookie of our name: a browser may have one of another server of this machine, too.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter_map(|(name, value)| (name == COOKIE).then_some(value))
}

fn bad_form(words: &'static str) -> Error {
    Error::with(Code::BadRequest, SafeText::words(words))
}
