//! The log: what is told as written is written, and what is changed afterwards shows.

use std::{sync::Arc, time::Duration};

use keyless_core::{
    Code, Error, SecretPath,
    audit::{Action, Draft, Outcome, Tampered},
};
use keyless_store::{
    AuditLog, AuditQuery, LogError, SecretRow, Store, StoreOptions, VerifiedChain, VersionRow,
};

use crate::scene::{Engine, Scene, Word, draft, filled, in_its_chain, on_both, sealed_log};

on_both! {
    entries_are_recorded_in_order
    what_nobody_waits_for_is_written_soon
    questions_are_answered
    the_latest_uses_are_told
    several_writers_share_one_chain
    every_change_behind_its_back_is_found
    without_the_key_a_cut_tail_still_shows
    a_look_in_passing_sees_the_newest_entries
    a_cut_log_is_not_sealed_again
    an_end_that_does_not_continue_the_sealed_one_is_refused
    a_running_writer_misses_what_it_wrote
    what_others_wrote_meanwhile_is_continued
}

async fn entries_are_recorded_in_order(engine: Engine) {
    let scene = filled(engine, 700).await;
    let log = AuditLog::start(&scene.store, None);
    let recorded = log.append(draft("last")).await.unwrap();
    assert_eq!(recorded.sequence(), 701);
    let tail = scene.store.audit_tail(2).await.unwrap();
    assert_eq!((tail[0].sequence, tail[1].sequence), (700, 701));
    let verified = scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
    let [VerifiedChain { entries: 701, sealed: 700, .. }] = *verified else {
        panic!("{verified:?}")
    };
}

async fn what_nobody_waits_for_is_written_soon(engine: Engine) {
    let scene = filled(engine, 0).await;
    let log = AuditLog::start(&scene.store, None);
    log.append_soon(draft("s")).unwrap();
    while scene.store.audit_tail(1).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // What the last handle left behind is written as well.
    log.append_soon(draft("s")).unwrap();
    drop(log);
    while scene.store.audit_tail(2).await.unwrap().len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn questions_are_answered(engine: Engine) {
    let scene = filled(engine, 3).await;
    let log = AuditLog::start(&scene.store, None);
    let mut other = draft("other");
    (other.action, other.outcome) = (Action::Denied, Outcome::Denied);
    other.at = "2030-01-01T00:00:00Z".parse().unwrap();
    log.append(other).await.unwrap();
    let ask = async |wanted: AuditQuery| {
        let entries = scene.store.audit_query(&wanted).await.unwrap();
        entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>()
    };
    let all = AuditQuery::default;
    assert_eq!(ask(all()).await, [1, 2, 3, 4]);
    assert_eq!(ask(AuditQuery { after: Some(2), ..all() }).await, [3, 4]);
    assert_eq!(ask(AuditQuery { limit: Some(1), ..all() }).await, [1]);
    assert_eq!(ask(AuditQuery { limit: Some(2), newest: true, ..all() }).await, [3, 4]);
    let since = Some("2030-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(ask(AuditQuery { since, ..all() }).await, [4]);
    assert_eq!(ask(AuditQuery { session: Some("other".into()), ..all() }).await, [4]);
    let text = |text: &str| Some(text.to_owned());
    assert!(ask(AuditQuery { text: text("\"other\""), ..all() }).await.is_empty());
    assert_eq!(ask(AuditQuery { text: text("othe"), ..all() }).await, [4]);
    assert_eq!(ask(AuditQuery { action: Some(Action::Egress), ..all() }).await, [1, 2, 3]);
    assert_eq!(ask(AuditQuery { outcome: Some(Outcome::Denied), ..all() }).await, [4]);
}

async fn the_latest_uses_are_told(engine: Engine) {
    let scene = filled(engine, 1).await;
    let log = AuditLog::start(&scene.store, None);
    let [one, two] = ["a/b/c", "a/b/d"].map(|path| SecretPath::parse(path).unwrap());
    for (second, session, secrets, outcome) in [
        (1, "first", vec![&one, &two], Outcome::Success),
        (2, "first", vec![&one], Outcome::Success),
        (3, "refused", vec![&one, &two], Outcome::Denied),
        (4, "second", vec![&one], Outcome::Success),
    ] {
        let at = format!("2030-01-01T00:00:0{second}Z").parse().unwrap();
        let secrets_used = secrets.into_iter().cloned().collect();
        log.append(Draft { at, outcome, secrets_used, ..draft(session) }).await.unwrap();
    }
    let uses = scene.store.latest_uses().await.unwrap();
    let seen: Vec<_> =
        uses.iter().map(|one| (&one.path, one.session_id.as_str(), one.entries)).collect();
    assert_eq!(seen, [(&one, "second", 1), (&one, "first", 2), (&two, "first", 1)]);
    assert!(uses.is_sorted_by(|a, b| a.at >= b.at) && uses[0].agent_uri.contains("://"));
}

async fn several_writers_share_one_chain(engine: Engine) {
    let scene = filled(engine, 0).await;
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = scene.opened_again().await;
        writers.push(tokio::spawn(async move {
            let log = AuditLog::start(&store, None);
            for _ in 0..50 {
                log.append(draft("s")).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(scene.store.audit_verify(None).await.unwrap()[0].entries, 200);
}

async fn every_change_behind_its_back_is_found(engine: Engine) {
    let cases: [(&str, &str); 13] = [
        ("DELETE FROM audit WHERE sequence = 20", "truncated"),
        ("DELETE FROM audit WHERE sequence > 3", "truncated"),
        ("DELETE FROM audit", "truncated"),
        ("DELETE FROM audit WHERE sequence = 5", "gap"),
        (
            "UPDATE audit SET entry = replace(entry, '\"success\"', '\"error\"') WHERE sequence = 7",
            "7",
        ),
        (
            "UPDATE audit SET entry = replace(entry, '\"detail\":{', '\"detail\":{\"note\":\"x\",') WHERE sequence = 7",
            "7",
        ),
        (
            "UPDATE audit SET entry = replace(entry, '\"detail\":{', '\"more\":1,\"detail\":{') WHERE sequence = 7",
            "7",
        ),
        ("UPDATE audit SET entry = 'x' || entry WHERE sequence = 7", "unreadable"),
        (
            "UPDATE audit SET sequence = 99 WHERE sequence = 7; \
             UPDATE audit SET sequence = 7 WHERE sequence = 8; \
             UPDATE audit SET sequence = 8 WHERE sequence = 99",
            "8 in the place of 7",
        ),
        (
            "DELETE FROM audit WHERE sequence = 20; UPDATE audit_head SET last = \
             (SELECT entry FROM audit WHERE sequence = 19)",
            "truncated",
        ),
        (
            "DELETE FROM audit; UPDATE audit_head SET last = NULL, sealed_sequence = NULL, \
             sealed_hash = NULL, seal = NULL",
            "seal",
        ),
        ("UPDATE audit_head SET sealed_sequence = 19", "seal"),
        (
            "DELETE FROM audit WHERE sequence = 20; UPDATE audit_head SET sealed_sequence = 19, \
             last = (SELECT entry FROM audit WHERE sequence = 19), sealed_hash = (SELECT \
             $HASH FROM audit WHERE sequence = 19)",
            "seal",
        ),
    ];
    let scene = filled(engine, 20).await;
    scene.behind_its_back(KEEP).await;
    for (sql, expected) in cases {
        scene.behind_its_back(&with_hash(engine, sql)).await;
        let error = scene.store.audit_verify(Some(&Word("key"))).await.unwrap_err();
        let found = match in_its_chain(&error) {
            LogError::Tampered(Tampered::Truncated { .. }) => "truncated".to_owned(),
            LogError::Tampered(Tampered::Gap { .. }) => "gap".to_owned(),
            LogError::Tampered(Tampered::Changed { sequence, .. }) => sequence.to_string(),
            LogError::Tampered(Tampered::Misplaced { sequence, found }) => {
                format!("{found} in the place of {sequence}")
            }
            LogError::Tampered(Tampered::Unreadable { .. }) => "unreadable".to_owned(),
            LogError::Seal => "seal".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expected, "{sql}");
        assert_eq!(Error::from(error).code(), Code::StoreTampered);
        scene.behind_its_back(PUT_BACK).await;
    }
    scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
}

const KEEP: &str = "CREATE TABLE kept AS SELECT * FROM audit; \
    CREATE TABLE kept_head AS SELECT * FROM audit_head";
const PUT_BACK: &str = "DELETE FROM audit; DELETE FROM audit_head; \
    INSERT INTO audit_head SELECT * FROM kept_head; INSERT INTO audit SELECT * FROM kept";

async fn without_the_key_a_cut_tail_still_shows(engine: Engine) {
    let scene = filled(engine, 20).await;
    scene.behind_its_back("DELETE FROM audit WHERE sequence > 18").await;
    let error = scene.store.audit_verify(None).await.unwrap_err();
    let expected = Tampered::Truncated { found: 18, expected: 20 };
    assert!(matches!(in_its_chain(&error), LogError::Tampered(found) if *found == expected));
}

/// Who can write the store cuts the log and sets its head back; then the broker is made to write.
async fn a_look_in_passing_sees_the_newest_entries(engine: Engine) {
    let scene = filled(engine, 20).await;
    let read = async |count| {
        let [chain] = &scene.store.audit_verify_newest(count).await?[..] else { panic!() };
        Ok::<_, LogError>((chain.read, chain.entries))
    };
    for (count, expected) in [(5, 5), (19, 19), (20, 20), (99, 20)] {
        assert_eq!(read(count).await.unwrap(), (expected, 20));
    }
    scene
        .behind_its_back(
            "UPDATE audit SET entry = replace(entry, '\"success\"', '\"error\"') WHERE sequence = 16",
        )
        .await;
    assert_eq!(read(4).await.unwrap(), (4, 20));
    assert!(read(5).await.is_err());
}

async fn a_cut_log_is_not_sealed_again(engine: Engine) {
    let cuts = [
        ("DELETE FROM audit WHERE sequence > 3", 3),
        ("DELETE FROM audit WHERE sequence = 20", 19),
        ("DELETE FROM audit", 0),
    ];
    let scene = filled(engine, 20).await;
    scene.behind_its_back(KEEP).await;
    for (cut, last) in cuts {
        let running = sealed_log(&scene);
        running.append(draft("before")).await.unwrap();
        let set_back = format!(
            "{cut}; DELETE FROM audit WHERE sequence > 20; \
             UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = {last})"
        );
        scene.behind_its_back(&set_back).await;
        for log in [running, sealed_log(&scene)] {
            refused(&log).await;
            refused(&log).await;
        }
        let error = scene.store.audit_verify(Some(&Word("key"))).await.unwrap_err();
        let expected = Tampered::Truncated { found: last, expected: 21 };
        assert!(
            matches!(in_its_chain(&error), LogError::Tampered(found) if *found == expected),
            "{cut}: {error:?}"
        );
        let unsigned = scene.store.audit_vouched_ends(&Word("key")).await.unwrap_err();
        assert_eq!(Error::from(unsigned).code(), Code::AuditTampered);
        scene.behind_its_back(PUT_BACK).await;
    }
    sealed_log(&scene).append(draft("after")).await.unwrap();
    scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
}

async fn an_end_that_does_not_continue_the_sealed_one_is_refused(engine: Engine) {
    let cases = [
        "UPDATE audit_head SET seal = NULL",
        "UPDATE audit_head SET sealed_sequence = 22",
        "UPDATE audit_head SET sealed_sequence = 19, \
         sealed_hash = (SELECT $HASH FROM audit WHERE sequence = 19)",
        "DELETE FROM audit WHERE sequence = 20",
        "DELETE FROM audit WHERE sequence = 21",
        "DELETE FROM audit WHERE sequence = 22",
        "UPDATE audit SET entry = replace(entry, 'success', 'error') WHERE sequence = 21",
        "UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 21)",
        "UPDATE audit_head SET last = (SELECT replace(entry, 'sha256:', 'sha256:0') FROM audit WHERE sequence = 22)",
    ];
    let scene = filled(engine, 20).await;
    let unsealed = AuditLog::start(&scene.store, None);
    for _ in 0..2 {
        unsealed.append(draft("s")).await.unwrap();
    }
    scene.behind_its_back(KEEP).await;
    for sql in cases {
        scene.behind_its_back(&with_hash(engine, sql)).await;
        refused(&sealed_log(&scene)).await;
        scene.store.audit_vouched_ends(&Word("key")).await.unwrap_err();
        scene.store.audit_verify(Some(&Word("key"))).await.unwrap_err();
        scene.behind_its_back(PUT_BACK).await;
    }
    refused(&AuditLog::start(&scene.store, Some(Arc::new(Word("another key"))))).await;
    let recorded = sealed_log(&scene).append(draft("s")).await.unwrap();
    assert_eq!(recorded.sequence(), 23);
    let verified = scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
    assert_eq!((verified[0].entries, verified[0].sealed), (23, 23));
}

/// An older end with the seal that it had is whole in itself; who wrote more since knows better, also without the key.
async fn a_running_writer_misses_what_it_wrote(engine: Engine) {
    let scene = filled(engine, 3).await;
    scene.behind_its_back(KEEP).await;
    let sealed = sealed_log(&scene);
    sealed.append(draft("s")).await.unwrap();
    let unsealed = AuditLog::start(&scene.store, None);
    unsealed.append(draft("s")).await.unwrap();
    scene.behind_its_back(PUT_BACK).await;
    refused(&sealed).await;
    refused(&unsealed).await;
    // Nor is it hidden by others who write on.
    let other = AuditLog::start(&scene.store, None);
    for _ in 0..5 {
        other.append(draft("s")).await.unwrap();
    }
    refused(&sealed).await;
    refused(&unsealed).await;
}

async fn what_others_wrote_meanwhile_is_continued(engine: Engine) {
    let scene = filled(engine, 0).await;
    let sealed = sealed_log(&scene);
    // More than is read at once.
    let unsealed = AuditLog::start(&scene.opened_again().await, None);
    for _ in 0..700 {
        unsealed.append_soon(draft("s")).unwrap();
    }
    unsealed.flush().await.unwrap();
    assert_eq!(sealed.append(draft("s")).await.unwrap().sequence(), 701);
    assert_eq!(sealed_log(&scene).append(draft("s")).await.unwrap().sequence(), 702);
    assert_eq!(unsealed.append(draft("s")).await.unwrap().sequence(), 703);
    assert_eq!(sealed.append(draft("s")).await.unwrap().sequence(), 704);
    let [(_, last)] = &scene.store.audit_vouched_ends(&Word("key")).await.unwrap()[..] else {
        panic!("one chain has an end")
    };
    assert_eq!(last.sequence, 704);
    let verified = scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
    assert_eq!((verified[0].entries, verified[0].sealed), (704, 704));
}

/// That nothing is written behind a log that was tampered with, and what to do is said.
async fn refused(log: &AuditLog) {
    let error = log.append(draft("behind a cut")).await.unwrap_err();
    assert_eq!(error.code(), Code::AuditUnavailable);
    assert!(error.to_string().contains("run keyless audit verify"), "{error}");
}

/// What takes an entry's whole hash out of its text, for `$HASH`.
fn with_hash(engine: Engine, sql: &str) -> String {
    let hash = match engine {
        Engine::Postgres => "entry::jsonb #>> '{chain,entry_hash}'",
        Engine::Sqlite => "json_extract(entry, '$.chain.entry_hash')",
    };
    sql.replace("$HASH", hash)
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_taken_is_lost() {
    let (scene, log) = full().await;
    let mut accepted = 0;
    let error = loop {
        log.append_soon(large_draft("soon")).unwrap();
        match log.append(draft("waits")).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::AuditUnavailable);
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(log.append_soon(draft("refused")).unwrap_err().code(), Code::AuditUnavailable);
    // What is over is taken all the same.
    log.owe(draft("owed"));
    assert_eq!(log.flush().await.unwrap_err().code(), Code::AuditUnavailable);
    make_room(&scene).await;
    log.flush().await.unwrap();
    log.append_soon(draft("again")).unwrap();
    log.flush().await.unwrap();
    let entries = scene.store.audit_query(&AuditQuery::default()).await.unwrap();
    let count =
        |session: &str| entries.iter().filter(|entry| entry.agent.session_id == session).count();
    // The entry that failed is not there: what it would have allowed did not happen.
    assert_eq!((count("waits"), count("soon"), count("again")), (accepted, accepted + 1, 1));
    assert_eq!((count("refused"), count("owed")), (0, 1));
    scene.store.audit_verify(None).await.unwrap();
}

/// Who ends waits for a moment for what it leaves, and no longer.
#[tokio::test]
async fn what_is_owed_at_the_end_is_written_once_there_is_room() {
    let (scene, log) = full().await;
    while log.append(draft("waits")).await.is_ok() {}
    log.owe(draft("owed"));
    log.flush_within(Duration::ZERO).await.unwrap_err();
    let room = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        make_room(&scene).await;
    };
    let (written, ()) = tokio::join!(log.flush_within(Duration::from_secs(20)), room);
    written.unwrap();
    let entries = scene.store.audit_query(&AuditQuery::default()).await.unwrap();
    assert!(entries.iter().any(|entry| entry.agent.session_id == "owed"));
}

/// A store that another process keeps locked holds up a single try for longer than that.
#[tokio::test]
async fn who_ends_waits_no_longer_than_that_for_a_store_that_is_locked() {
    let scene = filled(Engine::Sqlite, 0).await;
    let log = AuditLog::start(&scene.store, None);
    let lock = scene.store.write().await.unwrap();
    log.owe(draft("owed"));
    let flushed = log.flush_within(Duration::from_millis(300));
    let told = tokio::time::timeout(Duration::from_secs(5), flushed).await;
    assert_eq!(told.unwrap().unwrap_err().code(), Code::AuditUnavailable);
    drop(lock);
    log.flush().await.unwrap();
}

/// It is not tried again, but that it was refused is, which finds out that there is room.
#[tokio::test]
async fn an_entry_that_was_refused_does_not_shut_the_log() {
    let (scene, log) = full().await;
    while log.append(large_draft("waits")).await.is_ok() {}
    log.append(large_draft("waits")).await.unwrap_err();
    make_room(&scene).await;
    log.flush().await.unwrap();
    log.check().unwrap();
    log.append_soon(draft("soon")).unwrap();
    log.flush().await.unwrap();
    // That it was so is on record.
    let wanted = AuditQuery { action: Some(Action::LogInterruption), ..AuditQuery::default() };
    assert!(!scene.store.audit_query(&wanted).await.unwrap().is_empty());
}

/// Who asks whether entries are taken is told, before anybody has to be refused again.
#[tokio::test]
async fn a_log_that_could_not_be_written_says_so_until_it_can() {
    let (scene, log) = full().await;
    // To the last bit of room.
    while log.append(draft("waits")).await.is_ok() {}
    log.flush().await.unwrap_err();
    log.check().unwrap_err();
    make_room(&scene).await;
    log.flush().await.unwrap();
    log.check().unwrap();
}

/// A store for which the disk is full, and its log.
async fn full() -> (Scene, AuditLog) {
    let scene = filled(Engine::Sqlite, 0).await;
    fill(&scene).await;
    let options = StoreOptions { max_pages: Some(1) };
    let store = Store::open_with(scene.place(), options).await.unwrap();
    (scene, AuditLog::start(&store, None))
}

/// Fits on no disk on which a small one did not.
fn large_draft(session: &str) -> Draft {
    let mut draft = draft(session);
    draft.detail.note = Some("x".repeat(20_000));
    draft
}

fn filler() -> (SecretRow, VersionRow) {
    let path = SecretPath::parse("a/b/filler").unwrap();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let metadata = "{}".to_owned();
    let (nonce, ciphertext) = (vec![0; 24], vec![7; 400_000]);
    let secret = SecretRow {
        path: path.clone(),
        format: 1,
        metadata,
        created_at: at,
        updated_at: at,
        current: None,
        removed_at: None,
    };
    (secret, VersionRow { path, version: 1, nonce, ciphertext, created_at: at })
}

async fn fill(scene: &Scene) {
    let (secret, version) = filler();
    let mut writing = scene.store.write().await.unwrap();
    writing.insert_secret(&secret).await.unwrap();
    writing.insert_version(&version).await.unwrap();
    writing.commit().await.unwrap();
}

async fn make_room(scene: &Scene) {
    let mut writing = scene.store.write().await.unwrap();
    writing.remove_secret(&filler().0.path).await.unwrap();
    writing.commit().await.unwrap();
}
