use keyless_core::SigV4Scope;
use proptest::prelude::*;

use super::*;

const TIME: &str = "20130524T000000Z";
const PLACEHOLDER: &[u8] = b"kloak_of_the_agent";
const REAL: &[u8] = b"the real key";
const SEEDS: [&str; 2] = ["theirs", "ours"];

fn chain(key: &[u8], seed: &str) -> SigV4Chain {
    let own = str::to_owned;
    let scope = SigV4Scope { day: own("20130524"), region: own("us-east-1"), service: own("s3") };
    SigV4Chain::new(&scope, key, TIME, seed)
}

/// A payload as a client signs it: chunks, the last one empty, and trailers if there are some.
fn signed(mut chain: SigV4Chain, data: &[&[u8]], trailers: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in data.iter().copied().chain([&b""[..]]) {
        let signature = chain.chunk(chunk);
        out.extend_from_slice(
            format!("{:X};chunk-signature={signature}\r\n", chunk.len()).as_bytes(),
        );
        out.extend_from_slice(chunk);
        if !chunk.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(lines) = trailers {
        let signature = chain.trailers(lines);
        let wire = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        out.extend(wire.flat_map(|line| [line, b"\r\n"].concat()));
        out.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// What leaves of a payload that comes in pieces of these sizes.
fn passed(payload: &[u8], has_trailers: bool, sizes: &[usize]) -> Result<Vec<u8>, String> {
    let (mut rest, mut sizes) = (payload, sizes.iter().cycle());
    let pieces = std::iter::from_fn(|| {
        let size = *sizes.next().unwrap_or(&1);
        let (piece, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    let chains = [chain(PLACEHOLDER, SEEDS[0]), chain(REAL, SEEDS[1])];
    resigned(chains, has_trailers, pieces).map_err(|error| error.message())
}

proptest! {
    #[test]
    fn however_it_is_cut_what_leaves_is_signed_with_the_real_key(
        data in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
        trailers in prop::option::of(Just(&b"x-amz-checksum-crc32c:sOO8/Q==\n"[..])),
        sizes in prop::collection::vec(1_usize..400, 1..8),
    ) {
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let sent = signed(chain(PLACEHOLDER, SEEDS[0]), &data, trailers);
        let expected = signed(chain(REAL, SEEDS[1]), &data, trailers);
        prop_assert_eq!(sent.len(), expected.len());
        prop_assert_eq!(passed(&sent, trailers.is_some(), &sizes).unwrap(), expected);
    }

    #[test]
    fn no_changed_byte_passes(
        at in any::<prop::sample::Index>(),
        with in 1_u8..=255,
        trailers in prop::option::of(Just(&b"x-amz-checksum-crc32c:sOO8/Q==\n"[..])),
    ) {
        let mut sent = signed(chain(PLACEHOLDER, SEEDS[0]), &[b"some data", b"more"], trailers);
        // Nothing signs the empty line at the end, and digits and names have two cases.
        let at = at.index(sent.len() - 2);
        let before = sent[at];
        sent[at] ^= with;
        prop_assume!(!sent[at].eq_ignore_ascii_case(&before));
        prop_assert!(passed(&sent, trailers.is_some(), &[7]).is_err());
    }
}

#[test]
fn what_is_not_framed_so_is_refused_with_the_reason() {
    let whole = signed(chain(PLACEHOLDER, SEEDS[0]), &[b"data"], None);
    let long = format!("100001;chunk-signature={}\r\n", "0".repeat(64));
    let cut = &whole[..whole.len() - 40];
    let more = [&whole[..], b"x"].concat();
    for (payload, why) in [
        (&b"4\r\ndata\r\n"[..], "size and signature"),
        (b"+4;chunk-signature=00\r\n", "size and signature"),
        (b"ffffffffffffffffffff;chunk-signature=00\r\n", "longer than 1 MiB"),
        (long.as_bytes(), "longer than 1 MiB"),
        (b"1;chunk-signature=00\r\nabc", "as long as it says"),
        (b"0;chunk-signature=00\r\n\r\n", "not signed"),
        (&[b'0'; MAX_LINE], "too long"),
        (cut, "ends within a chunk"),
        (&more, "follows its last chunk"),
        (b"", "ends within a chunk"),
    ] {
        let told = passed(payload, false, &[100]).unwrap_err();
        assert!(told.contains(why), "{why}: {told}");
    }
    let told = passed(&whole, true, &[100]).unwrap_err();
    assert!(told.contains("no signature"), "{told}");
}
