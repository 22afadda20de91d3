//! Delegation: downward only, never more than the link above.

use jiff::ToSpan;
use proptest::prelude::*;

use super::*;
use crate::{
    SecretPath,
    grant::{Categories, Subject},
};

const IDS: [&str; 4] = [
    "00000000-0000-4000-8000-000000000000",
    "10000000-0000-4000-8000-000000000000",
    "20000000-0000-4000-8000-000000000000",
    "30000000-0000-4000-8000-000000000000",
];

fn uri(number: usize) -> AgentUri {
    AgentUri::parse(&format!("nl://acme.corp/agent{number}/1.0.0")).unwrap()
}

fn instance(number: usize) -> InstanceId {
    InstanceId::parse(IDS[number]).unwrap()
}

fn now() -> Timestamp {
    "2026-02-08T12:00:00Z".parse().unwrap()
}

fn scope(secrets: &[&str], max_uses: u64) -> TokenScope {
    let secrets = secrets.iter().map(|text| SecretPattern::parse(text).unwrap()).collect();
    TokenScope { secrets, actions: vec![ActionType::Exec], max_uses }
}

/// Agent `from` hands `scope` to the next one.
fn hand_on(from: usize, scope: TokenScope, parent: Option<&Token>) -> Result<Token, Code> {
    hand_on_at_most(3, from, scope, parent)
}

/// The same where work may be handed on so often.
fn hand_on_at_most(
    max_depth: u32,
    from: usize,
    scope: TokenScope,
    parent: Option<&Token>,
) -> Result<Token, Code> {
    let grant = GrantId::parse("grant_1").unwrap();
    let order = Order {
        issuer: (&uri(from), &instance(from)),
        subject: (&uri(from + 1), None),
        scope,
        life: SignedDuration::from_mins(30),
        root: "human:ann@acme.test",
        grant: &grant,
        grant_until: now() + 2.hours(),
        parent,
        categories: &Categories::default(),
        max_depth,
    };
    Token::issue(order, (TokenId::parse(IDS[from]).unwrap(), "bm9uY2U=".to_owned()), now())
}

fn use_it(links: &[Token], by: usize, path: &str, uses: u64, at: Timestamp) -> Result<(), Code> {
    let subjects = [Subject::from(SecretPath::parse(path).unwrap())];
    let presented = Presented {
        agent_uri: &uri(by),
        instance_id: &instance(by),
        source_ip: None,
        action: ActionType::Exec,
        subjects: &subjects,
        categories: &Categories::default(),
    };
    verify(links, &presented, uses, &|_| true, at)
}

#[test]
fn a_chain_of_agents_narrows() {
    let first = hand_on(0, scope(&["k8s/*"], 5), None).unwrap();
    let second = hand_on(1, scope(&["k8s/DEPLOY_TOKEN"], 1), Some(&first)).unwrap();
    assert_eq!(
        second.chain,
        ["human:ann@acme.test", "nl://acme.corp/agent0/1.0.0", "nl://acme.corp/agent1/1.0.0"]
    );
    assert_eq!((first.delegation_depth_remaining, second.delegation_depth_remaining), (2, 1));
    // One use lives for five minutes at most.
    assert_eq!(second.expires_at, now() + 5.minutes());
    let links = [second.clone(), first.clone()];
    assert_eq!(use_it(&links, 2, "x/k8s/deploy-token", 0, now()), Ok(()));

    for (outcome, expected) in [
        (use_it(&links, 1, "x/k8s/deploy-token", 0, now()), Code::DelegationInvalid),
        (use_it(&links, 2, "x/k8s/other", 0, now()), Code::DelegationSubset),
        (use_it(&links, 2, "x/k8s/deploy-token", 1, now()), Code::DelegationExhausted),
        (use_it(&links, 2, "x/k8s/deploy-token", 0, second.expires_at), Code::DelegationExpired),
        (use_it(&links[..1], 2, "x/k8s/deploy-token", 0, now()), Code::DelegationInvalid),
    ] {
        assert_eq!(outcome, Err(expected));
    }
    let over = Revocation {
        at: now(),
        reason: "test".into(),
        root: first.token_id.clone(),
        cascade_depth: None,
    };
    let revoked_above = [second.clone(), Token { revoked: Some(over), ..first.clone() }];
    assert_eq!(
        use_it(&revoked_above, 2, "x/k8s/deploy-token", 0, now()),
        Err(Code::DelegationRevoked)
    );
    // One secret in other words.
    let whole = hand_on(1, scope(&["x/k8s/deploy-token"], 1), Some(&first)).unwrap();
    assert_eq!(use_it(&[whole, first.clone()], 2, "x/k8s/deploy-token", 0, now()), Ok(()));
    let wider = [Token { scope: scope(&["*"], 5), ..second }, first];
    assert_eq!(use_it(&wider, 2, "x/k8s/other", 0, now()), Err(Code::DelegationSubset));
}

#[test]
fn work_is_handed_on_as_often_as_it_may_now() {
    let on = |max_depth: u32, from: usize, parent: Option<&Token>| {
        hand_on_at_most(max_depth, from, scope(&["k8s/*"], 5), parent)
    };
    assert_eq!(on(0, 0, None), Err(Code::DelegationTooDeep));
    assert_eq!(on(1, 0, None).unwrap().delegation_depth_remaining, 0);
    let first = on(3, 0, None).unwrap();
    // What was made while more was allowed is handed on no further than is allowed now.
    for max_depth in [0, 1] {
        assert_eq!(on(max_depth, 1, Some(&first)), Err(Code::DelegationTooDeep));
    }
    assert_eq!(on(2, 1, Some(&first)).unwrap().delegation_depth_remaining, 0);
    // Nor does more being allowed give it more.
    assert_eq!(on(16, 1, Some(&first)).unwrap().delegation_depth_remaining, 1);
}

#[test]
fn what_breaks_a_rule_is_not_issued() {
    let first = hand_on(0, scope(&["k8s/*"], 5), None).unwrap();
    assert_eq!(hand_on(1, scope(&["*"], 1), Some(&first)), Err(Code::DelegationSubset));
    assert_eq!(hand_on(1, scope(&["k8s/x"], 6), Some(&first)), Err(Code::DelegationSubset));
    assert_eq!(hand_on(1, scope(&["k8s/x"], 0), Some(&first)), Err(Code::DelegationInvalid));
    assert_eq!(hand_on(1, scope(&[], 1), Some(&first)), Err(Code::DelegationInvalid));
    let flat = Token { delegation_depth_remaining: 0, ..first };
    assert_eq!(hand_on(1, scope(&["k8s/x"], 1), Some(&flat)), Err(Code::DelegationTooDeep));
    let read: Token = serde_json::from_str(&serde_json::to_string(&flat).unwrap()).unwrap();
    assert_eq!(read, flat);
}

proptest! {
    #[test]
    fn no_link_allows_what_the_one_above_does_not(
        wide in prop::sample::subsequence(vec!["*", "api/*", "api/a?", "k8s/**", "x/k8s/*", "api/ab", "x/*/*"], 1..4),
        narrow in prop::sample::subsequence(vec!["*", "api/*", "api/ab", "x/k8s/t", "api/a?", "k8s/x", "x/**", "x/api/*", "x/k8s/x"], 1..3),
        path in prop::sample::select(vec!["x/api/ab", "x/k8s/t", "k8s/x/y", "x/api/abc", "x/y/z"]),
    ) {
        let first = hand_on(0, scope(&wide, 5), None).unwrap();
        if let Ok(second) = hand_on(1, scope(&narrow, 5), Some(&first))
            && use_it(&[second, first.clone()], 2, path, 0, now()).is_ok()
        {
            prop_assert_eq!(use_it(&[first], 1, path, 0, now()), Ok(()));
        }
    }
}
