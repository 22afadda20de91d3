//! Any bytes, cut anywhere, come back the same; what is cut off or swollen is noticed.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, RANGE};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Codes `plain` by our own encoder for `coding`, written in these pieces with flushes between.
pub(crate) fn coded(coding: Coding, pieces: &[&[u8]]) -> Vec<u8> {
    let mut encoder = Decoder::new(coding).unwrap().encoder().unwrap();
    let mut out = Vec::new();
    for piece in pieces {
        encoder.write(piece, &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out
}

/// Decodes what arrives in chunks of these sizes.
pub(crate) fn decoded(
    coding: Coding,
    coded: &[u8],
    sizes: &[usize],
) -> Result<Vec<u8>, CodingError> {
    let mut decoder = Decoder::new(coding)?;
    let mut plain = Vec::new();
    let mut rest = coded;
    for size in sizes.iter().copied().chain(std::iter::repeat(usize::MAX)) {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        let mut input = Bytes::copy_from_slice(chunk);
        while decoder.step(&mut input, &mut plain)? {}
        assert!(input.is_empty(), "a decoder takes all of its input");
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    decoder.finish().map(|()| plain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn round_trip_in_any_chunks(
        coding in select(&Coding::ALL[..]),
        plain in prop_oneof![vec(any::<u8>(), 0..3000), vec(select(&b"ab"[..]), 0..200_000)],
        cut in any::<prop::sample::Index>(),
        sizes in vec(1_usize..600, 0..40),
    ) {
        let (head, tail) = plain.split_at(cut.index(plain.len() + 1));
        let coded = coded(coding, &[head, tail]);
        prop_assert_eq!(decoded(coding, &coded, &sizes).unwrap(), plain);
    }

    #[test]
    fn noise_is_an_error_or_an_end_and_never_a_panic(
        coding in select(&Coding::ALL[..]),
        noise in vec(any::<u8>(), 0..400),
        sizes in vec(1_usize..50, 0..10),
    ) {
        let _ = decoded(coding, &noise, &sizes);
    }
}

#[test]
fn what_was_flushed_can_be_decoded_before_the_end() {
    for coding in Coding::ALL {
        let mut encoder = Decoder::new(coding).unwrap().encoder().unwrap();
        let mut decoder = Decoder::new(coding).unwrap();
        for event in [&b"data: one\n\n"[..], b"data: two\n\n", b"data: three\n\n"] {
            let (mut out, mut plain) = (Vec::new(), Vec::new());
            encoder.write(event, &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            let mut input = Bytes::from(out);
            while decoder.step(&mut input, &mut plain).unwrap() {}
            assert_eq!(plain, event, "{coding:?}");
        }
    }
}

#[test]
fn a_cut_body_is_truncated_wherever_it_was_cut() {
    for coding in Coding::ALL {
        let whole = coded(coding, &[b"some plain text, some plain text"]);
        assert_eq!(decoded(coding, b"", &[]).unwrap(), b"", "nothing at all is an empty body");
        for end in 1..whole.len() {
            let cut = decoded(coding, &whole[..end], &[]);
            assert!(matches!(cut, Err(CodingError::Truncated)), "{coding:?} {end}");
        }
    }
}

#[test]
fn one_step_gives_at_most_a_piece() {
    for coding in Coding::ALL {
        let bomb = coded(coding, &[&vec![0; 8 * 1024 * 1024]]);
        let mut decoder = Decoder::new(coding).unwrap();
        let mut input = Bytes::from(bomb);
        let mut total = 0;
        loop {
            let mut plain = Vec::new();
            let more = decoder.step(&mut input, &mut plain).unwrap();
            assert!(plain.len() <= PIECE);
            total += plain.len();
            if !more {
                break;
            }
        }
        assert_eq!(total, 8 * 1024 * 1024, "{coding:?}");
    }
}

#[test]
fn gzip_has_members_names_and_checks() {
    let member = |name: &str, text: &[u8]| {
        let builder = flate2::GzBuilder::new().filename(name).extra([1, 2, 3]).comment("c");
        let mut encoder = builder.write(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let two = [member("a", b"first "), member("b", b"second"), vec![0; 7]].concat();
    for size in [1, 3, 1000] {
        assert_eq!(decoded(Coding::Gzip, &two, &[size; 400]).unwrap(), b"first second");
    }
    let mut wrong = member("a", b"text");
    let check = wrong.len() - 6;
    wrong[check] ^= 1;
    assert!(matches!(decoded(Coding::Gzip, &wrong, &[]), Err(CodingError::Corrupt)));
}

#[test]
fn both_things_called_deflate_come_back_as_they_were() {
    let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
    bare.write_all(b"bare").unwrap();
    let bare = bare.finish().unwrap();
    let mut recoder = Recoder::new(Coding::Deflate).unwrap();
    let (mut input, mut plain, mut again) = (Bytes::from(bare), Vec::new(), Vec::new());
    while recoder.decode(&mut input, &mut plain).unwrap() {}
    recoder.encode(&plain, &mut again).unwrap();
    recoder.finish(&mut again).unwrap();
    let mut check = flate2::write::DeflateDecoder::new(Vec::new());
    check.write_all(&again).unwrap();
    assert_eq!(check.finish().unwrap(), b"bare");
}

#[test]
fn content_encoding_is_read_strictly() {
    let of = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(value));
        Coded::of(&headers)
    };
    assert_eq!(Coded::of(&HeaderMap::new()), Coded::Identity);
    assert_eq!(of("identity"), Coded::Identity);
    assert_eq!(of("X-GZip"), Coded::By(Coding::Gzip));
    assert_eq!(of("br, identity"), Coded::By(Coding::Brotli));
    assert_eq!(of("gzip, br"), Coded::Opaque);
    assert_eq!(of("compress"), Coded::Opaque);
}

#[test]
fn accept_encoding_is_narrowed_to_what_we_can_read() {
    let narrowed = |value: Option<&'static str>, range: bool| {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        if range {
            headers.insert(RANGE, HeaderValue::from_static("bytes=0-1"));
        }
        narrow_accept_encoding(&mut headers);
        headers.get(ACCEPT_ENCODING).map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(narrowed(None, false), None);
    assert_eq!(narrowed(Some("gzip,deflate;q=0.5"), false).unwrap(), "gzip,deflate;q=0.5");
    assert_eq!(narrowed(Some("gzip;q=1.0, dcb, *;q=0.1"), false).unwrap(), "gzip;q=1.0");
    assert_eq!(narrowed(Some("compress, *"), false).unwrap(), "identity");
    assert_eq!(narrowed(Some("gzip"), true).unwrap(), "identity");
    // Wide windows only where there is no other way.
    assert_eq!(narrowed(Some("gzip, br;q=1, zstd, deflate"), false).unwrap(), "gzip, deflate");
    assert_eq!(narrowed(Some("br, zstd"), false).unwrap(), "br, zstd");
}

/// Some hundred bytes of brotli fill a window of 16 MiB, so that there can't be any number of these.
#[test]
fn wide_windows_are_counted() {
    let open = || Recoder::new(Coding::Brotli);
    let all: Vec<_> = (0..MAX_WIDE).map(|_| open().expect("room")).collect();
    assert!(matches!(open(), Err(CodingError::Crowded)));
    assert!(matches!(Recoder::new(Coding::Zstd), Err(CodingError::Crowded)));
    assert!(Recoder::new(Coding::Gzip).is_ok());
    drop(all);
    assert!(open().is_ok());
}
