//! What a server makes of the value that it was given, before it sends it back: nothing of it comes through, and the log
//! says what was taken out.

use std::io::Write as _;

use data_encoding::{BASE32, BASE64, HEXLOWER};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use http::{Request, StatusCode};
use keyless_testkit::{Handler, RequestBody, reply};
use serde_json::{Value, json};

use crate::world::{ALLOWED, EVIL, TOKEN, World};

/// What a server answers with, and how the log calls its encoding.
fn disguised(value: &str) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let each = |write: &dyn Fn(u8) -> String| value.bytes().map(write).collect::<String>();
    // Each writer escapes characters of its own choice.
    let digits = |write: fn(u8) -> String| {
        move |byte: u8| match byte {
            b'0'..=b'9' => write(byte),
            other => char::from(other).to_string(),
        }
    };
    let rot13 = |byte: u8| match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    };
    let base64 = |bytes: &[u8]| BASE64.encode(bytes);
    let text = |text: String| text.into_bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    write!(gzip, "it is {value}, {value} and {value}").unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    write!(zlib, "it is {value}, {value} and {value}").unwrap();
    let zlib = zlib.finish().unwrap();
    vec![
        ("reversed", text(value.chars().rev().collect()), "plain"),
        ("rot13", value.bytes().map(rot13).collect(), "plain"),
        ("another case", text(value.to_uppercase()), "plain"),
        ("utf-16", value.bytes().flat_map(|byte| [byte, 0]).collect(), "plain"),
        ("base32", text(BASE32.encode(value.as_bytes())), "base64"),
        ("base64 twice", text(base64(base64(value.as_bytes()).as_bytes())), "base64"),
        ("escapes of JSON", text(each(&|byte| format!("\\u{byte:04x}"))), "plain"),
        ("escapes of HTML", text(each(&|byte| format!("&#{byte};"))), "plain"),
        ("hex with blanks", text(each(&|byte| format!("{byte:02x} "))), "hex"),
        ("hex with colons", text(each(&|byte| format!("{byte:02X}:"))), "hex"),
        ("percent for some", text(each(&digits(|byte| format!("%{byte:02x}")))), "url"),
        (
            "escapes of JSON for some",
            text(each(&digits(|byte| format!("\\u00{byte:02X}")))),
            "plain",
        ),
        ("escapes of HTML for some", text(each(&digits(|byte| format!("&#x{byte:x};")))), "plain"),
        (
            "coloured",
            text(each(&|byte| format!("\x1b[3{}m{}", byte % 8, char::from(byte)))),
            "plain",
        ),
        ("in lines", text(format!("{}\n    {}", &value[..12], &value[12..])), "plain"),
        ("gzip", gzip.clone(), "plain"),
        ("gzip in base64", text(base64(&gzip)), "base64"),
        ("zlib in base64", text(base64(&zlib)), "base64"),
        ("zlib in hex", text(HEXLOWER.encode(&zlib)), "hex"),
    ]
}

/// Answers `/NUMBER/body` with one of them, `/NUMBER/header` with it in a field, where a field can have it.
fn discloser(answers: Vec<Vec<u8>>) -> Handler {
    Handler::new(move |request: Request<RequestBody>| {
        let path = request.uri().path().to_owned();
        let (number, place) = path[1..].split_once('/').unwrap_or(("", ""));
        let said = number.parse().ok().and_then(|number: usize| answers.get(number)).cloned();
        let said = said.unwrap_or_default();
        let answer = if place == "header" {
            let mut answer = reply(StatusCode::OK, "");
            if let Ok(value) = http::HeaderValue::from_bytes(&said) {
                answer.headers_mut().insert("x-said", value);
            }
            answer
        } else {
            reply(StatusCode::OK, [b"<<", &said[..], b">>"].concat())
        };
        std::future::ready(answer)
    })
}

#[test]
fn no_disguise_of_a_value_comes_back_and_the_log_says_what_was_taken_out() {
    let mut world = World::with_token();
    let forms = disguised(world.canary.value());
    let answers = forms.iter().map(|(_, form, _)| form.clone()).collect();
    let origin = world.origin_of(ALLOWED, discloser(answers));
    let script = format!(
        r#"for number in $(seq 0 {}); do
            printf 'body: '; curl -sS -H "Authorization: Bearer $TOKEN" "https://{ALLOWED}/$number/body" | od -An -v -tx1 | tr -d ' \n'; echo
            printf 'header: '; curl -sSi "https://{ALLOWED}/$number/header" | grep -i '^x-said' | od -An -v -tx1 | tr -d ' \n'; echo
        done"#,
        forms.len() - 1
    );
    let said = world.agent_sh(&script).run().ok();
    world.assert_received(&origin);
    let mut lines = said.lines();
    for (name, form, _) in &forms {
        for place in ["body: ", "header: "] {
            let line = lines.next().unwrap().strip_prefix(place).unwrap();
            let seen = HEXLOWER.decode(line.as_bytes()).unwrap();
            let shown = String::from_utf8_lossy(&seen);
            // What can't be in a field was not sent.
            let sent = place == "body: " || http::HeaderValue::from_bytes(form).is_ok();
            assert_eq!(shown.contains("kloak_"), sent, "{name}, {place}{shown}");
            assert!(seen.len() < 60, "{name}, {place}{shown}");
            assert!(!seen.windows(form.len()).any(|window| window == form), "{name}, {place}");
        }
    }
    let log = world.log();
    for (number, (name, _, encoding)) in forms.iter().enumerate() {
        let path = format!("/{number}/body");
        let of = |key: &str, word: &str| -> &Value {
            let fits =
                |entry: &&Value| entry["detail"]["path"] == path && entry["detail"][key] == word;
            log.iter().find(fits).unwrap_or_else(|| panic!("{name}: no {word}"))
        };
        for entry in [of("kind", "forwarded"), of("kind", "value_in_output")] {
            let count = entry["detail"]["redacted_count"].as_u64().unwrap();
            assert!(count > 0, "{name}: {entry}");
            assert_eq!(entry["detail"]["note"], format!("{TOKEN}:{encoding}"), "{name}: {entry}");
        }
        let incident = of("kind", "value_in_output");
        assert_eq!((&incident["action"], &incident["target"]), (&json!("incident"), &json!(TOKEN)));
        // It was the server that said it.
        assert!(incident["detail"]["threat_score"].is_null(), "{name}: {incident}");
    }
    let told = world.keyless(&["audit", "tail", "-n", "4"]).run().ok();
    assert!(told.contains("redacted 1"), "{told}");
}

/// What was not sent anywhere is not looked for, and what holds no value stays as it is.
#[test]
fn what_holds_no_value_comes_as_it_is_and_is_no_incident() {
    let mut world = World::with_token();
    let said: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let _allowed = world.origin_of(ALLOWED, Handler::text(said.clone()));
    let _evil = world.origin_of(EVIL, Handler::text("of no interest\n"));
    let script = format!(
        r#"curl -sS -H "Authorization: Bearer $TOKEN" https://{ALLOWED}/ | cksum; curl -sS https://{EVIL}/"#
    );
    let seen = world.agent_sh(&script).run().ok();
    assert!(seen.contains(&format!(" {}\n", said.len())), "{seen}");
    let log = world.log();
    assert!(log.iter().all(|entry| entry["detail"]["redacted_count"].is_null()), "{log:?}");
}
