//! What a swap inside the body would make wrong: digests and signatures in the head, S3's chunk
//! framing, formats whose messages carry their lengths, and parts of something longer (`Content-Range`).

use http::{HeaderMap, HeaderValue, header};
use keyless_core::{Code, Error};

use crate::media_type::media_type;

/// The headers that carry a digest of the body (RFC 9530, RFC 3230, RFC 1864; those of S3, Cloud Storage, Backblaze,
/// Artifactory, tus and ownCloud).
pub(crate) const DIGESTS: [&str; 18] = [
    "content-digest",
    "content-md5",
    "digest",
    "oc-checksum",
    "repr-digest",
    "upload-checksum",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-sha256-tree-hash",
    "x-bz-content-sha1",
    "x-checksum-md5",
    "x-checksum-sha1",
    "x-checksum-sha256",
    "x-checksum-sha512",
    "x-goog-hash",
];

/// What holds a body as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// A digest or signature: not one byte may change.
    Digest,
    /// Lengths inside: what is put in must be as long as what it stands for.
    Lengths,
    /// A length that was declared, of a file too long to know its new one before; the same.
    Declared,
    /// The head says which bytes of something longer it is; the same.
    Range,
    /// Nothing.
    No,
}

impl Bound {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match (binds_body(headers), has_lengths_inside(headers)) {
            (true, _) => Self::Digest,
            (false, true) => Self::Lengths,
            (false, false) if headers.contains_key(header::CONTENT_RANGE) => Self::Range,
            (false, false) => Self::No,
        }
    }

    /// The same of a body that streams and has declared its length. A file keeps it: many servers that take files take
    /// none without, and a file hardly ever has a placeholder in it.
    pub(super) fn of_declared(headers: &HeaderMap) -> Self {
        match Self::of(headers) {
            Self::No if is_file(headers) => Self::Declared,
            bound => bound,
        }
    }

    /// Judges one swap in the body.
    pub(super) fn check(self, placeholder: usize, value: usize) -> Result<(), Error> {
        match self {
            Self::Digest => Err(Code::BodyDigest.into()),
            Self::Lengths if placeholder != value => {
                let detail = "messages of this format carry their lengths";
                Err(Error::with(Code::BodyDigest, detail.into()))
            }
            Self::Declared if placeholder != value => {
                let detail = "a file of more than 8 MiB, or one that there is no room or time to read ahead, keeps the length that it was declared with; send it without one (`transfer-encoding: chunked`)";
                Err(Error::with(Code::BodyDigest, detail.into()))
            }
            Self::Range if placeholder != value => {
                let detail = "Content-Range says how much of the whole it is";
                Err(Error::with(Code::BodyDigest, detail.into()))
            }
            Self::Lengths | Self::Declared | Self::Range | Self::No => Ok(()),
        }
    }
}

/// Whether the messages of a format carry lengths: gRPC, Connect's streams, protobuf, git's packet lines.
pub(crate) fn has_lengths_inside(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
    content_type.starts_with(b"application/grpc")
        || content_type.starts_with(b"application/connect+")
        || content_type.starts_with(b"application/proto")
        || content_type.starts_with(b"application/x-git-")
        || content_type.windows(8).any(|window| window == b"protobuf")
}

/// Whether a body is a file rather than text, data or a form: by its type, or since S3 is told that it goes unsigned.
fn is_file(headers: &HeaderMap) -> bool {
    if headers.contains_key("x-amz-content-sha256") {
        return true;
    }
    let media_type = media_type(headers);
    let (kind, name) = match media_type.iter().position(|byte| *byte == b'/') {
        Some(at) => (&media_type[..at], &media_type[at + 1..]),
        None => return false,
    };
    let names_data = |words: &[&str]| {
        words.iter().any(|word| name.windows(word.len()).any(|part| part == word.as_bytes()))
    };
    match kind {
        b"audio" | b"font" | b"model" | b"video" => true,
        b"image" => !names_data(&["xml"]),
        b"application" => !names_data(&[
            "json", "xml", "form", "text", "script", "yaml", "graphql", "toml", "sql", "csv",
        ]),
        _ => false,
    }
}

/// Whether a changed body would no longer fit the head.
fn binds_body(headers: &HeaderMap) -> bool {
    if DIGESTS.iter().any(|name| headers.contains_key(*name)) {
        return true;
    }
    let signed = headers.get("x-amz-content-sha256").is_some_and(|value| {
        let value = value.as_bytes();
        value != b"UNSIGNED-PAYLOAD" && !value.starts_with(b"STREAMING-UNSIGNED-")
    });
    is_chunk_framed(headers) || signed
}

/// Whether S3's chunk framing stands around the body, which says each chunk's length.
pub(super) fn is_chunk_framed(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|value| {
        value.as_bytes().to_ascii_lowercase().windows(11).any(|window| window == b"aws-chunked")
    })
}
