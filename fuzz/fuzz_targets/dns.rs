//! Synthetic DNS: no query panics, an answer fits a UDP message of 512 bytes, carries the query's id
//! and says that it is a response.
#![no_main]

use std::time::Instant;

use keyless_guest::{Pool, answer_query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|query: &[u8]| {
    let mut pool = Pool::new();
    let now = Instant::now();
    let Some(answer) = answer_query(query, &mut pool, now) else { return };
    assert!((12..=512).contains(&answer.len()), "{} bytes", answer.len());
    assert_eq!(answer[..2], query[..2], "the id");
    assert_ne!(answer[2] & 0x80, 0, "a response");

    // Asked again in the same instant, the pool says the same.
    assert_eq!(answer_query(query, &mut pool, now), Some(answer));
});
