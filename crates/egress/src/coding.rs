//! Content codings, one step at a time: gzip, br, zstd and deflate, so that a body can be looked
//! into on its way and coded again as it was.
//!
//! Every step gives at most [`PIECE`] bytes, so that a decompression bomb costs time and no memory,
//! and a decoder gives all that it can at once, so that no event waits. What is done with the plain
//! bytes is not decided here. Follows RFC 9110 section 8.4, RFC 1950 to 1952, 7932 and 9659 (which
//! bounds zstd's window), and reference/egress.md, traps 14 and 24.

mod decoder;
mod encoder;
mod gzip;
mod recoder;

use std::io;

use http::{HeaderMap, HeaderValue, header};

#[cfg(test)]
pub(crate) use self::decoder::Decoder;
pub(crate) use self::recoder::Recoder;

/// The most plain bytes that one step of a decoder gives.
pub(crate) const PIECE: usize = 64 * 1024;
/// Bodies with wide windows that are open at the same time, in the whole process: 2 GiB when every
/// one of them is filled, which takes its sender a few hundred bytes each.
const MAX_WIDE: usize = 128;

const GRPC_ENCODING: &str = "grpc-encoding";
const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// A coding that we can look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    /// zlib's form, or bare as some servers send it.
    Deflate,
    Gzip,
    Zstd,
}

/// What a message's `Content-Encoding` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coded {
    /// As is.
    Identity,
    /// By one coding that we know.
    By(Coding),
    /// By another, or by several.
    Opaque,
}

/// Why a body can't be decoded or coded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodingError {
    /// Not what its `Content-Encoding` says.
    #[error("the body is not in its coding")]
    Corrupt,
    /// It ended in the middle.
    #[error("the body ended before its coding did")]
    Truncated,
    /// An encoder failed.
    #[error("the body could not be coded")]
    Encode(#[source] io::Error),
    /// As many as may be are open with wide windows.
    #[error("too many bodies are coded with br or zstd")]
    Crowded,
}

impl Coding {
    /// Every one, for tests.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Brotli, Self::Deflate, Self::Gzip, Self::Zstd];

    /// Whether a body may ask for a window of megabytes.
    fn is_wide(self) -> bool {
        matches!(self, Self::Brotli | Self::Zstd)
    }

    fn parse(token: &str) -> Option<Self> {
        match token.to_ascii_lowercase().as_str() {
            "br" => Some(Self::Brotli),
            "deflate" => Some(Self::Deflate),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl Coded {
    /// Reads `Content-Encoding`, and gRPC's own header: its messages are coded one by one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut coded = Self::Identity;
        if headers.get(GRPC_ENCODING).is_some_and(|coding| coding != "identity") {
            return Self::Opaque;
        }
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let Ok(list) = value.to_str() else { return Self::Opaque };
            for token in list.split(',').map(str::trim).filter(|token| !token.is_empty()) {
                coded = match (coded, Coding::parse(token)) {
                    // S3's chunk framing leaves the bytes readable; see `swap/digest.rs`.
                    (coded, None) if is_plain(token) => coded,
                    (Self::Identity, Some(coding)) => Self::By(coding),
                    _ => return Self::Opaque,
                };
            }
        }
        coded
    }
}

fn is_plain(token: &str) -> bool {
    token.eq_ignore_ascii_case("identity") || token.eq_ignore_ascii_case("aws-chunked")
}

/// Leaves only codings that we can look into in `Accept-Encoding`, and none with wide windows where
/// gzip will do. An absent header stays absent.
pub(crate) fn narrow_accept_encoding(headers: &mut HeaderMap) {
    if headers.contains_key(GRPC_ACCEPT_ENCODING) {
        headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    // A range of a coded body can't be decoded by itself.
    if headers.contains_key(header::RANGE) {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return;
    }
    let values: Vec<String> = (headers.get_all(header::ACCEPT_ENCODING).iter())
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let items = || values.iter().flat_map(|list| list.split(',')).map(str::trim);
    let has_gzip = items().any(|item| Coding::parse(token(item)) == Some(Coding::Gzip));
    let known = |item: &&str| match Coding::parse(token(item)) {
        Some(coding) => !(has_gzip && coding.is_wide()),
        None => token(item).eq_ignore_ascii_case("identity"),
    };
    if values.is_empty() || items().all(|item| known(&item)) {
        return;
    }
    let kept: Vec<&str> = items().filter(known).collect();
    let narrowed = if kept.is_empty() { "identity".to_owned() } else { kept.join(", ") };
    let narrowed = HeaderValue::try_from(narrowed).unwrap_or(HeaderValue::from_static("identity"));
    headers.insert(header::ACCEPT_ENCODING, narrowed);
}

/// What an item of Accept-Encoding names, without its weight.
fn token(item: &str) -> &str {
    item.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
pub(crate) mod tests;
