//! S3's signed chunks: no bytes panic, and whatever follows chunks that are signed rightly, what leaves is what
//! came but for the signatures, so nothing that is not signed passes. Source:
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html>.
#![no_main]

use keyless_core::{SigV4Chain, SigV4Scope};
use keyless_egress::fuzzing::resigned;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u8, Vec<&[u8]>, &[u8])| {
    let (has_trailers, size, data, tail) = input;
    let mut payload = signed("theirs", &data);
    payload.extend_from_slice(tail);
    let pieces = payload.chunks(usize::from(size).max(1));
    let chains = [chain("theirs"), chain("ours")];
    if let Ok(passed) = resigned(chains, has_trailers, pieces) {
        assert_eq!(passed.len(), payload.len());
        let ours = signed("ours", &data);
        assert!(passed.starts_with(&ours), "a chunk that is signed rightly was changed");
        // Only an empty line, and the end that nothing signs, can be there without the key.
        assert!(tail.is_empty() || tail == b"\r\n", "{tail:?}");
    }
});

fn chain(key: &str) -> SigV4Chain {
    let own = str::to_owned;
    let scope = SigV4Scope { day: own("20130524"), region: own("us-east-1"), service: own("s3") };
    SigV4Chain::new(&scope, key.as_bytes(), "20130524T000000Z", "request")
}

fn signed(key: &str, data: &[&[u8]]) -> Vec<u8> {
    let (mut chain, mut out) = (chain(key), Vec::new());
    for chunk in data.iter().copied().filter(|chunk| !chunk.is_empty()).chain([&b""[..]]) {
        let head = format!("{:x};chunk-signature={}\r\n", chunk.len(), chain.chunk(chunk));
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(if chunk.is_empty() { b"" } else { b"\r\n" });
    }
    out
}
