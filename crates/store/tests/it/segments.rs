//! Closed parts of the log: moved to files whole, found wherever they are, and guarded there as in the database.

use std::{
    fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command, thread, time::Duration,
};

use jiff::Timestamp;
use keyless_core::audit::{Action, Checkpoint, Segment, Tampered};
use keyless_store::{AuditLog, AuditQuery, Fit, LogError, StoreError};

use crate::scene::{Engine, Scene, Word, draft, filled, in_its_chain, on_both, sealed_log};

on_both! {
    a_closed_part_is_in_a_file_and_everything_goes_on
    a_writer_that_knows_an_older_end_goes_on
    every_change_of_a_closed_part_is_found
    what_was_kept_long_enough_is_removed
    a_log_that_was_cut_is_not_closed
}

const KEY: Word = Word("key");

/// Closes the log behind a marker.
async fn close(scene: &Scene, log: &AuditLog) -> Segment {
    let mut marker = draft("broker");
    marker.action = Action::LogRotation;
    let marker = log.append(marker).await.unwrap().sequence();
    scene.store.audit_close(marker, &KEY).await.unwrap()
}

fn file_of(scene: &Scene, segment: &Segment) -> PathBuf {
    let folder = scene.folder.path().join("home/audit");
    folder.join(&segment.chain).join(&segment.file)
}

async fn numbers(scene: &Scene, wanted: AuditQuery) -> Vec<u64> {
    let entries = scene.store.audit_query(&wanted).await.unwrap();
    entries.iter().map(|entry| entry.sequence).collect()
}

async fn a_closed_part_is_in_a_file_and_everything_goes_on(engine: Engine) {
    let scene = filled(engine, 700).await;
    let log = sealed_log(&scene);
    let first = close(&scene, &log).await;
    assert_eq!((first.first_sequence, first.last_sequence), (1, 701));
    let file = file_of(&scene, &first);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 701);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    assert_eq!(scene.store.audit_open_part().await.unwrap(), None);
    scene.store.audit_verify(Some(&KEY)).await.unwrap();

    log.append(draft("later")).await.unwrap();
    let second = close(&scene, &log).await;
    assert_eq!((second.first_sequence, second.last_sequence), (702, 703));
    log.append(draft("later")).await.unwrap();
    assert_eq!(scene.store.audit_open_part().await.unwrap().map(|(count, _)| count), Some(1));
    assert_eq!(scene.store.audit_segments().await.unwrap(), [first, second]);
    let verified = scene.store.audit_verify(Some(&KEY)).await.unwrap();
    assert_eq!((verified[0].entries, verified[0].removed, verified[0].sealed), (704, 0, 704));

    let tail = scene.store.audit_tail(5).await.unwrap();
    let tail: Vec<_> = tail.iter().map(|entry| entry.sequence).collect();
    assert_eq!(tail, [700, 701, 702, 703, 704]);
    let all = AuditQuery::default;
    assert_eq!(numbers(&scene, AuditQuery { after: Some(699), ..all() }).await.len(), 5);
    let first_two = AuditQuery { limit: Some(2), ..all() };
    assert_eq!(numbers(&scene, first_two).await, [1, 2]);
    let later = AuditQuery { session: Some("later".to_owned()), ..all() };
    assert_eq!(numbers(&scene, later.clone()).await, [702, 704]);
    let text = AuditQuery { text: Some("later".to_owned()), ..all() };
    assert_eq!(numbers(&scene, text).await, [702, 704]);
    let newest = AuditQuery { newest: true, limit: Some(1), ..later };
    assert_eq!(numbers(&scene, newest).await, [704]);
    let rotations = AuditQuery { action: Some(Action::LogRotation), newest: true, ..all() };
    assert_eq!(numbers(&scene, rotations).await, [701, 703]);
    let fit = async |number: u64| {
        let ends = scene.store.audit_ends().await.unwrap();
        let entries = AuditQuery { after: Some(number - 1), limit: Some(1), ..all() };
        let entry = scene.store.audit_query(&entries).await.unwrap().pop().unwrap();
        let chain = &ends[0].0;
        let mut signed = Checkpoint::of(chain, &entry, "c".into(), "k".into(), "t".into());
        let fits = scene.store.audit_fits(&signed, None).await.unwrap();
        signed.last_hash = signed.last_entry_hash.clone();
        (fits, scene.store.audit_fits(&signed, None).await.unwrap())
    };
    for number in [5, 701, 704] {
        assert_eq!(fit(number).await, (Fit::Fits, Fit::Unfit), "{number}");
    }
}

/// Another process closes the log while this one is running, and while one without the key is.
async fn a_writer_that_knows_an_older_end_goes_on(engine: Engine) {
    let scene = filled(engine, 5).await;
    let (running, locked) = (sealed_log(&scene), AuditLog::start(&scene.store, None));
    running.append(draft("running")).await.unwrap();
    locked.append(draft("locked")).await.unwrap();
    let other = AuditLog::start(&scene.opened_again().await, Some(std::sync::Arc::new(KEY)));
    close(&scene, &other).await;
    running.append(draft("running")).await.unwrap();
    locked.append(draft("locked")).await.unwrap();
    running.append(draft("running")).await.unwrap();
    let verified = scene.store.audit_verify(Some(&KEY)).await.unwrap();
    assert_eq!(verified[0].entries, 11);
}

/// Each is done by somebody who may write the database and the folder, and has no key.
async fn every_change_of_a_closed_part_is_found(engine: Engine) {
    let scene = filled(engine, 20).await;
    let log = sealed_log(&scene);
    let segment = close(&scene, &log).await;
    log.append(draft("later")).await.unwrap();
    let file = file_of(&scene, &segment);
    let sound = fs::read(&file).unwrap();
    let found = async |key: Option<&Word>| {
        let key = key.map(|word| word as &dyn keyless_store::HeadSealer);
        let error = scene.store.audit_verify(key).await.unwrap_err();
        match in_its_chain(&error) {
            LogError::Tampered(Tampered::Truncated { .. }) => "truncated",
            LogError::Tampered(Tampered::Gap { .. }) => "gap",
            LogError::Tampered(Tampered::Changed { .. }) => "changed",
            LogError::Tampered(Tampered::Unlinked { .. }) => "unlinked",
            LogError::Tampered(Tampered::Misplaced { .. }) => "misplaced",
            LogError::Tampered(Tampered::Unreadable { .. }) => "unreadable",
            LogError::SegmentChanged { .. } => "file",
            LogError::SegmentMissing { .. } => "missing",
            LogError::SegmentSeal { .. } => "seal",
            other => panic!("{other:?}"),
        }
    };
    let text = String::from_utf8(sound.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let without = |left: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != left);
        kept.flat_map(|(_, line)| [*line, "\n"]).collect::<String>()
    };
    for (changed, expected) in [
        (text.replacen("GET", "PUT", 1), "changed"),
        (text.replacen('{', "{ ", 1), "unreadable"),
        (without(3), "misplaced"),
        (without(20), "truncated"),
        (format!("{text}x"), "file"),
    ] {
        rewrite(&file, changed.as_bytes());
        let told = found(None).await;
        // A text in another form is read as an older entry would be, which its hash tells.
        assert!(told == expected || (expected == "unreadable" && told == "changed"), "{told}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(found(None).await, "missing");
    rewrite(&file, &sound);
    scene.store.audit_verify(Some(&KEY)).await.unwrap();

    scene.behind_its_back("CREATE TABLE kept AS SELECT * FROM audit_segments").await;
    scene.behind_its_back("CREATE TABLE kept_rows AS SELECT * FROM audit").await;
    // Said to be removed, to hide it.
    let removed = "UPDATE audit_segments SET record = replace(record, '\"}', \
        '\",\"removed_at\":\"2026-01-01T00:00:00.000Z\"}')";
    for (sql, expected) in [
        (removed, "seal"),
        ("DELETE FROM audit_segments", "gap"),
        (
            "UPDATE audit SET entry = replace(entry, 'log_rotation', 'egress') WHERE sequence = 21",
            "changed",
        ),
        (
            "INSERT INTO audit (chain, sequence, entry) SELECT chain, 20, entry FROM audit WHERE sequence = 21",
            "misplaced",
        ),
        ("DELETE FROM audit WHERE sequence = 21", "unlinked"),
    ] {
        scene.behind_its_back(sql).await;
        assert_eq!(found(Some(&KEY)).await, expected, "{sql}");
        scene.behind_its_back("DELETE FROM audit_segments").await;
        scene.behind_its_back("INSERT INTO audit_segments SELECT * FROM kept").await;
        scene.behind_its_back("DELETE FROM audit").await;
        scene.behind_its_back("INSERT INTO audit SELECT * FROM kept_rows").await;
    }
    scene.store.audit_verify(Some(&KEY)).await.unwrap();
}

fn rewrite(file: &std::path::Path, bytes: &[u8]) {
    let _ = fs::remove_file(file);
    fs::write(file, bytes).unwrap();
}

async fn what_was_kept_long_enough_is_removed(engine: Engine) {
    let scene = filled(engine, 5).await;
    let log = sealed_log(&scene);
    let segment = close(&scene, &log).await;
    log.append(draft("later")).await.unwrap();
    let first = scene.store.audit_tail(10).await.unwrap().swap_remove(0);
    let signed = Checkpoint::of(&segment.chain, &first, "c".into(), "k".into(), "t".into());
    let epoch = Timestamp::UNIX_EPOCH;
    assert_eq!(scene.store.audit_remove_closed(epoch, &KEY).await.unwrap(), []);
    assert!(file_of(&scene, &segment).exists());
    let removed = scene.store.audit_remove_closed(Timestamp::MAX, &KEY).await.unwrap();
    assert_eq!(removed.len(), 1);
    assert!(!file_of(&scene, &segment).exists());
    let verified = scene.store.audit_verify(Some(&KEY)).await.unwrap();
    assert_eq!((verified[0].entries, verified[0].removed), (7, 6));
    assert_eq!(numbers(&scene, AuditQuery::default()).await, [7]);
    assert_eq!(scene.store.audit_fits(&signed, None).await.unwrap(), Fit::NotHere);
}

async fn a_log_that_was_cut_is_not_closed(engine: Engine) {
    let scene = filled(engine, 20).await;
    scene.behind_its_back("DELETE FROM audit WHERE sequence = 7").await;
    let error = scene.store.audit_close(20, &KEY).await.unwrap_err();
    assert!(matches!(in_its_chain(&error), LogError::Tampered(_)), "{error:?}");
    assert_eq!(scene.store.audit_segments().await.unwrap(), []);
    let folder = fs::read_dir(scene.folder.path().join("home/audit")).unwrap();
    assert!(folder.flatten().all(|entry| entry.path().is_dir()), "no half-written file is left");
}

/// The end with its seal is left as it was: what somebody without the key wrote before it is not closed as a part of the log.
/// In a file alone, where one statement carries rows over from another store; what judges them is the same for both engines.
#[tokio::test]
async fn entries_in_the_place_of_others_are_not_closed() {
    let (scene, forged) = (filled(Engine::Sqlite, 20).await, Scene::new(Engine::Sqlite).await);
    let log = AuditLog::start(&forged.store, None);
    for _ in 0..20 {
        log.append(draft("other")).await.unwrap();
    }
    let file = forged.folder.path().join("home/store.db");
    let swap = format!(
        "ATTACH '{}' AS forged; DELETE FROM audit; INSERT INTO audit SELECT * FROM forged.audit",
        file.display()
    );
    scene.behind_its_back(&swap).await;
    let error = scene.store.audit_close(20, &KEY).await.unwrap_err();
    assert!(matches!(error, LogError::Store(StoreError::LogTampered)), "{error:?}");
    assert_eq!(scene.store.audit_segments().await.unwrap(), []);
}

/// A log with one closed part, whose file is read for longer than a server leaves a transaction alone.
async fn slowly_read() -> Scene {
    let scene = filled(Engine::Postgres, 5).await;
    let segment = close(&scene, &sealed_log(&scene)).await;
    let file = file_of(&scene, &segment);
    let entries = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(22));
        fs::write(file, entries)
    });
    scene
}

#[tokio::test]
async fn files_that_take_long_to_verify_end_no_transaction() {
    let (first, second) = (slowly_read().await, slowly_read().await);
    let marker = |_| draft("broker");
    let verified = first.store.audit_verify(Some(&KEY));
    let accepted = second.store.audit_accept_breaks(&marker, &[], &KEY);
    let (verified, accepted) = tokio::join!(verified, accepted);
    assert_eq!(verified.unwrap()[0].entries, 6);
    assert_eq!(accepted.unwrap(), []);
}
