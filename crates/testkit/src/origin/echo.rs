//! Echoes: what a careless server would send back of a request, in every place and coding.
//!
//! The scrub of the product is tested against these; the tests decide what must not come through.

use std::{
    convert::Infallible,
    fmt::Write as _,
    io::{self, Write as _},
};

use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode,
    header::{self, CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use super::handler::{Reply, RequestBody, reply};

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `br`.
    Brotli,
    /// `deflate`, which on the wire is zlib (RFC 9110, section 8.4.1.2).
    Deflate,
    /// `gzip`.
    Gzip,
    /// No coding.
    Identity,
    /// `zstd`.
    Zstd,
}

impl Coding {
    /// Returns its name in `Content-Encoding`; `None` for identity.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Deflate => Some("deflate"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
            Self::Zstd => Some("zstd"),
        }
    }

    /// Encodes a whole body.
    ///
    /// # Errors
    /// When the encoder fails, which in memory none does.
    pub fn encode(self, body: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(body.to_vec()),
            Self::Zstd => zstd::encode_all(body, 0),
            Self::Gzip => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Deflate => {
                let mut encoder =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Brotli => {
                let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
                encoder.write_all(body)?;
                encoder.flush()?;
                Ok(encoder.into_inner())
            }
        }
    }
}

/// Answers with the request's head and body as the body, in `coding`.
pub async fn body(request: Request<RequestBody>, coding: Coding) -> Reply {
    let text = whole(request).await;
    let encoded = coding.encode(&text).expect("encoding in memory does not fail");
    let mut reply = reply(StatusCode::OK, encoded);
    if let Some(name) = coding.name() {
        reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    reply
}

/// Answers with [`text_of`] the request in the headers where servers put such things.
pub async fn headers(request: Request<RequestBody>) -> Reply {
    let (parts, body) = request.into_parts();
    let _ = body.collect().await;
    let text = text_of(&parts);
    let mut reply = reply(StatusCode::OK, "see the headers\n");
    let fields = [
        (header::HeaderName::from_static("x-echo"), text.clone()),
        (header::LOCATION, format!("/next?token={}", text.replace(' ', "+"))),
        (header::SET_COOKIE, format!("session=\"{text}\"; Path=/; Secure")),
        (header::WWW_AUTHENTICATE, format!("Bearer error_description=\"{text}\"")),
    ];
    for (name, text) in fields {
        reply.headers_mut().insert(name, value(&text));
    }
    reply
}

/// Answers with [`text_of`] the request in the trailer `X-Echo`, after a short body.
pub async fn trailers(request: Request<RequestBody>) -> Reply {
    let (parts, body) = request.into_parts();
    let _ = body.collect().await;
    let trailers = HeaderMap::from_iter([(
        header::HeaderName::from_static("x-echo"),
        value(&text_of(&parts)),
    )]);
    let frames =
        [Frame::data(Bytes::from_static(b"see the trailers\n")), Frame::trailers(trailers)];
    let frames = stream::iter(frames.map(Ok::<_, Infallible>));
    let body = StreamBody::new(frames).map_err(|never| match never {}).boxed_unsync();
    let mut reply = Reply::new(body);
    reply.headers_mut().insert(header::TRAILER, HeaderValue::from_static("x-echo"));
    reply
}

/// Returns what the short echoes repeat: the header `X-Say`, else `Authorization`, else the query.
pub fn text_of(parts: &Parts) -> String {
    ["x-say", "authorization"]
        .iter()
        .find_map(|name| parts.headers.get(*name))
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .or_else(|| parts.uri.query().map(str::to_owned))
        .unwrap_or_default()
}

/// Reads a request to its end and returns its head, in the manner of HTTP/1.1, and its body.
pub(super) async fn whole(request: Request<RequestBody>) -> Bytes {
    let (parts, body) = request.into_parts();
    let mut text = String::new();
    let _ = writeln!(text, "{} {} {:?}", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    text.push('\n');
    let mut text = text.into_bytes();
    // A body that breaks off is echoed as far as it came.
    if let Ok(body) = body.collect().await {
        text.extend_from_slice(&body.to_bytes());
    }
    text.into()
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or(HeaderValue::from_static("unprintable"))
}
