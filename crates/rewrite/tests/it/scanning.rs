//! The scanner and the rewriter agree with the model for any patterns, text and chunks.

use keyless_rewrite::{PatternSet, Piece, Rewriter, Scanner};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::model::{Part, cut, parts, sizes, undecided};

/// Runs the scanner, and checks after each chunk that it holds what it must and no more.
fn scan(patterns: &[Vec<u8>], text: &[u8], sizes: &[usize]) -> Vec<Part> {
    let set = PatternSet::new(patterns);
    let mut scanner = Scanner::new(&set);
    let mut seen = Vec::new();
    let mut fed = 0;
    for chunk in cut(text, sizes) {
        scanner.feed(chunk, |piece| push(&mut seen, &piece, chunk));
        fed += chunk.len();
        assert_eq!(scanner.held(), fed - undecided(patterns, &text[..fed]), "held after {fed}");
        assert!(scanner.held() <= set.longest().saturating_sub(1));
    }
    scanner.finish(|piece| push(&mut seen, &piece, b""));
    assert_eq!(scanner.held(), 0);
    seen
}

fn push(seen: &mut Vec<Part>, piece: &Piece<'_>, chunk: &[u8]) {
    let plain = match piece {
        Piece::Chunk(range) => &chunk[range.clone()],
        Piece::Held(bytes) => bytes,
        Piece::Match(id) => return seen.push(Part::Match(*id)),
    };
    assert!(!plain.is_empty(), "a piece is never empty");
    seen.extend(plain.iter().copied().map(Part::Plain));
}

/// Few symbols, so that patterns overlap, nest and repeat.
fn bytes(
    symbols: &'static [u8],
    lengths: core::ops::Range<usize>,
) -> impl Strategy<Value = Vec<u8>> {
    vec(select(symbols), lengths)
}

fn dense() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>)> {
    (vec(bytes(b"ab", 0..6), 0..8), bytes(b"ab", 0..200))
}

fn looser() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>)> {
    (vec(bytes(b"abcd", 1..40), 1..20), bytes(b"abcd", 0..400))
}

/// Text made of whole patterns, beginnings of patterns and noise.
fn planted(
    patterns: impl Strategy<Value = Vec<Vec<u8>>>,
) -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>)> {
    let places = vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), bytes(b"ak_ l", 0..12)),
        0..20,
    );
    (patterns, places).prop_map(|(patterns, places)| {
        let mut text = Vec::new();
        for (which, cut, noise) in places {
            let pattern = which.get(&patterns);
            text.extend_from_slice(&pattern[..=cut.index(pattern.len())]);
            text.extend_from_slice(pattern);
            text.extend_from_slice(&noise);
        }
        (patterns, text)
    })
}

/// Placeholders: a common beginning, and tails of one length or several.
fn placeholders() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(bytes(b"akl_o", 0..28).prop_map(|tail| [b"kloak_", tail.as_slice()].concat()), 1..30)
}

/// Patterns with nothing in common, some far longer than others.
fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(prop_oneof![vec(any::<u8>(), 8..20), vec(any::<u8>(), 8..100), bytes(b"ak_", 1..30)], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 2_000 }))]

    #[test]
    fn agrees_with_the_model_on_two_symbols((patterns, text) in dense(), sizes in sizes()) {
        prop_assert_eq!(scan(&patterns, &text, &sizes), parts(&patterns, &text));
    }

    #[test]
    fn agrees_with_the_model_on_four_symbols((patterns, text) in looser(), sizes in sizes()) {
        prop_assert_eq!(scan(&patterns, &text, &sizes), parts(&patterns, &text));
    }

    #[test]
    fn agrees_with_the_model_on_placeholders(
        (patterns, text) in planted(placeholders()),
        sizes in sizes(),
    ) {
        prop_assert_eq!(scan(&patterns, &text, &sizes), parts(&patterns, &text));
    }

    #[test]
    fn agrees_with_the_model_on_values((patterns, text) in planted(values()), sizes in sizes()) {
        prop_assert_eq!(scan(&patterns, &text, &sizes), parts(&patterns, &text));
    }

    #[test]
    fn a_stream_rewrites_as_the_whole((patterns, text) in dense(), sizes in sizes()) {
        // Replacements are made of pattern bytes, so looking at them again would show.
        let with = |index: usize| patterns[(index + 1) % patterns.len()].repeat(index % 3);
        let pairs: Vec<_> = patterns.iter().cloned().zip((0..patterns.len()).map(with)).collect();
        let expected: Vec<u8> = parts(&patterns, &text)
            .into_iter()
            .flat_map(|part| match part {
                Part::Plain(byte) => vec![byte],
                Part::Match(id) => pairs[id.index()].1.clone(),
            })
            .collect();

        let rewriter = Rewriter::new(pairs.clone());
        let (mut stream, mut out) = (rewriter.stream(), Vec::new());
        for chunk in cut(&text, &sizes) {
            stream.feed(chunk, &mut out);
        }
        stream.finish(&mut out);
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(&*rewriter.rewrite(&text), &expected[..]);
    }
}

#[test]
fn every_two_symbol_text_agrees_in_single_bytes() {
    let patterns = ["a", "abb", "bab", "bbbb", "aabab"].map(|p| p.as_bytes().to_vec());
    for word in 0_u32..1 << 12 {
        let text: Vec<u8> = (0..12).map(|bit| b'a' + u8::from(word >> bit & 1 == 1)).collect();
        assert_eq!(scan(&patterns, &text, &[1]), parts(&patterns, &text));
    }
}

#[test]
fn ten_thousand_placeholders_are_told_apart() {
    let patterns: Vec<Vec<u8>> =
        (0..10_000).map(|n| format!("kloak_{n:026}").into_bytes()).collect();
    let set = PatternSet::new(&patterns);
    let mut scanner = Scanner::new(&set);
    let mut seen = Vec::new();
    for pattern in patterns.iter().rev() {
        scanner.feed(pattern, |piece| push(&mut seen, &piece, pattern));
        scanner.feed(b"kloak_0", |piece| push(&mut seen, &piece, b"kloak_0"));
    }
    let matches = seen.iter().filter_map(|part| match part {
        Part::Match(id) => Some(id.index()),
        Part::Plain(_) => None,
    });
    assert!(matches.eq((0..10_000).rev()));
}

#[test]
fn nothing_is_held_where_nothing_begins() {
    let mut scanner = Scanner::new(&PatternSet::new(["kloak_1", "ghp_2"]));
    for chunk in ["data: {\"text\":\"hello\"}\n\n", "kloakroom\n", "gh\n", ""] {
        let mut given = 0;
        scanner.feed(chunk.as_bytes(), |piece| match piece {
            Piece::Chunk(range) => given += range.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!((given, scanner.held()), (chunk.len(), 0));
    }
}
