//! No value gets past the scrubber in any form that a server would echo.
//!
//! The forms are written here by other means than in the crate, so that both would have to be wrong.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use keyless_rewrite::{echoes, scrubber};
use proptest::{collection::vec, prelude::*};

use crate::model::{cut, sizes};

/// Symbols that no form of a value has, so that a marker can't complete a value by accident.
const MARKER: &str = "\u{1}";

fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let percent = |keep: &str, space: &str| -> String {
        let one = |&byte: &u8| match char::from(byte) {
            ' ' => space.to_owned(),
            c if c.is_ascii_alphanumeric() || keep.contains(c) => c.to_string(),
            _ => format!("%{byte:02X}"),
        };
        value.iter().map(one).collect()
    };
    let hex = HEXLOWER.encode(value);
    let every: String = hex
        .as_bytes()
        .chunks(2)
        .flat_map(|two| ["%", core::str::from_utf8(two).expect("hex is ASCII")])
        .collect();
    let mut forms = vec![
        percent("-._~", "%20"),
        percent("-._~", "+"),
        percent("-._~!*'()", "%20"),
        percent("*-._", "+"),
        percent("-._~/", "%20"),
        every.to_uppercase(),
        every,
        BASE64.encode(value),
        BASE64URL.encode(value),
        HEXLOWER.encode(value),
        HEXUPPER.encode(value),
    ];
    if let Ok(text) = core::str::from_utf8(value) {
        let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        forms.push(html.replace('"', "&#34;").replace('\'', "&#39;"));
        forms.push(html.replace('"', "&quot;").replace('\'', "&#x27;"));
        forms.push(html);
        let json = text.replace('\\', "\\\\").replace('"', "\\\"");
        forms.push(json.replace('/', "\\/"));
        forms.push(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
        forms.push(json);
        forms.extend(quotings(text));
    }
    let mut forms: Vec<Vec<u8>> = forms.into_iter().map(String::into_bytes).collect();
    forms.push(value.to_vec());
    forms
}

/// As shells, databases and languages quote it.
fn quotings(text: &str) -> Vec<String> {
    let backslashes = text.replace('\\', "\\\\");
    let python = |text: &str, ascii: bool| -> String {
        let one = |c: char| match u32::from(c) {
            0x20..=0x7e => c.to_string(),
            code @ 0x80..=0x9f => format!("\\x{code:02x}"),
            code @ ..=0xff if ascii => format!("\\x{code:02x}"),
            code if ascii => format!("\\u{code:04x}"),
            code @ ..=0x7f => format!("\\x{code:02x}"),
            _ => c.to_string(),
        };
        text.chars().map(one).collect()
    };
    vec![
        text.replace('\'', "'\\''"),
        text.replace('\'', "'\"'\"'"),
        text.replace('\'', "''"),
        text.replace('"', "\"\""),
        backslashes.replace('\'', "\\'").replace('"', "\\\""),
        python(&backslashes.replace('\'', "\\'"), false),
        python(&backslashes.replace('\'', "\\'"), true),
        python(&backslashes, true),
    ]
}

fn scrub(value: &[u8], text: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut stream, mut out) = (scrubber([(value, MARKER)]).stream(), Vec::new());
    for chunk in cut(text, sizes) {
        stream.feed(chunk, &mut out);
    }
    stream.finish(&mut out);
    out
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Values as people have them: printable, or any bytes but controls.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(0x20_u8..0x7f, 8..80),
        vec(0x20_u8..=0xff, 8..80),
        "[A-Za-z'\"\\\\ü€]{8,40}".prop_map(String::into_bytes),
        "[A-Za-z0-9_]{8,80}".prop_map(String::into_bytes)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 2_000 }))]

    #[test]
    fn no_form_gets_through(
        value in value(),
        surroundings in vec(vec(any::<u8>(), 0..20), 40),
        sizes in sizes(),
    ) {
        let mut text = Vec::new();
        for (form, around) in forms(&value).iter().zip(surroundings.iter().cycle()) {
            text.extend_from_slice(around);
            text.extend_from_slice(form);
        }
        let out = scrub(&value, &text, &sizes);
        for form in forms(&value) {
            prop_assert!(!contains(&out, &form), "{}", String::from_utf8_lossy(&form));
        }
        for echo in echoes(&value) {
            prop_assert!(!contains(&out, echo.pattern()));
        }
    }

    #[test]
    fn no_base64_text_keeps_more_than_bits_of_it(
        value in value(),
        before in vec(any::<u8>(), 0..20),
        after in vec(any::<u8>(), 0..20),
        sizes in sizes(),
    ) {
        let whole = [before, value.clone(), after].concat();
        for encoding in [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD] {
            let text = encoding.encode(&whole);
            let out = scrub(&value, text.as_bytes(), &sizes);
            // What is gone is all but the symbols shared with the surroundings; the marker stands for it, and all decodes.
            let gone = value.len() * 8 / 6 - 1;
            prop_assert!(out.len() <= text.len() - gone + 8);
            let decoded = encoding.decode(&out).expect("it is base64 still");
            prop_assert!(contains(&decoded, MARKER.as_bytes()));
        }
    }
}

/// A key as OpenSSL writes it, 27 lines.
fn pem() -> String {
    let body = BASE64
        .encode(&(0..1_200_u32).map(|n| ((n * n) >> 3).to_le_bytes()[0]).collect::<Vec<u8>>());
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).filter_map(|l| core::str::from_utf8(l).ok()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

#[test]
fn a_long_value_is_scrubbed_whole_and_by_line() {
    let pem = pem();
    let json = pem.replace('\n', "\\n").replace('/', "\\/");
    for size in [1, 7, 1_000, 100_000] {
        for (whole, marker) in [(&pem, "[\u{1}]"), (&json, "[\\u0001]")] {
            let text = format!("{}[{whole}]", &whole[..whole.len() / 2 + 20]);
            let out = String::from_utf8(scrub(pem.as_bytes(), text.as_bytes(), &[size])).unwrap();
            assert!(out.ends_with(marker), "the whole: {out}");
            let kept = pem.lines().find(|line| !line.starts_with('-') && out.contains(line));
            assert_eq!(kept, None, "the half before it, by line");
        }
    }
}

proptest! {
    /// Who may have a server say anything sees when what of it comes, and learns no value by that.
    #[test]
    fn what_waits_does_not_tell_how_a_value_begins(
        values in vec("[A-Za-z0-9_]{20}", 2),
        guesses in vec((any::<bool>(), 0_usize..28, 0_usize..20, "[a-z {},\n\"]{0,4}"), 1..12),
        sizes in sizes(),
    ) {
        // How long the longest form is may be seen, by how much waits at most; that is no beginning.
        let longest = |value: &String| echoes(value.as_bytes()).iter().map(|form| form.pattern().len()).max();
        prop_assume!(longest(&values[0]) == longest(&values[1]));
        // Beginnings of both, in all of their forms; of no form all.
        let text: Vec<u8> = guesses.iter().flat_map(|(first, form, length, noise)| {
            let forms = echoes(values[usize::from(*first)].as_bytes());
            let form = forms[form % forms.len()].pattern();
            [noise.as_bytes(), &form[..*(length.min(&(form.len() - 1)))]].concat()
        }).collect();
        let arrivals = |value: &str| {
            let (mut stream, mut out) = (scrubber([(value.as_bytes(), MARKER)]).stream(), Vec::new());
            let feed = |chunk| { stream.feed(chunk, &mut out); out.len() };
            let arrived: Vec<usize> = cut(&text, &sizes).into_iter().map(feed).collect();
            (arrived, stream.replaced())
        };
        let (of_one, of_other) = (arrivals(&values[0]), arrivals(&values[1]));
        prop_assume!(of_one.1 + of_other.1 == 0);
        prop_assert_eq!(of_one.0, of_other.0);
    }
}

#[test]
fn the_end_of_an_event_is_not_held() {
    let scrubber = scrubber([(&b"ghp_abcdefghijklmnopqrstuvwxyz012345"[..], MARKER)]);
    let (mut stream, mut out) = (scrubber.stream(), Vec::new());
    for event in ["data: {\"token\":\"gh\"}\n\n", "data: [DONE]\n\n", ": ping\n\n"] {
        stream.feed(event.as_bytes(), &mut out);
        assert_eq!(stream.held(), 0);
    }
}

/// Base64 in lines of `width`, each ended by `end`.
fn in_lines(text: &[u8], width: usize, end: &str) -> String {
    let text = BASE64.encode(text);
    let lines = text.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line));
    lines.flat_map(|line| [line.into_owned(), end.to_owned()]).collect()
}

fn decode_lines(text: &[u8], end: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).replace(end, "");
    BASE64.decode(text.as_bytes()).expect("it is base64 still")
}

/// As it is, and in strings of JSON.
fn line_end() -> impl Strategy<Value = &'static str> {
    let plain = prop_oneof![Just("\n"), Just("\r\n"), Just("\\n"), Just("\\r\\n")];
    let nested = prop_oneof![Just("\\\\n"), Just("\\\\r\\\\n"), Just("\\u000a"), Just("\\u000A")];
    prop_oneof![plain, nested]
}

proptest! {
    #[test]
    fn base64_in_lines_keeps_no_value_and_decodes(
        value in "[A-Za-z0-9_]{8,300}",
        before in vec(any::<u8>(), 0..200),
        after in vec(any::<u8>(), 0..200),
        width in prop_oneof![Just(60_usize), Just(64), Just(72), Just(76)],
        end in line_end(),
        sizes in sizes(),
    ) {
        let whole = [before.as_slice(), value.as_bytes(), &after].concat();
        let text = in_lines(&whole, width, end);
        let out = scrub(value.as_bytes(), text.as_bytes(), &sizes);
        prop_assert_eq!(&*scrubber([(value.as_bytes(), MARKER)]).rewrite(text.as_bytes()), &*out);
        let decoded = decode_lines(&out, end);
        prop_assert!(!contains(&decoded, value.as_bytes()));
        prop_assert!(contains(&decoded, MARKER.as_bytes()));
        prop_assert!(decoded.starts_with(&before) && decoded.ends_with(&after));
        let kept = keyless_rewrite::length_keeping_scrubber([(value.as_bytes(), MARKER)]);
        prop_assert_eq!(kept.rewrite(text.as_bytes()).len(), text.len());
    }

    #[test]
    fn what_looks_like_lines_comes_out_the_same_in_any_chunks(
        value in "[ab]{9}",
        parts in vec(prop_oneof![
            8 => "[ab]{50,70}".prop_map(|text| BASE64.encode(text.as_bytes())),
            4 => "[A-Za-z]{56,64}",
            2 => "[nr=]{1,3}",
            8 => line_end().prop_map(str::to_owned),
            1 => Just("\\u00".to_owned()),
            2 => prop_oneof![Just("\\"), Just("\\r"), Just("\r"), Just("\""), Just(" ")].prop_map(str::to_owned),
        ], 0..12),
        sizes in sizes(),
    ) {
        let text = parts.concat();
        let out = scrub(value.as_bytes(), text.as_bytes(), &sizes);
        prop_assert_eq!(&*scrubber([(value.as_bytes(), MARKER)]).rewrite(text.as_bytes()), &*out);
    }
}
