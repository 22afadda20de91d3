//! Verification finds every change: any single bit of any field, any removal, any swap.

use jiff::Timestamp;
use keyless_core::{
    Authority, Code, SecretPath,
    audit::{Action, Agent, Chain, Detail, Draft, Entry, Outcome, Target, verify},
};
use proptest::prelude::*;

fn log(length: u64) -> (Vec<Entry>, Chain) {
    let mut chain = Chain::genesis();
    let entries = (0..length).map(|n| chain.append(draft(n)).entry().clone()).collect();
    (entries, chain)
}

fn draft(n: u64) -> Draft {
    let path = SecretPath::parse("team/github/token").unwrap();
    Draft {
        entry_id: format!("entry-{n}"),
        at: Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(n).unwrap()).unwrap(),
        agent: Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: "session".to_owned(),
        },
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
