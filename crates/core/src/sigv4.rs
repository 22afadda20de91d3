//! AWS Signature Version 4: the key of a day, region and service, and what is signed with it.
//!
//! What of a request is signed is its caller's choice, and so is a signature's place.
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The one algorithm.
pub const SIGV4_ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a key is derived for; shown as AWS writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigV4Scope {
    /// Such as `20150830`.
    pub day: String,
    /// Such as `us-east-1`.
    pub region: String,
    /// Such as `iam`.
    pub service: String,
}

/// The key that signs, the scope that it signs for, and the time.
pub struct SigV4Signer<'a> {
    /// The key's name.
    pub access_key_id: &'a str,
    /// The key.
    pub secret_access_key: &'a [u8],
    /// Such as `us-east-1`.
    pub region: &'a str,
    /// Such as `iam`.
    pub service: &'a str,
    /// The time of signing.
    pub now: Timestamp,
}

/// The signatures of a payload that is signed in pieces, each over the one before; the request's own
/// is the first. Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html> and
/// `sigv4-streaming-trailers.html`.
pub struct SigV4Chain {
    key: Zeroizing<[u8; 32]>,
    /// Time and scope, as each piece says them.
    when: String,
    last: String,
}

/// What is signed of a request.
pub struct SigV4Request<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// In canonical form.
    pub path: &'a str,
    /// In canonical form: escaped and sorted.
    pub query: &'a str,
    /// Names in lower case and values without white space around them, in any order; `host` and
    /// `x-amz-date` are among them.
    pub headers: Vec<(&'a str, &'a str)>,
    /// The body's digest, or what stands for it.
    pub payload: &'a str,
}

impl SigV4Scope {
    /// The signature of a request in canonical form, made at `time` (`20150830T123600Z`).
    pub fn signature(&self, key: &[u8], time: &str, canonical: &[u8]) -> String {
        let text = format!("{SIGV4_ALGORITHM}\n{time}\n{self}\n{}", sigv4_digest(canonical));
        HEXLOWER.encode(&*mac(&*self.key(key), text.as_bytes()))
    }

    fn key(&self, key: &[u8]) -> Zeroizing<[u8; 32]> {
        let first = Zeroizing::new([b"AWS4", key].concat());
        let key = mac(&first, self.day.as_bytes());
        let key = mac(&*key, self.region.as_bytes());
        let key = mac(&*key, self.service.as_bytes());
        mac(&*key, b"aws4_request")
    }
}

impl fmt::Display for SigV4Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { day, region, service } = self;
        write!(f, "{day}/{region}/{service}/aws4_request")
    }
}

impl SigV4Chain {
    /// Goes on from the signature of a request, `request`, made with `key` at `time`.
    pub fn new(scope: &SigV4Scope, key: &[u8], time: &str, request: &str) -> Self {
        Self { key: scope.key(key), when: format!("{time}\n{scope}"), last: request.to_owned() }
    }

    /// The signature of the next chunk.
    pub fn chunk(&mut self, data: &[u8]) -> &str {
        let digest = sigv4_digest(data);
        self.sign("PAYLOAD", &format!("{}\n{digest}", sigv4_digest(b"")))
    }

    /// The signature of the trailers, `name:value` and a line feed each.
    pub fn trailers(&mut self, lines: &[u8]) -> &str {
        self.sign("TRAILER", &sigv4_digest(lines))
    }

    fn sign(&mut self, kind: &str, what: &str) -> &str {
        let Self { when, last, .. } = self;
        let text = format!("{SIGV4_ALGORITHM}-{kind}\n{when}\n{last}\n{what}");
        self.last = HEXLOWER.encode(&*mac(&*self.key, text.as_bytes()));
        &self.last
    }
}

impl SigV4Signer<'_> {
    /// The value of `x-amz-date`.
    pub fn time(&self) -> String {
        self.now.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// The value of `authorization`.
    pub fn authorization(&self, request: SigV4Request<'_>) -> String {
        let time = self.time();
        let scope = SigV4Scope {
            day: time[..8].to_owned(),
            region: self.region.to_owned(),
            service: self.service.to_owned(),
        };
        let SigV4Request { method, path, query, mut headers, payload } = request;
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        // A header may be a session's token.
        let mut canonical = Zeroizing::new(format!("{method}\n{path}\n{query}\n"));
        for (name, value) in &headers {
            for part in [*name, ":", *value, "\n"] {
                canonical.push_str(part);
            }
        }
        for part in ["\n", &names, "\n", payload] {
            canonical.push_str(part);
        }
        let signature = scope.signature(self.secret_access_key, &time, canonical.as_bytes());
        let id = self.access_key_id;
        format!(
            "{SIGV4_ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
    }
}

/// A digest as AWS writes it.
pub fn sigv4_digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256>>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    /// AWS's example of deriving a signing key:
    /// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-key-examples.html>.
    #[test]
    fn the_signing_key_is_awss() {
        let own = str::to_owned;
        let scope =
            SigV4Scope { day: own("20150830"), region: own("us-east-1"), service: own("iam") };
        let key = HEXLOWER.encode(&*scope.key(KEY));
        assert_eq!(key, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }

    /// The examples of the S3 guide: 64 KiB and 1 KiB of the letter a, then the end, then a trailer.
    #[test]
    fn published_chunks_have_their_signatures() {
        let own = str::to_owned;
        let scope =
            SigV4Scope { day: own("20130524"), region: own("us-east-1"), service: own("s3") };
        let key = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let data = vec![b'a'; 64 << 10];
        let chain = |request| SigV4Chain::new(&scope, key, "20130524T000000Z", request);

        let seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        let mut plain = chain(seed);
        for (chunk, signature) in [
            (&data[..], "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (&data[..1024], "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ] {
            assert_eq!(plain.chunk(chunk), signature);
        }

        let seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
        let mut with_trailer = chain(seed);
        for (chunk, signature) in [
            (&data[..], "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"),
            (&data[..1024], "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"),
            (b"", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"),
        ] {
            assert_eq!(with_trailer.chunk(chunk), signature);
        }
        let signature = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
        assert_eq!(with_trailer.trailers(b"x-amz-checksum-crc32c:sOO8/Q==\n"), signature);
    }

    /// The Signature Version 4 test suite (`get-vanilla`, `get-vanilla-query-order-key-case`,
    /// `post-vanilla`), and the IAM guide's `ListUsers`.
    #[test]
    fn published_requests_have_their_signatures() {
        let form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        for (service, method, host, query, more, signature) in [
            (
                "service",
                "GET",
                "example.amazonaws.com",
                "",
                None,
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "service",
                "GET",
                "example.amazonaws.com",
                "Param1=value1&Param2=value2",
                None,
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "service",
                "POST",
                "example.amazonaws.com",
                "",
                None,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "iam",
                "GET",
                "iam.amazonaws.com",
                "Action=ListUsers&Version=2010-05-08",
                Some(form),
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
        ] {
            let signer = SigV4Signer {
                access_key_id: "AKIDEXAMPLE",
                secret_access_key: KEY,
                region: "us-east-1",
                service,
                now: "2015-08-30T12:36:00Z".parse().unwrap(),
            };
            let time = signer.time();
            let mut headers = vec![("x-amz-date", time.as_str()), ("host", host)];
            headers.extend(more);
            let payload = &sigv4_digest(b"");
            let request = SigV4Request { method, path: "/", query, headers, payload };
            let authorization = signer.authorization(request);
            assert!(authorization.ends_with(signature), "{method} {query}: {authorization}");
            assert!(authorization.contains(&format!(
                "Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, "
            )));
        }
    }
}
