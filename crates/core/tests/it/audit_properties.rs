//! Verification finds every change: any single bit of any field, any removal, any swap.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use keyless_core::{
    Authority, Code, SecretPath,
    audit::{
        Action, Agent, Chain, Detail, Draft, Entry, EntryKey, GENESIS, LogKeyId, LogKeys, Noted,
        Outcome, Outline, Stretch, Tampered, Target, Verifier, portable_sha256, prefixed, verify,
    },
};
use proptest::prelude::*;

/// Two keys; the second takes over behind the fourth entry.
struct TwoKeys;

impl LogKeys for TwoKeys {
    fn hmac(&self, key: LogKeyId, text: &str) -> Option<[u8; 32]> {
        (key.number() <= 2).then(|| hmac(key, text))
    }
}

fn hmac(key: LogKeyId, text: &str) -> [u8; 32] {
    portable_sha256(&[b"key", key.to_string().as_bytes(), text.as_bytes()])
}

fn key_of(entry: u64) -> LogKeyId {
    if entry < 4 { LogKeyId::FIRST } else { LogKeyId::FIRST.next() }
}

fn append(chain: &mut Chain, n: u64, id: Option<LogKeyId>) -> String {
    let outline = Outline::new(draft(n), &format!("entry-{n}"));
    let Some(id) = id else { return chain.append(outline, portable_sha256, None).take_text() };
    let key = EntryKey { id, hmac: &|text| hmac(id, text) };
    chain.append(outline, portable_sha256, Some(key)).take_text()
}

/// The texts as they are stored, and their end.
fn texts(length: u64) -> (Vec<String>, Chain) {
    let mut chain = Chain::genesis();
    let texts = (0..length).map(|n| append(&mut chain, n, Some(key_of(n)))).collect();
    (texts, chain)
}

fn log(length: u64) -> (Vec<Entry>, Chain) {
    let (texts, chain) = texts(length);
    (texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect(), chain)
}

fn stretch(texts: &[String], first: u64) -> Result<Option<Stretch>, Tampered> {
    Stretch::verify(
        (first..).zip(texts.iter().map(String::as_str)),
        None,
        portable_sha256,
        Some(&TwoKeys),
    )
}

/// What anybody can verify.
fn without_a_key(texts: &[String]) -> Result<Option<Stretch>, Tampered> {
    Stretch::verify((1..).zip(texts.iter().map(String::as_str)), None, portable_sha256, None)
}

fn draft(n: u64) -> Draft {
    let path = SecretPath::parse("team/github/token").unwrap();
    Draft {
        at: Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(n).unwrap()).unwrap(),
        agent: Arc::new(Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: "session".to_owned(),
            delegated_by: "human:operator".to_owned(),
        }),
        action: Action::Egress,
        target: Target::Authority(Authority::parse("api.test:443").unwrap()),
        outcome: Outcome::Success,
        secrets_used: vec![path],
        correlation_id: format!("req-{n}"),
        error_code: (n % 2 == 1).then_some(Code::Cleartext),
        detail: Detail { method: Some("GET".to_owned()), swaps: Some(n), ..Detail::default() },
        metadata: Noted::default(),
        allowed: None,
    }
}

#[test]
fn an_untouched_log_verifies() {
    let (entries, head) = log(20);
    assert_eq!(verify(&entries, &head), Ok(20));
    assert_eq!(verify(&[], &Chain::genesis()), Ok(0));
}

#[test]
fn stretches_join_to_the_log() {
    let (texts, head) = texts(20);
    let mut verifier = Verifier::new();
    for (texts, first) in [(&texts[..7], 1), (&texts[7..8], 8), (&texts[8..], 9)] {
        verifier.join(&stretch(texts, first).unwrap().unwrap()).unwrap();
    }
    assert_eq!(verifier.finish(head.sequence()), Ok(20));
    assert!(stretch(&[], 1).unwrap().is_none());
    let mut verifier = Verifier::new();
    let later = stretch(&texts[1..], 2).unwrap().unwrap();
    assert_eq!(verifier.join(&later), Err(Tampered::Gap { expected: 1 }));
    let marked =
        Stretch::verify([(1, texts[0].as_str())], Some(1), portable_sha256, None).unwrap().unwrap();
    let first: Entry = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(marked.marked(), Some(first.chain.entry_hash.as_str()));
}

#[test]
fn what_the_keys_say_is_told() {
    let (texts, _) = texts(6);
    let mut verifier = Verifier::new();
    for (texts, first) in [(&texts[..5], 1), (&texts[5..], 6)] {
        verifier.join(&stretch(texts, first).unwrap().unwrap()).unwrap();
    }
    let said = verifier.vouching();
    let second = LogKeyId::FIRST.next();
    assert_eq!((said.with, said.without, said.keys), (6, 0, Some((LogKeyId::FIRST, second))));
    // An entry of before the keys, or of who had none, is told as such.
    let mut chain = Chain::genesis();
    let mixed = [append(&mut chain, 0, None), append(&mut chain, 1, Some(LogKeyId::FIRST))];
    let mut verifier = Verifier::new();
    verifier.join(&stretch(&mixed, 1).unwrap().unwrap()).unwrap();
    let said = verifier.vouching();
    assert_eq!((said.with, said.without), (1, 1));
}

#[test]
fn a_key_that_was_replaced_or_is_none_is_told() {
    let second = LogKeyId::FIRST.next();
    let of = |ids: [LogKeyId; 3]| {
        let mut chain = Chain::genesis();
        let texts: Vec<_> = (0..).zip(ids).map(|(n, id)| append(&mut chain, n, Some(id))).collect();
        let in_one = stretch(&texts, 1).map(drop);
        let mut verifier = Verifier::new();
        let each = (1..)
            .zip(texts.chunks(1))
            .try_for_each(|(first, texts)| verifier.join(&stretch(texts, first)?.unwrap()));
        assert_eq!(in_one, each);
        each
    };
    assert_eq!(of([LogKeyId::FIRST, second, second]), Ok(()));
    assert_eq!(
        of([LogKeyId::FIRST, second, LogKeyId::FIRST]),
        Err(Tampered::OldKey { sequence: 3 })
    );
    let unknown = Tampered::UnknownKey { sequence: 2, key: "log-3".to_owned() };
    assert_eq!(of([LogKeyId::FIRST, second.next(), second]), Err(unknown));
}

/// Somebody without the key changes an entry, in a field that NL's hash covers or in another, and hashes it and all that
/// follow anew.
#[test]
fn a_chain_that_was_written_anew_without_the_key_is_found() {
    let changes: [fn(&mut Draft); 2] =
        [|draft| draft.outcome = Outcome::Denied, |draft| draft.secrets_used.clear()];
    let (texts, _) = texts(6);
    for change in changes {
        let mut chain = Chain::genesis();
        let rewritten = texts.iter().zip(0..).map(|(text, n)| {
            let old: Entry = serde_json::from_str(text).unwrap();
            let mut draft = draft(n);
            if n == 2 {
                change(&mut draft);
            }
            // Both HMACs as they were.
            let kept = vec![old.chain.entry_hmac.unwrap(), old.chain.hmac.unwrap()];
            let kept = std::cell::RefCell::new(kept);
            let hmac = |_: &str| {
                let hmac = kept.borrow_mut().pop().unwrap();
                HEXLOWER.decode(&hmac.as_bytes()[7..]).unwrap().try_into().unwrap()
            };
            let key = EntryKey { id: key_of(n), hmac: &hmac };
            let outline = Outline::new(draft, &old.entry_id);
            chain.append(outline, portable_sha256, Some(key)).take_text()
        });
        let rewritten: Vec<String> = rewritten.collect();
        let rows = (1..).zip(rewritten.iter().map(String::as_str));
        let in_itself = Stretch::verify(rows, None, portable_sha256, None);
        assert!(in_itself.is_ok(), "{in_itself:?}");
        assert_eq!(stretch(&rewritten, 1).unwrap_err(), Tampered::Hmac { sequence: 3 });
    }
}

/// Stores of before had their keys in another order; they verify all the same.
#[test]
fn an_older_form_is_read() {
    let (entries, _) = log(3);
    let older: Vec<String> =
        entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    assert!(older[0].starts_with("{\"entry_id\""));
    assert!(stretch(&older, 1).unwrap().is_some());
}

/// Keyless once left an entry's HMAC out of the entry's own hash: such a log verifies, with the key and without.
#[test]
fn an_entry_whose_hash_leaves_its_hmac_out_is_read() {
    let mut before = (GENESIS.to_owned(), GENESIS.to_owned());
    let older: Vec<String> = (0..3)
        .map(|n| {
            let mut entry: Entry =
                serde_json::from_str(&texts(n + 1).0[usize::try_from(n).unwrap()]).unwrap();
            (entry.chain.prev_hash, entry.chain.prev_entry_hash) = before.clone();
            (entry.chain.entry_hash, entry.chain.entry_hmac) = (String::new(), None);
            let content = prefixed(&portable_sha256(&[entry.as_stored().as_bytes()]));
            entry.chain.entry_hmac = Some(prefixed(&hmac(key_of(n), &content)));
            entry.chain.entry_hash = content;
            before = (entry.chain.hash.clone(), entry.chain.entry_hash.clone());
            entry.as_stored()
        })
        .collect();
    assert!(without_a_key(&older).unwrap().is_some());
    let said = stretch(&older, 1).unwrap().unwrap();
    assert_eq!(said.vouching().with, 3);
    let changed = older[1].replace("\"GET\"", "\"PUT\"");
    let found = without_a_key(&[older[0].clone(), changed]).unwrap_err();
    assert_eq!(found.kind(), ("hash_mismatch", 2));
}

/// NL, chapter 5, "Verification results".
#[test]
fn two_hashes_that_differ_are_told() {
    let (mut whole, _) = log(2);
    let mut other = Chain::genesis();
    append(&mut other, 7, None);
    let behind: Entry = serde_json::from_str(&append(&mut other, 1, None)).unwrap();
    let of = |first: &Entry, second: &Entry| {
        let mut verifier = Verifier::new();
        let found = verifier.push(first).and_then(|()| verifier.push(second)).unwrap_err();
        let hashes = found.hashes().cloned().unwrap();
        (found.kind(), hashes.expected, hashes.actual)
    };
    let (expected, actual) = (whole[0].chain.hash.clone(), behind.chain.prev_hash.clone());
    let told = (("chain_break", 2), Some(expected), Some(actual));
    assert_eq!(of(&whole[0], &behind), told);
    // What an entry says is repeated where it is a hash, and nothing else.
    let right = whole[1].chain.hash.clone();
    let wrong = format!("sha256:{}", "0".repeat(64));
    for (said, told) in [(wrong.clone(), Some(wrong)), ("\u{1b}[2J".to_owned(), None)] {
        whole[1].chain.hash = said;
        let told = (("hash_mismatch", 2), Some(right.clone()), told);
        assert_eq!(of(&whole[0], &whole[1]), told);
    }
}

proptest! {
    #[test]
    fn every_single_bit_counts(at in 0_usize..10_000, bit in 0_u8..7) {
        let (entries, _) = log(3);
        let mut json = serde_json::to_vec(&entries).unwrap();
        let at = at % json.len();
        json[at] ^= 1 << bit;
        if let Ok(changed) = serde_json::from_slice::<Vec<Entry>>(&json)
            && changed != entries
        {
            let texts: Vec<String> =
                changed.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
            prop_assert!(stretch(&texts, 1).is_err());
            prop_assert!(without_a_key(&texts).is_err());
        }
    }

    #[test]
    fn every_single_bit_of_the_text_counts(at in 0_usize..10_000, bit in 0_u8..8) {
        let (texts, _) = texts(1);
        let mut bytes = texts[0].clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(changed) = String::from_utf8(bytes) {
            prop_assert!(stretch(std::slice::from_ref(&changed), 1).is_err());
            prop_assert!(without_a_key(&[changed]).is_err());
        }
    }

    #[test]
    fn removal_and_reordering_count(a in 0_usize..12, b in 0_usize..12) {
        let (entries, head) = log(12);
        let mut removed = entries.clone();
        removed.remove(a);
        prop_assert!(verify(&removed, &head).is_err());
        let mut swapped = entries.clone();
        swapped.swap(a, b);
        prop_assert_eq!(verify(&swapped, &head).is_err(), a != b);
    }
}
