//! Whether a text is one that a machine made up.

/// Whether nobody would type this: enough entropy, no runs, no alphabet, no word that says "example".
pub(super) fn is_random(text: &str, least_bits: f64) -> bool {
    if is_sample(text) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let steps = bytes
        .windows(2)
        .filter(|pair| pair[1] == pair[0] || pair[1] == pair[0].wrapping_add(1))
        .count();
    steps * 3 < bytes.len() && entropy(text.as_bytes()) >= least_bits
}

/// Whether it says of itself that it is none.
pub(super) fn is_sample(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let sample = [
        "example",
        "xxxx",
        "your",
        "placeholder",
        "redacted",
        "dummy",
        "test",
        "changeme",
        "0000000",
    ];
    sample.iter().any(|word| lower.contains(word))
}

/// Bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "a line is short")]
    let length = bytes.len() as f64;
    let share = |count: &u32| f64::from(*count) / length;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

/// Whether a stretch of it mixes letters and digits as no name does.
pub(super) fn is_woven(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        let kinds: Vec<u8> = part
            .bytes()
            .map(|byte| match byte {
                b'0'..=b'9' => 0,
                b'a'..=b'z' => 1,
                _ => 2,
            })
            .collect();
        let turns = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
        part.len() >= 8 && kinds.contains(&0) && turns >= 3
    })
}
