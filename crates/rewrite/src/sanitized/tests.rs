//! Whatever the chunks are: a form that has no gap is gone, of one that has one the rest goes, and all else stays.

use data_encoding::{BASE32, BASE64, HEXLOWER};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::sanitizer::FoundAs;

const VALUE: &str = "s3cr3tValue42xyzQ7w";
const MARKER: &str = "kloak_00000000000000000000000001";

fn marking() -> Arc<Marking> {
    Arc::new(Marking::new([(VALUE.as_bytes(), MARKER)]))
}

/// Forms without a blank, a line end or a bracket in them.
fn closed() -> Vec<String> {
    let escaped = |write: fn(u8) -> String| VALUE.bytes().map(write).collect::<String>();
    vec![
        VALUE.to_owned(),
        VALUE.chars().rev().collect(),
        VALUE.to_uppercase(),
        BASE64.encode(VALUE.as_bytes()),
        BASE64.encode(BASE64.encode(VALUE.as_bytes()).as_bytes()),
        BASE32.encode(VALUE.as_bytes()),
        HEXLOWER.encode(VALUE.as_bytes()),
        escaped(|byte| format!("\\u{byte:04x}")),
        escaped(|byte| format!("&#{byte};")),
        escaped(|byte| format!("%{byte:02x}")),
        escaped(|byte| format!("{byte:02x}:")),
    ]
}

/// Forms with gaps.
fn open() -> Vec<String> {
    let spread = |write: fn(u8) -> String| VALUE.bytes().map(write).collect::<String>();
    vec![
        spread(|byte| format!("{byte:02x} ")),
        spread(|byte| format!("\x1b[3{}m{}", byte % 8, char::from(byte))),
        spread(|byte| format!("{}\0", char::from(byte))),
        format!("{}\n  {}", &VALUE[..9], &VALUE[9..]),
        spread(|byte| format!("\"{}\",", char::from(byte))),
    ]
}

fn passed(text: &[u8], sizes: &[usize], lengths: Lengths) -> (Vec<u8>, Tally) {
    let mut stream = SanitizedStream::new(marking(), lengths);
    let (mut out, mut tally, mut rest) = (Vec::new(), Tally::default(), text);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&rest.len())));
        let from = out.len();
        if let Some(plain) = stream.feed_or_slice(chunk, &mut out, &mut tally) {
            assert_eq!(out.len(), from);
            out.extend_from_slice(&chunk[..plain]);
        }
        rest = after;
    }
    stream.settle(&mut out, &mut tally);
    (out, tally)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_has_no_gap_is_gone_in_any_chunks(
        around in vec(vec(select(&b" {}:,\n<>q"[..]), 0..40), 2..5),
        forms in vec(select(closed()), 4),
        sizes in vec(1_usize..90, 1..20),
    ) {
        let mut text = Vec::new();
        for (noise, form) in around.iter().zip(&forms) {
            text.extend_from_slice(noise);
            text.extend_from_slice(format!(" {form} ").as_bytes());
        }
        let mut tally = Tally::default();
        let whole = marking().rewrite(&text, Lengths::Free, &mut tally).into_owned();
        prop_assert_eq!(passed(&text, &sizes, Lengths::Free), (whole, tally));
        let (kept, _) = passed(&text, &sizes, Lengths::Kept);
        prop_assert_eq!(kept.len(), text.len());
        prop_assert!(marking().find(&kept).is_empty());
    }

    #[test]
    fn of_what_has_gaps_the_rest_goes(
        form in select(open()),
        before in 0_usize..6000,
        cut in 0_usize..400,
    ) {
        let text = [&vec![b'.'; before][..], b" ", form.as_bytes(), b" and so on"].concat();
        let cut = before + 1 + cut % form.len();
        for sizes in [[text.len(), 1], [cut, text.len()]] {
            for lengths in [Lengths::Free, Lengths::Kept] {
                let (out, tally) = passed(&text, &sizes, lengths);
                prop_assert!(!tally.is_empty());
                // At most what had left, and never the end.
                let end = &form.trim_end().as_bytes()[form.len() - 12..];
                prop_assert!(!contains(&out, end), "{}", String::from_utf8_lossy(&out));
                prop_assert!(lengths == Lengths::Free || out.len() == text.len());
                prop_assert!(out.ends_with(b" and so on"));
            }
        }
    }

    #[test]
    fn what_holds_no_value_stays(text in vec(any::<u8>(), 0..5000), sizes in vec(20_usize..2000, 1..9)) {
        for lengths in [Lengths::Free, Lengths::Kept] {
            prop_assert_eq!(passed(&text, &sizes, lengths), (text.clone(), Tally::default()));
        }
    }
}

#[test]
fn nothing_waits_behind_the_end_of_an_event() {
    let mut stream = SanitizedStream::new(marking(), Lengths::Free);
    let (mut out, mut tally) = (Vec::new(), Tally::default());
    for event in ["data: {\"a\": \"s3cr\"}\n\n", "two words ", "[1,2]"] {
        let plain = stream.feed_or_slice(event.as_bytes(), &mut out, &mut tally);
        assert_eq!((plain, stream.held()), (Some(event.len()), 0), "{event}");
    }
}

/// Whoever knows three fifths of a value and can have a server say what they like would try each letter that may be next.
#[test]
fn a_part_of_a_value_stays_whatever_comes_behind_it() {
    for end in 1..VALUE.len() {
        for text in [&VALUE[..end], &VALUE[end..]] {
            let text = format!("<{text}>");
            let mut tally = Tally::default();
            let said = marking().rewrite(text.as_bytes(), Lengths::Free, &mut tally);
            assert_eq!(said, text.as_bytes());
        }
    }
}

/// What stands between two messages tells their lengths.
#[test]
fn nothing_is_looked_for_across_the_end_of_a_message() {
    for lengths in [Lengths::Free, Lengths::Kept] {
        let mut stream = SanitizedStream::new(marking(), lengths);
        let (mut out, mut tally) = (Vec::new(), Tally::default());
        let messages = [
            [b"\0\0\0\0\x0b", &VALUE.as_bytes()[..9]].concat(),
            [b"\0\0\0\0\x0b", &VALUE.as_bytes()[9..]].concat(),
        ];
        for message in &messages {
            if let Some(plain) = stream.feed_or_slice(message, &mut out, &mut tally) {
                out.extend_from_slice(&message[..plain]);
            }
            stream.settle(&mut out, &mut tally);
        }
        assert_eq!(out, messages.concat());
        assert!(tally.is_empty());
    }
}

#[test]
fn a_marker_is_no_value_and_what_was_taken_out_is_counted() {
    // A look-alike placeholder shares its beginning with the value.
    let (value, marker) = ("sk-ant-api03-abcdefgh", "sk-ant-api03-00000000");
    let marking = Marking::new([(value.as_bytes(), marker), (VALUE.as_bytes(), MARKER)]);
    let text = format!("{marker} {MARKER} {}", &MARKER[..19]);
    assert!(marking.find(text.as_bytes()).is_empty());
    let reversed: String = VALUE.chars().rev().collect();
    let base32 = BASE32.encode(value.as_bytes());
    let text = format!("<{marker}> <{value}> <{reversed}> <{base32}> <{reversed}>");
    let mut tally = Tally::default();
    let clean = marking.rewrite(text.as_bytes(), Lengths::Free, &mut tally);
    let expected = format!("<{marker}> <{marker}> <{MARKER}> <{marker}> <{MARKER}>");
    assert_eq!(String::from_utf8_lossy(&clean).replace('=', ""), expected);
    let counted: Vec<_> = tally.iter().collect();
    assert_eq!(counted, [(0, FoundAs::Plain, 1), (0, FoundAs::Base64, 1), (1, FoundAs::Plain, 2)]);
}
