//! Prints what the engine does per second, on this machine, for the two uses that have a budget
//! (design.md, section 7): `cargo run --release -p keyless-rewrite --example throughput`.
//!
//! The baseline of each figure is a plain copy of the same text into the same buffer.

#![expect(clippy::disallowed_methods, reason = "a measurement needs the clock")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use keyless_rewrite::{PatternSet, Rewriter, scrubber};

const CHUNK: usize = 16 * 1024;
const TEXT: usize = 8 * 1024 * 1024;

fn main() {
    let texts =
        [("json", json()), ("base64", symbols(64)), ("hex", symbols(16)), ("random", symbols(256))];
    println!("in chunks of {CHUNK} bytes; MB/s (1 MB = 10^6 bytes)");
    for (name, text) in &texts {
        println!("\n{name}: a plain copy {:.0}", copy(text));
        for count in [1, 10, 100, 1_000, 10_000] {
            report(&format!("swap, {count} placeholders"), &swap(placeholders(count)), text);
        }
        let mixed = || placeholders(100).chain(look_alikes(100));
        report("swap, 100 placeholders and 100 look-alikes of 8 kinds", &swap(mixed()), text);
        report("swap, 10000 look-alikes of 8 kinds", &swap(look_alikes(10_000)), text);
        for count in [1, 10, 100] {
            report(&format!("scrub, {count} secrets"), &scrub(count), text);
        }
    }
    println!();
    build("10000 placeholders", || PatternSet::new(placeholders(10_000)).len());
    build("10000 look-alikes", || PatternSet::new(look_alikes(10_000)).len());
    build("scrubber of 100 secrets", || scrub(100).patterns().len());
    println!("scrubber of 100 secrets: {} patterns", scrub(100).patterns().len());
}

fn report(what: &str, rewriter: &Rewriter, text: &[u8]) {
    let mut out = Vec::with_capacity(CHUNK * 2);
    let time = best(|| {
        let mut stream = rewriter.stream();
        for chunk in text.chunks(CHUNK) {
            out.clear();
            stream.feed(chunk, &mut out);
            black_box(&out);
        }
    });
    println!("  {what:55} {:8.0}", megabytes_per_second(text, time));
}

fn copy(text: &[u8]) -> f64 {
    let mut out = Vec::with_capacity(CHUNK * 2);
    let time = best(|| {
        for chunk in text.chunks(CHUNK) {
            out.clear();
            out.extend_from_slice(chunk);
            black_box(&out);
        }
    });
    megabytes_per_second(text, time)
}

fn build(what: &str, mut make: impl FnMut() -> usize) {
    let time = best(|| {
        black_box(make());
    });
    println!("build {what}: {:.2} ms", time.as_secs_f64() * 1e3);
}

/// The best of several runs: the machine has other work too.
fn best(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..15).map(once).min().unwrap_or_default()
}

fn megabytes_per_second(text: &[u8], time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a text of some megabytes")]
    let bytes = text.len() as f64;
    bytes / time.as_secs_f64() / 1e6
}

fn swap(placeholders: impl Iterator<Item = String>) -> Rewriter {
    let mut random = Random(7);
    Rewriter::new(
        placeholders.map(|placeholder| (placeholder.into_bytes(), random.token(40).into())),
    )
}

/// Values of the kinds that people have: tokens, keys with `/` and `+`, passwords.
fn scrub(count: usize) -> Rewriter {
    let mut random = Random(11);
    let values: Vec<String> = (0..count)
        .map(|n| match n % 4 {
            0 => {
                random.text(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", 40)
            }
            1 => random.text(b"abcdefghijkmnpqrstuvwxyz!\"$%&/()=?<>'23456789", 16),
            2 => format!("ghp_{}", random.token(36)),
            _ => random.token(8 + n % 60),
        })
        .collect();
    scrubber(values.iter().map(|value| (value.as_bytes(), "kloak_01JQXK5N8ABCDEFGHJKMNPQRST")))
}

fn placeholders(count: usize) -> impl Iterator<Item = String> {
    let mut random = Random(3);
    (0..count).map(move |_| format!("kloak_{}", random.token(26)))
}

fn look_alikes(count: usize) -> impl Iterator<Item = String> {
    let mut random = Random(5);
    let kinds = ["ghp_", "sk-ant-", "xoxb-", "AKIA", "glpat-", "npm_", "hf_", "sk_live_"];
    (0..count).map(move |n| format!("{}{}", kinds[n % kinds.len()], random.token(36)))
}

/// What an API answers: names, numbers, hashes, prose, and no placeholder.
fn json() -> Vec<u8> {
    let words = [
        "the",
        "token",
        "for",
        "this",
        "repository",
        "expires",
        "when",
        "a",
        "user",
        "looks",
        "at_night",
    ];
    let mut random = Random(1);
    let mut text = String::with_capacity(TEXT + 1024);
    while text.len() < TEXT {
        let prose: Vec<&str> = (0..12).map(|_| words[random.below(words.len())]).collect();
        let (id, sha) = (random.below(1 << 30), random.text(b"0123456789abcdef", 40));
        text.extend([
            format!("{{\"id\":{id},\"node_id\":\"{}\",\"sha\":\"{sha}\",", random.token(20)),
            format!("\"html_url\":\"https://api.example.com/repos/o/r/commits/{sha}\","),
            format!("\"message\":\"{}\",\"private\":false}},\n", prose.join(" ")),
        ]);
    }
    text.truncate(TEXT);
    text.into_bytes()
}

fn symbols(count: usize) -> Vec<u8> {
    const SYMBOLS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";
    let mut random = Random(2);
    let mut symbol = || match count {
        256 => random.below(256).to_le_bytes()[0],
        _ => SYMBOLS[random.below(count)],
    };
    (0..TEXT).map(|_| symbol()).collect()
}

/// `xorshift64*`: the same texts on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % end
    }

    fn text(&mut self, symbols: &[u8], len: usize) -> String {
        (0..len).map(|_| char::from(symbols[self.below(symbols.len())])).collect()
    }

    fn token(&mut self, len: usize) -> String {
        self.text(b"0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghijkmnpqrstvwxyz", len)
    }
}
