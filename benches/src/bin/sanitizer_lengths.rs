//! Instructions of the output sanitizer by the length of the value that it looks for, in a text without it.
//!
//! NL-2.6.6 wants a time that does not tell how long a secret is. The clock's noise hides what differs by
//! less; instructions have none. Needs valgrind, which runs this program itself for each figure.

use std::{env, hint::black_box, process::Command};

use keyless_benches::{Counter, Random, Result, Table, base64, decimals, json, log};
use keyless_rewrite::Sanitizer;

const TEXT: usize = 1 << 18;
const LENGTHS: [usize; 8] = [8, 12, 16, 24, 40, 64, 128, 512];
const TEXTS: [Text; 3] = [("JSON", json), ("base64", base64), ("log", log)];

/// A kind of text, and what makes so many bytes of it.
type Text = (&'static str, fn(usize) -> Vec<u8>);

fn main() -> Result<()> {
    let orders: Vec<usize> = env::args().skip(1).flat_map(|order| order.parse()).collect();
    if let [text, length, scans] = orders[..] {
        scan(text, length, scans);
        return Ok(());
    }
    if !Counter::is_installed() {
        println!("Not counted: valgrind is not installed.");
        return Ok(());
    }
    let mut table =
        Table::new(&["text", "bytes of the value", "instructions a byte", "of the mean"]);
    for (index, (name, _)) in TEXTS.iter().enumerate() {
        let counted = LENGTHS.map(|length| instructions(index, length));
        let counted = counted.into_iter().collect::<Result<Vec<_>>>()?;
        let mean = counted.iter().sum::<f64>() / decimal(counted.len());
        for (length, count) in LENGTHS.into_iter().zip(counted) {
            let a_byte = decimals(count / decimal(TEXT), 1);
            table.row([(*name).to_owned(), length.to_string(), a_byte, decimals(count / mean, 2)]);
        }
    }
    println!("{table}");
    Ok(())
}

/// What is counted: so many scans for one value of that length.
fn scan(text: usize, length: usize, scans: usize) {
    let text = TEXTS[text].1(TEXT);
    let value = Random::new(7).token(length);
    let sanitizer = Sanitizer::new([value.as_bytes()]);
    for _ in 0..scans {
        black_box(sanitizer.find(&text));
    }
}

/// Of one scan: what three take more than one, halved, since all else is the same.
fn instructions(text: usize, length: usize) -> Result<f64> {
    let (one, three) = (count(text, length, 1)?, count(text, length, 3)?);
    Ok((three - one) / 2.0)
}

fn count(text: usize, length: usize, scans: usize) -> Result<f64> {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counted.arg(env::current_exe()?).args([text, length, scans].map(|order| order.to_string()));
    let said = String::from_utf8(counted.output()?.stderr)?;
    let total = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, total) = total.ok_or_else(|| format!("callgrind counted nothing: {said}"))?;
    Ok(total.trim().parse()?)
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn decimal(number: usize) -> f64 {
    number as f64
}
