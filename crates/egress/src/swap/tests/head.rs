use data_encoding::{BASE64, BASE64URL_NOPAD};
use keyless_core::{EgressRule, Location, OnForeign, PlaceholderForm, SecretPath, Signer};

use super::*;
use crate::swap::testing::{OTHER, VALUE, rule};

/// `VALUE` where everything but unreserved characters is percent-encoded.
const PERCENT: &str = "s3cr%22et%5Cv%26l%2Bu%3De%2F%2541%20end";

fn header(bench: &Bench, host: &str, value: &str) -> Result<String, Error> {
    let request = swapped(bench, host, bare("https://x/", &[("authorization", value)]))?;
    Ok(request.headers()["authorization"].to_str().unwrap().to_owned())
}

fn target(bench: &Bench, target: &str) -> Result<String, Error> {
    let request = swapped(bench, "api.test", bare(target, &[]))?;
    Ok(request.uri().path_and_query().unwrap().as_str().to_owned())
}

#[test]
fn a_header_is_swapped_for_its_own_host_alone() {
    let bench = Bench::one();
    let bearer = format!("Bearer {}", bench.placeholder(0));
    assert_eq!(header(&bench, "api.test", &bearer).unwrap(), format!("Bearer {VALUE}"));
    assert_eq!(header(&bench, "evil.test", &bearer).unwrap(), bearer);
    assert_eq!(header(&bench, "api.test:8443", &bearer).unwrap(), bearer);
}

#[test]
fn swapped_headers_are_sensitive_and_others_are_not() {
    let bench = Bench::one();
    let headers = [("x-key", bench.placeholder(0)), ("cookie", bench.placeholder(0)), ("a", "b")];
    let request = swapped(&bench, "api.test", bare("https://x/", &headers)).unwrap();
    assert!(
        request.headers()["x-key"].is_sensitive() && request.headers()["cookie"].is_sensitive()
    );
    assert!(!request.headers()["a"].is_sensitive());
    assert_eq!(request.headers()["cookie"], VALUE);
}

#[test]
fn each_occurrence_is_swapped_and_asked_for_once() {
    let bench = Bench::one();
    let twice = format!("{0}, {0}", bench.placeholder(0));
    assert_eq!(header(&bench, "api.test", &twice).unwrap(), format!("{VALUE}, {VALUE}"));
    let calls = bench.broker.calls.lock().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].0.len(), calls[0].1.as_slice()), (1, &[Location::Header][..]));
}

#[test]
fn refusals_name_their_reason() {
    let to = |rule| Bench::new(vec![("a", VALUE, rule, PlaceholderForm::Default)]);
    let most =
        |most| to(EgressRule { max_occurrences: Some(most), ..rule("api.test", &Location::ALL) });
    let bench = most(2);
    let twice = format!("{0} {0}", bench.placeholder(0));
    assert_eq!(header(&bench, "api.test", &twice).unwrap(), format!("{VALUE} {VALUE}"));
    let bench = most(1);
    let refused = header(&bench, "api.test", &twice).unwrap_err();
    assert_eq!(refused.code(), Code::TooManyOccurrences);
    assert!(refused.detail().as_str().ends_with(": at most 1 in one request"), "{refused}");
    let bench = to(rule("api.test", &[Location::Query]));
    assert_eq!(code(header(&bench, "api.test", bench.placeholder(0))), Code::LocationNotAllowed);
    let block = EgressRule { on_foreign: OnForeign::Block, ..rule("api.test", &Location::ALL) };
    let bench = to(block);
    assert_eq!(code(header(&bench, "evil.test", bench.placeholder(0))), Code::ForeignDestination);
    assert!(bench.broker.calls.lock().unwrap().is_empty(), "nothing was released for a refusal");
}

#[test]
fn one_refused_placeholder_refuses_the_request() {
    let block = EgressRule { on_foreign: OnForeign::Block, ..rule("other.test", &Location::ALL) };
    let bench = Bench::new(vec![
        ("a", VALUE, rule("api.test", &Location::ALL), PlaceholderForm::Default),
        ("b", OTHER, block, PlaceholderForm::Default),
    ]);
    let headers = [("x-a", bench.placeholder(0)), ("x-b", bench.placeholder(1))];
    let result = swapped(&bench, "api.test", bare("https://x/", &headers));
    assert_eq!(code(result), Code::ForeignDestination);
    assert!(bench.broker.calls.lock().unwrap().is_empty());
}

#[test]
fn placeholders_of_nobody_are_refused_where_secrets_go() {
    let bench = Bench::one();
    let stranger = format!("kloak_{}", "0123456789ABCDEFGHJKMNPQRS");
    assert_eq!(code(header(&bench, "api.test", &stranger)), Code::UnknownPlaceholder);
    assert_eq!(header(&bench, "elsewhere.test", &stranger).unwrap(), stranger);
    let basic = format!("Basic {}", BASE64.encode(format!("u:{stranger}").as_bytes()));
    assert_eq!(code(header(&bench, "api.test", &basic)), Code::UnknownPlaceholder);
    assert_eq!(
        code(target(&bench, &format!("/a?b=%6b{}", &stranger[1..]))),
        Code::UnknownPlaceholder
    );
    assert!(header(&bench, "api.test", "kloak_ is a prefix, kloak_0123 no placeholder").is_ok());
}

#[test]
fn placeholders_in_names_and_methods_are_bad_requests() {
    let bench = Bench::one();
    let name = bench.placeholder(0).to_owned();
    assert_eq!(code(swapped(&bench, "api.test", bare("/", &[(&name, "v")]))), Code::BadRequest);
    let mut request = bare("/", &[]);
    *request.method_mut() = http::Method::from_bytes(name.as_bytes()).unwrap();
    assert_eq!(code(swapped(&bench, "api.test", request)), Code::BadRequest);
}

#[test]
fn basic_is_decoded_swapped_and_encoded_again() {
    let bench = Bench::one();
    let p = bench.placeholder(0);
    for credential in [format!("x-access-token:{p}"), format!("{p}:"), format!("{p}:{p}")] {
        let expected = BASE64.encode(credential.replace(p, VALUE).as_bytes());
        let sent = BASE64.encode(credential.as_bytes());
        let bare = BASE64URL_NOPAD.encode(credential.as_bytes());
        for (scheme, sent) in [("Basic", &sent), ("bAsIc", &sent), ("basic ", &bare)] {
            let got = header(&bench, "api.test", &format!("{scheme} {sent}")).unwrap();
            assert_eq!(got, format!("{scheme} {expected}"));
        }
    }
    assert_eq!(bench.broker.calls.lock().unwrap()[0].1, [Location::Basic]);
    assert_eq!(header(&bench, "api.test", "Basic dTpw").unwrap(), "Basic dTpw");
    assert_eq!(header(&bench, "api.test", "Basic !").unwrap(), "Basic !");
}

/// Some read it all the same, and nobody would know why it is refused there.
#[test]
fn a_placeholder_in_odd_base64_is_refused_with_the_reason() {
    let bench = Bench::one();
    for user in ["u", "us", "use"] {
        let sent = BASE64.encode(format!("{user}:{}", bench.placeholder(0)).as_bytes());
        let (begin, end) = sent.split_at(10);
        for odd in [
            format!("Basic\t{sent}"),
            format!("Basic {begin} {end}"),
            format!("Basic {begin}.{end}"),
            format!("Basic {begin}\t{end}"),
        ] {
            assert_eq!(code(header(&bench, "api.test", &odd)), Code::BadRequest, "{odd}");
        }
        let mut spare = sent.trim_end_matches('=').as_bytes().to_vec();
        if !spare.len().is_multiple_of(4) {
            // The bits that are left over are none any more.
            *spare.last_mut().unwrap() += 1;
            let odd = format!("Basic {}", str::from_utf8(&spare).unwrap());
            assert_eq!(code(header(&bench, "api.test", &odd)), Code::BadRequest, "{odd}");
        }
    }
}

#[test]
fn path_and_query_are_edited_in_place() {
    let bench = Bench::one();
    let p = bench.placeholder(0);
    let cases = [
        (format!("/bot{p}/send%2Fit//a;b"), format!("/bot{PERCENT}/send%2Fit//a;b")),
        (format!("/?z=%41&key={p}&a=+&z"), format!("/?z=%41&key={PERCENT}&a=+&z")),
        (format!("/%6B{}?x=%6b{}", &p[1..], &p[1..]), format!("/{PERCENT}?x={PERCENT}")),
        ("/plain?b=2&a=1%20".to_owned(), "/plain?b=2&a=1%20".to_owned()),
    ];
    for (sent, expected) in cases {
        assert_eq!(target(&bench, &sent).unwrap(), expected);
    }
}

#[test]
fn the_colon_form_is_found_plain_and_encoded() {
    let all = rule("api.test", &Location::ALL);
    let bench = Bench::new(vec![("a", VALUE, all, PlaceholderForm::Colon)]);
    let p = bench.placeholder(0);
    let encoded = p.replace(':', "%3a");
    assert_eq!(header(&bench, "api.test", p).unwrap(), VALUE);
    assert_eq!(header(&bench, "api.test", &encoded).unwrap(), PERCENT);
    assert_eq!(
        target(&bench, &format!("/{p}?k={encoded}")).unwrap(),
        format!("/{PERCENT}?k={PERCENT}")
    );
}

#[test]
fn accept_encoding_is_narrowed_toward_named_hosts_alone() {
    let bench = Bench::one();
    let sent = |host| {
        let request = bare("/", &[("accept-encoding", "gzip, exotic")]);
        swapped(&bench, host, request).unwrap().headers()["accept-encoding"].clone()
    };
    assert_eq!(sent("api.test"), "gzip");
    assert_eq!(sent("evil.test"), "gzip, exotic");
}

/// Nobody's key but the session's signs what goes to the hosts of a key for AWS.
#[test]
fn what_another_key_signed_for_aws_is_refused_where_one_of_ours_signs() {
    let id = rule("api.test", &Location::ALL);
    let path = SecretPath::parse("team/test/id").unwrap();
    let key = EgressRule {
        sign: Some(Signer::Aws { access_key_id: path }),
        ..EgressRule::to(["api.test"].map(|to| Destination::parse(to).unwrap()).to_vec())
    };
    let (one, other) = (("id", "AKIAOURS", id), ("key", "the real key", key));
    let secrets =
        [one, other].map(|(name, value, rule)| (name, value, rule, PlaceholderForm::Default));
    let bench = Bench::new(secrets.to_vec());
    let other_scope = "AKIAOTHER/20260101/us-east-1/s3/aws4_request";
    let by_header = format!(
        "AWS4-HMAC-SHA256 Credential={other_scope}, SignedHeaders=host, Signature=0123456789"
    );
    let by_query = format!(
        "/p?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={other_scope}&X-Amz-SignedHeaders=host&X-Amz-Signature=0"
    );
    for (target, header) in [
        ("/", &*by_header),
        (&*by_query, "Bearer x"),
        ("/", "AWS4-HMAC-SHA256 unreadable"),
        ("/", "AWS AKIAOTHER:0123"),
    ] {
        let ask = |host| swapped(&bench, host, bare(target, &[("authorization", header)]));
        assert_eq!(code(ask("api.test")), Code::SignatureRefused, "{target} {header}");
        assert!(ask("else.test").is_ok(), "{target} {header}");
    }
    for (target, header) in [("/", "Bearer x"), ("/?Signature=x", "Basic eDp5")] {
        let request = bare(target, &[("authorization", header)]);
        assert!(swapped(&bench, "api.test", request).is_ok(), "{target} {header}");
    }
}
