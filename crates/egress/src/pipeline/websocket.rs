//! A WebSocket: its handshake is swapped like any request, then its frames pass untouched.
//!
//! The upstream must prove that it is one (Sec-WebSocket-Accept); every other upgrade was taken
//! out of the request before. Source: reference/egress.md (c) 22; (e) 62 and 74.

use std::sync::Arc;

use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use keyless_core::{Code, Error};
use sha1::{Digest as _, Sha1};

use super::{AnswerBody, Refused, Task, exchange::Exchange, hop};
use crate::{Session, guard::UpgradePass, pool::Wanted, scrub, tunnel};

/// RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Carries the handshake, and the frames if it succeeds.
pub(super) async fn open(
    task: &Task<'_>,
    mut request: Request<Incoming>,
    pass: UpgradePass,
) -> Result<Response<AnswerBody>, Refused> {
    let expected = accept_for(request.headers())?;
    let client = hyper::upgrade::on(&mut request);
    hop::strip_request(request.headers_mut(), Version::HTTP_11);
    add_upgrade(request.headers_mut());
    let mut exchange = Exchange::new(task);
    let mut connection = exchange.connect(Wanted::Upgrade).await?;
    let request = exchange.prepare(request, connection.version()).await?;
    let mut response = exchange.send(&mut connection, request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return exchange.finish(&Method::GET, response, connection).await;
    }
    check_accept(response.headers(), &expected)?;
    let upstream = hyper::upgrade::on(&mut response).await.map_err(|_| not_a_websocket())?;
    let session = &task.lane.session;
    tunnel::record(session, &task.subject.correlation_id, task.authority, "websocket")?;
    hop::strip_response(response.headers_mut());
    scrub::scrub_headers(session.table(), task.authority, response.headers_mut());
    add_upgrade(response.headers_mut());
    pass.grant();
    tokio::spawn(carry(Arc::clone(session), client, upstream));
    Ok(response.map(|_| Empty::new().map_err(|never| match never {}).boxed_unsync()))
}

async fn carry(session: Arc<Session>, client: OnUpgrade, upstream: Upgraded) {
    if let Ok(client) = client.await {
        tunnel::join(&session, TokioIo::new(client), TokioIo::new(upstream)).await;
    }
}

/// The value that proves the upstream has read this handshake.
fn accept_for(headers: &HeaderMap) -> Result<String, Error> {
    let mut keys = headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) => Ok(accept_of(key.as_bytes())),
        _ => Err(Error::with(Code::BadRequest, "a WebSocket handshake has one key".into())),
    }
}

fn accept_of(key: &[u8]) -> String {
    BASE64.encode(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

fn check_accept(headers: &HeaderMap, expected: &str) -> Result<(), Error> {
    let accepts = headers.get(header::SEC_WEBSOCKET_ACCEPT);
    let proven = accepts.is_some_and(|accept| accept.as_bytes() == expected.as_bytes());
    if proven && names_websocket(headers) { Ok(()) } else { Err(not_a_websocket()) }
}

fn not_a_websocket() -> Error {
    Error::with(Code::UpstreamProtocol, "its WebSocket handshake does not verify".into())
}

fn names_websocket(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::UPGRADE);
    fields.iter().any(|field| field.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn add_upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfcs_own_example_verifies() {
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
