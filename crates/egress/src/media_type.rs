//! What a message says that its body is (RFC 9110, section 8.3).

use http::{HeaderMap, HeaderValue, header};

/// The media type of a body in lower case, without its parameters; empty where none is said.
pub(crate) fn media_type(headers: &HeaderMap) -> Vec<u8> {
    let said = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = said.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().to_ascii_lowercase()
}
