//! A request in AWS's canonical form: what is signed, spelled in one way.

use std::fmt::Write as _;

use http::request::Parts;
use keyless_core::Error;

use super::{
    super::{
        super::{escape::Escape, find::percent_decoded},
        Route, refused,
    },
    AwsRequest, Place,
};

/// How a service has its paths coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathCoding {
    /// S3: as the path is sent.
    Once,
    /// All others: dots and double slashes resolved, then coded once more.
    Twice,
}

impl PathCoding {
    pub(super) fn of_service(service: &str) -> Self {
        if service == "s3" || service.starts_with("s3-") || service == "s3express" {
            Self::Once
        } else {
            Self::Twice
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Once => Self::Twice,
            Self::Twice => Self::Once,
        }
    }
}

/// The canonical request.
pub(super) fn request(
    request: &AwsRequest,
    route: &Route<'_>,
    parts: &Parts,
    payload: &str,
) -> Result<Vec<u8>, Error> {
    let mut text = parts.method.as_str().as_bytes().to_vec();
    text.push(b'\n');
    text.extend_from_slice(path(parts.uri.path(), request.paths).as_bytes());
    text.push(b'\n');
    let query = parts.uri.query().unwrap_or_default();
    text.extend_from_slice(&canonical_query(query, request.place));
    text.push(b'\n');
    for name in &request.signed_headers {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(&header_value(name, route, parts)?);
        text.push(b'\n');
    }
    text.push(b'\n');
    text.extend_from_slice(request.signed_headers.join(";").as_bytes());
    text.push(b'\n');
    text.extend_from_slice(payload.as_bytes());
    Ok(text)
}

fn path(path: &str, coding: PathCoding) -> String {
    let path = match coding {
        PathCoding::Once => percent_decoded(path.as_bytes()).0,
        PathCoding::Twice => normalised(path).into_bytes(),
    };
    encoded(&path, b"/")
}

/// RFC 3986, section 5.2.4, and double slashes as one.
fn normalised(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let mut all = segments.iter().fold(String::new(), |mut all, segment| {
        let _ = write!(all, "/{segment}");
        all
    });
    let is_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    if all.is_empty() || is_folder {
        all.push('/');
    }
    all
}

fn canonical_query(query: &str, place: Place) -> Vec<u8> {
    let code = |text: &str| encoded(&percent_decoded(text.as_bytes()).0, b"");
    let mut pairs: Vec<(String, String)> = (query.split('&'))
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (code(key), code(value)))
        .filter(|(key, _)| place != Place::Query || key != "X-Amz-Signature")
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("&").into_bytes()
}

/// The values of a header, trimmed, with single spaces, joined by commas.
fn header_value(name: &str, route: &Route<'_>, parts: &Parts) -> Result<Vec<u8>, Error> {
    let fields = parts.headers.get_all(name);
    let values: Vec<Vec<u8>> = fields.iter().map(|value| collapsed(value.as_bytes())).collect();
    match (values.is_empty(), name) {
        (false, _) => Ok(values.join(&b',')),
        (true, "host") => Ok(host(route, parts)),
        (true, _) => Err(refused("a header that it signs is not in the request")),
    }
}

/// HTTP/2 carries the host in the target.
fn host(route: &Route<'_>, parts: &Parts) -> Vec<u8> {
    let by_target = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    by_target.unwrap_or_else(|| route.authority.host.to_string()).into_bytes()
}

fn collapsed(value: &[u8]) -> Vec<u8> {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// Everything but unreserved characters and `kept` as `%XX`.
fn encoded(text: &[u8], kept: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text {
        if kept.contains(byte) {
            out.push(*byte);
        } else {
            Escape::Percent.write(&[*byte], &mut out);
        }
    }
    String::from_utf8(out).expect("escapes are ASCII")
}
