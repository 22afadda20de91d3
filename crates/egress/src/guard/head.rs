//! Reads one HTTP/1 request head strictly: is it one that every reader reads alike, and how is its
//! body framed? The parsing is httparse's; here is only what it leaves open.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::Uri;
use httparse::{Error as Malformed, Header, Request, Status};
use keyless_core::{Code, Error, SafeText};
use percent_encoding::{AsciiSet, utf8_percent_encode};

use crate::raw_target::RawTarget;

/// Where a head arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Inside a tunnel: the connection already has its destination, so no CONNECT.
    Inside,
    /// At the explicit proxy.
    Proxy,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Chunks.
    Chunked,
    /// The next head.
    Empty,
    /// A body of this many bytes.
    Length(u64),
    /// CONNECT's own bytes.
    Tunnel,
    /// A WebSocket's frames, if the upgrade is granted.
    Upgrade,
}

/// hyper's own bound; Apache and gunicorn have the same.
const MAX_FIELDS: usize = 100;

/// What clients send raw in queries, and no reader of URLs has to take; browsers escape it.
const UNFIT_IN_QUERY: &AsciiSet = &AsciiSet::EMPTY.add(b'"').add(b'<').add(b'>');
/// The same in paths.
const UNFIT: &AsciiSet = &UNFIT_IN_QUERY.add(b'^').add(b'`').add(b'{').add(b'}');

/// Reads a whole head, its empty line included, with at most `max_fields` fields, and never more
/// than 100.
///
/// # Errors
/// [`Code::HeadTooLarge`] for too many fields, [`Code::BadRequest`] with the reason for everything
/// that readers could take differently.
pub fn parse_head(bytes: &[u8], door: Door, max_fields: usize) -> Result<Framing, Error> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let room = max_fields.min(fields.len());
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields[..room]) {
        Ok(Status::Complete(length)) if length == bytes.len() => {}
        Err(Malformed::TooManyHeaders) => return Err(too_many_fields(room)),
        Err(fault) => return Err(malformed(what_is_wrong(fault))),
        Ok(_) => return Err(malformed(NO_HEAD)),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(malformed(NO_HEAD));
    };
    check_target(method, target, door)?;
    check_hosts(request.headers, version)?;
    if method == "CONNECT" {
        return Ok(Framing::Tunnel);
    }
    let framing = body_framing(request.headers, version)?;
    match framing {
        Framing::Empty | Framing::Length(0)
            if method == "GET" && asks_for_websocket(request.headers) =>
        {
            Ok(Framing::Upgrade)
        }
        framing => Ok(framing),
    }
}

/// A head, or a trailer block, of more fields than these.
pub(crate) fn too_many_fields(most: usize) -> Error {
    let words = SafeText::words("it has more than ").and(most).and(" fields");
    Error::with(Code::HeadTooLarge, words)
}

/// The same of bytes.
pub(crate) fn too_many_bytes(most: usize) -> Error {
    let words = SafeText::words("it has more than ").and(most >> 10).and(" KiB");
    Error::with(Code::HeadTooLarge, words)
}

/// A request that is not sent on, and why.
pub(super) fn malformed(why: &'static str) -> Error {
    Error::with(Code::BadRequest, SafeText::words(why))
}

pub(super) const NO_HEAD: &str = "it does not begin as a request of HTTP/1 does";

fn what_is_wrong(fault: Malformed) -> &'static str {
    match fault {
        Malformed::HeaderName => {
            "a line of its head is no field: it is folded, or there is a space before the colon"
        }
        Malformed::HeaderValue => "a field's value has a letter that values have not",
        Malformed::Token => "the method or the target has a letter that they have not",
        Malformed::Version => "it is neither HTTP/1.0 nor HTTP/1.1",
        _ => NO_HEAD,
    }
}

fn check_target(method: &str, target: &str, door: Door) -> Result<(), Error> {
    match (method == "CONNECT", door) {
        (true, Door::Inside) => Err(malformed("a CONNECT inside of a connection to a host")),
        // Readers of URLs drop it, and with it the slash that some would put before it.
        _ if target.contains('#') => {
            Err(malformed("the target has a fragment (`#`), which is the client's own to keep"))
        }
        _ if is_plain_path(target) => Ok(()),
        // A host alone is what a CONNECT names.
        (is_connect, _)
            if target.parse::<Uri>().is_ok_and(|uri| is_connect || uri.path() != "") =>
        {
            Ok(())
        }
        _ => Err(malformed("the target is neither a path nor a URL")),
    }
}

/// A head in which the letters of its path and query are escaped that URLs have not and that clients send all the same:
/// what browsers escape, too, so that every reader takes them alike. With it what was there. None where there are none.
pub(super) fn with_target_escaped(head: &[u8]) -> Option<(Vec<u8>, RawTarget)> {
    let start = head.iter().position(|byte| !b"\r\n".contains(byte))?;
    let line = head[start..].split(|byte| b"\r\n".contains(byte)).next()?;
    let from = start + line.iter().position(|byte| *byte == b' ')? + 1;
    let to = start + line.iter().rposition(|byte| *byte == b' ')?;
    let target = str::from_utf8(head.get(from..to)?).ok()?;
    let path = match target.split_once("://") {
        _ if target.starts_with('/') => 0,
        Some((scheme, rest)) => scheme.len() + 3 + rest.find(['/', '?'])?,
        None => return None,
    };
    let query = target[path..].find('?').map_or(target.len(), |query| path + query);
    let mut escaped = utf8_percent_encode(&target[path..query], UNFIT).to_string();
    escaped.extend(utf8_percent_encode(&target[query..], UNFIT_IN_QUERY));
    let changed = escaped.len() > target.len() - path;
    changed.then(|| {
        let whole = [&head[..from + path], escaped.as_bytes(), &head[to..]].concat();
        let raw = Bytes::copy_from_slice(&target.as_bytes()[path..]);
        (whole, RawTarget { raw, escaped: escaped.into() })
    })
}

/// Whether this is a path with or without a query, of letters that nobody could take amiss: nearly
/// every target, and no need to have it parsed here and once more by hyper.
fn is_plain_path(target: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/?&=-._~%+,:".contains(&byte);
    target.len() < 1024 && target.starts_with('/') && target.bytes().all(plain)
}

fn check_hosts(fields: &[Header<'_>], version: u8) -> Result<(), Error> {
    match (values(fields, "host").count(), version) {
        (1, _) | (0, 0) => Ok(()),
        (0, _) => Err(malformed("it has no field Host")),
        _ => Err(malformed("it has more than one field Host")),
    }
}

fn body_framing(fields: &[Header<'_>], version: u8) -> Result<Framing, Error> {
    let mut lengths = values(fields, "content-length");
    let mut codings = values(fields, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::Empty),
        (Some(length), None) if lengths.next().is_none() => parse_length(length),
        (Some(_), None) => Err(malformed("it has more than one field Content-Length")),
        (Some(_), Some(_)) => Err(malformed("it has both Content-Length and Transfer-Encoding")),
        (None, Some(coding)) if codings.next().is_none() && version == 1 => {
            if coding.eq_ignore_ascii_case(b"chunked") {
                Ok(Framing::Chunked)
            } else {
                Err(malformed("it has a Transfer-Encoding other than chunked"))
            }
        }
        (None, Some(_)) if version == 1 => {
            Err(malformed("it has more than one field Transfer-Encoding"))
        }
        (None, Some(_)) => Err(malformed("HTTP/1.0 has no Transfer-Encoding")),
    }
}

fn parse_length(value: &[u8]) -> Result<Framing, Error> {
    let decimal = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let length = str::from_utf8(value).ok().filter(|_| decimal).and_then(|text| text.parse().ok());
    // hyper's own bound.
    let length = length.filter(|length: &u64| *length < u64::MAX - 2);
    length.map(Framing::Length).ok_or_else(|| malformed("its Content-Length is no number of bytes"))
}

fn asks_for_websocket(fields: &[Header<'_>]) -> bool {
    values(fields, "upgrade").any(|value| value.eq_ignore_ascii_case(b"websocket"))
}

fn values<'a>(fields: &'a [Header<'_>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<Framing, Code> {
        parse_head(format!("{lines}\r\n\r\n").as_bytes(), Door::Inside, 256)
            .map_err(|error| error.code())
    }

    fn fields(fields: &str) -> Result<Framing, Code> {
        parse(&format!("POST / HTTP/1.1\r\nhost: a.test\r\n{fields}"))
    }

    #[test]
    fn bodies_are_framed_one_way_only() {
        assert_eq!(fields("x: y"), Ok(Framing::Empty));
        assert_eq!(fields("Content-Length: 12"), Ok(Framing::Length(12)));
        assert_eq!(fields("Transfer-Encoding: Chunked"), Ok(Framing::Chunked));
        for smuggled in [
            "content-length: 1\r\ntransfer-encoding: chunked",
            "content-length: 1\r\ncontent-length: 2",
            "content-length: 1\r\ncontent-length: 1",
            "content-length: +5",
            "content-length: 5, 5",
            "content-length: 0x5",
            "content-length:",
            "content-length: 18446744073709551616",
            "transfer-encoding: xchunked",
            "transfer-encoding: chunked, identity",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: \x0bchunked",
            "host: b.test",
            "x : y",
            "x: y\r\n folded",
            "x: \0",
        ] {
            assert_eq!(fields(smuggled), Err(Code::BadRequest), "{smuggled:?}");
        }
        let old = "POST / HTTP/1.0\r\ntransfer-encoding: chunked";
        assert_eq!(parse(old), Err(Code::BadRequest));
    }

    #[test]
    fn a_target_is_escaped_where_urls_have_no_such_letters() {
        let escaped = |target: &str| {
            let head = format!("GET {target} HTTP/1.1\r\nhost: a\r\nx: <{{}}>\r\n\r\n");
            let escaped = String::from_utf8(with_target_escaped(head.as_bytes())?.0).unwrap();
            let target = escaped.strip_prefix("GET ")?.split_once(" HTTP/1.1\r\n")?.0.to_owned();
            assert!(escaped.ends_with("\r\nhost: a\r\nx: <{}>\r\n\r\n"), "{escaped}");
            Some(target)
        };
        for (target, expected) in [
            ("/a\"<>^`{|}", Some("/a%22%3C%3E%5E%60%7B|%7D")),
            ("/?q={\"a\":1}", Some("/?q={%22a%22:1}")),
            ("http://a/<b>?<", Some("http://a/%3Cb%3E?%3C")),
            ("http://a?<", Some("http://a?%3C")),
            // Not in what names the host, and not what is fit already.
            ("http://<a>/b", None),
            ("/a%3C+~!$&'()*;:@[]", None),
            ("a<b", None),
        ] {
            assert_eq!(escaped(target).as_deref(), expected, "{target}");
        }
        let spaced = with_target_escaped(b"GET /< > HTTP/1.1\r\nhost: a\r\n\r\n").unwrap().0;
        assert!(parse_head(&spaced, Door::Inside, 256).is_err());
    }

    #[test]
    fn a_fragment_goes_nowhere() {
        for target in ["/#x", "/a?b#", "#x", "https://a.test#x", "http://a.test#@b.test/", "*#"] {
            let head = format!("GET {target} HTTP/1.1\r\nhost: a.test");
            assert_eq!(parse(&head), Err(Code::BadRequest), "{target}");
        }
        assert_eq!(parse("GET /a%23b HTTP/1.1\r\nhost: a.test"), Ok(Framing::Empty));
    }

    #[test]
    fn a_host_alone_is_no_target() {
        for (target, expected) in [
            ("foo", Err(Code::BadRequest)),
            ("foo:443", Err(Code::BadRequest)),
            ("*", Ok(Framing::Empty)),
            ("http://a.test", Ok(Framing::Empty)),
            ("http://a.test?x", Ok(Framing::Empty)),
            ("/foo'", Ok(Framing::Empty)),
        ] {
            let head = format!("OPTIONS {target} HTTP/1.1\r\nhost: a.test");
            assert_eq!(parse(&head), expected, "{target}");
        }
    }

    #[test]
    fn a_tunnel_has_no_tunnel_inside() {
        let connect = b"CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n";
        let refused = parse_head(connect, Door::Inside, 256).unwrap_err();
        assert_eq!(refused.code(), Code::BadRequest);
        assert_eq!(parse_head(connect, Door::Proxy, 256), Ok(Framing::Tunnel));
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let many = "x: y\r\n".repeat(300);
        assert_eq!(fields(many.trim_end()), Err(Code::HeadTooLarge));
        let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n");
        let refused = |most| parse_head(head.as_bytes(), Door::Inside, most).unwrap_err().message();
        assert!(refused(20).contains("more than 20 fields"));
        assert!(refused(1_000).contains("more than 100 fields"));
    }

    #[test]
    fn hosts_are_counted() {
        assert_eq!(parse("GET / HTTP/1.0"), Ok(Framing::Empty));
        assert_eq!(parse("GET / HTTP/1.1"), Err(Code::BadRequest));
        assert_eq!(parse("GET / HTTP/2.0\r\nhost: a"), Err(Code::BadRequest));
    }

    #[test]
    fn a_websocket_is_seen() {
        let upgrade = "GET / HTTP/1.1\r\nhost: a\r\nupgrade: WebSocket\r\nconnection: upgrade";
        assert_eq!(parse(upgrade), Ok(Framing::Upgrade));
        assert_eq!(parse(&upgrade.replace("WebSocket", "h2c")), Ok(Framing::Empty));
    }
}
