use std::{cell::Cell, time::Duration};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use keyless_core::{Location, PlaceholderForm, Uptime};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    Limits,
    coding::{
        Coding,
        tests::{coded, decoded},
    },
    swap::testing::{OTHER, VALUE, look_alike, rule},
};

const FORM: &str = "application/x-www-form-urlencoded";

/// Three secrets: one for any place, one for headers alone, one for another host.
fn bench() -> Bench {
    Bench::new(vec![
        ("any", VALUE, rule("api.test", &Location::ALL), PlaceholderForm::Default),
        ("head", OTHER, rule("api.test", &[Location::Header]), look_alike(40)),
        ("else", OTHER, rule("other.test", &Location::ALL), PlaceholderForm::Colon),
    ])
}

fn post(content_type: &str, coding: Option<Coding>, body: Chunks) -> Request<Chunks> {
    let mut request = Request::post("https://api.test/").header(CONTENT_TYPE, content_type);
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        request = request.header(CONTENT_LENGTH, length);
    }
    if let Some(coding) = coding {
        request = request.header(CONTENT_ENCODING, name(coding));
    }
    request.body(body).unwrap()
}

fn name(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => "br",
        Coding::Deflate => "deflate",
        Coding::Gzip => "gzip",
        Coding::Zstd => "zstd",
    }
}

/// The value as the model spells it.
fn spelled(content_type: &str) -> String {
    match content_type {
        FORM => VALUE.bytes().fold(String::new(), |text, byte| {
            let kept = byte.is_ascii_alphanumeric();
            text + &if kept { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        }),
        "application/json" | "application/vnd.api+json; charset=utf-8" => {
            VALUE.replace('\\', "\\\\").replace('"', "\\\"")
        }
        _ => VALUE.to_owned(),
    }
}

#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    Placeholder(usize),
    Beginning(usize, usize),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => vec(select(&b"ak_lo{}&= "[..]), 0..30).prop_map(Part::Text),
        // Without quotes: a string within a string of JSON, which the model does not know, is escaped twice.
        1 => vec(any::<u8>().prop_filter("a quote", |byte| *byte != b'"'), 5000..9000).prop_map(Part::Text),
        4 => Just(Part::Placeholder(0)),
        1 => Just(Part::Placeholder(2)),
        3 => (0_usize..3, 0_usize..31).prop_map(|(of, length)| Part::Beginning(of, length)),
    ]
}

fn written(bench: &Bench, parts: &[Part], in_place_of_first: &str) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Text(bytes) => text.extend_from_slice(bytes),
            Part::Placeholder(0) => text.extend_from_slice(in_place_of_first.as_bytes()),
            Part::Placeholder(of) => text.extend_from_slice(bench.placeholder(*of).as_bytes()),
            Part::Beginning(of, length) => {
                text.extend_from_slice(&bench.placeholder(*of).as_bytes()[..*length]);
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn what_arrives_is_what_the_model_says(
        parts in vec(part(), 0..14),
        content_type in select(vec![
            "application/json", "application/vnd.api+json; charset=utf-8", FORM, "text/plain",
            "multipart/form-data; boundary=x",
        ]),
        coding in option::of(select(&Coding::ALL[..])),
        sizes in vec(1_usize..2000, 0..30),
        exact in any::<bool>(),
        refused in prop::bool::weighted(0.1),
    ) {
        let bench = bench();
        let mut text = written(&bench, &parts, bench.placeholder(0));
        let mut expected = written(&bench, &parts, &spelled(content_type));
        if refused {
            text.extend_from_slice(bench.placeholder(1).as_bytes());
        }
        let sent = coding.map_or(text.clone(), |coding| coded(coding, &[&text]));
        let request = post(content_type, coding, Chunks::cut(&sent, &sizes, exact));
        let result = swapped(&bench, "api.test", request);
        if refused {
            prop_assert_eq!(code(result), Code::LocationNotAllowed);
            return Ok(());
        }
        let got = result.unwrap().into_body();
        let got = coding.map_or(got.clone(), |coding| decoded(coding, &got, &[]).unwrap());
        prop_assert_eq!(&got, &expected);
        // Toward a host that no secret names, not a bit is changed.
        let request = post(content_type, coding, Chunks::cut(&sent, &sizes, exact));
        expected = sent;
        prop_assert_eq!(swapped(&bench, "nobody.test", request).unwrap().into_body(), expected);
    }
}

#[test]
fn every_split_of_a_placeholder_is_found() {
    let bench = bench();
    let p = bench.placeholder(0);
    let text = format!("before {p} after");
    for at in 1..text.len() {
        let request = post("text/plain", None, Chunks::cut(text.as_bytes(), &[at], false));
        let got = swapped(&bench, "api.test", request).unwrap().into_body();
        assert_eq!(got, format!("before {VALUE} after").into_bytes(), "{at}");
    }
    let request = post("text/plain", None, Chunks::cut(text.as_bytes(), &[1; 99], false));
    let got = swapped(&bench, "api.test", request).unwrap().into_body();
    assert_eq!(got, format!("before {VALUE} after").into_bytes());
}

#[test]
fn json_and_forms_still_parse() {
    let bench = bench();
    let p = bench.placeholder(0);
    let json = format!(r#"{{"token": "{p}" , "n":1e2}}"#);
    let request = post("application/json", None, Chunks::cut(json.as_bytes(), &[], true));
    let got = swapped(&bench, "api.test", request).unwrap().into_body();
    let parsed: serde_json::Value = serde_json::from_slice(&got).unwrap();
    assert_eq!(parsed["token"], VALUE);
    assert!(String::from_utf8(got).unwrap().ends_with(r#"" , "n":1e2}"#), "edited in place");
    let form = format!("a=1&token={p}&b=%20");
    let request = post(FORM, None, Chunks::cut(form.as_bytes(), &[], true));
    let got = String::from_utf8(swapped(&bench, "api.test", request).unwrap().into_body()).unwrap();
    let fields: Vec<&str> = got.split('&').collect();
    let token = fields[1].strip_prefix("token=").unwrap();
    let (value, _) = crate::swap::find::percent_decoded(token.as_bytes());
    assert_eq!((fields[0], value.as_slice(), fields[2]), ("a=1", VALUE.as_bytes(), "b=%20"));
}

/// Arguments of a call, and GraphQL with strings of its own.
#[test]
fn json_and_strings_within_json_still_parse() {
    let bench = bench();
    let p = bench.placeholder(0);
    let inner =
        serde_json::json!({ "token": p, "deeper": serde_json::json!({ "token": p }).to_string() });
    let json = serde_json::json!({
        "arguments": inner.to_string(),
        "query": format!("{{ login(with: \"{p}\") {{ id }} }}"),
        "prose": format!("as \"you\" said: {p}"),
        "token": p,
    });
    let request =
        post("application/json", None, Chunks::cut(json.to_string().as_bytes(), &[], true));
    let got = swapped(&bench, "api.test", request).unwrap().into_body();
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let outer = parse(str::from_utf8(&got).unwrap());
    let inner = parse(outer["arguments"].as_str().unwrap());
    let deeper = parse(inner["deeper"].as_str().unwrap());
    for object in [&outer, &inner, &deeper] {
        assert_eq!(object["token"], VALUE);
    }
    assert_eq!(outer["prose"], format!("as \"you\" said: {VALUE}"));
    let literal = serde_json::Value::from(VALUE).to_string();
    assert_eq!(outer["query"], format!("{{ login(with: {literal}) {{ id }} }}"));
}

#[test]
fn head_and_small_body_are_released_together() {
    let bench = bench();
    let p = bench.placeholder(0);
    let mut request = post("text/plain", None, Chunks::cut(p.as_bytes(), &[], true));
    request.headers_mut().insert("x-key", p.parse().unwrap());
    swapped(&bench, "api.test", request).unwrap();
    let calls = bench.broker.calls.lock().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].1, [Location::Header, Location::Body]);
}

#[test]
fn a_body_of_some_megabytes_has_a_length_after_the_swap() {
    let bench = bench();
    let p = bench.placeholder(0);
    for (word, becomes) in [(p, VALUE), ("nothing", "nothing")] {
        let text = |word: &str| [vec![b'x'; 4 << 20], word.into(), vec![b'y'; 2 << 20]].concat();
        let mut request = post("text/plain", None, Chunks::cut(&text(word), &[16_384; 400], true));
        request.headers_mut().insert("x-key", p.parse().unwrap());
        let got = swapped(&bench, "api.test", request).unwrap();
        assert_eq!(got.headers()[CONTENT_LENGTH], text(becomes).len().to_string());
        assert!(!got.headers().contains_key(TRANSFER_ENCODING));
        assert!(*got.body() == text(becomes));
    }
    let calls = bench.broker.calls.lock().unwrap();
    assert_eq!(calls[0].1, [Location::Header, Location::Body], "released together");
}

#[test]
fn a_large_body_streams_and_is_framed_anew() {
    let bench = bench();
    let p = bench.placeholder(0);
    let long = [vec![b'x'; 8 << 20], p.into(), vec![b'y'; 300_000]].concat();
    let full_of_them = p.repeat(10_000).into_bytes();
    let short = [vec![b'x'; 300_000], p.into(), vec![b'y'; 300_000]].concat();
    for (text, exact) in [(long, true), (full_of_them, true), (short, false)] {
        let request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], exact));
        let got = swapped(&bench, "api.test", request).unwrap();
        assert!(!got.headers().contains_key(CONTENT_LENGTH));
        assert_eq!(got.headers()[TRANSFER_ENCODING], "chunked");
        let expected = String::from_utf8(text).unwrap().replace(p, VALUE);
        assert!(*got.body() == expected.into_bytes());
    }
}

/// Room for those that have to be read whole is not taken by those that need not.
#[test]
fn a_large_body_streams_while_there_is_little_room() {
    let bench = bench();
    let text = [vec![b'x'; 600_000], bench.placeholder(0).into()].concat();
    let send = || {
        let request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], true));
        let got = swapped(&bench, "api.test", request).unwrap();
        assert!(got.body().ends_with(VALUE.as_bytes()));
        got.headers().contains_key(CONTENT_LENGTH)
    };
    let half = Limits::default().whole_bytes_per_session / 2;
    for (taken, is_known) in [(half - 2_000_000, true), (half - 1_000_000, false), (half, false)] {
        let held = bench.table.reading().hold(taken).unwrap();
        assert_eq!(send(), is_known, "{taken}");
        drop(held);
    }
    assert!(send(), "all of it is free again");
}

#[test]
fn the_length_stays_where_nothing_can_change_it() {
    let bench = Bench::new(vec![(
        "head",
        OTHER,
        rule("api.test", &[Location::Header]),
        PlaceholderForm::Default,
    )]);
    let text = vec![b'x'; 600_000];
    let request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], true));
    let got = swapped(&bench, "api.test", request).unwrap();
    assert_eq!(got.headers()[CONTENT_LENGTH], "600000");
    assert!(*got.body() == text);
}

#[test]
fn a_look_alike_that_the_head_used_keeps_the_length() {
    let value = "x".repeat(40);
    let all = rule("api.test", &Location::ALL);
    let bench = Bench::new(vec![("a", value.as_str(), all, look_alike(40))]);
    let p = bench.placeholder(0);
    let text = [vec![b'-'; 600_000], p.into()].concat();
    let mut request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], true));
    request.headers_mut().insert("x-key", p.parse().unwrap());
    let got = swapped(&bench, "api.test", request).unwrap();
    assert_eq!(got.headers()[CONTENT_LENGTH], text.len().to_string());
    assert!(got.body().ends_with(value.as_bytes()));
}

/// As after a machine has slept between the two: to ask again would give nothing new, and without an end.
#[test]
fn a_permit_that_ran_out_on_the_way_back_is_not_asked_for_again() {
    thread_local!(static READ: Cell<u64> = const { Cell::new(0) });
    let bench = bench();
    // It is read when the value comes, and is over by the time that it is put in.
    *bench.broker.clock.lock().unwrap() =
        || Uptime::since_start(Duration::from_mins(READ.replace(READ.get() + 1)));
    let text = [vec![b'-'; 600_000], bench.placeholder(0).into()].concat();
    let request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], false));
    assert_eq!(code(swapped(&bench, "api.test", request)), Code::PermitExpired);
    assert_eq!(bench.broker.calls.lock().unwrap().len(), 1);
}

#[test]
fn a_digest_keeps_the_length_since_it_forbids_a_swap() {
    let bench = bench();
    let text = vec![b'-'; 600_000];
    let mut request = post("text/plain", None, Chunks::cut(&text, &[16_384; 40], true));
    request.headers_mut().insert("content-md5", "x".parse().unwrap());
    let got = swapped(&bench, "api.test", request).unwrap();
    assert_eq!(got.headers()[CONTENT_LENGTH], "600000");
}

#[test]
fn untouched_large_bodies_are_not_copied() {
    let bench = bench();
    let chunks = Chunks::cut(&vec![b'x'; 400_000], &[100_000; 4], false);
    let frames = run(async {
        let authority = authority("api.test");
        let route = route(&authority);
        let request = swap_request(&bench.table, &route, post("a/b", None, chunks)).await.unwrap();
        drained(request.into_body()).await.unwrap().0
    });
    assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), [100_000; 4]);
}

#[test]
fn digests_refuse_a_swap_and_nothing_else() {
    let bench = bench();
    let cases = [
        ("content-md5", "x", true),
        ("digest", "sha-256=x", true),
        ("content-digest", "sha-256=:x:", true),
        ("repr-digest", "sha-256=:x:", true),
        ("upload-checksum", "sha1 x", true),
        ("x-checksum-sha1", "x", true),
        ("content-encoding", "aws-chunked", true),
        ("x-amz-content-sha256", "0123", true),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", false),
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", false),
    ];
    for (name, value, refused) in cases {
        for exact in [true, false] {
            let send = |text: &str| {
                let mut request = post("a/b", None, Chunks::cut(text.as_bytes(), &[], exact));
                request.headers_mut().insert(name, value.parse().unwrap());
                swapped(&bench, "api.test", request)
            };
            assert!(send("nothing to swap").is_ok(), "{name}");
            let result = send(bench.placeholder(0));
            if refused {
                assert_eq!(code(result), Code::BodyDigest, "{name}");
            } else {
                assert_eq!(result.unwrap().body(), VALUE.as_bytes(), "{name}");
            }
        }
    }
}

/// A swap of another length is refused in one that names its place in the whole; one of the same is not.
#[test]
fn a_range_keeps_its_length() {
    const LONG: &str = "a-value-that-is-as-long-as-its-look-alike";
    let rule = rule("api.test", &Location::ALL);
    let alike = Bench::new(vec![("alike", LONG, rule, look_alike(LONG.len()))]);
    for (bench, fits) in [(bench(), false), (alike, true)] {
        for exact in [true, false] {
            let body = Chunks::cut(bench.placeholder(0).as_bytes(), &[], exact);
            let mut request = post("application/octet-stream", None, body);
            request.headers_mut().insert("content-range", "bytes 0-9/90".parse().unwrap());
            match swapped(&bench, "api.test", request) {
                Ok(sent) => assert!(fits && sent.body() == LONG.as_bytes(), "{exact}"),
                refused => assert!(!fits && code(refused) == Code::BodyDigest, "{exact}"),
            }
        }
    }
}

/// A part's own is set right where the body is read before it is sent; where it has left by then, the swap is refused.
#[test]
fn parts_that_say_their_length_do_so_after_the_swap() {
    let bench = bench();
    let placeholder = bench.placeholder(0);
    let part = |head: &str, text: &str| format!("--x\r\nA: b\r\n{head}\r\n\r\n{text}\r\n");
    let length = |text: &str| format!("Content-Length: {}", text.len());
    let says = |text: &str| part(&length(text), text);
    let body = |said: &str, unsaid: &str| {
        format!("{}{}{}--x--\r\n", says("before"), says(said), part("C: d", unsaid))
    };
    for coding in [None, Some(Coding::Gzip)] {
        let send = |text: &str, exact| {
            let text = coding.map_or(text.into(), |coding| coded(coding, &[text.as_bytes()]));
            let body = Chunks::cut(&text, &[7; 99], exact);
            let sent =
                swapped(&bench, "api.test", post("multipart/form-data; boundary=x", coding, body))?;
            let length =
                sent.headers().get(CONTENT_LENGTH).map(|it| it.to_str().unwrap().to_owned());
            let sent = sent.into_body();
            if exact {
                assert_eq!(length, Some(sent.len().to_string()));
            }
            let plain = coding.map_or(sent.clone(), |coding| decoded(coding, &sent, &[]).unwrap());
            Ok::<_, Error>(String::from_utf8(plain).unwrap())
        };
        let said = body(placeholder, "text");
        assert_eq!(send(&said, true).unwrap(), body(VALUE, "text"));
        assert_eq!(code(send(&said, false)), Code::BodyDigest);
        let unsaid = body("text", placeholder);
        for exact in [true, false] {
            assert_eq!(send(&unsaid, exact).unwrap(), body("text", VALUE));
        }
    }
}

#[test]
fn codings_that_hide_the_body_are_refused_where_a_swap_may_happen() {
    let bench = bench();
    let send = |host, coding: &str, body: &[u8]| {
        let mut request = post("a/b", None, Chunks::cut(body, &[], true));
        request.headers_mut().insert(CONTENT_ENCODING, coding.parse().unwrap());
        swapped(&bench, host, request)
    };
    assert_eq!(code(send("api.test", "compress", b"x")), Code::BodyCoding);
    assert_eq!(code(send("api.test", "gzip", b"not gzip")), Code::BodyCoding);
    assert!(send("nobody.test", "compress", b"x").is_ok());
    assert!(send("api.test", "compress", b"").is_ok(), "an empty body hides nothing");
    // S3's chunks around a packed object: no swap is possible, so there is nothing to look for.
    for coding in ["gzip,aws-chunked", "compress, aws-chunked"] {
        let chunks = b"1;chunk-signature=00\r\nx\r\n";
        assert_eq!(send("api.test", coding, chunks).unwrap().into_body(), chunks);
    }
}

#[test]
fn a_small_coded_body_without_placeholders_is_sent_as_it_came() {
    let bench = bench();
    for coding in Coding::ALL {
        let sent = coded(coding, &[b"nothing ", b"here"]);
        let request = post("text/plain", Some(coding), Chunks::cut(&sent, &[3, 5], true));
        assert_eq!(swapped(&bench, "api.test", request).unwrap().into_body(), sent);
    }
}

#[test]
fn a_small_bomb_streams() {
    let bench = bench();
    let plain = [vec![0; 6 * 1024 * 1024], bench.placeholder(0).into()].concat();
    let sent = coded(Coding::Zstd, &[&plain]);
    assert!(sent.len() < 100_000);
    let request = post("text/plain", Some(Coding::Zstd), Chunks::cut(&sent, &[], true));
    let got = swapped(&bench, "api.test", request).unwrap().into_body();
    assert!(decoded(Coding::Zstd, &got, &[]).unwrap().ends_with(VALUE.as_bytes()));
}

#[test]
fn counts_run_over_head_and_body() {
    let once =
        keyless_core::EgressRule { max_occurrences: Some(1), ..rule("api.test", &Location::ALL) };
    let bench = Bench::new(vec![("a", VALUE, once, PlaceholderForm::Default)]);
    let p = bench.placeholder(0);
    for exact in [true, false] {
        let mut request = post("a/b", None, Chunks::cut(p.as_bytes(), &[], exact));
        request.headers_mut().insert("x-key", p.parse().unwrap());
        assert_eq!(code(swapped(&bench, "api.test", request)), Code::TooManyOccurrences);
    }
}

#[test]
fn trailers_pass() {
    let bench = bench();
    let trailers = http::HeaderMap::from_iter([(CONTENT_TYPE, "x".parse().unwrap())]);
    for exact in [true, false] {
        let body = Chunks::cut(b"text", &[1], exact).with_trailers(trailers.clone());
        let got = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let request = swap_request(&bench.table, &route, post("a/b", None, body)).await;
            drained(request.unwrap().into_body()).await.unwrap().1
        });
        assert_eq!(got.as_ref(), Some(&trailers));
    }
}
