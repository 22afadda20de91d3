//! AWS's published examples: the S3 guide ("Examples: signature calculations" and "Authenticating
//! requests: query parameters"), the IAM guide, and the Signature Version 4 test suite.

use http::{Method, Request, Version};
use keyless_core::{Authority, Scheme};

use super::*;

const S3_KEY: &[u8] = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const SUITE_KEY: &[u8] = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct Example {
    key: &'static [u8],
    parts: Parts,
    body: Bytes,
}

impl Example {
    fn new(key: &'static [u8], method: Method, target: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Self { key, parts: request.body(()).unwrap().into_parts().0, body: Bytes::new() }
    }

    fn check(&self, key: &[u8]) -> Result<AwsRequest, Error> {
        let authority = Authority::parse("example.test:443").unwrap();
        let found = AwsRequest::find(&self.parts).expect("the example is signed");
        found.checked(&self.parts, &route(&authority), &self.body, key)
    }
}

fn route(authority: &Authority) -> Route<'_> {
    let (scheme, upstream_version) = (Scheme::Https, Version::HTTP_11);
    Route { scheme, authority, correlation_id: "req-1", upstream_version }
}

fn s3(
    method: Method,
    target: &str,
    signed: &str,
    signature: &str,
    more: &[(&str, &str)],
) -> Example {
    let credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={signed},Signature={signature}"
    );
    let own = [
        ("host", "examplebucket.s3.amazonaws.com"),
        ("x-amz-date", "20130524T000000Z"),
        ("authorization", &authorization),
    ];
    Example::new(S3_KEY, method, target, &[&own[..], more].concat())
}

fn suite(
    method: Method,
    target: &str,
    signed: &str,
    signature: &str,
    more: &[(&str, &str)],
) -> Example {
    let credential = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={signature}"
    );
    let own = [
        ("host", "example.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        ("authorization", &authorization),
    ];
    Example::new(SUITE_KEY, method, target, &[&own[..], more].concat())
}

fn examples() -> Vec<Example> {
    let iam = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
               SignedHeaders=content-type;host;x-amz-date, \
               Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
    let plain = "host;x-amz-content-sha256;x-amz-date";
    vec![
        s3(
            Method::GET,
            "/test.txt",
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            &[("range", "bytes=0-9"), (PAYLOAD, EMPTY)],
        ),
        s3(
            Method::PUT,
            "/test$file.text",
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            &[
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                (PAYLOAD, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
            ],
        ),
        s3(
            Method::GET,
            "/?lifecycle",
            plain,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            &[(PAYLOAD, EMPTY)],
        ),
        s3(
            Method::GET,
            "/?max-keys=2&prefix=J",
            plain,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            &[(PAYLOAD, EMPTY)],
        ),
        Example::new(
            S3_KEY,
            Method::GET,
            "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
            &[("host", "examplebucket.s3.amazonaws.com")],
        ),
        Example::new(
            SUITE_KEY,
            Method::GET,
            "/?Action=ListUsers&Version=2010-05-08",
            &[
                ("host", "iam.amazonaws.com"),
                ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
                ("x-amz-date", "20150830T123600Z"),
                ("authorization", iam),
            ],
        ),
        suite(
            Method::GET,
            "/",
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            &[],
        ),
    ]
}

#[test]
fn published_signatures_are_ours() {
    for example in examples() {
        example.check(example.key).unwrap_or_else(|error| panic!("{error}: {:?}", example.parts));
        assert_eq!(example.check(b"another").err().unwrap().code(), Code::SignatureRefused);
    }
}

#[test]
fn only_the_signature_changes() {
    for mut example in examples() {
        let authority = Authority::parse("example.test:443").unwrap();
        let request = example.check(example.key).unwrap();
        let before = format!("{:?}", example.parts);
        let route = route(&authority);
        request.sign(b"the real key", &route, &mut example.parts, &example.body).unwrap();
        assert!(example.check(example.key).is_err());
        let anew = example.check(b"the real key").unwrap();
        for values in example.parts.headers.values_mut() {
            values.set_sensitive(false);
        }
        let after = format!("{:?}", example.parts).replace(&anew.signature, &request.signature);
        assert_eq!(after, before);
    }
}

#[test]
fn what_is_signed_may_not_change() {
    let check = |change: fn(&mut Example)| {
        let mut example = s3(
            Method::GET,
            "/test.txt",
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            &[("range", "bytes=0-9"), (PAYLOAD, EMPTY)],
        );
        change(&mut example);
        let error = example.check(S3_KEY).err().expect("the change was not noticed");
        assert_eq!(error.code(), Code::SignatureRefused);
    };
    check(|it| it.parts.method = Method::PUT);
    check(|it| it.parts.uri = "/other.txt".parse().unwrap());
    check(|it| it.parts.uri = "/test.txt?x=1".parse().unwrap());
    check(|it| drop(it.parts.headers.remove("range")));
    check(|it| drop(it.parts.headers.insert("range", HeaderValue::from_static("bytes=0-8"))));
    check(|it| {
        drop(it.parts.headers.insert("x-amz-date", HeaderValue::from_static("20130525T000000Z")));
    });
    check(|it| drop(it.parts.headers.remove("x-amz-date")));
}

/// The examples of the S3 guide's "Signing and authenticating REST requests (AWS Signature Version 2)".
#[test]
fn the_older_method_is_recognised() {
    let header = [("authorization", "AWS AKIAIOSFODNN7EXAMPLE:qgk2+6Sv9/oM7G3qLEjTH1a1l1g=")];
    let query = "/p?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1141889120&Signature=vjby%3D";
    for (target, headers) in [("/p", &header[..]), (query, &[])] {
        let example = Example::new(S3_KEY, Method::GET, target, headers);
        assert_eq!(older_key_id(&example.parts).as_deref(), Some("AKIAIOSFODNN7EXAMPLE"));
        assert!(AwsRequest::find(&example.parts).is_none());
    }
    assert!(examples().iter().all(|example| older_key_id(&example.parts).is_none()));
}

#[test]
fn what_can_not_be_signed_is_refused_with_the_reason() {
    let told = |payload: &'static str, algorithm: &str| {
        let mut example = examples().remove(0);
        example.parts.headers.insert(PAYLOAD, HeaderValue::from_static(payload));
        let value = example.parts.headers[header::AUTHORIZATION].to_str().unwrap();
        let value = value.replace(SIGV4_ALGORITHM, algorithm).parse().unwrap();
        example.parts.headers.insert(header::AUTHORIZATION, value);
        let found = AwsRequest::find(&example.parts).unwrap();
        found.refuse_unsupported(&example.parts).map_err(|error| error.message())
    };
    assert_eq!(told(UNSIGNED, SIGV4_ALGORITHM), Ok(()));
    for payload in [
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    ] {
        assert_eq!(told(payload, SIGV4_ALGORITHM), Ok(()));
    }
    let unknown = told("STREAMING-AWS4-HMAC-SHA256-EVENTS", SIGV4_ALGORITHM).unwrap_err();
    assert!(unknown.contains("chunks are signed"), "{unknown}");
    assert!(told(UNSIGNED, "AWS4-ECDSA-P256-SHA256").unwrap_err().contains("one region"));
}

#[test]
fn other_credentials_are_not_ours() {
    let find = |header: &str| {
        let example =
            Example::new(S3_KEY, Method::GET, "/?X-Amz-Algorithm=x", &[("authorization", header)]);
        AwsRequest::find(&example.parts).is_some()
    };
    for header in
        ["Bearer x", "Basic eDp5", "AWS x:y", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a"]
    {
        assert!(!find(header), "{header}");
    }
}

#[test]
fn a_header_of_aws_that_is_not_signed_is_refused() {
    let check = |name: &'static str| {
        let mut example = examples().remove(0);
        example.parts.headers.insert(name, HeaderValue::from_static("x"));
        let found = AwsRequest::find(&example.parts).unwrap();
        found.refuse_unsupported(&example.parts).map_err(|error| error.message())
    };
    let refused = check("x-amz-acl").unwrap_err();
    assert!(refused.contains("x-amz-acl is not among the signed headers"), "{refused}");
    for free in ["x-amz-security-token", "x-amzn-trace-id", "x-other"] {
        assert_eq!(check(free), Ok(()), "{free}");
    }
}

#[test]
fn a_signature_has_its_time() {
    let check = |example: &Example, now: &str| {
        let found = AwsRequest::find(&example.parts).unwrap();
        let now = now.parse().unwrap();
        found.refuse_untimely(&example.parts, now).map_err(|error| error.message())
    };
    let examples = examples();
    let (header, presigned) = (&examples[0], &examples[4]);
    for example in [header, presigned] {
        assert_eq!(check(example, "2013-05-23T23:45:00Z"), Ok(()));
        assert!(check(example, "2013-05-23T23:44:59Z").unwrap_err().contains("ahead"));
        assert_eq!(check(example, "2013-05-24T00:15:00Z"), Ok(()));
    }
    assert!(check(header, "2013-05-24T00:15:01Z").unwrap_err().contains("minutes ago"));
    assert_eq!(check(presigned, "2013-05-25T00:00:00Z"), Ok(()));
    assert!(check(presigned, "2013-05-25T00:00:01Z").unwrap_err().contains("expired"));
}

/// Also where it can't be read: AWS may.
#[test]
fn what_is_signed_for_aws_is_known_as_that() {
    let is_signed = |target: &str, header: &str| {
        let example = Example::new(S3_KEY, Method::GET, target, &[("authorization", header)]);
        is_signed(&example.parts)
    };
    assert!(examples().iter().all(|example| super::is_signed(&example.parts)));
    for header in ["AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a", "AWS x:y"] {
        assert!(is_signed("/", header), "{header}");
    }
    assert!(is_signed("/?X-Amz-Signature=x", "Bearer x"));
    assert!(is_signed("/?AWSAccessKeyId=x&Signature=y", "Bearer x"));
    for target in ["/", "/?X-Amz-Expires=1", "/?Signature=y"] {
        assert!(!is_signed(target, "Bearer x"), "{target}");
    }
}
