//! The funnel's preamble: no bytes panic, what is read can be written and read again, and the answer
//! depends on the line alone.
#![no_main]

use keyless_core::{Authority, MAX_PREAMBLE_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|received: &[u8]| {
    let Ok(Some((authority, taken))) = Authority::from_preamble(received) else { return };
    assert!(taken <= MAX_PREAMBLE_BYTES && received[taken - 1] == b'\n');

    let line = authority.to_preamble();
    let again = Authority::from_preamble(line.as_bytes());
    assert_eq!(again, Ok(Some((authority.clone(), line.len()))));

    let alone = Authority::from_preamble(&received[..taken]);
    assert_eq!(alone, Ok(Some((authority, taken))));
    assert_eq!(Authority::from_preamble(&received[..taken - 1]), Ok(None));
});
