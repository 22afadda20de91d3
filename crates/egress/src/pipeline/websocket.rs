//! A WebSocket's handshake: swapped like any request, and answered by the upstream itself.
//!
//! It offers no extension, so that what follows can be read (`frames.rs`). The upstream must prove that it is one (Sec-WebSocket-Accept); every other upgrade was taken
//! out of the request before. Source: reference/egress.md (c) 22; (e) 62, 74 and 77.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use keyless_core::{Code, Error};
use sha1::{Digest as _, Sha1};

use super::{AnswerBody, Refused, Task, body::BoxError, exchange::Exchange, hold::Hold, hop, seal};
use crate::{
    frames, guard::UpgradePass, http2, incoming::Incoming, pool::Wanted, scrub, swap::MessageSwap,
    tls, tunnel,
};

/// RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// How the client asks. Toward the upstream it is HTTP/1.1 in any case, over a connection of its own.
pub(super) enum Opening {
    /// GET with `Upgrade`.
    Http1(UpgradePass),
    /// CONNECT with `:protocol` (RFC 8441): no key, no accept, and 200 in place of 101.
    Http2,
}

/// Carries the handshake, and the frames if it succeeds.
pub(super) async fn open(
    task: &Task<'_>,
    mut request: Request<Incoming>,
    opening: Opening,
) -> Result<Response<AnswerBody>, Refused> {
    if let Opening::Http2 = opening {
        let key = HeaderValue::from_str(&BASE64.encode(&tls::random::<16>()?));
        let key = key.map_err(|_| Error::new(Code::Internal))?;
        request.headers_mut().insert(header::SEC_WEBSOCKET_KEY, key);
    }
    let expected = accept_for(request.headers())?;
    let client = hyper::upgrade::on(&mut request);
    // Over HTTP/1 there is none, over HTTP/2 it is the client's frames.
    let (parts, frames) = request.into_parts();
    let mut request = Request::from_parts(parts, Empty::<Bytes>::new());
    let path = request.uri().path().to_owned();
    let version = request.version();
    hop::strip_request(request.headers_mut(), version);
    request.headers_mut().remove(header::SEC_WEBSOCKET_EXTENSIONS);
    // `Connection` says `Upgrade` alone, and what follows has no trailers.
    request.headers_mut().remove(header::TE);
    let sealing = seal::sealing(task, &request)?;
    add_upgrade(request.headers_mut());
    *request.method_mut() = Method::GET;
    let mut exchange = Exchange::new(task);
    let mut hold = Hold::on(task)?;
    let account = Arc::clone(hold.account());
    let shaking = async {
        let mut connection = exchange.connect(Wanted::Upgrade).await?;
        let request = exchange.prepare(request, connection.version(), &account).await?;
        let response = exchange.send(&mut connection, request).await?;
        Ok::<_, Refused>((response, connection))
    };
    let (mut response, mut connection) = hold.during(pin!(shaking)).await?;
    match (response.status(), &opening) {
        (StatusCode::SWITCHING_PROTOCOLS, _) => {}
        // The client would take it for the WebSocket.
        (status, Opening::Http2) if status.is_success() => return Err(not_a_websocket().into()),
        _ => {
            let taking = exchange.take(response, &mut connection, &account, sealing);
            let response = hold.during(pin!(taking)).await?;
            return exchange.finish(&Method::GET, response, connection, hold).await;
        }
    }
    account.answered(response.status());
    check_accept(response.headers(), &expected)?;
    let upstream = hyper::upgrade::on(&mut response).await.map_err(|_| not_a_websocket())?;
    let session = &task.lane.session;
    let swap = MessageSwap::new(&task.table, &exchange.route(connection.version()), &path);
    tunnel::record(session, &task.subject.correlation_id, task.authority, "websocket")?;
    hop::strip_response(response.headers_mut());
    scrub::scrub_head(&task.table, task.authority, &mut response, &account.taken())?;
    let (ground, upstream) = (task.ground(), TokioIo::new(upstream));
    match opening {
        Opening::Http1(pass) => {
            add_upgrade(response.headers_mut());
            pass.grant();
            let place = task.lane.place.upgrade();
            tokio::spawn(async move {
                if let Ok(client) = client.await {
                    let client = TokioIo::new(client);
                    frames::carry(ground, account, swap, client, upstream).await;
                }
                drop(place);
            });
            Ok(response.map(|_| Empty::new().map_err(|never| match never {}).boxed_unsync()))
        }
        Opening::Http2 => {
            response.headers_mut().remove(header::SEC_WEBSOCKET_ACCEPT);
            response.headers_mut().remove(header::CONTENT_LENGTH);
            *response.status_mut() = StatusCode::OK;
            let (client, body) = http2::tunnel(frames);
            tokio::spawn(frames::carry(ground, account, swap, client, upstream));
            Ok(response.map(|_| body.map_err(BoxError::from).boxed_unsync()))
        }
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
    let proven = accepts.is_some_and(|accept| accept.as_bytes() == expected.as_bytes())
        && !headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS);
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
