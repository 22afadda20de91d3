//! WebSocket frames: no bytes panic, what leaves is well-formed, and a message that is read on its way
//! is the message that was sent, however its frames were cut. Source: RFC 6455; reference/egress.md (e) 74.
#![no_main]

use keyless_egress::fuzzing::relayed;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Builder;

fuzz_target!(|input: (bool, &[u8])| {
    let (from_client, bytes) = input;
    // Time never passes: what a Close waits for is there at once.
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (passed, refused) = runtime.block_on(relayed(bytes, from_client, false));
    let (read, read_refused) = runtime.block_on(relayed(bytes, from_client, true));
    assert_eq!(refused, read_refused);
    let (sent, passed, read) = (messages(bytes), messages(&passed), messages(&read));
    // A refusal says goodbye with a Close of its own; what was whole before it has gone through.
    assert_eq!(passed, read, "reading a message changed it");
    if !refused {
        assert_eq!(sent, passed);
    }
});

/// The whole messages, with their opcodes and without their masks, by the simplest reader there is.
fn messages(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut all, mut open) = (Vec::new(), Vec::new());
    let mut kind = 0;
    while let Some((fin, opcode, payload, rest)) = frame(bytes) {
        bytes = rest;
        if opcode >= 8 {
            all.push((opcode, payload));
            continue;
        }
        if opcode != 0 {
            kind = opcode;
        }
        open.extend(payload);
        if fin {
            all.push((kind, core::mem::take(&mut open)));
        }
    }
    all
}

fn frame(bytes: &[u8]) -> Option<(bool, u8, Vec<u8>, &[u8])> {
    let [first, second, rest @ ..] = bytes else { return None };
    let (length, rest) = match second & 127 {
        126 => (u64::from(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?)), &rest[2..]),
        127 => (u64::from_be_bytes(rest.get(..8)?.try_into().ok()?), &rest[8..]),
        short => (u64::from(short), rest),
    };
    let masked = second & 128 != 0;
    let (mask, rest) = if masked { (rest.get(..4)?, &rest[4..]) } else { (&[0; 4][..], rest) };
    let length = usize::try_from(length).ok()?;
    let payload =
        rest.get(..length)?.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    Some((first & 128 != 0, first & 15, payload.collect(), &rest[length..]))
}
