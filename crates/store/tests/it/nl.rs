//! Grants, agents and delegations: kept over a restart, and uses that no race can have twice.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    delegation::{Token, TokenId},
    grant::{Grant, GrantId, PermissionRef},
};
use keyless_store::{
    AuditLog, DelegationRow, GrantRow, ShownAttestation, StoreError, Told, Untaken, UseOf,
};
use serde_json::json;

use crate::scene::{Engine, Scene, Word, draft, on_both};

on_both! {
    of_many_who_want_the_last_use_one_gets_it
    uses_are_had_together_or_not_at_all
    a_token_is_used_as_often_as_it_says
    of_many_who_show_one_attestation_it_is_the_firsts
    of_many_who_show_one_proof_one_is_believed
    rights_change_with_their_entry_or_not_at_all
}

fn grant(name: &str) -> GrantRow {
    let grant = json!({
        "grant_id": name, "agent_uri": "nl://acme.corp/bot/1.0.0", "organization_id": "acme",
        "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
        "permissions": [{ "action_types": ["exec"], "secrets": ["api/*"], "conditions": {
            "valid_from": "2026-02-08T09:00:00Z", "valid_until": "2026-02-08T18:00:00Z", "max_uses": 1 } }],
    });
    let grant: Grant = serde_json::from_value(grant).unwrap();
    GrantRow { seal: GrantRow::sealed_bytes(&grant), grant }
}

fn use_of(name: &str, max_uses: impl Into<Option<u64>>) -> UseOf {
    let max_uses = max_uses.into();
    let grant = GrantId::parse(name).unwrap();
    UseOf { permission: PermissionRef { grant, index: 0 }, max_uses }
}

async fn of_many_who_want_the_last_use_one_gets_it(engine: Engine) {
    let scene = Scene::new(engine).await;
    scene.store.insert_grant(&grant("g1"), Told::nothing()).await.unwrap();
    let other = scene.opened_again().await;
    let wanted = [use_of("g1", 10)];
    // Two at a time of each handle: more would wait for its connections, which a busy machine is slow to make.
    let takers = (0..4).map(|number| {
        let store = if number % 2 == 0 { scene.store.clone() } else { other.clone() };
        let wanted = wanted.clone();
        tokio::spawn(async move {
            let mut had = 0_u32;
            for _ in 0..10 {
                had += u32::from(store.take_uses(&wanted).await.unwrap().is_ok());
            }
            had
        })
    });
    let mut had = 0;
    for taker in takers.collect::<Vec<_>>() {
        had += taker.await.unwrap();
    }
    assert_eq!(had, 10);
    scene.store.give_uses_back(&[wanted[0].permission.clone()]).await.unwrap();
    assert_eq!(other.grant_uses().await.unwrap()[&wanted[0].permission], 9);
}

async fn uses_are_had_together_or_not_at_all(engine: Engine) {
    let scene = Scene::new(engine).await;
    for name in ["g1", "g2"] {
        scene.store.insert_grant(&grant(name), Told::nothing()).await.unwrap();
    }
    assert_eq!(scene.store.take_uses(&[use_of("g2", 1)]).await.unwrap(), Ok(()));
    let refused = scene.store.take_uses(&[use_of("g1", 1), use_of("g2", 1)]).await.unwrap();
    assert_eq!(refused, Err(Untaken::Exhausted(use_of("g2", 1).permission)));
    assert_eq!(scene.store.take_uses(&[use_of("g1", 1)]).await.unwrap(), Ok(()));

    let before = scene.store.nl_revision().await.unwrap();
    let mut revoked = grant("g1");
    revoked.grant.revoked = true;
    assert!(scene.store.replace_grant(&grant("g1"), &revoked, Told::nothing()).await.unwrap());
    assert!(scene.store.nl_revision().await.unwrap() > before);
    // Whatever its permissions say of uses, and whatever else is asked for with them.
    let with_g2 = |one| [use_of("g2", 9), one];
    for wanted in [
        &[use_of("g1", 9)][..],
        &[use_of("g1", None)],
        &[use_of("g2", None), use_of("g1", None)],
        &with_g2(use_of("g1", None)),
        &with_g2(use_of("g1", 9)),
    ] {
        let refused = scene.store.take_uses(wanted).await.unwrap();
        assert_eq!(refused, Err(Untaken::Revoked(use_of("g1", 9).permission)), "{wanted:?}");
    }
    assert_eq!(scene.store.grant_uses().await.unwrap()[&use_of("g2", 9).permission], 1);
    let taken = scene.store.insert_grant(&grant("g1"), Told::nothing()).await;
    assert!(matches!(taken, Err(StoreError::Taken(_))), "{taken:?}");
}

async fn a_token_is_used_as_often_as_it_says(engine: Engine) {
    let scene = Scene::new(engine).await;
    let token: Token = serde_json::from_value(json!({
        "token_id": "550e8400-e29b-41d4-a716-446655440000", "type": "delegation",
        "issuer": "nl://acme.corp/a/1.0.0", "issuer_instance": "650e8400-e29b-41d4-a716-446655440000",
        "subject": "nl://acme.corp/b/1.0.0", "chain": ["human:ann", "nl://acme.corp/a/1.0.0"],
        "scope": { "secrets": ["k8s/DEPLOY_TOKEN"], "actions": ["exec"], "max_uses": 2 },
        "delegation_depth_remaining": 2, "parent_token_id": null, "parent_scope_id": "g1",
        "issued_at": "2026-02-08T09:00:00Z", "expires_at": "2026-02-08T09:05:00Z", "nonce": "bm9uY2U=",
    }))
    .unwrap();
    let row = DelegationRow { seal: DelegationRow::sealed_bytes(&token), used: 0, token };
    scene.store.insert_delegation(&row, Told::nothing()).await.unwrap();
    let id = TokenId::parse("550e8400-e29b-41d4-a716-446655440000").unwrap();
    // More than are left is none at all.
    let takes = [(3, false), (2, true), (1, false)];
    for (number, expected) in takes {
        let had = scene.store.take_delegation_uses(&id, number).await.unwrap();
        assert_eq!(had, expected, "{number}");
    }
    scene.store.give_delegation_uses_back(&id, 2).await.unwrap();
    for expected in [true, true, false] {
        assert_eq!(scene.store.take_delegation_uses(&id, 1).await.unwrap(), expected);
    }
    scene.store.close().await;
    let again = scene.opened_again().await;
    let row = DelegationRow { used: 2, ..row };
    assert_eq!(again.delegation(&id).await.unwrap().as_ref(), Some(&row));
    assert_eq!(again.delegations().await.unwrap(), [row]);
    again.remove_delegations(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(again.delegation(&id).await.unwrap(), None);
}

async fn of_many_who_show_one_proof_one_is_believed(engine: Engine) {
    let scene = Scene::new(engine).await;
    let other = scene.opened_again().await;
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let until = |seconds| now + SignedDuration::from_secs(seconds);
    let takers = (0..4).map(|number| {
        let store = if number % 2 == 0 { scene.store.clone() } else { other.clone() };
        let until = until(30);
        tokio::spawn(async move {
            let mut believed = 0_u32;
            for _ in 0..5 {
                let taken = store.take_delegation_proof("p", until, now).await.unwrap();
                believed += u32::from(taken);
            }
            believed
        })
    });
    let mut believed = 0;
    for taker in takers.collect::<Vec<_>>() {
        believed += taker.await.unwrap();
    }
    assert_eq!(believed, 1);
    // It is kept for as long as any broker's clock could take it, and no longer.
    assert!(other.take_delegation_proof("q", until(120), until(89)).await.unwrap());
    assert!(!other.take_delegation_proof("p", until(30), until(90)).await.unwrap());
    assert!(scene.store.take_delegation_proof("r", until(120), until(91)).await.unwrap());
    assert!(other.take_delegation_proof("p", until(30), until(90)).await.unwrap());
}

async fn of_many_who_show_one_attestation_it_is_the_firsts(engine: Engine) {
    let scene = Scene::new(engine).await;
    let other = scene.opened_again().await;
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let until = now + SignedDuration::from_secs(30);
    let shown = |instance: &str, digest: &str| ShownAttestation {
        name: "n".to_owned(),
        instance: instance.to_owned(),
        digest: digest.to_owned(),
    };
    let (one, two) = (shown("a", "d"), shown("b", "d"));
    let (first, second) = tokio::join!(
        scene.store.bind_attestation(&one, until, now),
        other.bind_attestation(&two, until, now)
    );
    assert_ne!(first.as_ref().unwrap(), second.as_ref().unwrap());
    let (owner, late) = if first.unwrap() { (one, two) } else { (two, one) };
    for store in [&scene.store, &other] {
        assert!(store.bind_attestation(&owner, until, now).await.unwrap());
        assert!(!store.bind_attestation(&late, until, now).await.unwrap());
        let changed = shown(&owner.instance, "e");
        assert!(!store.bind_attestation(&changed, until, now).await.unwrap());
    }
    // It is kept for as long as any broker's clock could take it, and no longer.
    let at = |seconds| until + SignedDuration::from_secs(seconds);
    assert!(!other.bind_attestation(&late, until, at(60)).await.unwrap());
    assert!(other.bind_attestation(&late, until, at(61)).await.unwrap());
}

async fn rights_change_with_their_entry_or_not_at_all(engine: Engine) {
    let scene = Scene::new(engine).await;
    let (store, word) = (&scene.store, Arc::new(Word("sesame")));
    let mut born = store.write().await.unwrap();
    born.seal_audit_head(&*word).await.unwrap();
    born.commit().await.unwrap();
    let log = AuditLog::start(store, Some(Arc::clone(&word) as _));
    log.append(draft("first")).await.unwrap();
    let told = |session: &str| Told::in_log(&log, vec![draft(session), draft(session)]);
    let revoked = GrantRow { seal: b"revoked".to_vec(), ..grant("g1") };
    store.insert_grant(&grant("g1"), told("given")).await.unwrap();
    scene.behind_its_back("ALTER TABLE audit RENAME TO away").await;
    let unrecorded = store.replace_grant(&grant("g1"), &revoked, told("lost")).await.unwrap_err();
    assert!(matches!(unrecorded, StoreError::Unrecorded(_)), "{unrecorded:?}");
    assert_eq!(store.grants().await.unwrap(), [grant("g1")]);
    scene.behind_its_back("ALTER TABLE away RENAME TO audit").await;
    // Whoever changes nothing has nothing to tell.
    assert!(!store.replace_grant(&revoked, &grant("g1"), told("late")).await.unwrap());
    assert!(store.replace_grant(&grant("g1"), &revoked, told("taken")).await.unwrap());
    // The log's own writer goes on behind all that.
    log.append(draft("last")).await.unwrap();
    let entries = store.audit_tail(10).await.unwrap();
    let sessions: Vec<_> = entries.iter().map(|entry| entry.agent.session_id.as_str()).collect();
    assert_eq!(sessions, ["first", "given", "given", "taken", "taken", "last"]);
    assert_eq!(store.audit_verify(Some(&*word)).await.unwrap()[0].entries, 6);
}
