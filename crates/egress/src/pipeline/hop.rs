//! Fields that belong to one connection and not to the message.
//!
//! The order and case of all other fields stay as they were. `Proxy-Authorization` never goes
//! upstream; that trailers are welcome is said anew, for gRPC; `Alt-Svc` never comes back, since it would invite the
//! client past the proxy. Source: reference/egress.md (c) 9, 18, 19 and 22.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use keyless_core::{Code, Error};

use crate::{http2::is_of_http1, refusal::REFUSED};

const PROXY_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Fields that `Connection` may not take away: dropping them would change what is asked.
const ESSENTIAL: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::EXPECT,
    header::HOST,
    header::RANGE,
];

/// Fields that trailers have not: they would change how the message is read, or whose it is.
const OF_HEADS: [HeaderName; 10] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::HOST,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
];

/// Takes the connection's own fields out of a request.
pub(super) fn strip_request(headers: &mut HeaderMap, client: Version) {
    // HTTP/1.0 has no trailers to get.
    let trailers = client != Version::HTTP_10
        && values(headers, &header::TE).any(|te| te.eq_ignore_ascii_case("trailers"));
    let named = named_by_connection(headers);
    retain(headers, |name| {
        !named.contains(name)
            && !is_of_http1(name)
            && *name != header::PROXY_AUTHORIZATION
            && *name != header::TE
            && *name != HTTP2_SETTINGS
    });
    if trailers {
        headers.insert(header::TE, TRAILERS);
    }
    if client == Version::HTTP_2 {
        join_cookies(headers);
    }
}

/// Over HTTP/1.1 `TE` is about one connection, and says so: a server may take no notice of it otherwise (RFC 9110, section
/// 10.1.4).
pub(super) fn name_te(headers: &mut HeaderMap) {
    if headers.contains_key(header::TE) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Refuses an answer with a transfer coding that hyper leaves in place (`gzip, chunked`): its
/// bytes could not be looked into.
pub(super) fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Error> {
    if values(headers, &header::TRANSFER_ENCODING).all(|te| te.eq_ignore_ascii_case("chunked")) {
        return Ok(());
    }
    let words = "the response has a transfer coding other than chunked";
    Err(Error::with(Code::UpstreamProtocol, words.into()))
}

/// Takes the connection's own fields, and what leads past the proxy, out of an answer.
pub(super) fn strip_response(headers: &mut HeaderMap) {
    let named = named_by_connection(headers);
    retain(headers, |name| {
        !named.contains(name)
            && !is_of_http1(name)
            && *name != header::PROXY_AUTHENTICATE
            && *name != PROXY_INFO
            && *name != header::ALT_SVC
            && *name != REFUSED
    });
}

/// Leaves one length in an answer's head, in one word (RFC 9112, section 6.3), and none where there is no body to have it
/// (RFC 9110, section 8.6).
pub(super) fn settle_length(status: StatusCode, headers: &mut HeaderMap) -> Result<(), Error> {
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        retain(headers, |name| *name != header::CONTENT_LENGTH);
        return Ok(());
    }
    let mut fields = headers.get_all(header::CONTENT_LENGTH).iter();
    let is_one = |field: &HeaderValue| field.as_bytes().iter().all(u8::is_ascii_digit);
    match (fields.next(), fields.next()) {
        (None, _) => return Ok(()),
        (Some(field), None) if is_one(field) && !field.is_empty() => return Ok(()),
        _ => {}
    }
    let mut all = headers.get_all(header::CONTENT_LENGTH).iter().flat_map(|field| {
        let members = field.as_bytes().split(|byte| *byte == b',');
        members.map(|member| str::from_utf8(member.trim_ascii()).ok()?.parse::<u64>().ok())
    });
    let first = all.next().flatten();
    let Some(length) = first.filter(|_| all.all(|length| length == first)) else {
        let words = "the response says its length in more than one way";
        return Err(Error::with(Code::UpstreamProtocol, words.into()));
    };
    headers.insert(header::CONTENT_LENGTH, length.into());
    Ok(())
}

/// Takes out of a message's trailers what has a meaning in its head alone (RFC 9110, section 6.5.1), or would lead past the
/// proxy.
pub(super) fn strip_trailers(trailers: &mut HeaderMap) {
    strip_response(trailers);
    retain(trailers, |name| !OF_HEADS.contains(name) && *name != header::PROXY_AUTHORIZATION);
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let names = values(headers, &header::CONNECTION).filter_map(|name| name.parse().ok());
    names.filter(|name| !ESSENTIAL.contains(name)).collect()
}

/// The comma-separated members of all fields of a name.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let fields = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|value| value.split(',')).map(str::trim).filter(|member| !member.is_empty())
}

/// Keeps the fields that `keep` names. `HeaderMap::remove` would move the last field up.
fn retain(headers: &mut HeaderMap, keep: impl Fn(&HeaderName) -> bool) {
    if headers.keys().all(&keep) {
        return;
    }
    let before = std::mem::take(headers);
    headers.reserve(before.len());
    let mut current = None;
    for (name, value) in before {
        // A repeated field comes without its name.
        current = name.or(current);
        if let Some(name) = current.as_ref().filter(|name| keep(name)) {
            headers.append(name.clone(), value);
        }
    }
}

/// HTTP/2 may split the cookies; HTTP/1 knows one field (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> =
        headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(parse).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn a_connections_own_fields_stay_with_it() {
        let mut headers = map(&[
            ("a", "1"),
            ("connection", "keep-alive, x-mine, Authorization"),
            ("keep-alive", "5"),
            ("x-mine", "1"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip, trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAM"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer x"),
            ("z", "1"),
        ]);
        strip_request(&mut headers, Version::HTTP_11);
        assert_eq!(names(&headers), ["a", "authorization", "z", "te"]);
        assert_eq!(headers["te"], "trailers");
        strip_request(&mut headers, Version::HTTP_10);
        assert_eq!(names(&headers), ["a", "authorization", "z"], "it gets none");
    }

    #[test]
    fn repeated_fields_stay_in_order() {
        let mut headers = map(&[("b", "1"), ("a", "1"), ("a", "2"), ("te", "x"), ("c", "3")]);
        strip_request(&mut headers, Version::HTTP_11);
        assert_eq!(names(&headers), ["b", "a", "c"]);
        assert_eq!(headers.get_all("a").iter().collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn nothing_invites_past_the_proxy() {
        let mut headers =
            map(&[("alt-svc", "h3=\":443\""), ("x-keyless-refused", "x"), ("a", "1")]);
        strip_response(&mut headers);
        assert_eq!(names(&headers), ["a"]);
    }

    #[test]
    fn an_answer_says_its_length_once() {
        for (fields, expected) in [
            (&["3"][..], Ok(Some("3"))),
            (&["3, 3"], Ok(Some("3"))),
            (&["3", "03"], Ok(Some("3"))),
            (&[], Ok(None)),
            (&["3, 5"], Err(Code::UpstreamProtocol)),
            (&["3", "5"], Err(Code::UpstreamProtocol)),
            (&["3,"], Err(Code::UpstreamProtocol)),
            (&["x"], Err(Code::UpstreamProtocol)),
            (&[""], Err(Code::UpstreamProtocol)),
        ] {
            let fields: Vec<_> = fields.iter().map(|field| ("content-length", *field)).collect();
            let mut headers = map(&fields);
            let settled = settle_length(StatusCode::OK, &mut headers);
            let said = headers.get(header::CONTENT_LENGTH).map(|length| length.to_str().unwrap());
            let settled = settled.map(|()| said).map_err(|error| error.code());
            assert_eq!(settled, expected, "{fields:?}");
            for bodiless in [StatusCode::NO_CONTENT, StatusCode::EARLY_HINTS] {
                assert!(settle_length(bodiless, &mut headers).is_ok());
                assert!(headers.is_empty());
            }
        }
    }

    #[test]
    fn trailers_change_nothing_of_their_message() {
        let mut trailers = map(&[
            ("grpc-status", "0"),
            ("content-length", "9"),
            ("set-cookie", "a=1"),
            ("x-keyless-refused", "x"),
            ("authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("x-sum", "1"),
        ]);
        strip_trailers(&mut trailers);
        assert_eq!(names(&trailers), ["grpc-status", "x-sum"]);
    }

    #[test]
    fn crumbs_become_one_cookie() {
        let mut headers = map(&[("cookie", "a=1"), ("cookie", "b=2")]);
        strip_request(&mut headers, Version::HTTP_2);
        assert_eq!(headers["cookie"], "a=1; b=2");
    }

    #[test]
    fn transfer_codings_that_hide_a_body_are_refused() {
        for (value, fine) in [("chunked", true), ("Chunked", true), ("gzip, chunked", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static(value));
            assert_eq!(check_transfer_coding(&headers).is_ok(), fine, "{value}");
        }
    }
}
