//! Base64 in lines, as MIME, `base64` and GitHub's contents API send it: no value comes out of it decoded, and what
//! comes out does not depend on the chunks. Source: reference/egress.md (e) 82 to 84.
#![no_main]

use keyless_rewrite::{MIN_ECHO, Rewriter, length_keeping_scrubber, scrubber};
use libfuzzer_sys::fuzz_target;

/// In no value here, so that nothing arises from what is beside it.
const MARKER: &str = "[\u{1}]";
const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ENDS: [&str; 4] = ["\n", "\r\n", "\\n", "\\r\\n"];

fuzz_target!(|input: (&[u8], &[u8], u16, u8, &[u8])| {
    let (value, around, cut, shape, sizes) = input;
    if !(MIN_ECHO..400).contains(&value.len()) || value.contains(&1) {
        return;
    }
    let (before, after) = around.split_at(usize::from(cut).min(around.len()));
    let whole = [before, value, after].concat();
    let (end, width) = (ENDS[usize::from(shape) % 4], 60 + usize::from(shape >> 2) % 17);
    let text = in_lines(&whole, width, end);
    let scrub = scrubber([(value, MARKER)]);
    let out = scrub.rewrite(&text);
    assert_eq!(in_chunks(&scrub, &text, sizes), *out);
    let decoded = decoded(&out, end);
    assert!(!decoded.windows(value.len()).any(|part| part == value), "{}", out.escape_ascii());
    let kept = length_keeping_scrubber([(value, MARKER)]);
    let out = kept.rewrite(&text);
    assert_eq!((in_chunks(&kept, &text, sizes), out.len()), (out.to_vec(), text.len()));
    // What only looks like lines.
    let text = [around, &text, around].concat();
    assert_eq!(in_chunks(&scrub, &text, sizes), *scrub.rewrite(&text));
});

fn in_chunks(scrubber: &Rewriter, mut text: &[u8], sizes: &[u8]) -> Vec<u8> {
    let (mut stream, mut out) = (scrubber.stream(), Vec::new());
    for size in sizes {
        let (chunk, rest) = text.split_at(usize::from(*size).min(text.len()));
        stream.feed(chunk, &mut out);
        text = rest;
    }
    stream.feed(text, &mut out);
    stream.finish(&mut out);
    out
}

fn in_lines(text: &[u8], width: usize, end: &str) -> Vec<u8> {
    let mut symbols = Vec::new();
    for group in text.chunks(3) {
        let bits =
            (0..3).fold(0, |bits, at| bits << 8 | group.get(at).map_or(0, |byte| u32::from(*byte)));
        for at in 0..4 {
            let symbol = SYMBOLS[(bits >> (18 - 6 * at)) as usize & 63];
            symbols.push(if at <= group.len() { symbol } else { b'=' });
        }
    }
    symbols.chunks(width).flat_map(|line| [line, end.as_bytes()].concat()).collect()
}

fn decoded(text: &[u8], end: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).replace(end, "");
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for symbol in text.bytes().filter_map(|byte| SYMBOLS.iter().position(|one| *one == byte)) {
        (bits, count) = (bits << 6 | symbol as u32, count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
