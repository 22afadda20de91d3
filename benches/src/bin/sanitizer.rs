//! Bytes per second of the output sanitizer, and of the algorithm that the protocol's text gives.
//!
//! Ours looks for every form of reference/nl.md 13.2 in several views of the text, the protocol's for four
//! forms as they stand. Budgets: 64 KiB within 100 ms and 10 MiB within 500 ms (NL 9.5); design.md,
//! section 7, wants >= 500 MB/s with 100 secrets.

use std::{hint::black_box, time::Duration};

use keyless_benches::{
    Random, Result, Table, base64, decimals, json, log, median, megabytes, thread_time,
};
use keyless_rewrite::{Sanitizer, redact};

const TEXT: usize = 10 << 20;
const ROUNDS: usize = 3;
const MEASURE: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let mut table = Table::new(&["text", "secrets", "algorithm", "MB/s", "ms for 10 MiB"]);
    for (kind, text) in [("JSON", json(TEXT)), ("base64", base64(TEXT)), ("log", log(TEXT))] {
        for count in [1, 100] {
            let values = values(count);
            let sanitizer = Sanitizer::new(values.iter().map(String::as_bytes));
            let ours = || {
                let findings = sanitizer.find(&text);
                black_box(redact(&text, &findings, |_| "[REDACTED:a/B]".to_owned()));
            };
            let theirs = || {
                black_box(by_the_text(&text, &values));
            };
            for (name, run) in [("ours", &ours as &dyn Fn()), ("the protocol's", &theirs)] {
                let rates: Vec<f64> =
                    (0..ROUNDS).map(|_| rate(text.len(), run)).collect::<Result<_>>()?;
                let rate = median(&rates);
                let milliseconds = megabytes(text.len() as u64) / rate * 1000.0;
                table.row([
                    kind.to_owned(),
                    count.to_string(),
                    name.to_owned(),
                    decimals(rate, 0),
                    decimals(milliseconds, 0),
                ]);
            }
        }
    }
    println!("{table}");
    Ok(())
}

/// Section 9.3 of the protocol, step by step.
fn by_the_text(output: &[u8], secrets: &[String]) -> (String, u64) {
    let mut output = String::from_utf8_lossy(output).into_owned();
    let mut count = 0;
    for value in secrets.iter().filter(|value| value.len() >= 4) {
        let hex: String = data_encoding::HEXLOWER.encode(value.as_bytes());
        let url: String = percent(value);
        let base64 = data_encoding::BASE64.encode(value.as_bytes());
        let forms = [
            (value.as_str(), "[REDACTED:a/B]"),
            (&base64, "[REDACTED:a/B:base64]"),
            (&url, "[REDACTED:a/B:url]"),
            (&hex, "[REDACTED:a/B:hex]"),
        ];
        for (form, marker) in forms {
            if output.contains(form) {
                output = output.replace(form, marker);
                count += 1;
            }
        }
    }
    (output, count)
}

fn percent(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    value.bytes().map(byte).collect()
}

fn rate(bytes: usize, run: &dyn Fn()) -> Result<f64> {
    let (mut runs, begun) = (0_u64, thread_time()?);
    loop {
        run();
        runs += 1;
        let spent = thread_time()?.saturating_sub(begun);
        if spent >= MEASURE {
            return Ok(megabytes(bytes as u64 * runs) / spent.as_secs_f64());
        }
    }
}

/// Tokens of 40 characters.
fn values(count: usize) -> Vec<String> {
    let mut random = Random::new(7);
    (0..count).map(|_| format!("tok_{}", random.token(36))).collect()
}
