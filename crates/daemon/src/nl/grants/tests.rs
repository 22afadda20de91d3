//! Grants in a store: sealed, asked, had, given back, revoked.

use std::collections::BTreeMap;

use keyless_core::{
    ActionType, SecretPath,
    agent::{AgentUri, InstanceId, TrustLevel},
    grant::{Categories, DenyReason, SecretPattern, Subject},
};
use keyless_store::{GrantRow, Told};
use serde_json::{Value, json};

use super::*;
use crate::scene::Scene;

const INSTANCE: &str = "550e8400-e29b-41d4-a716-446655440000";

fn grant(id: &str, conditions: &Value) -> Grant {
    let mut all =
        json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2099-01-01T00:00:00Z" });
    all.as_object_mut().unwrap().extend(conditions.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "grant_id": id, "agent_uri": "nl://acme.corp/bot/1.0.0", "organization_id": "acme",
        "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
        "permissions": [{ "action_types": ["exec"], "secrets": ["api/*"], "conditions": all }],
    }))
    .unwrap()
}

async fn ask(grants: &Grants) -> Verdict {
    ask_about(grants, &["team/api/token"]).await
}

async fn ask_about(grants: &Grants, paths: &[&str]) -> Verdict {
    let subjects = paths.iter().map(|path| Subject::from(SecretPath::parse(path).unwrap()));
    let subjects: Vec<Subject> = subjects.collect();
    let request = Request {
        agent_uri: &AgentUri::parse("nl://acme.corp/bot/1.0.0").unwrap(),
        instance_id: &InstanceId::parse(INSTANCE).unwrap(),
        organization_id: "acme",
        trust: TrustLevel::L1,
        action: ActionType::Exec,
        writes: false,
        subjects: &subjects,
        categories: &Categories::default(),
        contexts: &BTreeMap::new(),
        source_ip: None,
        approved: false,
    };
    let loaded = grants.refresh().await.unwrap();
    grants.evaluate(&loaded, &request, None)
}

async fn allowed(grants: &Grants) -> Allowance {
    match ask(grants).await {
        Verdict::Allow(allowance) => allowance,
        other => panic!("not allowed: {other:?}"),
    }
}

async fn denied(grants: &Grants) -> DenyReason {
    match ask(grants).await {
        Verdict::Deny(denial) => denial.reason,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn a_use_is_had_once_the_action_begins() {
    let scene = Scene::new().await;
    let grants = Grants::new(&scene.vault, scene.log.clone());
    assert_eq!(denied(&grants).await, DenyReason::NoGrant);
    grants.create(grant("g1", &json!({ "max_uses": 1 }))).await.unwrap();

    // One that does not begin gives its use back.
    let (first, second) = (allowed(&grants).await, allowed(&grants).await);
    let reservation = grants.reserve(&first, None).await.unwrap();
    assert_eq!(
        grants.reserve(&second, None).await.map(drop).unwrap_err().code(),
        Code::GrantExhausted
    );
    drop(reservation);
    let id = GrantId::parse("g1").unwrap();
    while grants.show(&id).await.unwrap().used != [0] {
        tokio::task::yield_now().await;
    }
    drop(grants.reserve(&allowed(&grants).await, None).await.unwrap().started());
    assert_eq!(denied(&grants).await, DenyReason::Exhausted);
    assert_eq!(grants.show(&id).await.unwrap().state, GrantState::Exhausted);
}

#[tokio::test]
async fn an_action_that_needs_two_grants_has_a_use_of_each() {
    let scene = Scene::new().await;
    let grants = Grants::new(&scene.vault, scene.log.clone());
    let limited = grant("g1", &json!({ "max_uses": 2 }));
    let mut other = Grant { grant_id: GrantId::parse("g2").unwrap(), ..limited.clone() };
    other.permissions[0].secrets = vec![SecretPattern::parse("db/*").unwrap()];
    for one in [limited, other] {
        grants.create(one).await.unwrap();
    }
    let verdict = ask_about(&grants, &["team/api/token", "team/db/password"]).await;
    let Verdict::Allow(allowance) = verdict else { panic!("{verdict:?}") };
    drop(grants.reserve(&allowance, None).await.unwrap().started());
    for id in ["g1", "g2"] {
        assert_eq!(grants.show(&GrantId::parse(id).unwrap()).await.unwrap().used, [1], "{id}");
    }
}

#[tokio::test]
async fn what_is_revoked_once_it_was_allowed_does_not_begin() {
    let scene = Scene::new().await;
    let grants = Grants::new(&scene.vault, scene.log.clone());
    let other_process = Grants::new(&scene.vault, scene.log.clone());
    for (id, conditions) in [("g1", json!({})), ("g2", json!({ "max_uses": 9 }))] {
        grants.create(grant(id, &conditions)).await.unwrap();
        let allowance = allowed(&grants).await;
        other_process.revoke(&GrantId::parse(id).unwrap(), None).await.unwrap();
        let fault = grants.reserve(&allowance, None).await.map(drop).unwrap_err();
        assert_eq!(fault.code(), Code::GrantMissing, "{id}");
        assert_eq!(fault.error().detail().as_str(), format!("grant {id} was revoked"));
    }
}

#[tokio::test]
async fn places_are_free_again_when_an_action_ends() {
    let scene = Scene::new().await;
    let grants = Grants::new(&scene.vault, scene.log.clone());
    grants.create(grant("g1", &json!({ "max_concurrent": 1 }))).await.unwrap();
    let (first, second) = (allowed(&grants).await, allowed(&grants).await);
    let running = grants.reserve(&first, None).await.unwrap().started();
    assert_eq!(denied(&grants).await, DenyReason::Concurrency);
    assert_eq!(
        grants.reserve(&second, None).await.map(drop).unwrap_err().code(),
        Code::ConcurrencyExceeded
    );
    drop(running);
    allowed(&grants).await;

    let grants = Grants::new(&scene.vault, scene.log.clone());
    grants.revoke(&GrantId::parse("g1").unwrap(), None).await.unwrap();
    grants.create(grant("g2", &json!({ "max_per_minute": 1 }))).await.unwrap();
    // Both were allowed before either began.
    let (first, second) = (allowed(&grants).await, allowed(&grants).await);
    drop(grants.reserve(&first, None).await.unwrap().started());
    let late = grants.reserve(&second, None).await.map(drop).unwrap_err();
    assert_eq!(late.code(), Code::RateLimited);
    let Verdict::Deny(denial) = ask(&grants).await else { panic!("not denied") };
    assert_eq!(denial.reason, DenyReason::Rate);
    // Whichever it is that finds it, the agent learns when it may again.
    let judged = grants.with_window(Code::RateLimited.into(), &denial);
    for told in [late.details(), judged.details()] {
        assert_eq!((&told["limit"], &told["window_seconds"]), (&1.into(), &60.into()), "{told:?}");
        assert_eq!(told["scope"], "per_grant", "{told:?}");
        let wait = told["retry_after_seconds"].as_u64();
        assert!(wait.is_some_and(|wait| (1..=60).contains(&wait)), "{told:?}");
    }
}

#[test]
fn no_limit_of_a_minute_is_above_what_is_remembered() {
    let slots = Arc::new(Slots::default());
    let at = PermissionRef { grant: GrantId::parse("g1").unwrap(), index: 0 };
    let (max_concurrent, max_per_minute) = (None, Some(50_000));
    let wanted = || vec![Wanted { at: at.clone(), max_concurrent, max_per_minute }];
    for _ in 0..10_000 {
        slots.enter(wanted()).unwrap();
    }
    assert_eq!(slots.enter(wanted()).map(drop).unwrap_err().code(), Code::RateLimited);
}

#[tokio::test]
async fn what_the_vault_has_not_sealed_permits_nothing() {
    let scene = Scene::new().await;
    let (grants, store) = (Grants::new(&scene.vault, scene.log.clone()), scene.vault.store());
    let forged = grant("g1", &json!({}));
    store
        .insert_grant(&GrantRow { grant: forged, seal: vec![0; 32] }, Told::nothing())
        .await
        .unwrap();
    assert_eq!(denied(&grants).await, DenyReason::NoGrant);
    grants.create(grant("g2", &json!({ "max_uses": 3 }))).await.unwrap();
    allowed(&grants).await;
    // Another process revokes: seen at once.
    let other = Grants::new(&scene.vault, scene.log.clone());
    let id = GrantId::parse("g2").unwrap();
    other.revoke(&id, Some("left the team")).await.unwrap();
    assert_eq!(denied(&grants).await, DenyReason::NoGrant);
    let entries = store.audit_tail(5).await.unwrap();
    let last = entries.last().unwrap();
    assert_eq!(
        (last.action, last.detail.grants.as_slice()),
        (Action::GrantRevoke, &["g2".to_owned()][..])
    );
}
