//! PostgreSQL's start-up packet: no bytes panic, and what is taken for one is one by the book: its own
//! length, version 3, pairs of C strings and a last NUL. Source: PostgreSQL's "Message Formats".
#![no_main]

use keyless_egress::fuzzing::parse_startup;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    let is_one = by_the_book(packet);
    let taken = parse_startup(packet.to_vec()).is_some();
    // Fewer are taken: one with two users is not.
    assert!(is_one || !taken);
});

fn by_the_book(packet: &[u8]) -> bool {
    let Some((head, mut rest)) = packet.split_at_checked(8) else { return false };
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    if length as usize != packet.len() || head[4..6] != [0, 3] {
        return false;
    }
    while let [first, ..] = rest {
        if *first == 0 {
            return rest.len() == 1;
        }
        for _ in 0..2 {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { return false };
            rest = &rest[end + 1..];
        }
    }
    false
}
