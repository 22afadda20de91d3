//! Text in UTF-16, as PowerShell's `>` and some editors of Windows write it.

/// How much of a file without a mark is looked at to see what it is.
const SAMPLE: usize = 8192;

/// The text of a file in UTF-16, without its byte order mark; `None` for anything else.
///
/// Without a mark it is known by its ASCII: a zero beside each such letter, always on the same side.
pub fn utf16_text(bytes: &[u8]) -> Option<String> {
    let (rest, unit): (_, fn([u8; 2]) -> u16) = match bytes {
        // UTF-32's own mark begins like this one's.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, rest @ ..] => (rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => (rest, u16::from_be_bytes),
        _ => match zeros(&bytes[..bytes.len().min(SAMPLE)]) {
            (0, 0) => return None,
            (0, _) => (bytes, u16::from_le_bytes),
            (_, 0) => (bytes, u16::from_be_bytes),
            _ => return None,
        },
    };
    let units = rest.as_chunks().0.iter().map(|pair| unit(*pair));
    Some(
        char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    )
}

/// How many zeros stand at even and at odd places, where they stand in half of all pairs at least.
fn zeros(sample: &[u8]) -> (usize, usize) {
    let pairs = sample.as_chunks::<2>().0;
    let count = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count();
    let (even, odd) = (count(0), count(1));
    if 2 * (even + odd) >= pairs.len() { (even, odd) } else { (0, 0) }
}
