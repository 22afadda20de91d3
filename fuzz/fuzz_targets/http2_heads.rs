//! HTTP/2 frames as the clock for heads follows them: no bytes panic, and wherever they are cut it knows of the same head
//! as who reads them whole. Source: RFC 9113, sections 3.4, 4.1 and 6.10; reference/egress.md (e) 118.
#![no_main]

use keyless_egress::fuzzing::is_head_under_way;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let size = usize::from(cut).max(1);
    assert_eq!(is_head_under_way(bytes.chunks(size)), is_under_way(bytes));
});

/// By the simplest reader there is, of the whole.
fn is_under_way(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.get(24..) else { return false };
    let mut is_open = false;
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (is_head, ends) = (matches!(head[3], 1 | 9), head[4] & 4 != 0);
        let Some(next) = after.get(length..) else { return is_open || is_head };
        is_open = if is_head { !ends } else { is_open };
        rest = next;
    }
    is_open || !rest.is_empty()
}
