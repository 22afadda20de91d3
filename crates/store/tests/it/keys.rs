//! The log's keys: each entry has their word, a new one takes over in the middle, and who has none forges nothing.

use std::sync::Arc;

use keyless_core::audit::{Action, LogKeyId, Tampered};
use keyless_store::{AuditLog, LogError, Store, StoreError};

use crate::scene::{
    Engine, Scene, Word, draft, filled, in_its_chain, on_both, on_socket, sealed_log,
};

on_both! {
    a_new_key_takes_over_in_the_middle
    what_was_written_without_a_key_is_told_as_such
    every_bit_of_what_the_keys_say_counts
    a_log_written_anew_without_the_key_is_found
    a_key_that_was_replaced_is_not_taken_again
}

const KEY: Word = Word("key");

async fn change_key(scene: &Scene) -> Result<(LogKeyId, LogKeyId), StoreError> {
    let mut marker = draft("operator");
    marker.action = Action::LogKeyRotation;
    scene.store.audit_change_key(marker, &KEY).await
}

async fn verified(scene: &Scene) -> Result<(u64, u64, String), LogError> {
    let mut chains = scene.store.audit_verify(Some(&KEY)).await?;
    let said = chains.remove(0).vouching;
    let keys = said.keys.map(|(first, last)| format!("{first}..{last}"));
    Ok((said.with, said.without, keys.unwrap_or_default()))
}

async fn fault(scene: &Scene) -> String {
    let error = verified(scene).await.unwrap_err();
    match in_its_chain(&error) {
        LogError::Tampered(found) => format!("{found:?}"),
        other => format!("{other:?}"),
    }
}

async fn a_new_key_takes_over_in_the_middle(engine: Engine) {
    let scene = filled(engine, 3).await;
    let log = sealed_log(&scene);
    log.append(draft("before")).await.unwrap();
    let second = LogKeyId::FIRST.next();
    assert_eq!(change_key(&scene).await.unwrap(), (LogKeyId::FIRST, second));
    // Whoever was running goes over with its next entry.
    log.append(draft("after")).await.unwrap();
    let entries = scene.store.audit_tail(3).await.unwrap();
    let keys: Vec<_> = entries.iter().map(|entry| entry.chain.hmac_key_id.as_deref()).collect();
    assert_eq!(keys, [Some("log-1"), Some("log-2"), Some("log-2")]);
    assert_eq!(entries[1].action, Action::LogKeyRotation);
    assert_eq!(entries[1].detail.note.as_deref(), Some("log-1 to log-2"));
    assert_eq!(entries[1].detail.kind.as_deref(), Some("hmac_key_rotated"));
    assert_eq!(verified(&scene).await.unwrap(), (6, 0, "log-1..log-2".to_owned()));
    let newest = scene.store.audit_newest_key().await.unwrap().unwrap();
    assert_eq!(newest.0, second);
    // In a file as well.
    let mut marker = draft("broker");
    marker.action = Action::LogRotation;
    let marker = log.append(marker).await.unwrap().sequence();
    scene.store.audit_close(marker, &KEY).await.unwrap();
    log.append(draft("later")).await.unwrap();
    assert_eq!(verified(&scene).await.unwrap(), (8, 0, "log-1..log-2".to_owned()));
}

async fn what_was_written_without_a_key_is_told_as_such(engine: Engine) {
    let scene = filled(engine, 2).await;
    let locked = AuditLog::start(&scene.store, None);
    locked.append(draft("locked")).await.unwrap();
    sealed_log(&scene).append(draft("open")).await.unwrap();
    assert_eq!(verified(&scene).await.unwrap(), (3, 1, "log-1..log-1".to_owned()));
    // Without the key nothing is said of it.
    let said = scene.store.audit_verify(None).await.unwrap().remove(0).vouching;
    assert_eq!((said.with, said.without, said.keys), (0, 0, None));
}

async fn every_bit_of_what_the_keys_say_counts(engine: Engine) {
    let scene = filled(engine, 3).await;
    let sound = scene.store.audit_tail(1).await.unwrap().remove(0).chain;
    for value in [sound.hmac.unwrap(), sound.entry_hmac.unwrap(), sound.hmac_key_id.unwrap()] {
        for at in [0, value.len() / 2, value.len() - 1] {
            let mut changed = value.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            let put = |from: &str, to: &str| {
                format!(
                    "UPDATE audit SET entry = replace(entry, '{from}', '{to}') WHERE sequence = 3; \
                     UPDATE audit_head SET last = replace(last, '{from}', '{to}')"
                )
            };
            scene.behind_its_back(&put(&value, &changed)).await;
            let found = fault(&scene).await;
            assert!(found.contains("sequence: 3"), "{value} {changed}: {found}");
            scene.behind_its_back(&put(&changed, &value)).await;
        }
    }
    assert_eq!(verified(&scene).await.unwrap().0, 3);
}

/// By somebody with a vault of their own, whose word is not ours: all is in order but the key.
async fn a_log_written_anew_without_the_key_is_found(engine: Engine) {
    let scene = filled(engine, 5).await;
    let forged = Scene::new(engine).await;
    let mut writing = forged.store.write().await.unwrap();
    writing.seal_audit_head(&Word("their key")).await.unwrap();
    writing.commit().await.unwrap();
    let log = AuditLog::start(&forged.store, Some(Arc::new(Word("their key"))));
    for _ in 0..5 {
        log.append(draft("forged")).await.unwrap();
    }
    forged.store.audit_verify(Some(&Word("their key"))).await.unwrap();
    for entry in forged.store.audit_tail(5).await.unwrap() {
        // As it is stored: in the canonical form.
        let text = serde_json::to_value(&entry).unwrap().to_string();
        let (text, number) = (text.replace('\'', "''"), entry.sequence);
        let sql = format!("UPDATE audit SET entry = '{text}' WHERE sequence = {number}");
        scene.behind_its_back(&sql).await;
    }
    let head = "UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 5)";
    scene.behind_its_back(head).await;
    assert_eq!(fault(&scene).await, format!("{:?}", Tampered::Hmac { sequence: 1 }));
}

async fn a_key_that_was_replaced_is_not_taken_again(engine: Engine) {
    let scene = filled(engine, 2).await;
    change_key(&scene).await.unwrap();
    scene.behind_its_back("CREATE TABLE kept_keys AS SELECT * FROM audit_keys").await;
    let record = "UPDATE audit_keys SET record = replace(record, 'log-2', 'log-3'), number = 3 \
        WHERE number = 2";
    for (sql, expected) in [
        ("DELETE FROM audit_keys WHERE number = 2", "UnknownKey"),
        ("DELETE FROM audit_keys", "UnknownKey"),
        ("UPDATE audit_keys SET record = replace(record, '20', '19')", "KeySeal"),
        (record, "KeySeal"),
    ] {
        scene.behind_its_back(sql).await;
        let refused = sealed_log(&scene).append(draft("s")).await.unwrap_err();
        assert!(refused.to_string().contains("run keyless audit verify"), "{sql}: {refused}");
        let found = fault(&scene).await;
        assert!(found.contains(expected), "{sql}: {found}");
        scene.behind_its_back("DELETE FROM audit_keys").await;
        scene.behind_its_back("INSERT INTO audit_keys SELECT * FROM kept_keys").await;
    }
    sealed_log(&scene).append(draft("s")).await.unwrap();
    assert_eq!(verified(&scene).await.unwrap(), (4, 0, "log-1..log-2".to_owned()));
}

/// Two homes, each with a chain: both go over to the key that one of them made.
#[tokio::test]
async fn two_brokers_on_one_server_have_one_set_of_keys() {
    let scene = filled(Engine::Postgres, 2).await;
    let home = tempfile::tempdir().unwrap();
    let server = scene.server.as_ref().unwrap();
    let other = Store::open(on_socket(server, home.path())).await.unwrap();
    let theirs = AuditLog::start(&other, Some(Arc::new(KEY)));
    theirs.append(draft("theirs")).await.unwrap();
    change_key(&scene).await.unwrap();
    theirs.append(draft("theirs")).await.unwrap();
    sealed_log(&scene).append(draft("ours")).await.unwrap();
    for chain in other.audit_verify(Some(&KEY)).await.unwrap() {
        let (first, last) = chain.vouching.keys.unwrap();
        assert_eq!((first, last), (LogKeyId::FIRST, LogKeyId::FIRST.next()), "{}", chain.name);
        assert_eq!(chain.vouching.without, 0);
    }
    // Both at once: one of them makes the key.
    let (ours, theirs) = tokio::join!(change_key(&scene), async {
        let mut marker = draft("operator");
        marker.action = Action::LogKeyRotation;
        other.audit_change_key(marker, &KEY).await
    });
    assert!(ours.is_ok() || theirs.is_ok());
    other.audit_verify(Some(&KEY)).await.unwrap();
}
