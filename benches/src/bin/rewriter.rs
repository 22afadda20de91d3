//! Bytes per second of the rewriter, against memchr and aho-corasick over the same text.
//!
//! Seconds of processor time: one thread, and no account of what else the machine has to do.
//! Budgets (design.md, section 7): swap >= 2 GB/s, scrub of 100 secrets in all encodings >= 500 MB/s,
//! a set of 10,000 patterns in <= 50 ms (issue 2, item 3).

use std::{hint::black_box, time::Duration};

use aho_corasick::{AhoCorasick, MatchKind};
use keyless_benches::{
    Random, Result, Table, base64, binary, decimals, json, median, megabytes, paired_ratio,
    thread_time,
};
use keyless_rewrite::{PatternSet, Rewriter, echoes, scrubber};
use memchr::memmem::Finder;

const TEXT: usize = 32 << 20;
/// What a body arrives in: one TLS record's plaintext.
const CHUNK: usize = 16 << 10;
const ROUNDS: usize = 5;
/// How long each subject is measured in a round. The kernel counts processor time in steps of up to
/// 4 ms, which is then 4 % at the most.
const MEASURE: Duration = Duration::from_millis(100);

/// One scanner over one text: what it is called, and a run over the text in chunks.
struct Subject {
    name: String,
    scan: Scan,
}

type Scan = Box<dyn Fn(&[u8])>;

fn main() -> Result<()> {
    println!(
        "MB/s (10^6 bytes) over {} MiB in chunks of {} KiB, medians of {ROUNDS} interleaved rounds.\n",
        TEXT >> 20,
        CHUNK >> 10,
    );
    let texts = [("JSON", json(TEXT)), ("base64", base64(TEXT)), ("binary", binary(TEXT))];
    let mut table = Table::new(&["text", "scanner", "MB/s", "of a plain copy", "of aho-corasick"]);
    let subjects = subjects()?;
    for (kind, text) in &texts {
        measure(kind, text, &subjects, &mut table)?;
    }
    println!("{table}\nBudget: swap >= 2,000 MB/s, scrub >= 500 MB/s.\n");
    println!("{}", building()?);
    Ok(())
}

/// In groups: ours is compared with the aho-corasick that follows it.
fn subjects() -> Result<Vec<Subject>> {
    let mut all = vec![plain_copy(), one_needle()];
    for count in [1, 100, 10_000] {
        let pairs = placeholders(count);
        let patterns: Vec<Vec<u8>> = pairs.iter().map(|(pattern, _)| pattern.clone()).collect();
        all.push(ours(format!("swap, {count} placeholders"), Rewriter::new(pairs)));
        all.push(theirs(format!("aho-corasick, find only, {count} patterns"), &patterns)?);
    }
    let values = values();
    let forms: Vec<Vec<u8>> = values
        .iter()
        .flat_map(|value| echoes(value.as_bytes()))
        .map(|echo| echo.pattern().to_vec())
        .collect();
    all.push(ours(format!("scrub, 100 secrets, {} forms", forms.len()), scrub(&values)));
    all.push(theirs(format!("aho-corasick, find only, {} patterns", forms.len()), &forms)?);
    Ok(all)
}

fn measure(kind: &str, text: &[u8], subjects: &[Subject], table: &mut Table) -> Result<()> {
    let mut rates = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for (subject, rates) in subjects.iter().zip(&mut rates) {
            let time = timed(|| (subject.scan)(text))?;
            rates.push(megabytes(text.len() as u64) / time.as_secs_f64());
        }
    }
    for (at, subject) in subjects.iter().enumerate() {
        let is_ours = subject.name.starts_with("swap") || subject.name.starts_with("scrub");
        let against = |baseline: &[f64]| decimals(paired_ratio(&rates[at], baseline), 2);
        table.row([
            kind.to_owned(),
            subject.name.clone(),
            decimals(median(&rates[at]), 0),
            against(&rates[0]),
            if is_ours { against(&rates[at + 1]) } else { String::new() },
        ]);
    }
    Ok(())
}

fn plain_copy() -> Subject {
    let scan = |text: &[u8]| {
        let mut out = Vec::with_capacity(2 * CHUNK);
        for chunk in text.chunks(CHUNK) {
            out.clear();
            out.extend_from_slice(chunk);
            black_box(&out);
        }
    };
    Subject { name: "plain copy".to_owned(), scan: Box::new(scan) }
}

fn one_needle() -> Subject {
    let finder = Finder::new(placeholders(1)[0].0.as_slice()).into_owned();
    let scan = move |text: &[u8]| {
        let found: usize = text.chunks(CHUNK).map(|chunk| finder.find_iter(chunk).count()).sum();
        black_box(found);
    };
    Subject { name: "memchr::memmem, find only, 1 needle".to_owned(), scan: Box::new(scan) }
}

fn ours(name: String, rewriter: Rewriter) -> Subject {
    let scan = move |text: &[u8]| {
        let mut out = Vec::with_capacity(2 * CHUNK);
        let mut stream = rewriter.stream();
        for chunk in text.chunks(CHUNK) {
            out.clear();
            stream.feed(chunk, &mut out);
            black_box(&out);
        }
        stream.finish(&mut out);
    };
    Subject { name, scan: Box::new(scan) }
}

/// Leftmost-longest, as ours is. It only searches: no output, no matches across chunks.
fn theirs(name: String, patterns: &[Vec<u8>]) -> Result<Subject> {
    let searcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns)?;
    let scan = move |text: &[u8]| {
        let found: usize = text.chunks(CHUNK).map(|chunk| searcher.find_iter(chunk).count()).sum();
        black_box(found);
    };
    Ok(Subject { name, scan: Box::new(scan) })
}

fn building() -> Result<Table> {
    let patterns: Vec<Vec<u8>> =
        placeholders(10_000).into_iter().map(|(pattern, _)| pattern).collect();
    let values = values();
    let (mut ours, mut theirs, mut scrubs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(millis(|| drop(black_box(PatternSet::new(&patterns))))?);
        let mut built = Ok(());
        theirs
            .push(millis(|| built = AhoCorasick::new(&patterns).map(|set| drop(black_box(set))))?);
        built?;
        scrubs.push(millis(|| drop(black_box(scrub(&values))))?);
    }
    let mut table = Table::new(&["building", "ms", "of aho-corasick"]);
    let row = |name: &str, times: &[f64], ratio: String| {
        [name.to_owned(), decimals(median(times), 2), ratio]
    };
    let ratio = decimals(paired_ratio(&ours, &theirs), 2);
    table.row(row("10,000 placeholders (budget: 50 ms)", &ours, ratio));
    table.row(row("10,000 placeholders, aho-corasick", &theirs, String::new()));
    table.row(row("the scrubber of 100 secrets", &scrubs, String::new()));
    Ok(table)
}

fn placeholders(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = Random::new(10);
    let mut pair =
        || (format!("kloak_{}", random.token(26)).into_bytes(), random.token(40).into_bytes());
    (0..count).map(|_| pair()).collect()
}

/// Values as people have them: tokens with a prefix, keys with `/` and `+`, passwords.
fn values() -> Vec<String> {
    let mut random = Random::new(11);
    let mut value = |n: usize| match n % 3 {
        0 => format!("ghp_{}", random.token(36)),
        1 => {
            random.letters(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", 40)
        }
        _ => random.letters(b"abcdefghijkmnpqrstuvwxyz!\"$%&/()=?<>'23456789", 16),
    };
    (0..100).map(&mut value).collect()
}

fn scrub(values: &[String]) -> Rewriter {
    scrubber(values.iter().map(|value| (value.as_bytes(), "kloak_01JQXK5N8ABCDEFGHJKMNPQRST")))
}

fn millis(run: impl FnMut()) -> Result<f64> {
    Ok(timed(run)?.as_secs_f64() * 1e3)
}

/// The mean time of as many runs as [`MEASURE`] takes.
fn timed(mut run: impl FnMut()) -> Result<Duration> {
    let start = thread_time()?;
    let mut runs = 0;
    loop {
        run();
        runs += 1;
        let time = thread_time()?.saturating_sub(start);
        if time >= MEASURE {
            return Ok(time / runs);
        }
    }
}
