//! AWS Signature Version 4: the agent's signature is checked with its placeholders, then made anew.
//!
//! What the agent signed is what is signed again: its own list of headers, its date and scope, its
//! statement of the payload. Its canonical form is made from the request as we read it, so a check
//! that fails says that AWS would read another request than we do. `aws-sigv4` is not used: it
//! chooses what to sign by itself and can't check. Source: AWS "Signature Version 4 for API
//! requests"; reference/egress.md (c) 45, (e) 38 and 39.

mod canonical;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri, header, request::Parts, uri::PathAndQuery};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use keyless_core::{Code, Error, SIGV4_ALGORITHM, SafeText, SigV4Chain, SigV4Scope, sigv4_digest};
use subtle::ConstantTimeEq as _;

use self::canonical::PathCoding;
use super::{super::said::parameters, Route, chunks::ChunkSigner, refused};

const FAMILY: &str = "AWS4-";
const PAYLOAD: &str = "x-amz-content-sha256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// How far a signature's date may be from now, as AWS has it.
const SKEW: SignedDuration = SignedDuration::from_mins(15);
/// Some services (IoT) want it added once the request is signed.
const TOKEN: &str = "x-amz-security-token";

/// A signature in a request, as the agent made it.
pub(super) struct AwsRequest {
    place: Place,
    algorithm: String,
    access_key_id: String,
    scope: SigV4Scope,
    signed_headers: Vec<String>,
    signature: String,
    /// How this service's paths are coded; settled by the check.
    paths: PathCoding,
}

/// Whether a request is signed for AWS in some way, be it one that can't be read.
pub(super) fn is_signed(parts: &Parts) -> bool {
    let mut fields = parts.headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let named = |name: &'static [u8]| parameters(query, name).next().is_some();
    fields.any(|field| field.starts_with(FAMILY.as_bytes()) || field.starts_with(b"AWS "))
        || named(b"X-Amz-Signature")
        || (named(b"AWSAccessKeyId") && named(b"Signature"))
}

/// The access key id of a request that is signed by Version 2: clients of S3 still presign so in
/// some regions.
pub(super) fn older_key_id(parts: &Parts) -> Option<String> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some((id, _)) = header.and_then(|value| value.strip_prefix("AWS ")?.split_once(':')) {
        return Some(id.to_owned());
    }
    let id = parameters(parts.uri.query()?.as_bytes(), b"AWSAccessKeyId").next()?;
    String::from_utf8(id).ok()
}

/// Where the signature stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Authorization,
    /// A presigned URL.
    Query,
}

impl AwsRequest {
    /// Reads the request's AWS signature, if it has one.
    pub(super) fn find(parts: &Parts) -> Option<Self> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match header.filter(|value| value.starts_with(FAMILY)) {
            Some(value) => Self::in_header(value),
            None => Self::in_query(parts.uri.query()?),
        }
    }

    fn in_header(value: &str) -> Option<Self> {
        let (algorithm, fields) = value.split_once(' ')?;
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        Self::new(
            Place::Authorization,
            algorithm,
            field("Credential")?,
            field("SignedHeaders")?,
            field("Signature")?,
        )
    }

    fn in_query(query: &str) -> Option<Self> {
        let field = |name: &'static [u8]| {
            let value = parameters(query.as_bytes(), name).next()?;
            String::from_utf8(value).ok()
        };
        Self::new(
            Place::Query,
            &field(b"X-Amz-Algorithm")?,
            &field(b"X-Amz-Credential")?,
            &field(b"X-Amz-SignedHeaders")?,
            &field(b"X-Amz-Signature")?,
        )
    }

    fn new(
        place: Place,
        algorithm: &str,
        credential: &str,
        signed_headers: &str,
        signature: &str,
    ) -> Option<Self> {
        // The id comes first, and may hold slashes of its own in nobody's practice.
        let mut words = credential.split('/');
        let access_key_id = words.next()?.to_owned();
        let rest: Vec<&str> = words.collect();
        let (date, region, service) = match rest[..] {
            [date, region, service, _] => (date, region, service),
            // SigV4A names no region.
            [date, service, _] => (date, "", service),
            _ => return None,
        };
        let own = str::to_owned;
        Some(Self {
            place,
            algorithm: own(algorithm),
            access_key_id,
            scope: SigV4Scope { day: own(date), region: own(region), service: own(service) },
            signed_headers: signed_headers.split(';').map(str::to_ascii_lowercase).collect(),
            signature: own(signature),
            paths: PathCoding::of_service(service),
        })
    }

    /// Whose key it asks for: a placeholder of ours, or somebody else's business.
    pub(super) fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// Refuses what can't be signed anew.
    pub(super) fn refuse_unsupported(&self, parts: &Parts) -> Result<(), Error> {
        let payload = parts.headers.get(PAYLOAD).map(HeaderValue::as_bytes).unwrap_or_default();
        if self.algorithm != SIGV4_ALGORITHM {
            return Err(refused("only AWS4-HMAC-SHA256 is signed anew; name one region"));
        }
        if payload.starts_with(b"STREAMING-AWS4-") && has_trailers(payload).is_none() {
            return Err(refused("its chunks are signed in a way that is not known here"));
        }
        let is_signed = |name: &str| self.signed_headers.iter().any(|signed| signed == name);
        if !is_signed("host") {
            return Err(refused("the host is not among the signed headers"));
        }
        // AWS would refuse them too, where it looks: anybody on the way could have added them.
        let mut names = parts.headers.keys().map(HeaderName::as_str);
        let unsigned =
            names.find(|name| name.starts_with("x-amz-") && *name != TOKEN && !is_signed(name));
        unsigned.map_or(Ok(()), |name| {
            let words = SafeText::default().as_they_wrote(name);
            let words = words.and(" is not among the signed headers; sign it, or leave it out");
            Err(Error::with(Code::SignatureRefused, words))
        })
    }

    /// Refuses what was signed at another time than this, so that AWS would not take it either.
    pub(super) fn refuse_untimely(&self, parts: &Parts, now: Timestamp) -> Result<(), Error> {
        let time = DateTime::strptime("%Y%m%dT%H%M%SZ", self.time(parts)?);
        let time = time.and_then(|time| time.to_zoned(TimeZone::UTC));
        let time = time.map_err(|_| refused("its X-Amz-Date is no time"))?.timestamp();
        let late = now.duration_since(time);
        if late < -SKEW {
            return Err(refused("its date is more than 15 minutes ahead; set the clock"));
        }
        match self.place {
            Place::Authorization if late > SKEW => {
                Err(refused("its date is more than 15 minutes ago; set the clock, or sign anew"))
            }
            Place::Query if late > lasting(parts)? => {
                Err(refused("the presigned URL has expired; sign another one"))
            }
            Place::Authorization | Place::Query => Ok(()),
        }
    }

    /// Whether the payload's digest has to be made from the body.
    pub(super) fn needs_body(&self, parts: &Parts) -> Result<bool, Error> {
        Ok(self.stated_payload(parts)?.is_none())
    }

    /// The request, if the agent signed it with `placeholder` as we read it.
    pub(super) fn checked(
        mut self,
        parts: &Parts,
        route: &Route<'_>,
        body: &Bytes,
        placeholder: &[u8],
    ) -> Result<Self, Error> {
        for paths in [self.paths, self.paths.other()] {
            self.paths = paths;
            let signature = self.signature(placeholder, route, parts, body)?;
            if signature.as_bytes().ct_eq(self.signature.as_bytes()).into() {
                return Ok(self);
            }
        }
        Err(refused("it is not signed with the placeholder of the secret key"))
    }

    /// Signs with the real key: only the signature, which it gives, changes.
    pub(super) fn sign(
        &self,
        key: &[u8],
        route: &Route<'_>,
        parts: &mut Parts,
        body: &Bytes,
    ) -> Result<String, Error> {
        let signature = self.signature(key, route, parts, body)?;
        let swap = |text: &str| {
            let at = text.find(&self.signature)?;
            Some([&text[..at], &signature, &text[at + self.signature.len()..]].concat())
        };
        let lost = || Error::with(Code::Internal, "the signature is not where it was".into());
        match self.place {
            Place::Authorization => {
                let value = parts.headers.get(header::AUTHORIZATION).ok_or_else(lost)?;
                let value = value.to_str().ok().and_then(swap).ok_or_else(lost)?;
                let mut value = HeaderValue::try_from(value).map_err(|_| lost())?;
                value.set_sensitive(true);
                parts.headers.insert(header::AUTHORIZATION, value);
            }
            Place::Query => {
                let target = parts.uri.path_and_query().map(PathAndQuery::as_str);
                let target = target.and_then(swap).ok_or_else(lost)?;
                let mut uri = parts.uri.clone().into_parts();
                uri.path_and_query = Some(target.parse().map_err(|_| lost())?);
                parts.uri = Uri::from_parts(uri).map_err(|_| lost())?;
            }
        }
        Ok(signature)
    }

    /// What signs the payload's chunks anew where they are signed, from the `signature` that the
    /// request has now. The keys that are kept for them are of this day, region and service.
    pub(super) fn chunks(
        &self,
        placeholder: &[u8],
        key: &[u8],
        parts: &Parts,
        signature: &str,
    ) -> Result<Option<ChunkSigner>, Error> {
        let payload = parts.headers.get(PAYLOAD).map(HeaderValue::as_bytes).unwrap_or_default();
        let Some(has_trailers) = has_trailers(payload) else { return Ok(None) };
        let time = self.time(parts)?;
        let theirs = SigV4Chain::new(&self.scope, placeholder, &time, &self.signature);
        let ours = SigV4Chain::new(&self.scope, key, &time, signature);
        Ok(Some(ChunkSigner::new(theirs, ours, has_trailers)))
    }

    fn signature(
        &self,
        key: &[u8],
        route: &Route<'_>,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<String, Error> {
        let payload = match self.stated_payload(parts)? {
            Some(stated) => stated,
            None => sigv4_digest(body),
        };
        let canonical = canonical::request(self, route, parts, &payload)?;
        Ok(self.scope.signature(key, &self.time(parts)?, &canonical))
    }

    /// What the request itself says of its payload.
    fn stated_payload(&self, parts: &Parts) -> Result<Option<String>, Error> {
        let by_query = || {
            let query = parts.uri.query().unwrap_or_default().as_bytes();
            parameters(query, b"X-Amz-Content-Sha256").next()
        };
        let stated = match parts.headers.get(PAYLOAD) {
            Some(value) => Some(value.as_bytes().to_vec()),
            None if self.place == Place::Query => by_query(),
            None => None,
        };
        match stated {
            Some(stated) => String::from_utf8(stated)
                .map(Some)
                .map_err(|_| refused("its payload's digest is no text")),
            None if self.place == Place::Query && self.paths == PathCoding::Once => {
                Ok(Some(UNSIGNED.to_owned()))
            }
            None => Ok(None),
        }
    }

    /// The time of the signature, which begins with the scope's date.
    fn time(&self, parts: &Parts) -> Result<String, Error> {
        let time = match self.place {
            Place::Authorization => {
                parts.headers.get("x-amz-date").map(|value| value.as_bytes().to_vec())
            }
            Place::Query => {
                let query = parts.uri.query().unwrap_or_default().as_bytes();
                parameters(query, b"X-Amz-Date").next()
            }
        };
        let time = time.and_then(|time| String::from_utf8(time).ok());
        time.filter(|time| time.starts_with(&self.scope.day))
            .ok_or_else(|| refused("its X-Amz-Date is missing or of another day than its scope"))
    }
}

/// How long a presigned URL is good for.
fn lasting(parts: &Parts) -> Result<SignedDuration, Error> {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let seconds = parameters(query, b"X-Amz-Expires").next();
    let seconds = seconds.and_then(|seconds| str::from_utf8(&seconds).ok()?.parse().ok());
    let seconds: u32 =
        seconds.ok_or_else(|| refused("its X-Amz-Expires is missing or no number of seconds"))?;
    Ok(SignedDuration::from_secs(seconds.into()))
}

/// Whether signed trailers follow chunks that are signed; nothing where they are not.
fn has_trailers(payload: &[u8]) -> Option<bool> {
    match payload {
        b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Some(false),
        b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
