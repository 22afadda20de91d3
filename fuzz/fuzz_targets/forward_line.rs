//! The forwarder's line: no bytes panic, what is read can be written and read again, and the answer
//! depends on the line alone.
#![no_main]

use keyless_core::{ForwardLine, MAX_FORWARD_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|received: &[u8]| {
    let Ok(Some((line, taken))) = ForwardLine::read(received) else { return };
    assert!(taken <= MAX_FORWARD_BYTES && received[taken - 1] == b'\n');
    assert_eq!(line.to_string().as_bytes(), &received[..taken]);
    assert_eq!(ForwardLine::read(&received[..taken]), Ok(Some((line, taken))));
    assert_eq!(ForwardLine::read(&received[..taken - 1]), Ok(None));
});
