//! A refusal is an answer: a status, a JSON body that says what to do, and a line in the log.

use std::{
    error::Error as StdError,
    io,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use keyless_core::{
    Authority, Code, Error, Remediation,
    audit::{Action, Outcome},
};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS};
use serde_json::json;

use crate::{
    pipeline::AnswerBody,
    ports::{Broker, Event, SoFar},
    session::Session,
};

/// Says on every refusal which one it is, for clients that don't read bodies.
pub(crate) const REFUSED: HeaderName = HeaderName::from_static("x-keyless-refused");

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// What stands escaped in `grpc-message`: all but printable ASCII, and `%` itself.
const GRPC_ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// What is known of the request that is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) correlation_id: String,
    pub(crate) authority: Option<Authority>,
    /// Method and path.
    pub(crate) request: Option<(String, String)>,
    pub(crate) form: Form,
}

impl Subject {
    /// A connection as a whole.
    pub(crate) fn of_connection(authority: &Authority) -> Self {
        let correlation_id = correlation_id().unwrap_or_default();
        Self { correlation_id, authority: Some(authority.clone()), ..Self::default() }
    }
}

/// How a client reads a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// By `grpc-status`.
    Grpc,
    #[default]
    Http,
}

impl Form {
    /// As who sent this request reads it.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_grpc = content_type.is_some_and(|of| of.starts_with(b"application/grpc"));
        if is_grpc && request.version() == Version::HTTP_2 { Self::Grpc } else { Self::Http }
    }

    /// The answer to a request that is refused.
    pub(crate) fn answer(self, error: &Error, after: After) -> Response<AnswerBody> {
        match self {
            Self::Grpc => grpc_answer(error),
            Self::Http => answer(error, after),
        }
    }

    /// The status of that answer.
    pub(crate) fn status(self, code: Code) -> StatusCode {
        match self {
            Self::Grpc => StatusCode::OK,
            Self::Http => status(code),
        }
    }
}

/// Whether the connection may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Close,
    Keep,
}

/// Logs the refusal of a request that came at `began`, and makes the answer.
pub(crate) fn refuse(
    session: &Session,
    subject: &Subject,
    error: &Error,
    after: After,
    began: Instant,
) -> Response<AnswerBody> {
    let answer = answer(error, after);
    log_so_far(session, subject, error, so_far(&answer, 0, began));
    answer
}

/// What a request comes to that is answered so.
pub(crate) fn so_far(answer: &Response<AnswerBody>, sent: u64, began: Instant) -> SoFar {
    SoFar {
        status: Some(answer.status().as_u16()),
        sent,
        received: answer.body().size_hint().lower(),
        took: began.elapsed(),
    }
}

/// Logs the refusal of a connection as a whole.
pub(crate) fn log(session: &Session, subject: &Subject, error: &Error) {
    // Nothing passes in any case; the broker itself reports a log that can't be written.
    let _ = session.record(event(subject, error, None));
}

/// Logs the refusal of a request or tunnel.
pub(crate) fn log_so_far(session: &Session, subject: &Subject, error: &Error, so_far: SoFar) {
    let _ = session.record(event(subject, error, Some(so_far)));
}

/// Logs the refusal of somebody who belongs to no session.
pub(crate) fn log_stranger(strangers: &dyn Broker, error: &Error) {
    let correlation_id = correlation_id().unwrap_or_default();
    let subject = Subject { correlation_id, ..Subject::default() };
    let _ = strangers.record(event(&subject, error, None));
}

fn event(subject: &Subject, error: &Error, so_far: Option<SoFar>) -> Event {
    let (action, outcome) = classify(error.code());
    Event {
        correlation_id: subject.correlation_id.clone(),
        action,
        outcome,
        authority: subject.authority.clone(),
        secrets: Vec::new(),
        named: error.secret().cloned().into_iter().collect(),
        code: Some(error.code()),
        note: error.detail().clone(),
        request: subject.request.clone(),
        so_far,
    }
}

/// The answer to a request that is refused.
pub(crate) fn answer(error: &Error, after: After) -> Response<AnswerBody> {
    let body = Full::new(Bytes::from(json_body(error))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status(error.code());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFUSED, HeaderValue::from_static(error.code().as_str()));
    if error.code() == Code::ProxyAuthRequired {
        let challenge = HeaderValue::from_static("Basic realm=\"keyless\"");
        headers.insert(header::PROXY_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if after == After::Close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The answer to a gRPC call: a client of gRPC looks at `grpc-status`, and only there.
fn grpc_answer(error: &Error) -> Response<AnswerBody> {
    let body = Full::new(Bytes::new()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    let text = format!("{} [{}]", error.message(), error.code().as_str());
    let message = percent_encoding::percent_encode(text.as_bytes(), GRPC_ESCAPED).to_string();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(grpc_status(error.code())));
    headers.insert(GRPC_MESSAGE, HeaderValue::try_from(message).expect("escaped, it is ASCII"));
    headers.insert(REFUSED, HeaderValue::from_static(error.code().as_str()));
    response
}

/// The whole answer as bytes, for a connection that is refused before HTTP begins.
pub(crate) fn raw_answer(error: &Error) -> Vec<u8> {
    let body = json_body(error);
    let status = status(error.code());
    let again = error.retry_after().map(|seconds| format!("retry-after: {seconds}\r\n"));
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-keyless-refused: {}\r\n{}connection: close\r\n\r\n{body}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
        error.code().as_str(),
        again.unwrap_or_default(),
    )
    .into_bytes()
}

/// A fresh `req-<uuid>`; version 7, so that the log's order shows in it.
pub(crate) fn correlation_id() -> Result<String, Error> {
    let random = random_for_id()?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    let mut text = [0; 40];
    text[..4].copy_from_slice(b"req-");
    id.hyphenated().encode_lower(&mut text[4..]);
    Ok(str::from_utf8(&text).expect("a uuid is ASCII").to_owned())
}

/// Random bytes for one id, out of a supply: an id is no secret, but each drawn by itself would
/// cost a system call per request.
fn random_for_id() -> Result<[u8; 10], Error> {
    static SUPPLY: Mutex<([u8; 1280], usize)> = Mutex::new(([0; 1280], 0));
    let mut supply = SUPPLY.lock();
    let (bytes, left) = &mut *supply;
    if *left == 0 {
        *bytes = crate::tls::random()?;
        *left = bytes.len();
    }
    *left -= 10;
    Ok(*bytes[*left..].first_chunk().expect("the supply is a multiple of 10"))
}

fn json_body(error: &Error) -> String {
    let remediation: Remediation = error.code().remediation();
    let body = json!({
        "code": error.code().as_str(),
        "message": error.message(),
        "remediation": remediation,
    });
    format!("{body}\n")
}

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// gRPC's number for a refusal: its own table for HTTP's statuses (grpc/doc/http-grpc-status-mapping.md)
/// with what that leaves unsaid.
fn grpc_status(code: Code) -> &'static str {
    match code.http_status() {
        401 => "16",
        403 | 421 => "7",
        400..500 => "3",
        502..=504 => "14",
        _ => "13",
    }
}

/// Which of NL's actions a refusal is: stopped by a parser, denied by policy, or failed upstream.
fn classify(code: Code) -> (Action, Outcome) {
    match code {
        Code::ConnectTimeout | Code::NameTimeout => (Action::Egress, Outcome::Timeout),
        Code::ConnectFailed
        | Code::NameNotFound
        | Code::UpstreamProxyFailed
        | Code::UpstreamTls
        | Code::UpstreamProtocol
        | Code::SecretUnavailable
        | Code::Internal => (Action::Egress, Outcome::Error),
        Code::BadRequest | Code::HeadTooLarge | Code::HeadTimeout | Code::BodyCoding => {
            (Action::Blocked, Outcome::Blocked)
        }
        _ => (Action::Denied, Outcome::Denied),
    }
}

/// The refusal somewhere among the causes of an error.
pub(crate) fn find(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Error>() {
            return Some(refusal.clone());
        }
        // An `io::Error` does not count what it carries among its causes.
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(refusal) = carried.and_then(|carried| find(carried)) {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_says_what_to_do() {
        let response = answer(&Code::AuthorityMismatch.into(), After::Keep);
        assert_eq!(response.status(), 421);
        assert_eq!(response.headers()[&REFUSED], "authority_mismatch");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], "authority_mismatch");
        assert_eq!(body["remediation"]["actor"], "agent");
    }

    #[test]
    fn ids_are_version_7() {
        let id = correlation_id().unwrap();
        assert_eq!((id.len(), &id[..4], &id[18..19]), (40, "req-", "7"), "{id}");
    }

    #[test]
    fn a_refusal_is_found_inside_an_io_error() {
        let inner = io::Error::other(Error::new(Code::BadRequest));
        let outer = io::Error::other(inner);
        assert_eq!(find(&outer).unwrap().code(), Code::BadRequest);
        assert!(find(&io::Error::other("else")).is_none());
    }
}
