//! Verification finds every change: any single bit of any field, any removal, any swap.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Authority, Code, SecretPath,
    audit::{
        Action, Agent, Chain, Detail, Draft, Entry, Outcome, Outline, Stretch, Tampered, Target,
        Verifier, portable_sha256, verify,
    },
};
use proptest::prelude::*;

/// The texts as they are stored, and their end.
fn texts(length: u64) -> (Vec<String>, Chain) {
    let mut chain = Chain::genesis();
    let mut append = |n| {
        chain.append(Outline::new(draft(n), &format!("entry-{n}")), portable_sha256).take_text()
    };
    let texts = (0..length).map(&mut append).collect();
    (texts, chain)
}

fn log(length: u64) -> (Vec<Entry>, Chain) {
    let (texts, chain) = texts(length);
    (texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect(), chain)
}

fn stretch(texts: &[String], first: u64) -> Result<Option<Stretch>, Tampered> {
    Stretch::verify((first..).zip(texts.iter().map(String::as_str)), None, portable_sha256)
}

fn draft(n: u64) -> Draft {
    let path = SecretPath::parse("team/github/token").unwrap();
    Draft {
        at: Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(n).unwrap()).unwrap(),
        agent: Arc::new(Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: "session".to_owned(),
        }),
        action: Action::Egress,
        target: Target::Authority(Authority::parse("api.test:443").unwrap()),
        outcome: Outcome::Success,
        secrets_used: vec![path],
        correlation_id: format!("req-{n}"),
        error_code: (n % 2 == 1).then_some(Code::Cleartext),
        detail: Detail { method: Some("GET".to_owned()), swaps: Some(n), ..Detail::default() },
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
        Stretch::verify([(1, texts[0].as_str())], Some(1), portable_sha256).unwrap().unwrap();
    let first: Entry = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(marked.marked(), Some(first.chain.entry_hash.as_str()));
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

proptest! {
    #[test]
    fn every_single_bit_counts(at in 0_usize..10_000, bit in 0_u8..7) {
        let (entries, head) = log(3);
        let mut json = serde_json::to_vec(&entries).unwrap();
        let at = at % json.len();
        json[at] ^= 1 << bit;
        if let Ok(changed) = serde_json::from_slice::<Vec<Entry>>(&json)
            && changed != entries
        {
            prop_assert!(verify(&changed, &head).is_err());
        }
    }

    #[test]
    fn every_single_bit_of_the_text_counts(at in 0_usize..10_000, bit in 0_u8..8) {
        let (texts, _) = texts(1);
        let mut bytes = texts[0].clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(changed) = String::from_utf8(bytes) {
            prop_assert!(stretch(&[changed], 1).is_err());
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
