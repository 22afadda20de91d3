//! A websocket that sends every message back (RFC 6455), for tests of upgrades and tunnels.
//!
//! Frames are copied one by one with their fragmentation; extensions are never agreed.

use std::{io, time::Duration};

use data_encoding::BASE64;
use http::{
    HeaderValue, Request, StatusCode,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE},
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::handler::{Reply, RequestBody, reply};

/// Answers 101 and then repeats every frame; 400 when the request is no websocket handshake.
pub fn accept(request: Request<RequestBody>) -> Reply {
    accept_with(request, repeat)
}

/// Likewise, as a server that can't be half-closed (Python's TLS): a client that ends its side
/// with its Close gets no answer to it.
pub fn accept_whole(request: Request<RequestBody>) -> Reply {
    accept_with(request, |mut stream| async move {
        let (first, payload) = read_frame(&mut stream).await?;
        let ended = stream.read_u8();
        if tokio::time::timeout(Duration::from_millis(300), ended).await.is_ok() {
            return Ok(());
        }
        stream.write_all(&server_frame(first, &payload)).await?;
        stream.shutdown().await
    })
}

/// Answers 101, then sends these frames verbatim and ends; 400 likewise.
pub fn say(request: Request<RequestBody>, frames: Vec<u8>) -> Reply {
    accept_with(request, |mut stream| async move {
        stream.write_all(&frames).await?;
        stream.shutdown().await
    })
}

fn accept_with<F, S>(mut request: Request<RequestBody>, serve: F) -> Reply
where
    F: FnOnce(TokioIo<Upgraded>) -> S + Send + 'static,
    S: Future<Output = io::Result<()>> + Send,
{
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| key.as_bytes().to_vec());
    let Some(key) = key.filter(|_| request.headers().contains_key(UPGRADE)) else {
        return reply(StatusCode::BAD_REQUEST, "not a websocket handshake\n");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            // A client that leaves ends it; there is nobody left to tell.
            let _ = serve(TokioIo::new(upgraded)).await;
        }
    });
    let mut answer = reply(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept_value(&key));
    answer
}

/// RFC 6455, section 4.2.2, item 5.4.
fn accept_value(key: &[u8]) -> HeaderValue {
    let digest = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    HeaderValue::from_str(&BASE64.encode(&digest.finalize())).expect("base64 fits a header")
}

const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

async fn repeat(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let (first, payload) = read_frame(&mut stream).await?;
        let opcode = first & 0x0f;
        if opcode == PONG {
            continue;
        }
        let first = if opcode == PING { first & 0xf0 | PONG } else { first };
        stream.write_all(&server_frame(first, &payload)).await?;
        stream.flush().await?;
        if opcode == CLOSE {
            return stream.shutdown().await;
        }
    }
}

/// Reads one frame (RFC 6455, section 5.2): its first byte, and its payload unmasked.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let first = stream.read_u8().await?;
    let second = stream.read_u8().await?;
    let length = match second & 0x7f {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = Vec::new();
    stream.take(length).read_to_end(&mut payload).await?;
    if payload.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok((first, payload))
}

fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.extend((length as u64).to_be_bytes().last()),
        length @ 126..=0xffff => {
            frame.push(126);
            frame.extend(&(length as u64).to_be_bytes()[6..]);
        }
        length => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_value_is_the_one_of_the_rfc() {
        assert_eq!(accept_value(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn frames_of_every_length_form_come_back() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            let frame = server_frame(0x82, &payload);
            assert_eq!(read_frame(&mut &frame[..]).await.unwrap(), (0x82, payload));
        }
    }
}
