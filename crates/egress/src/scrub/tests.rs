//! Whatever an upstream echoes, in any form, coding and chunking: the agent sees the placeholder.

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use http::{
    HeaderName, HeaderValue, Request,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, ETAG, LOCATION, SET_COOKIE},
};
use keyless_core::action::Encoding;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    coding::{
        Coding,
        tests::{coded, decoded},
    },
    limits::MAX_DISGUISED,
    ports::Redacted,
    swap::{
        swap_request,
        testing::{Bench, Chunks, VALUE, authority, drained, route, run},
    },
};

/// A session whose only value was just sent to `api.test`.
fn bench() -> Bench {
    let bench = Bench::one();
    run(async {
        let authority = authority("api.test");
        let request = Request::builder().uri("/").header("authorization", bench.placeholder(0));
        let request = request.body(Chunks::cut(b"", &[], true)).unwrap();
        swap_request(&bench.table, &route(&authority), request).await.unwrap();
    });
    bench
}

fn response(status: u16, coding: Option<Coding>, body: Chunks) -> Response<Chunks> {
    let mut response = Response::builder().status(status);
    if let Some(length) = body.size_hint().exact() {
        response = response.header(CONTENT_LENGTH, length);
    }
    let name = coding.map(|coding| match coding {
        Coding::Brotli => "br",
        Coding::Deflate => "deflate",
        Coding::Gzip => "gzip",
        Coding::Zstd => "zstd",
    });
    if let Some(name) = name {
        response = response.header(CONTENT_ENCODING, name);
    }
    response.body(body).unwrap()
}

/// What the agent gets, the body whole.
fn scrubbed(
    bench: &Bench,
    host: &str,
    response: Response<Chunks>,
) -> Result<Response<Vec<u8>>, Error> {
    run(async {
        let authority = authority(host);
        let route = route(&authority);
        let response =
            scrub_response(&bench.table, &route, &Method::GET, response, &Arc::default()).await?;
        let (parts, body) = response.into_parts();
        let Ok((frames, _)) = drained(body).await else {
            return Err(Error::with(Code::UpstreamProtocol, "in the body".into()));
        };
        let body = frames.concat();
        if let Some(declared) = parts.headers.get(CONTENT_LENGTH) {
            assert_eq!(declared.to_str().unwrap(), body.len().to_string());
        }
        Ok(Response::from_parts(parts, body))
    })
}

/// The forms of a value that servers echo, each with what stands there afterwards.
fn echo(form: usize, text: &str) -> String {
    match form {
        0 => text.to_owned(),
        1 => BASE64.encode(text.as_bytes()),
        2 => HEXLOWER.encode(text.as_bytes()),
        3 => text.replace('\\', "\\\\").replace('"', "\\\""),
        4 => text.replace('&', "&amp;").replace('"', "&quot;"),
        _ => text.bytes().fold(String::new(), |text, byte| match byte.is_ascii_alphanumeric() {
            true => text + &char::from(byte).to_string(),
            false if b"-._~".contains(&byte) => text + &char::from(byte).to_string(),
            false => text + &format!("%{byte:02X}"),
        }),
    }
}

/// What a header parser takes as a name can be a value too; so can a reason phrase.
#[test]
fn names_of_fields_and_reasons_are_no_way_out() {
    let slot = ReleasedValues::default();
    let secret = &Bench::one().secrets[0];
    slot.remember(&secret.path, &secret.placeholder, b"Zq9tok7FbW3x");
    let watch = Watch { slot: slot.slot(), taken: Arc::default() };
    let mut headers = HeaderMap::new();
    headers.insert("x-zq9tok7fbw3x-echo", HeaderValue::from_static("name"));
    headers.insert("x-5a7139746f6b374662573378", HeaderValue::from_static("name"));
    headers.insert("x-other", HeaderValue::from_static("kept"));
    scrub_fields(&watch, &mut headers).unwrap();
    assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);

    let bench = bench();
    let mut response = response(200, None, Chunks::cut(b"x", &[], true));
    response.extensions_mut().insert(ReasonPhrase::from_static(b"Zq9tok7FbW3x"));
    let response = scrubbed(&bench, "api.test", response).unwrap();
    assert!(response.extensions().get::<ReasonPhrase>().is_none());
}

/// What one host was sent, another host of the session may be told to show.
#[test]
fn a_value_is_scrubbed_from_every_host_of_the_session() {
    let bench = bench();
    let echoed = Chunks::cut(VALUE.as_bytes(), &[], true);
    let answer = scrubbed(&bench, "api.test:8443", response(200, None, echoed)).unwrap();
    assert!(!answer.body().windows(VALUE.len()).any(|window| window == VALUE.as_bytes()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn echoes_become_placeholders(
        around in vec(vec(select(&b" {}:,\n<>x"[..]), 0..40), 2..6),
        forms in vec(0_usize..6, 5),
        coding in option::of(select(&Coding::ALL[..])),
        sizes in vec(1_usize..300, 0..30),
        exact in any::<bool>(),
    ) {
        let bench = bench();
        let (mut text, mut expected) = (Vec::new(), Vec::new());
        for (noise, form) in around.iter().zip(&forms) {
            // A byte in between, so that a form does not run into its neighbour.
            for (out, echoed) in [(&mut text, VALUE), (&mut expected, bench.placeholder(0))] {
                out.extend_from_slice(noise);
                out.push(b' ');
                out.extend_from_slice(echo(*form, echoed).as_bytes());
                out.push(b' ');
            }
        }
        let sent = coding.map_or(text.clone(), |coding| coded(coding, &[&text]));
        let arrived = response(200, coding, Chunks::cut(&sent, &sizes, exact));
        let got = scrubbed(&bench, "api.test", arrived).unwrap().into_body();
        let got = coding.map_or(got.clone(), |coding| decoded(coding, &got, &[]).unwrap());
        prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected));
    }
}

#[test]
fn every_split_of_an_echo_is_found_in_every_coding() {
    let bench = bench();
    for form in 0..6 {
        let text = format!("<{}>", echo(form, VALUE));
        let expected = format!("<{}>", echo(form, bench.placeholder(0)));
        for at in 1..text.len() {
            let body = Chunks::cut(text.as_bytes(), &[at], false);
            let got = scrubbed(&bench, "api.test", response(200, None, body)).unwrap();
            assert_eq!(String::from_utf8_lossy(got.body()), expected, "{form} {at}");
        }
        for coding in Coding::ALL {
            let sent = coded(coding, &[text.as_bytes()]);
            let body = Chunks::cut(&sent, &vec![1; sent.len()], true);
            let got = scrubbed(&bench, "api.test", response(200, Some(coding), body)).unwrap();
            let got = decoded(coding, got.body(), &[]).unwrap();
            assert_eq!(String::from_utf8_lossy(&got), expected, "{form} {coding:?}");
        }
    }
}

#[test]
fn without_a_release_nothing_is_touched() {
    let fresh = Bench::one();
    let used = bench();
    for (bench, host) in [(&fresh, "api.test"), (&used, "other.test")] {
        let arrived = response(200, None, Chunks::cut(VALUE.as_bytes(), &[3], true));
        assert_eq!(scrubbed(bench, host, arrived).unwrap().body(), VALUE.as_bytes());
        let mut arrived = response(200, None, Chunks::cut(b"x", &[], true));
        arrived.headers_mut().insert(CONTENT_ENCODING, "compress".parse().unwrap());
        assert!(scrubbed(bench, host, arrived).is_ok());
    }
}

#[test]
fn headers_and_trailers_are_scrubbed() {
    let bench = bench();
    let p = bench.placeholder(0);
    let mut headers = HeaderMap::new();
    headers.insert("x-echo", format!("Bearer {VALUE}").parse().unwrap());
    headers.insert(LOCATION, format!("/?t={}", echo(5, VALUE)).parse().unwrap());
    headers.append(SET_COOKIE, "a=b".parse().unwrap());
    headers.append(SET_COOKIE, format!("k={}", echo(1, VALUE)).parse().unwrap());
    let check = |headers: &HeaderMap| {
        assert_eq!(headers["x-echo"], format!("Bearer {p}"));
        assert_eq!(headers[LOCATION], format!("/?t={p}"));
        let cookies: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
        assert_eq!(cookies, ["a=b", &format!("k={}", echo(1, p))]);
    };
    let mut alone = headers.clone();
    scrub_headers(&bench.table, &authority("api.test"), &mut alone, &Arc::default()).unwrap();
    check(&alone);
    for exact in [true, false] {
        let body = Chunks::cut(b"text", &[], exact).with_trailers(headers.clone());
        let mut arrived = response(200, None, body);
        arrived.headers_mut().extend(headers.clone());
        let trailers = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &Arc::default())
                .await
                .unwrap();
            check(got.headers());
            drained(got.into_body()).await.unwrap().1.unwrap()
        });
        check(&trailers);
    }
}

#[test]
fn lengths_and_digests_follow_the_body() {
    let bench = bench();
    let send = |text: &str, exact| {
        let mut arrived = response(200, None, Chunks::cut(text.as_bytes(), &[2], exact));
        arrived.headers_mut().insert("content-md5", "x".parse().unwrap());
        arrived.headers_mut().insert(ETAG, "\"e\"".parse().unwrap());
        scrubbed(&bench, "api.test", arrived).unwrap()
    };
    let small = send(&format!("<{VALUE}>"), true);
    assert_eq!(small.headers()[CONTENT_LENGTH], (bench.placeholder(0).len() + 2).to_string());
    assert!(!small.headers().contains_key("content-md5") && small.headers().contains_key(ETAG));
    let clean = send("nothing to see", true);
    assert!(clean.headers().contains_key("content-md5"));
    let streamed = send("nothing to see", false);
    assert!(!streamed.headers().contains_key("content-md5"));
    let large = send(&format!("{}{VALUE}", "x".repeat(300_000)), true);
    assert!(!large.headers().contains_key(CONTENT_LENGTH));
    assert!(large.body().ends_with(bench.placeholder(0).as_bytes()));
}

#[test]
fn a_part_of_a_range_keeps_its_length() {
    let bench = bench();
    let text = format!("<{VALUE}>");
    for exact in [true, false] {
        let arrived = response(206, None, Chunks::cut(text.as_bytes(), &[9], exact));
        let got = scrubbed(&bench, "api.test", arrived).unwrap();
        assert_eq!(got.body().len(), text.len());
        let kept = &bench.placeholder(0).as_bytes()[..VALUE.len().min(bench.placeholder(0).len())];
        assert!(got.body()[1..].starts_with(kept));
        assert_eq!(got.headers().contains_key(CONTENT_LENGTH), exact);
    }
}

#[test]
fn formats_with_lengths_inside_keep_them() {
    let bench = bench();
    let text = format!("<{VALUE}>");
    for kind in ["application/grpc+proto", "application/x-git-upload-pack-result"] {
        for coding in [None, Some(Coding::Gzip)] {
            let sent =
                coding.map_or(text.clone().into(), |coding| coded(coding, &[text.as_bytes()]));
            let mut arrived = response(200, coding, Chunks::cut(&sent, &[9], true));
            arrived.headers_mut().insert("content-type", kind.parse().unwrap());
            let got = scrubbed(&bench, "api.test", arrived).unwrap().into_body();
            let got = coding.map_or(got.clone(), |coding| decoded(coding, &got, &[]).unwrap());
            assert_eq!(got.len(), text.len());
            assert!(!String::from_utf8_lossy(&got).contains(VALUE));
        }
    }
}

#[test]
fn answers_without_a_body_keep_their_length() {
    let bench = bench();
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 304), (Method::GET, 204)] {
        let mut arrived = response(status, None, Chunks::cut(b"", &[], false));
        arrived.headers_mut().insert(CONTENT_LENGTH, "1234".parse().unwrap());
        arrived.headers_mut().insert(CONTENT_ENCODING, "compress".parse().unwrap());
        let got = run(async {
            let authority = authority("api.test");
            scrub_response(&bench.table, &route(&authority), &method, arrived, &Arc::default())
                .await
                .unwrap()
        });
        assert_eq!(got.headers()[CONTENT_LENGTH], "1234");
    }
}

#[test]
fn what_cannot_be_looked_into_is_refused() {
    let bench = bench();
    let send = |status, coding: &str, body: &[u8]| {
        let mut arrived = response(status, None, Chunks::cut(body, &[], true));
        arrived.headers_mut().insert(CONTENT_ENCODING, coding.parse().unwrap());
        scrubbed(&bench, "api.test", arrived).map_err(|error| error.code())
    };
    assert_eq!(send(200, "compress", b"x").unwrap_err(), Code::UpstreamProtocol);
    assert_eq!(send(200, "gzip, br", b"x").unwrap_err(), Code::UpstreamProtocol);
    assert_eq!(send(206, "gzip", b"x").unwrap_err(), Code::UpstreamProtocol);
    assert_eq!(send(200, "gzip", b"not gzip").unwrap_err(), Code::UpstreamProtocol);
    let cut = &coded(Coding::Gzip, &[b"some text"])[..20];
    assert_eq!(send(200, "gzip", cut).unwrap_err(), Code::UpstreamProtocol);
}

#[test]
fn no_event_waits_in_any_coding() {
    let bench = bench();
    let events: Vec<String> = (0..4).map(|n| format!("data: {n} {VALUE}\n\n")).collect();
    for coding in [None, Some(Coding::Gzip), Some(Coding::Brotli), Some(Coding::Zstd)] {
        // Each event's bytes, as a server that flushes would send them.
        let mut cuts = vec![0];
        for n in 1..=events.len() {
            let pieces: Vec<&[u8]> = events[..n].iter().map(String::as_bytes).collect();
            cuts.push(coding.map_or(pieces.concat().len(), |coding| flushed(coding, &pieces)));
        }
        let pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
        let sent = coding.map_or(pieces.concat(), |coding| coded(coding, &pieces));
        let sizes: Vec<usize> = cuts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let frames = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let arrived = response(200, coding, Chunks::cut(&sent, &sizes, false));
            let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &Arc::default())
                .await
                .unwrap();
            drained(got.into_body()).await.unwrap().0
        });
        for n in 1..=events.len() {
            let so_far: Vec<u8> = frames[..n].concat();
            let plain = coding.map_or(so_far.clone(), |coding| decoded_so_far(coding, &so_far));
            let expected = events[..n].concat().replace(VALUE, bench.placeholder(0));
            assert_eq!(String::from_utf8_lossy(&plain), expected, "{coding:?} {n}");
        }
    }
}

/// A message of gRPC or AWS's may end in any byte, also in one that values have.
#[test]
fn no_message_waits_for_the_next() {
    let bench = bench();
    let call =
        |text: &str| [&[0, 0, 0, 0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let event =
        |text: &str| [&[0, 0, 0, 4 + u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    for (kind, messages) in [
        ("application/grpc", [call("all is"), call(&VALUE[..5]), call("")]),
        (
            "application/vnd.amazon.eventstream",
            [event("twelve and more"), event("one and another Z"), event("again twelve and")],
        ),
    ] {
        let sizes: Vec<usize> = messages.iter().map(Vec::len).collect();
        let mut arrived = response(200, None, Chunks::cut(&messages.concat(), &sizes, false));
        arrived.headers_mut().insert("content-type", kind.parse().unwrap());
        let frames = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &Arc::default())
                .await
                .unwrap();
            drained(got.into_body()).await.unwrap().0
        });
        assert_eq!(frames, messages, "{kind}");
    }
}

/// What nobody can look into passes while there is nothing to look for, and no longer.
#[test]
fn a_body_that_cannot_be_looked_into_breaks_off_at_a_release() {
    for (status, coding) in [(200, "compress"), (206, "gzip")] {
        let bench = Bench::one();
        let frames = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let mut arrived = response(status, None, Chunks::cut(b"before after", &[7], false));
            arrived.headers_mut().insert(CONTENT_ENCODING, coding.parse().unwrap());
            let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &Arc::default())
                .await
                .unwrap();
            let mut body = got.into_body();
            let first = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "before ", "{coding}");
            let request = Request::builder().uri("/").header("a", bench.placeholder(0));
            let request = request.body(Chunks::cut(b"", &[], true)).unwrap();
            swap_request(&bench.table, &route, request).await.unwrap();
            drained(body).await
        });
        assert!(frames.is_err(), "{coding}");
    }
}

/// Length of these pieces when coded and flushed, without an end.
fn flushed(coding: Coding, pieces: &[&[u8]]) -> usize {
    let decoder = crate::coding::Decoder::new(coding).unwrap();
    let (mut encoder, mut out) = (decoder.encoder().unwrap(), Vec::new());
    for piece in pieces {
        encoder.write(piece, &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
    }
    out.len()
}

fn decoded_so_far(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut decoder = crate::coding::Decoder::new(coding).unwrap();
    let (mut input, mut plain) = (Bytes::copy_from_slice(coded), Vec::new());
    while decoder.step(&mut input, &mut plain).unwrap() {}
    plain
}

#[test]
fn a_value_released_after_the_response_began_is_scrubbed_from_it() {
    let text = format!("<{VALUE}>");
    for (coding, exacts) in [(None, &[true, false][..]), (Some(Coding::Gzip), &[false])] {
        for exact in exacts.iter().copied() {
            let bench = Bench::one();
            let got = run(async {
                let authority = authority("api.test");
                let route = route(&authority);
                // Of a coded body, the beginning is looked at before the head leaves.
                let (before, after) = text.as_bytes().split_at(1);
                let sent =
                    coding.map_or(text.clone().into(), |coding| coded(coding, &[before, after]));
                let arrived = response(200, coding, Chunks::cut(&sent, &[1; 300], exact));
                let taken = Arc::default();
                let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &taken);
                let body = got.await.unwrap().into_body();
                // Another request sends the value while the response is on its way.
                let upload = Chunks::cut(bench.placeholder(0).as_bytes(), &[], false);
                let request = Request::post("/").body(upload).unwrap();
                let request = swap_request(&bench.table, &route, request).await.unwrap();
                drained(request.into_body()).await.unwrap();
                drained(body).await.unwrap().0.concat()
            });
            let got = coding.map_or(got.clone(), |coding| decoded(coding, &got, &[]).unwrap());
            if exact && coding.is_none() {
                assert_eq!(got.len(), text.len());
                assert!(!String::from_utf8_lossy(&got).contains(VALUE));
            } else {
                assert_eq!(got, format!("<{}>", bench.placeholder(0)).into_bytes());
            }
        }
    }
}

/// Forms that no server echoes, each with how the log calls it.
fn disguises() -> [(&'static str, Vec<u8>, Encoding); 4] {
    let text = |text: String| text.into_bytes();
    let packed = coded(Coding::Gzip, &[VALUE.as_bytes()]);
    [
        ("reversed", VALUE.bytes().rev().collect(), Encoding::Plain),
        (
            "numbers",
            text(VALUE.bytes().map(|b| format!("\\u{b:04x}")).collect::<Vec<_>>().concat()),
            Encoding::Plain,
        ),
        (
            "twice",
            text(BASE64.encode(BASE64.encode(VALUE.as_bytes()).as_bytes())),
            Encoding::Base64,
        ),
        ("packed", text(BASE64.encode(&packed)), Encoding::Base64),
    ]
}

/// What the agent gets of a text, and what the log hears of it.
fn told(bench: &Bench, arrived: Response<Chunks>) -> (Vec<u8>, Vec<Redacted>) {
    let taken = Arc::default();
    let body = run(async {
        let authority = authority("api.test");
        let route = route(&authority);
        let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &taken).await;
        drained(got.unwrap().into_body()).await.unwrap().0.concat()
    });
    (body, taken.all())
}

#[test]
fn no_disguise_passes_in_any_kind_of_body_and_each_is_told() {
    let bench = bench();
    let placeholder = bench.placeholder(0);
    for (name, form, encoding) in disguises() {
        let text = [b"<<", &form[..], b">>"].concat();
        let free = format!("<<{placeholder}>>");
        for (status, coding, exact) in [
            (200, None, true),
            (200, None, false),
            (200, Some(Coding::Gzip), true),
            (206, None, true),
        ] {
            let sent = coding.map_or(text.clone(), |coding| coded(coding, &[&text]));
            for sizes in [&[][..], &[10; 90]] {
                // A whole one is packed: of that a piece is none.
                if name == "packed" && !sizes.is_empty() && (status, exact) != (200, true) {
                    continue;
                }
                let arrived = response(status, coding, Chunks::cut(&sent, sizes, exact));
                let (got, redacted) = told(&bench, arrived);
                let got = coding.map_or(got.clone(), |coding| decoded(coding, &got, &[]).unwrap());
                let shown = String::from_utf8_lossy(&got);
                if status == 206 {
                    assert_eq!(got.len(), text.len(), "{name}: {shown}");
                    assert!(shown.starts_with(&format!("<<{}", &placeholder[..VALUE.len()])));
                } else {
                    assert_eq!(shown.replace('=', ""), free, "{name}");
                }
                let path = bench.secrets[0].path.clone();
                let [one] = &redacted[..] else { panic!("{name}: {redacted:?}") };
                assert_eq!((&one.secret, one.encoding, one.count), (&path, encoding, 1), "{name}");
            }
        }
    }
}

#[test]
fn no_disguise_passes_in_fields_trailers_and_messages() {
    let bench = bench();
    for (name, form, _) in disguises() {
        let value = HeaderValue::from_bytes(&form).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-said"), value)]);
        let mut arrived =
            response(200, None, Chunks::cut(b"text", &[], false).with_trailers(headers.clone()));
        arrived.headers_mut().extend(headers);
        let taken = Arc::default();
        let (head, trailers) = run(async {
            let authority = authority("api.test");
            let route = route(&authority);
            let got = scrub_response(&bench.table, &route, &Method::GET, arrived, &taken).await;
            let (parts, body) = got.unwrap().into_parts();
            (parts.headers, drained(body).await.unwrap().1.unwrap())
        });
        for fields in [head, trailers] {
            let said = fields["x-said"].to_str().unwrap();
            assert_eq!(said.replace('=', ""), bench.placeholder(0), "{name}");
        }
        assert_eq!(taken.all()[0].count, 2, "{name}");

        let scrub = MessageScrub::new(&bench.table, Arc::default());
        let mut payload = form.clone();
        scrub.control(&mut payload);
        assert!(payload.starts_with(&bench.placeholder(0).as_bytes()[..VALUE.len()]), "{name}");
        assert_eq!(payload.len(), form.len());
    }
    // In two fields.
    let turned: Vec<u8> = VALUE.bytes().rev().collect();
    let mut halves = HeaderMap::new();
    for (name, half) in [("x-one", &turned[..11]), ("x-two", &turned[11..])] {
        halves.insert(name, HeaderValue::from_bytes(half).unwrap());
    }
    scrub_headers(&bench.table, &authority("api.test"), &mut halves, &Arc::default()).unwrap();
    assert!(halves.values().all(|value| value == bench.placeholder(0)), "{halves:?}");
}

/// Long downloads go as fast as they did; what servers echo is looked for to their end.
#[test]
fn disguises_are_looked_for_in_the_first_mib_of_a_body() {
    let bench = bench();
    let turned: String = VALUE.chars().rev().collect();
    let filler = "0123456789 abcdef.\n".repeat(MAX_DISGUISED / 19);
    let text = format!("<{turned}>{filler}<{turned}>............................<{VALUE}>");
    let arrived = response(200, None, Chunks::cut(text.as_bytes(), &[64 << 10; 99], false));
    let (got, redacted) = told(&bench, arrived);
    let placeholder = bench.placeholder(0);
    let got = String::from_utf8(got).unwrap();
    assert!(got.starts_with(&format!("<{placeholder}>01")));
    assert!(got.ends_with(&format!("<{turned}>............................<{placeholder}>")));
    assert_eq!(redacted[0].count, 2);
}

#[test]
fn what_can_not_be_looked_at_does_not_pass() {
    let looked: Result<(), Error> = guarded(|| panic!("as a sanitizer might"));
    assert_eq!(looked.unwrap_err().code(), Code::SanitizeFailed);
}
