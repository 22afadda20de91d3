//! What may be kept, and for how long: the discovery document, by its digest (NL-8.23).

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::Full;
use sha2::{Digest as _, Sha256};

use super::Answer;

/// Half of a digest tells two documents apart.
const TAG_BYTES: usize = 16;

/// The document with its tag; or, for who has it, only that it is the same (RFC 9110, section 13.1.2).
pub(super) fn kept(mut answer: Answer, body: &[u8], asked: Option<&HeaderValue>) -> Answer {
    let tag = format!("\"{}\"", HEXLOWER.encode(&Sha256::digest(body)[..TAG_BYTES]));
    let has_it = asked.is_some_and(|asked| names(asked, &tag));
    let headers = answer.headers_mut();
    let hour = HeaderValue::from_static("public, max-age=3600");
    headers.insert(header::CACHE_CONTROL, hour);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if has_it {
        headers.remove(header::CONTENT_TYPE);
        *answer.body_mut() = Full::default();
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    answer
}

/// The line by which a client says what it has.
pub(super) fn asked(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(header::IF_NONE_MATCH).cloned()
}

/// Compared weakly, as this header is.
fn names(asked: &HeaderValue, tag: &str) -> bool {
    let mut tags = asked.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Response;

    use super::*;

    #[test]
    fn who_has_it_gets_no_body() {
        let answer = |asked: Option<&str>| {
            let asked = asked.map(|asked| HeaderValue::from_str(asked).unwrap());
            let body = Bytes::from_static(b"{}");
            kept(Response::new(Full::new(body.clone())), &body, asked.as_ref())
        };
        let first = answer(None);
        assert_eq!(first.status(), 200);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        for (asked, status) in [
            (tag.clone(), 304),
            (format!("\"other\", W/{tag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
            (tag.trim_matches('"').to_owned(), 200),
            (String::new(), 200),
        ] {
            assert_eq!(answer(Some(&asked)).status(), status, "{asked}");
        }
    }
}
