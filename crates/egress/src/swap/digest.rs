//! Headers that a swap inside the body would make wrong: digests, signatures over chunks, and S3's
//! chunk framing with lengths in it.

use http::{HeaderMap, header};

/// The headers that carry a digest of the body (RFC 9530, RFC 3230, RFC 1864).
pub(crate) const DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

/// Whether a changed body would no longer fit the head.
pub(super) fn binds_body(headers: &HeaderMap) -> bool {
    if DIGESTS.iter().any(|name| headers.contains_key(*name)) {
        return true;
    }
    let framed = headers.get_all(header::CONTENT_ENCODING).iter().any(|value| {
        value.as_bytes().to_ascii_lowercase().windows(11).any(|window| window == b"aws-chunked")
    });
    let signed = headers.get("x-amz-content-sha256").is_some_and(|value| {
        let value = value.as_bytes();
        value != b"UNSIGNED-PAYLOAD" && !value.starts_with(b"STREAMING-UNSIGNED-")
    });
    framed || signed
}
