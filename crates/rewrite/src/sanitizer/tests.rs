//! Each form of reference/nl.md, 13.2, and each probe of section 12 that got past the reference.

use std::io::Write as _;

use data_encoding::{BASE32, BASE64, BASE64_NOPAD, BASE64URL, HEXLOWER, HEXUPPER};
use flate2::{
    Compression, GzBuilder,
    write::{GzEncoder, ZlibEncoder},
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const VALUE: &[u8] = b"s3cr3t/Value+42<&>\"x";

fn clean(text: &[u8]) -> String {
    let sanitizer = Sanitizer::new([VALUE]);
    let findings = sanitizer.find(text);
    let marker = |finding: &Finding| match finding.form {
        FoundAs::Plain => "[P]".to_owned(),
        FoundAs::Base64 => "[B]".to_owned(),
        FoundAs::Percent => "[U]".to_owned(),
        FoundAs::Hex => "[H]".to_owned(),
    };
    String::from_utf8_lossy(&redact(text, &findings, marker)).into_owned()
}

fn wrapped(text: &str, columns: usize, separator: &str) -> Vec<u8> {
    text.as_bytes().chunks(columns).collect::<Vec<_>>().join(separator.as_bytes())
}

#[test]
fn the_four_forms_of_the_spec_have_their_markers() {
    let text = |form: &str| format!("a {form} b").into_bytes();
    assert_eq!(clean(&text(std::str::from_utf8(VALUE).unwrap())), "a [P] b");
    assert_eq!(clean(&text(&BASE64.encode(VALUE))), "a [B] b");
    assert_eq!(clean(&text(&HEXLOWER.encode(VALUE))), "a [H] b");
    assert_eq!(clean(&text("s3cr3t%2FValue%2B42%3C%26%3E%22x")), "a [U] b");
    // Each, however often it stands there.
    let twice = [VALUE, b" ", HEXLOWER.encode(VALUE).as_bytes(), b" ", VALUE, VALUE].concat();
    assert_eq!(clean(&twice), "[P] [H] [P][P]");
}

#[test]
fn what_got_past_the_reference_is_found() {
    let reversed: Vec<u8> = VALUE.iter().rev().copied().collect();
    let colours: Vec<u8> =
        VALUE.iter().flat_map(|byte| [b"\x1b[31m", &[*byte][..]].concat()).collect();
    let basic = BASE64.encode(&[b"user:", VALUE].concat());
    let line = BASE64.encode(&[VALUE, b"\n"].concat());
    let percent =
        |text: &[u8]| text.iter().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("base64url", BASE64URL.encode(VALUE).into()),
        ("unpadded", BASE64_NOPAD.encode(VALUE).into()),
        ("inside a longer one", basic.into()),
        ("with its newline", line.into()),
        ("wrapped base64", wrapped(&BASE64.encode(VALUE), 8, "\n  ")),
        ("upper hex", HEXUPPER.encode(VALUE).into()),
        ("spaced hex", wrapped(&HEXLOWER.encode(VALUE), 2, " ")),
        ("colon hex", wrapped(&HEXUPPER.encode(VALUE), 2, ":")),
        ("xxd groups", wrapped(&HEXLOWER.encode(VALUE), 4, " ")),
        ("\\x hex", VALUE.iter().flat_map(|b| format!("\\x{b:02x}").into_bytes()).collect()),
        ("0x hex", VALUE.iter().flat_map(|b| format!("0x{b:02x}, ").into_bytes()).collect()),
        ("lower percent", b"s3cr3t%2fValue%2b42%3c%26%3e%22x".to_vec()),
        ("all percent", percent(VALUE).into()),
        ("percent of percent", percent(percent(VALUE).as_bytes()).into()),
        ("base64 of base64", BASE64.encode(BASE64.encode(VALUE).as_bytes()).into()),
        ("base32", BASE32.encode(VALUE).into()),
        ("reversed", reversed),
        ("json", b"s3cr3t\\/Value\\u002b42\\u003c&\\u003e\\\"x".to_vec()),
        ("html", b"s3cr3t/Value&#43;42&lt;&amp;&gt;&quot;x".to_vec()),
        ("shell quoted", b"s3cr3t/Value+42\\<\\&\\>\\\"x".to_vec()),
        ("lower case", VALUE.to_ascii_lowercase()),
        ("colours", colours),
        ("zero width", b"s3cr3t\xe2\x80\x8b/Value+42<&>\"x".to_vec()),
        ("broken into lines", b"s3cr3t/Va\n   lue+42<&>\"x".to_vec()),
        ("NUL between", VALUE.iter().flat_map(|byte| [*byte, 0]).collect()),
    ];
    for (name, text) in cases {
        let around = [b"<", &text[..], b"|"].concat();
        let cleaned = clean(&around);
        assert!(cleaned.contains('['), "{name}: {cleaned}");
        assert!(!cleaned.contains("lue+42") && cleaned.len() < 20, "{name}: {cleaned}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_compressed_is_looked_into_and_taken_out_whole() {
    let around = |text: &[u8]| [&b"words before it "[..], text, b" and after it"].concat();
    let long = [&b"and so on, ".repeat(500)[..], VALUE, &b", and so on".repeat(500)].concat();
    let mut named = GzBuilder::new().filename("a-long-name".repeat(20)).comment("why");
    named = named.extra(vec![7; 300]);
    let mut named = named.write(Vec::new(), Compression::best());
    named.write_all(VALUE).unwrap();
    let packed = [
        gzip(VALUE),
        gzip(&around(VALUE)),
        gzip(&long),
        gzip(BASE64.encode(&around(VALUE)).as_bytes()),
        [gzip(b"nothing"), gzip(VALUE)].concat(),
        named.finish().unwrap(),
        zlib(VALUE, 0),
        zlib(VALUE, 1),
        zlib(&around(VALUE), 5),
        zlib(&long, 6),
        zlib(&long, 9),
    ];
    for (number, packed) in packed.iter().enumerate() {
        let base64 = BASE64.encode(packed);
        let hex = HEXLOWER.encode(packed);
        let cases: [(&str, Vec<u8>); 12] = [
            ("[P]", packed.clone()),
            ("[B]", base64.clone().into()),
            ("[B]", base64.trim_end_matches('=').into()),
            ("[B]", BASE64URL.encode(packed).into()),
            ("[B]", wrapped(&base64, 60, "\n")),
            ("[B]", wrapped(&base64, 76, "\r\n  ")),
            ("[B]", wrapped(&base64, 60, "\\n")),
            ("[H]", hex.clone().into()),
            ("[H]", HEXUPPER.encode(packed).into()),
            ("[H]", wrapped(&hex, 60, "\n")),
            ("[H]", wrapped(&hex, 2, " ")),
            ("[H]", wrapped(&hex, 2, "\\x")),
        ];
        for (at, (marker, text)) in cases.iter().enumerate() {
            let before = ["", "\"", "a = \"", "data:;base64,"][(number + at) % 4];
            let text = [before.as_bytes(), text, b"\" b"].concat();
            assert_eq!(clean(&text), format!("{before}{marker}\" b"), "{number}, {at}");
        }
    }
    // Where nothing is in it, it stays.
    for text in [gzip(b"nothing"), BASE64.encode(&zlib(&b"nothing".repeat(99), 6)).into()] {
        assert!(Sanitizer::new([VALUE]).find(&text).is_empty());
    }
}

/// Wherever it stands, also across what is looked at in one go, and where all of a text is suspect.
#[test]
fn what_is_compressed_is_found_at_any_place() {
    let packed = gzip(&[&b"0123456789abcdef".repeat(300)[..], VALUE].concat());
    let blobs = [BASE64.encode(&packed).into(), wrapped(&HEXLOWER.encode(&packed), 2, " ")];
    let sanitizers = [Sanitizer::new([VALUE]), Sanitizer::new([VALUE, b"1.2."])];
    for start in (0..70).chain([SEGMENT - 300, SEGMENT - 2, SEGMENT - 1, SEGMENT + 63]) {
        for (blob, sanitizer) in blobs.iter().zip(&sanitizers) {
            let text = [&vec![b'.'; start][..], b"\"", blob, b"\""].concat();
            let found = sanitizer.find(&text);
            let [finding] = &found[..] else { panic!("{start}: {found:?}") };
            assert_eq!(finding.range, start + 1..start + 1 + blob.len(), "{start}");
        }
    }
}

#[test]
fn a_text_full_of_beginnings_takes_no_longer_than_is_bounded() {
    let sanitizer = Sanitizer::new([VALUE]);
    let bomb = gzip(&vec![0; 16 << 20]);
    for text in [b"eJw".repeat(1 << 16), b"\x1f\x8b\x08\0".repeat(1 << 15), bomb.repeat(20)] {
        assert!(sanitizer.find(&text).is_empty());
    }
}

/// A symbol between a value and its neighbour has up to four bits of it.
#[test]
fn no_symbol_with_a_bit_of_the_value_stays() {
    let neighbours = b"neighbour";
    for length in 16..22 {
        let value = &b"s3cr3t/Value+42<&>\"xyz"[..length];
        let sanitizer = Sanitizer::new([value]);
        for before in 0..4 {
            for after in 0..4 {
                let all = [&neighbours[..before], value, &neighbours[..after]].concat();
                for text in [BASE64.encode(&all), BASE64_NOPAD.encode(&all)] {
                    let around = format!("a {text} b");
                    let found = sanitizer.find(around.as_bytes());
                    // From the first symbol that has a bit of it to the last, and no other.
                    let (start, end) = (before * 8 / 6, ((before + length) * 8).div_ceil(6));
                    let cleaned = redact(around.as_bytes(), &found, |_| "#".to_owned());
                    let kept = text[end..].trim_end_matches('=');
                    let cleaned = String::from_utf8_lossy(&cleaned).replace('=', "");
                    assert_eq!(cleaned, format!("a {}#{kept} b", &text[..start]));
                }
            }
        }
        let line = [value, b"\n"].concat();
        for before in 0..6 {
            for what in [value, &line] {
                let text = BASE32.encode(&[&neighbours[..before], what].concat());
                for text in [text.to_ascii_lowercase(), text] {
                    let found = sanitizer.find(text.as_bytes());
                    let end = ((before + length) * 8).div_ceil(5);
                    assert_eq!(found.len(), 1, "{text}: {found:?}");
                    assert_eq!(found[0].range, before * 8 / 5..end, "{text}");
                }
            }
        }
    }
}

/// As JSON and others write the ends of lines, and what colours letters.
#[test]
fn what_is_broken_and_then_escaped_is_found() {
    let lines = [0, 1, 2, 3, 4].map(|line| format!("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBK{line}b\n"));
    let key = lines.concat();
    let key = format!("-----BEGIN KEY-----\n{key}-----END KEY-----\n");
    let value = "q7Rk2mVw9ZtB4nHs8XpL3cGd";
    let base64 = BASE64.encode(key.as_bytes());
    let base64_of_value = BASE64.encode(value.as_bytes());
    let sanitizers = [&key, value].map(|value| Sanitizer::new([value.as_bytes()]));
    let breaks = [
        "\\n",
        "\\r\\n",
        "\\n    ",
        "\\t",
        "\\u000a",
        "\\u001b[31m",
        "\\x1b[0m",
        "\\033[38;2;255;128;0m",
        "%0A",
        "%20",
        "%1b[1m",
        "&#10;",
        "&#160;",
        "\\u200b",
        "\\u0000",
        "\\\\n",
        "\\\\u001b[31m",
        "%250A",
        "\\u001b]0;t\\u0007",
        "\n\\n",
    ];
    for between in breaks {
        for (secret, text, columns) in [
            (0, base64.as_str(), 60),
            (0, &base64, 7),
            (1, value, 10),
            (1, value, 1),
            (1, &HEXLOWER.encode(value.as_bytes()), 16),
            (1, &base64_of_value, 8),
        ] {
            let broken = wrapped(text, columns, between);
            for (before, after) in [("", ""), ("{\"content\": \"", "\"}"), ("a\\nb ", "\\n c\\n")] {
                let text = [before.as_bytes(), &broken, after.as_bytes()].concat();
                let cleaned = redact(&text, &sanitizers[secret].find(&text), |_| "#".to_owned());
                let expected = format!("{before}#{after}");
                assert_eq!(String::from_utf8_lossy(&cleaned), expected, "{between} {columns}");
            }
        }
    }
    // All that is known stands before a sequence that is one already, and the escape behind it.
    for sequence in ["[31m", "[1;31m", "[38;5;196m", "[38;2;255;128;0m", "]0;a title\x07"] {
        for end in 3..8 {
            let (first, rest) = base64_of_value.split_at(base64_of_value.len() - end);
            let text = format!("<{first}\x1b{sequence}\\n{rest}>");
            let cleaned = without(value.as_bytes(), text.as_bytes());
            assert_eq!(cleaned, b"<\x01>", "{text:?}: {}", cleaned.escape_ascii());
        }
    }
    // An escape of its own beside a line end that is none.
    assert_eq!(without(b"ab/cdefgh+ijklmnop/q", b"<ab\\/cdefgh+\nijklmnop\\/q>"), b"<\x01>");
    assert_eq!(
        without("Z\u{fc}rich-Stra\u{df}e".as_bytes(), br"<Z\u00fcri\nch-Stra\u00df\ne>"),
        b"<\x01>"
    );
}

/// As `rev` does it, line by line, and what turns the letters of a text around.
#[test]
fn a_value_is_found_reversed_by_letter_and_by_line() {
    let turned = |text: &str| text.chars().rev().collect::<String>();
    let password = "Zürich-Straße€🔑42";
    let text = format!("<{}>", turned(password));
    assert_eq!(without(password.as_bytes(), text.as_bytes()), b"<\x01>");
    let key = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7\nbq1ZqkVtQe0xT3w==\n-----END KEY-----\n";
    let lines: String = key.lines().map(|line| turned(line) + "\n").collect();
    let expected = "-----YEK NIGEB-----\n\u{1}\n\u{1}\n-----YEK DNE-----\n";
    assert_eq!(String::from_utf8(without(key.as_bytes(), lines.as_bytes())).unwrap(), expected);
    assert_eq!(without(key.as_bytes(), turned(key).trim_start().as_bytes()), b"\x01");
}

#[test]
fn what_holds_a_value_is_found_encoded_twice() {
    let sanitizer = Sanitizer::new([VALUE]);
    for user in ["", "u", "us", "user:", "ab/cdef"] {
        for end in ["", "\n"] {
            let basic = BASE64.encode(&[user.as_bytes(), VALUE, end.as_bytes()].concat());
            for text in
                [BASE64.encode(basic.as_bytes()), BASE64.encode(format!("{basic}\n").as_bytes())]
            {
                let found = sanitizer.find(text.as_bytes());
                assert_eq!(found.len(), 1, "{user}{end}: {text}");
                // Up to four bits at either end of the inner, in as many symbols as two of it have.
                let most = text.len().saturating_sub((user.len() * 16).div_ceil(9) + 12);
                assert!(found[0].range.len() >= most, "{user}{end}: {text}, {found:?}");
            }
        }
    }
}

#[test]
fn a_large_part_is_found_and_its_rest_goes_with_it() {
    assert_eq!(clean(b"> s3cr3t/Value+42"), "> [P]");
    assert_eq!(clean(b"t/Value+42<&>\"x <"), "[P] <");
    assert_eq!(clean(b"s3cr3t/"), "s3cr3t/");
}

/// Punctuation goes from a text that is folded, and `0x` and `\x`; what little is left of such a value is one all the same.
#[test]
fn a_value_of_punctuation_and_one_with_an_escape_in_it_are_found() {
    for value in [
        "aB3$x9Zq",
        "P@ss-w0r!d",
        "!(k[7]~{Q}*=+;:,",
        "tok-ab0xCDEFGHIJ12345678",
        "p\"w'd\\x$y`.z-1",
    ] {
        let characters: Vec<String> = value.chars().map(String::from).collect();
        let swapped: String = value
            .chars()
            .map(|one| {
                if one.is_lowercase() { one.to_ascii_uppercase() } else { one.to_ascii_lowercase() }
            })
            .collect();
        let texts = [
            value.to_uppercase(),
            swapped,
            characters.join("-"),
            characters.join(","),
            characters.join(" "),
            format!("{characters:?}"),
        ];
        for text in texts {
            let left = without(value.as_bytes(), format!("<{text}>").as_bytes());
            assert!(left.len() <= 8, "{value}: {text}: {}", String::from_utf8_lossy(&left));
        }
    }
}

#[test]
fn a_value_with_escapes_in_it_is_found_without_them() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq1ZqkVtQe0xT3w\nq9Xk2LmZ7vRb4TnWp0Ys8Qc5Hd1Js6F\n-----END PRIVATE KEY-----\n";
    let escaped = key.replace('\n', "\\n");
    let value =
        format!("{{\n  \"type\": \"service_account\",\n  \"private_key\": \"{escaped}\"\n}}");
    let left = without(value.as_bytes(), format!("<{key}>").as_bytes());
    assert!(left.len() < 5, "{}", String::from_utf8_lossy(&left));
    let url = "https://svc:p%40ss%2Fw0rd%21Zq%24x%23Y9%26k@host.test/%7Eme";
    let read = "https://svc:p@ss/w0rd!Zq$x#Y9&k@host.test/~me";
    assert_eq!(without(url.as_bytes(), format!("<{read}>").as_bytes()), b"<\x01>");
}

#[test]
fn utf_16_of_any_text_and_bytes_that_were_taken_for_latin_are_found() {
    let value = "пароль-ключ-日本-0123😀";
    let wide: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for text in [wide.clone(), HEXLOWER.encode(&wide).into(), BASE64.encode(&wide).into()] {
        assert!(without(value.as_bytes(), &text).len() < 4, "{text:?}");
    }
    let bytes = b"k\xe9y-\xff\xfe-0123456789";
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    assert_eq!(without(bytes, format!("<{text}>").as_bytes()), b"<\x01>");
}

#[test]
fn the_longer_of_two_values_wins_and_markers_are_not_looked_at() {
    let sanitizer = Sanitizer::new([&b"abcd1234"[..], b"abcd1234EXTRA", b"REDACTED"]);
    let text = b"abcd1234EXTRA abcd1234 x";
    let findings = sanitizer.find(text);
    let cleaned = redact(text, &findings, |finding| format!("[REDACTED:{}]", finding.value));
    assert_eq!(&*cleaned, b"[REDACTED:1] [REDACTED:0] x");
}

#[test]
fn short_values_are_not_looked_for() {
    assert!(Sanitizer::new([&b"abc"[..]]).find(b"abc abc").is_empty());
    assert_eq!(Sanitizer::new([&b"abcd"[..]]).find(b"abc abcd").len(), 1);
    assert!(Sanitizer::new([]).find(b"anything").is_empty());
}

/// NL-2.6.11: a key of several lines is one value, indented, joined or with other line ends too.
#[test]
fn a_value_of_several_lines_is_one() {
    let key = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7\nbq1ZqkVtQe0xT3w==\n-----END KEY-----\n";
    let sanitizer = Sanitizer::new([key.as_bytes()]);
    for text in [
        key.to_owned(),
        key.trim_end().to_owned(),
        key.replace('\n', "\r\n"),
        key.replace('\n', "\n    "),
        key.replace('\n', " "),
    ] {
        let text = format!("before {text} after");
        let findings = sanitizer.find(text.as_bytes());
        assert_eq!(findings.len(), 1, "{text:?}");
        assert!(findings[0].range.len() >= key.trim_end().len() - 4, "{text:?}");
    }
}

#[test]
fn what_crosses_two_segments_is_found() {
    for shift in [0, 1, 7, VALUE.len() / 2, VALUE.len()] {
        let mut text = vec![b'.'; SEGMENT - shift];
        text.extend_from_slice(VALUE);
        text.extend_from_slice(&vec![b'.'; SEGMENT]);
        let findings = Sanitizer::new([VALUE]).find(&text);
        assert_eq!(findings.len(), 1, "{shift}");
        assert_eq!(findings[0].range, SEGMENT - shift..SEGMENT - shift + VALUE.len());
    }
}

#[test]
fn harmless_text_stays() {
    let text = b"total 12\ndrwxr-xr-x 2 u u 4096 \x1b[1mdir\x1b[0m 100% &amp; \\n 0x00 s3cr3t";
    assert_eq!(clean(text), String::from_utf8_lossy(text));
}

/// The text with `\u{1}` in the place of each finding.
fn without(value: &[u8], text: &[u8]) -> Vec<u8> {
    redact(text, &Sanitizer::new([value]).find(text), |_| "\u{1}".to_owned()).into_owned()
}

fn holds(text: &[u8], value: &[u8]) -> bool {
    memchr::memmem::find(text, value).is_some()
}

#[test]
fn terminal_sequences_hide_no_value() {
    for introducer in ["\x1b]", "\x1b]0;", "\x1b]8;;https://x/", "\x1bP", "\x1bX", "\x1b^", "\x1b_"]
    {
        for end in ["\x07", "\x1b\\", ""] {
            let text = [introducer.as_bytes(), VALUE, end.as_bytes()].concat();
            assert_eq!(without(VALUE, &text), format!("{introducer}\u{1}{end}").as_bytes());
        }
    }
    for digits in ["4711", "123456789", "98765432109876543210987654321098"] {
        for text in [format!("\x1b[{digits}m"), format!("\x1b[1;{digits}"), format!("\x1b{digits}")]
        {
            let expected = text.replace(digits, "\u{1}");
            assert_eq!(
                without(digits.as_bytes(), text.as_bytes()),
                expected.as_bytes(),
                "{text:?}"
            );
        }
    }
    // Cut by what a terminal does not show.
    for between in ["\x1b]0;t\x07", "\x1b]8;;https://x/\x1b\\", "\x1bPq\x1b[0m", "\x1b_x\x07\n "] {
        let text = [b"<", &VALUE[..5], between.as_bytes(), &VALUE[5..], b">"].concat();
        assert_eq!(without(VALUE, &text), b"<\x01>", "{between:?}");
    }
    // In lines, and a part, in a link.
    let broken = b"\x1b]8;;s3cr3t/Va\n  lue+42<&>\"x\x07.";
    assert_eq!(without(VALUE, broken), b"\x1b]8;;\x01\x07.");
    assert_eq!(without(b"1234567890", b"\x1b[12345678m."), b"\x1b[\x01m.");
}

#[test]
fn values_with_what_cannot_be_seen_are_found() {
    let values = [
        "pass\u{a0}word\u{200b}42x",
        "ends-in-a-blank\u{a0}",
        "\u{feff}begins-with-a-mark",
        "soft\u{ad}hyphen\u{2060}s",
        "es\x1bcaped-value-9",
        "es\x1b[31mcaped-value",
        "ab0xDEAD:BEEF:00-x",
    ];
    for value in values {
        let value = value.as_bytes();
        assert_eq!(without(value, &[b"<", value, b">"].concat()), b"<\x01>", "{value:?}");
        // Without what can't be seen, and in lines.
        let [shown, _] = view::remains(value);
        let lines = shown.chunks(4).collect::<Vec<_>>().join(&b"\n "[..]);
        assert_eq!(without(value, &[b"<", &lines[..], b">"].concat()), b"<\x01>", "{value:?}");
        let lower = [b"<", &lines.to_ascii_lowercase()[..], b">"].concat();
        assert_eq!(without(value, &lower), b"<\x01>", "{value:?}");
    }
}

#[test]
fn an_x_takes_back_only_what_was_kept() {
    for before in ["", "\x1b0x", "x", "0\x1b0x", "\x1b\\x", "0x", "\\x0X", "\x1b[0x", "00x"] {
        for hex in
            ["4142434445464748", "41:42:43:44:45:46:47:48", "0x410x420x430x440x450x460x470x48"]
        {
            let text = [before, hex, "<"].concat();
            assert_eq!(without(b"ABCDEFGH", text.as_bytes()).last(), Some(&b'<'), "{text:?}");
            assert!(!holds(&without(b"ABCDEFGH", text.as_bytes()), b"43"), "{text:?}");
        }
    }
}

#[test]
fn a_whole_value_in_what_goes_on_from_a_part_is_found() {
    let (value, text) = (b":-:,abc:-:,abcd", b"<:-:,abc:-:,abc:-:,abcd>");
    assert_eq!(without(value, text), b"<\x01>");
}

#[test]
fn a_value_is_found_where_a_piece_of_a_longer_one_begins_with_it() {
    let (before, after) =
        ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN", "0123456789OPQRSTUVWXYZzyxwvu");
    for at in 0..before.len() {
        let longer = [&before[..at], "+:+:+", after].concat();
        let sanitizer = Sanitizer::new([longer.as_bytes(), b"+:+:+"]);
        for more in 0..after.len() {
            // Too little of the longer one to count as it.
            let text = format!("<+:+:+{}>", &after[..more]);
            let left = redact(text.as_bytes(), &sanitizer.find(text.as_bytes()), |_| "*".into());
            assert!(!holds(&left, b"+:+:+"), "{longer}: {text}");
        }
    }
}

/// What of it overlaps the one before is as much of the value.
#[test]
fn a_value_that_ends_as_it_begins_is_found_over_itself() {
    assert_eq!(without(b"abcdefgha", b"<abcdefghabcdefgha>"), b"<\x01>");
    assert_eq!(without(b"abcdefgha", b"<%61bcdefghabcdefgh%61>"), b"<\x01>");
}

proptest! {
    /// Three fifths of a value, wherever they are in it.
    #[test]
    fn a_large_part_is_found_wherever_it_begins(
        value in "[!-~]{14,200}",
        begin in 0..=1000_usize,
        more in 0..=1000_usize,
        way in 0..3,
    ) {
        let length = value.len();
        let least = (length * 3).div_ceil(5).max(8);
        let begin = begin % (length - least + 1);
        let end = begin + least + more % (length - least - begin + 1);
        let part = &value[begin..end];
        let text = match way {
            0 => part.to_owned(),
            1 => part.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat(),
            _ => part.chars().flat_map(|one| [one, ' ']).collect(),
        };
        let left = without(value.as_bytes(), format!("\u{1}\u{1}{text}\u{1}\u{1}").as_bytes());
        prop_assert!(left.len() <= 5 + usize::from(way == 2), "{part}: {}", String::from_utf8_lossy(&left));
    }

    #[test]
    fn what_is_wrapped_in_a_terminal_sequence_never_comes_out(
        pieces in vec(
            prop_oneof![
                4 => "[0-9]{1,6}",
                4 => "[ -~]{1,6}",
                1 => select(vec!["\u{a0}", "\u{200b}", "\x1b", "\x1b[0m", "\x1b]", "\n", "\0", "\x07"])
                    .prop_map(str::to_owned),
            ],
            1..8,
        ),
        introducer in select(vec![
            "\x1b[", "\x1b[38;5;", "\x1b]", "\x1b]0;", "\x1bP", "\x1b^", "\x1b_", "\x1bX", "\x1b",
            "\u{9d}", "\u{9b}", "\u{a0}", "\u{2}\u{c2}", "\\x", "0",
        ]),
        end in select(vec!["m", "\x07", "\x1b\\", "\u{9c}", "H", "~", "", "\x1b[0m", "\n"]),
        around in "[ -~]{0,8}",
    ) {
        let value = pieces.concat().into_bytes();
        prop_assume!(value.len() >= MIN_SANITIZED);
        let text = [around.as_bytes(), introducer.as_bytes(), &value, end.as_bytes()].concat();
        prop_assert!(!holds(&without(&value, &text), &value));
    }
}

/// A letter's bytes in UTF-8, each as `escape` writes it.
fn bytewise(letter: char, escape: fn(u8) -> String) -> String {
    letter.to_string().bytes().map(escape).collect::<Vec<_>>().concat()
}

/// A value as shells, databases and languages write it who quote it.
fn quotings(value: &str) -> Vec<(&'static str, String)> {
    let escaped = |special: &str| -> String {
        let one = |c: char| if special.contains(c) { format!("\\{c}") } else { c.to_string() };
        value.chars().map(one).collect()
    };
    let script = |kept: fn(char) -> bool, escaped: fn(char) -> String| -> String {
        let one = |c: char| match c {
            '\n' => "\\n".to_owned(),
            '\t' => "\\t".to_owned(),
            '\'' | '\\' => format!("\\{c}"),
            _ if kept(c) => c.to_string(),
            _ => escaped(c),
        };
        value.chars().map(one).collect()
    };
    let code = |c: char| match u32::from(c) {
        code @ ..=0xff => format!("\\x{code:02x}"),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    let octal = |c: char| bytewise(c, |byte| format!("\\{byte:03o}"));
    let bytes = |c: char| bytewise(c, |byte| format!("\\x{byte:02x}"));
    let braces = |c: char| format!("\\u{{{:x}}}", u32::from(c));
    let bash = |text: &str| text.replace('\'', "'\\''");
    let is_shown = |c: char| !c.is_control();
    let is_ascii = |c: char| c == ' ' || c.is_ascii_graphic();
    vec![
        ("trace of bash", bash(value)),
        ("shlex", value.replace('\'', "'\"'\"'")),
        ("SQL", value.replace('\'', "''")),
        ("CSV", value.replace('"', "\"\"")),
        ("bash, twice", bash(&bash(value))),
        ("%q", escaped(" '\"\\|&;()<>!{}*[]?^$`,#~")),
        ("in quotes", escaped("\"$`\\")),
        ("$'...'", script(is_shown, octal)),
        ("$'...' in ASCII", script(is_ascii, octal)),
        ("repr", script(is_shown, code)),
        ("ascii", script(is_ascii, code)),
        ("repr of bytes", script(is_ascii, bytes)),
        ("escapes of Rust", script(is_ascii, braces)),
    ]
}

#[test]
fn a_value_with_quotes_is_found_as_programs_quote_it() {
    let password = "Tr0ub4dor'&3$x9!Kq";
    for written in [
        r"+ : 'Tr0ub4dor'\''&3$x9!Kq'",
        r#"'Tr0ub4dor'"'"'&3$x9!Kq'"#,
        "'Tr0ub4dor''&3$x9!Kq'",
        r"Tr0ub4dor\'\&3\$x9\!Kq",
        r#""Tr0ub4dor'&3\$x9!Kq""#,
        r"$'Tr0ub4dor\'&3$x9!Kq'",
        r#"["T","r","0","u","b","4","d","o","r","'","&","3","$","x","9","!","K","q"]"#,
    ] {
        let cleaned = String::from_utf8(without(password.as_bytes(), written.as_bytes())).unwrap();
        assert!(!cleaned.contains('r') && !cleaned.contains('q'), "{written}: {cleaned}");
    }
    // Too short for a view without its quotes.
    for written in [r"'pa'\''ss1'", r#"'pa'"'"'ss1'"#] {
        let cleaned = String::from_utf8(without(b"pa'ss1", written.as_bytes())).unwrap();
        assert!(!cleaned.contains("pa") && !cleaned.contains("ss1"), "{written}: {cleaned}");
    }
}

#[test]
fn letters_beyond_ascii_are_found_in_another_case_and_by_number() {
    let value = "Zürich-Straße€🔑";
    for written in [
        "ZÜRICH-STRASSE€🔑",
        "zürich-straße€🔑",
        "zürich-strasse€🔑",
        r"Z\xfcrich-Stra\xdfe\u20ac\U0001f511",
        r"Z\u00fcrich-Stra\u00dfe\u20ac\u{1f511}",
        r"Z\xc3\xbcrich-Stra\xc3\x9fe\xe2\x82\xac\xf0\x9f\x94\x91",
        r"Z\303\274rich-Stra\303\237e\342\202\254\360\237\224\221",
    ] {
        let text = format!("<{written}>");
        let cleaned = without(value.as_bytes(), text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&cleaned), "<\u{1}>", "{written}");
    }
    let latin = b"<Z\xfcrich-Stra\xdfe>";
    assert_eq!(without("Zürich-Straße".as_bytes(), latin), b"<\x01>");
}

proptest! {
    #[test]
    fn no_value_comes_out_quoted(
        value in "[A-Za-z0-9'\"\\\\$`!&äß€🔑 \n\t\u{1b}]{8,40}",
        before in "[ -~]{0,8}",
        after in "[ -~]{0,8}",
    ) {
        prop_assume!(value.trim_ascii_end().len() >= 8);
        let sanitizer = Sanitizer::new([value.as_bytes()]);
        for (name, written) in quotings(&value) {
            let text = [before.as_str(), "=", &written, "=", &after].concat();
            let found = sanitizer.find(text.as_bytes());
            let cleaned = redact(text.as_bytes(), &found, |_| "\u{1}".to_owned());
            let cleaned = String::from_utf8_lossy(&cleaned);
            prop_assert!(!cleaned.contains(written.trim_ascii_end()), "{name}: {cleaned}");
        }
    }
}

/// Pieces of texts and of values that views leave out, take back, undo or make small, and some that look so.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let odd: &[&[u8]] = &[
        b"0x",
        b"\\x",
        b"0X",
        b"x",
        b"0",
        b"\\",
        b":",
        b"-",
        b", ",
        b"|",
        b" ",
        b"\n  ",
        b"\0",
        b"\x1b",
        b"\x1b[",
        b"\x1b[31m",
        b"\x1b[1;3",
        b"\x1b]0;t\x07",
        b"\x1b]",
        b"\x1bP",
        b"\x1b\\",
        b"\x07",
        b"\xc2\xa0",
        b"\xc2",
        b"\xa0",
        b"\xe2\x80\x8b",
        b"\xe2\x80",
        b"\x8b",
        b"\xef\xbb\xbf",
        b"\xef\xb8",
        "\u{e9}".as_bytes(),
        b"%41",
        b"%",
        b"%25",
        b"&amp;",
        b"&",
        b"\\n",
        b"\\u0041",
        b"\\u{41}",
        b"\\U00000041",
        b"\\x{",
        b"{",
        b"}",
        b"'",
        b"\"",
        b"'\\''",
        b"\\\n",
        b"\\u00e9",
        b"\\xe9",
        "\u{c9}".as_bytes(),
        b"&#x+41;",
        b"#",
        b";",
        b"A",
        b"25",
    ];
    let odd: Vec<Vec<u8>> = odd.iter().map(|odd| odd.to_vec()).collect();
    prop_oneof![
        3 => select(odd),
        2 => vec(select(b"aAbB0x1".to_vec()), 1..9),
        1 => "[ -~]{1,7}".prop_map(String::into_bytes),
    ]
}

/// The text with every byte escaped whose place has a bit in this.
fn some_escaped(text: &[u8], which: usize, escaped: impl Fn(u8) -> String) -> Vec<u8> {
    let each = |(at, byte): (usize, &u8)| match which >> (at % 7) & 1 {
        0 => vec![*byte],
        _ => escaped(*byte).into_bytes(),
    };
    text.iter().enumerate().flat_map(each).collect()
}

/// Several values, and a text with much of them, in one form or another.
fn values_and_text() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>)> {
    let values = vec(vec(piece(), 1..7).prop_map(|pieces| pieces.concat()), 1..4);
    let place =
        (any::<prop::sample::Index>(), 0..17, vec(piece(), 0..3), any::<prop::sample::Index>());
    (values, vec(place, 0..6), vec(piece(), 0..40)).prop_map(|(values, places, filling)| {
        let mut text = Vec::new();
        for (which, form, around, cut) in places {
            let value = which.get(&values);
            let hex = HEXLOWER.encode(value);
            let cut = cut.index(value.len() + 1);
            let written = match form {
                0 => value.clone(),
                1 => value.to_ascii_uppercase(),
                2 => BASE64.encode(&[&value[..cut], value].concat()).into_bytes(),
                3 => wrapped(&hex, 2, "\\x"),
                4 => wrapped(&hex, 4, " 0x"),
                5 => [&value[..cut], &around.concat(), &value[cut..]].concat(),
                6 => value[cut..].to_vec(),
                7 => some_escaped(value, cut, |byte| format!("%{byte:02x}")),
                8 => some_escaped(value, cut, |byte| format!("&#{byte};")),
                9 => some_escaped(value, cut, |byte| format!("\\x{byte:02x}")),
                10 => {
                    let once = some_escaped(value, cut, |byte| format!("%{byte:02X}"));
                    some_escaped(&once, cut / 2, |byte| format!("%{byte:02X}"))
                }
                11 => {
                    let once = some_escaped(value, cut, |byte| format!("\\x{byte:02X}"));
                    some_escaped(&once, cut / 2, |byte| format!("&#x{byte:x};"))
                }
                12 => {
                    let base64 = BASE64.encode(&[&value[..cut], value].concat()).into_bytes();
                    some_escaped(&base64, cut, |byte| format!("%{byte:02X}"))
                }
                13 => {
                    let base64 = BASE64.encode(value).into_bytes();
                    let lines = around.concat();
                    let broken: Vec<_> = base64.chunks(cut % 9 + 1).collect();
                    some_escaped(&broken.join(&lines[..]), cut / 9, |byte| format!("\\u{byte:04x}"))
                }
                14 => {
                    let breaks = ["\\n", "%0A", "\\u001b[1m", "&#10;\n", "\\\\n", "\x1b[0m%20"];
                    let broken: Vec<_> = value.chunks(cut % 9 + 1).collect();
                    broken.join(breaks[cut % breaks.len()].as_bytes())
                }
                15 => {
                    // Of a sequence that stands as such, an escape follows at some distance.
                    let sequences =
                        ["\x1b[31m", "\x1b[38;5;196m", "\x1b]0;title\x07", "\x1b[1;4;31m-"];
                    let (first, second) = value.split_at(cut);
                    let sequence = sequences[cut % sequences.len()].as_bytes();
                    let (near, rest) = second.split_at(second.len().min(cut % 5));
                    [first, sequence, near, b"\\n", rest].concat()
                }
                _ => value.iter().flat_map(|byte| [b"\x1b[1m", &[*byte][..]].concat()).collect(),
            };
            text.extend([around.concat(), written, vec![b'.'; cut * 9]].concat());
        }
        text.extend(filling.concat());
        (values, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 100_000 }))]

    /// Looking at what the screens let through finds what looking at everything finds.
    #[test]
    fn the_screens_let_every_value_through((values, text) in values_and_text()) {
        let mut sanitizer = Sanitizer::new(values.iter().map(Vec::as_slice));
        let screened = sanitizer.find(&text);
        sanitizer.screen = None;
        sanitizer.escapes = None;
        prop_assert_eq!(screened, sanitizer.find(&text));
    }
}
