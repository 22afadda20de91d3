//! The way on after a log that was cut or changed: what is found is put aside, told for good, and guarded where it is.

use std::{fs, path::PathBuf};

use keyless_core::audit::{Action, Checkpoint, Draft, Segment, Tampered};
use keyless_store::{AcceptedBreak, AuditLog, AuditQuery, Fit, LogError, MissedEnd, VerifiedChain};

use crate::scene::{Engine, Scene, Word, draft, filled, in_its_chain, on_both, sealed_log};

on_both! {
    the_log_goes_on_behind_each_break
    what_was_put_aside_is_guarded
    a_closed_part_that_is_gone_is_accepted_by_itself
    what_lies_behind_a_bad_row_is_kept
    an_end_that_only_a_checkpoint_knows_is_not_reached_again
    keys_that_were_taken_away_are_put_back
    a_torn_file_is_read_but_for_what_is_torn
    who_was_running_goes_on_behind_what_nothing_else_knew
    a_chain_whose_end_was_taken_away_is_missed
}

const KEY: Word = Word("key");
const KEEP: &str = "CREATE TABLE kept AS SELECT * FROM audit; \
    CREATE TABLE kept_head AS SELECT * FROM audit_head";
const PUT_BACK: &str = "DELETE FROM audit; DELETE FROM audit_head; DELETE FROM audit_segments; \
    INSERT INTO audit_head SELECT * FROM kept_head; INSERT INTO audit SELECT * FROM kept";

fn marker(note: String) -> Draft {
    let mut marker = draft("operator");
    marker.action = Action::LogBreakAccepted;
    marker.detail.note = Some(note);
    marker
}

async fn accept(scene: &Scene, missed: &[MissedEnd]) -> Vec<AcceptedBreak> {
    scene.store.audit_accept_breaks(&marker, missed, &KEY).await.unwrap()
}

async fn verified(scene: &Scene) -> Result<VerifiedChain, LogError> {
    scene.store.audit_verify(None).await?;
    Ok(scene.store.audit_verify(Some(&KEY)).await?.remove(0))
}

async fn the_log_goes_on_behind_each_break(engine: Engine) {
    // What was done, what is said of it, the first and the last number, and how many entries are there and genuine.
    let cases = [
        (
            "UPDATE audit SET entry = replace(entry, 'success', 'error') WHERE sequence = 7",
            "changed at entry 7",
            (7, 21),
            (21, 20),
        ),
        ("DELETE FROM audit WHERE sequence = 5", "misses entry 5", (5, 21), (20, 20)),
        (
            "UPDATE audit SET entry = 'x' || entry WHERE sequence = 7",
            "at entry 7",
            (7, 21),
            (21, 20),
        ),
        (
            "DELETE FROM audit WHERE sequence > 3; \
             UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 3)",
            "ends at entry 3 but had 21",
            (4, 21),
            (3, 3),
        ),
        ("UPDATE audit_head SET last = 'nothing'", "last entry was replaced", (22, 21), (21, 21)),
        ("UPDATE audit_head SET seal = NULL", "seal", (22, 21), (21, 21)),
    ];
    let scene = filled(engine, 20).await;
    scene.behind_its_back(KEEP).await;
    for (sql, found, (from, to), (entries, genuine)) in cases {
        let running = sealed_log(&scene);
        running.append(draft("before")).await.unwrap();
        scene.behind_its_back(sql).await;
        verified(&scene).await.unwrap_err();
        let accepted = accept(&scene, &[]).await;
        let [AcceptedBreak { words, part: Some(part) }] = &*accepted else {
            panic!("{accepted:?}")
        };
        assert!(words.contains(found) && words.contains(&part.file), "{sql}: {words}");
        let seen = part.broken.as_ref().unwrap();
        assert_eq!((seen.from, part.last_sequence), (from, to), "{sql}");
        assert_eq!((seen.entries, seen.genuine), (entries, genuine), "{sql}");
        // Whoever was running goes on as well, with the next number.
        assert_eq!(running.append(draft("after")).await.unwrap().sequence(), 23, "{sql}");
        let chain = verified(&scene).await.unwrap();
        assert_eq!((chain.entries, &chain.breaks[..]), (23, std::slice::from_ref(part)), "{sql}");
        assert_eq!(accept(&scene, &[]).await, [], "{sql}");
        let told = AuditQuery { action: Some(Action::LogBreakAccepted), ..AuditQuery::default() };
        let told = scene.store.audit_query(&told).await.unwrap();
        assert_eq!(
            (told.len(), told[0].sequence, told[0].detail.note.as_ref()),
            (1, 22, Some(words))
        );
        // It is closed as any other part is.
        let mut marker = draft("broker");
        marker.action = Action::LogRotation;
        let marker = running.append(marker).await.unwrap().sequence();
        scene.store.audit_close(marker, &KEY).await.unwrap();
        assert_eq!(verified(&scene).await.unwrap().breaks.len(), 1, "{sql}");
        scene.behind_its_back(PUT_BACK).await;
    }
    verified(&scene).await.unwrap();
}

fn file_of(scene: &Scene, segment: &Segment) -> PathBuf {
    scene.folder.path().join("home/audit").join(&segment.chain).join(&segment.file)
}

async fn what_was_put_aside_is_guarded(engine: Engine) {
    let scene = filled(engine, 5).await;
    scene.behind_its_back("DELETE FROM audit WHERE sequence = 2").await;
    let accepted = accept(&scene, &[]).await.remove(0).part.unwrap();
    let file = file_of(&scene, &accepted);
    let sound = fs::read(&file).unwrap();
    // The break is hidden, by somebody without the key.
    for sql in [
        "UPDATE audit_segments SET record = replace(record, 'misses', 'has')",
        "DELETE FROM audit_segments",
    ] {
        scene.behind_its_back("CREATE TABLE kept AS SELECT * FROM audit_segments").await;
        scene.behind_its_back(sql).await;
        scene.store.audit_verify(Some(&KEY)).await.unwrap_err();
        scene.behind_its_back("DELETE FROM audit_segments").await;
        scene
            .behind_its_back("INSERT INTO audit_segments SELECT * FROM kept; DROP TABLE kept")
            .await;
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, &sound[1..]).unwrap();
    let changed = verified(&scene).await.unwrap_err();
    assert!(matches!(in_its_chain(&changed), LogError::SegmentChanged { .. }), "{changed:?}");
    let again = accept(&scene, &[]).await.remove(0).part.unwrap();
    assert_ne!(again.file_hash, accepted.file_hash);
    assert_eq!(again.end(), accepted.end(), "the chain goes on over it");
    assert_eq!(verified(&scene).await.unwrap().breaks, [again]);
    // Questions pass over what is no entry.
    let all = scene.store.audit_query(&AuditQuery::default()).await.unwrap();
    assert_eq!(all.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
}

/// As a machine that loses power leaves it, or a disk that fails.
async fn a_torn_file_is_read_but_for_what_is_torn(engine: Engine) {
    let scene = filled(engine, 5).await;
    let closed = close(&scene).await;
    let file = file_of(&scene, &closed);
    let mut torn = fs::read(&file).unwrap();
    torn.truncate(torn.len() - 20);
    torn[40] = 0xff;
    // One that says that it is far behind, and would end each reading in pages.
    let line =
        String::from_utf8(torn.split(|byte| *byte == b'\n').nth(1).unwrap().to_vec()).unwrap();
    let forged = line.replace("\"sequence\":2", "\"sequence\":9000000000000000000");
    assert_ne!(forged, line);
    torn.splice(0..0, format!("{forged}\n").into_bytes());
    fs::remove_file(&file).unwrap();
    fs::write(&file, &torn).unwrap();
    verified(&scene).await.unwrap_err();
    assert_eq!(accept(&scene, &[]).await.len(), 1);
    verified(&scene).await.unwrap();
    let all = scene.store.audit_query(&AuditQuery::default()).await.unwrap();
    assert_eq!(all.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [2, 3, 4, 5, 7]);
    assert_eq!(scene.store.audit_tail(10).await.unwrap(), all);
}

/// What a broker wrote behind the last checkpoint is gone with the rest, and nobody's word is left that it was there.
async fn who_was_running_goes_on_behind_what_nothing_else_knew(engine: Engine) {
    const CUT: &str = "DELETE FROM audit WHERE sequence > 5; DELETE FROM audit_head; \
        INSERT INTO audit_head SELECT * FROM kept_head";
    let scene = filled(engine, 5).await;
    scene.behind_its_back(KEEP).await;
    let running = sealed_log(&scene);
    let go_on = |log: &AuditLog| {
        let log = log.clone();
        async move { log.append(draft("on")).await }
    };
    for _ in 0..5 {
        go_on(&running).await.unwrap();
    }
    let cut = match engine {
        Engine::Sqlite => CUT.to_owned(),
        // A row that others name has to stay.
        Engine::Postgres => CUT.replace(
            "DELETE FROM audit_head; INSERT INTO audit_head SELECT * FROM kept_head",
            "UPDATE audit_head SET last = k.last, sealed_sequence = k.sealed_sequence, \
             sealed_hash = k.sealed_hash, seal = k.seal, key_number = k.key_number FROM kept_head k",
        ),
    };
    scene.behind_its_back(&cut).await;
    go_on(&running).await.unwrap_err();
    // A checkpoint of elsewhere knows less than the broker does.
    let missed = MissedEnd { sequence: 6, found: "the checkpoint at entry 6 does not fit".into() };
    accept(&scene, &[missed]).await;
    assert_eq!(go_on(&running).await.unwrap().sequence(), 8);
    verified(&scene).await.unwrap();
    // That was for this break alone.
    scene.behind_its_back("DELETE FROM audit WHERE sequence = 8").await;
    scene
        .behind_its_back(
            "UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 7)",
        )
        .await;
    go_on(&running).await.unwrap_err();
}

/// A row that tells of a closed part is no word for a chain of which there is nothing else.
async fn a_chain_whose_end_was_taken_away_is_missed(engine: Engine) {
    let scene = filled(engine, 5).await;
    close(&scene).await;
    let last = scene.store.audit_tail(1).await.unwrap().remove(0);
    verified(&scene).await.unwrap();
    for sql in [
        "INSERT INTO audit_segments SELECT 'elsewhere', last_sequence, \
         replace(record, '\"chain\":\"', '\"chain\":\"elsewhere'), seal FROM audit_segments",
        "INSERT INTO audit_segments SELECT 'elsewhere', last_sequence, record, seal FROM audit_segments",
    ] {
        scene.behind_its_back(sql).await;
        let found = verified(&scene).await.unwrap_err();
        assert!(matches!(in_its_chain(&found), LogError::Head), "{sql}: {found:?}");
        // What was signed of it is not only somewhere else.
        let signed = Checkpoint::of("elsewhere", &last, "c".into(), "k".into(), "t".into());
        let fits = scene.store.audit_fits(&signed, Some(&KEY)).await;
        assert!(!matches!(fits, Ok(Fit::NotHere)), "{sql}: {fits:?}");
        scene.behind_its_back("DELETE FROM audit_segments WHERE chain = 'elsewhere'").await;
    }
    verified(&scene).await.unwrap();
}

/// One byte that a disk has changed; a server takes none such.
#[tokio::test]
async fn a_row_that_is_no_text_is_told_and_accepted() {
    let scene = filled(Engine::Sqlite, 5).await;
    let running = sealed_log(&scene);
    running.append(draft("before")).await.unwrap();
    let sql =
        "UPDATE audit SET entry = CAST(x'ff' || CAST(entry AS BLOB) AS TEXT) WHERE sequence = 4";
    scene.behind_its_back(sql).await;
    let found = verified(&scene).await.unwrap_err();
    let LogError::Tampered(Tampered::Unreadable { sequence: 4 }) = in_its_chain(&found) else {
        panic!("{found:?}")
    };
    let accepted = accept(&scene, &[]).await.remove(0).part.unwrap();
    assert_eq!(accepted.broken.as_ref().unwrap().genuine, 5);
    let kept = fs::read(file_of(&scene, &accepted)).unwrap();
    assert!(kept.contains(&0xff), "as it stood");
    running.append(draft("after")).await.unwrap();
    verified(&scene).await.unwrap();
    let all = scene.store.audit_query(&AuditQuery::default()).await.unwrap();
    assert_eq!(all.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7, 8]);
}

/// Closes what is open.
async fn close(scene: &Scene) -> Segment {
    let mut marker = draft("broker");
    marker.action = Action::LogRotation;
    let marker = sealed_log(scene).append(marker).await.unwrap().sequence();
    scene.store.audit_close(marker, &KEY).await.unwrap()
}

async fn a_closed_part_that_is_gone_is_accepted_by_itself(engine: Engine) {
    let scene = filled(engine, 5).await;
    let log = sealed_log(&scene);
    let mut closed = Vec::new();
    for _ in 0..2 {
        let mut marker = draft("broker");
        marker.action = Action::LogRotation;
        let marker = log.append(marker).await.unwrap().sequence();
        closed.push(scene.store.audit_close(marker, &KEY).await.unwrap());
    }
    log.append(draft("later")).await.unwrap();
    fs::remove_file(file_of(&scene, &closed[0])).unwrap();
    verified(&scene).await.unwrap_err();
    let accepted = accept(&scene, &[]).await;
    assert!(accepted[0].words.contains("nothing of them is left"), "{accepted:?}");
    assert_eq!(log.append(draft("on")).await.unwrap().sequence(), 10);
    let chain = verified(&scene).await.unwrap();
    assert_eq!((chain.entries, chain.breaks.len(), chain.vouching.with), (10, 1, 4));
    // The rows about both are taken away: of what they said there is nothing left to go by.
    scene.behind_its_back("DELETE FROM audit_segments").await;
    verified(&scene).await.unwrap_err();
    let accepted = accept(&scene, &[]).await.remove(0).part.unwrap();
    assert_eq!((accepted.first_sequence, accepted.last_sequence), (1, 10));
    assert_eq!(log.append(draft("on")).await.unwrap().sequence(), 12);
    assert_eq!(verified(&scene).await.unwrap().breaks.len(), 1);
}

async fn what_lies_behind_a_bad_row_is_kept(engine: Engine) {
    let cases = [
        ("DELETE FROM audit_segments WHERE last_sequence = {1}", Some(1), true),
        (
            "UPDATE audit_segments SET seal = (SELECT seal FROM audit_segments WHERE last_sequence = {0}) \
             WHERE last_sequence = {1}",
            Some(1),
            true,
        ),
        ("UPDATE audit_segments SET record = 'no' WHERE last_sequence = {0}", Some(0), false),
        // A row too many.
        (
            "INSERT INTO audit_segments SELECT chain, last_sequence + 1, record, seal \
             FROM audit_segments WHERE last_sequence = {0}",
            None,
            true,
        ),
    ];
    for (sql, missing, has_file) in cases {
        let scene = filled(engine, 5).await;
        let log = sealed_log(&scene);
        let mut closed = Vec::new();
        for _ in 0..3 {
            log.append(draft("more")).await.unwrap();
            let mut marker = draft("broker");
            marker.action = Action::LogRotation;
            let marker = log.append(marker).await.unwrap().sequence();
            closed.push(scene.store.audit_close(marker, &KEY).await.unwrap());
        }
        log.append(draft("later")).await.unwrap();
        let before = verified(&scene).await.unwrap();
        let number = |at: usize| closed[at].last_sequence.to_string();
        let sql = sql.replace("{0}", &number(0)).replace("{1}", &number(1));
        if !has_file {
            fs::remove_file(file_of(&scene, &closed[0])).unwrap();
        }
        scene.behind_its_back(&sql).await;
        verified(&scene).await.unwrap_err();
        let accepted = accept(&scene, &[]).await;
        assert_eq!(accepted.len(), 1, "{sql}: {accepted:?}");
        let part = accepted[0].part.clone();
        assert_eq!(part.is_some(), missing.is_some(), "{sql}: {accepted:?}");
        if let (Some(part), Some(at)) = (&part, missing) {
            // The file that the row was about is there as it was, and told; all others are what they were.
            let Segment { first_sequence, last_sequence, .. } = closed[at];
            assert_eq!((part.first_sequence, part.last_sequence), (first_sequence, last_sequence));
            assert_eq!(part.removed_at.is_none(), has_file, "{sql}");
            if has_file {
                assert_eq!(
                    (&part.file, &part.file_hash),
                    (&closed[at].file, &closed[at].file_hash)
                );
            }
        }
        let kept = scene.store.audit_segments().await.unwrap();
        let as_they_were = kept.iter().filter(|one| closed.contains(one)).count();
        assert_eq!((kept.len(), as_they_were), (3, 3 - missing.iter().count()), "{sql}");
        let chain = verified(&scene).await.unwrap();
        assert_eq!(chain.entries, before.entries + 1, "{sql}");
        assert_eq!(chain.breaks, part.into_iter().collect::<Vec<_>>(), "{sql}");
        assert_eq!(accept(&scene, &[]).await, [], "{sql}");
        assert_eq!(log.append(draft("on")).await.unwrap().sequence(), before.entries + 2);
    }
}

async fn an_end_that_only_a_checkpoint_knows_is_not_reached_again(engine: Engine) {
    let scene = filled(engine, 5).await;
    let mut last = scene.store.audit_tail(1).await.unwrap().remove(0);
    (last.sequence, last.chain.hash) = (30, "sha256:another".to_owned());
    let chain = scene.store.audit_chain();
    let signed = Checkpoint::of(chain, &last, "c".into(), "k".into(), "t".into());
    assert_eq!(scene.store.audit_fits(&signed, None).await.unwrap(), Fit::Unfit);
    let found = "the checkpoint at entry 30 does not fit".to_owned();
    let accepted = accept(&scene, &[MissedEnd { sequence: 30, found: found.clone() }]).await;
    let part = accepted[0].part.as_ref().unwrap();
    let seen = part.broken.as_ref().unwrap();
    assert_eq!((part.last_sequence, &seen.found, seen.genuine), (30, &found, 5));
    assert_eq!(scene.store.audit_fits(&signed, None).await.unwrap(), Fit::NotHere);
    assert_eq!(verified(&scene).await.unwrap().entries, 31);
}

async fn keys_that_were_taken_away_are_put_back(engine: Engine) {
    let scene = filled(engine, 2).await;
    scene.store.audit_change_key(draft("operator"), &KEY).await.unwrap();
    scene.behind_its_back("DELETE FROM audit_keys").await;
    verified(&scene).await.unwrap_err();
    let accepted = accept(&scene, &[]).await;
    assert!(matches!(&accepted[..], [AcceptedBreak { part: None, .. }]), "{accepted:?}");
    sealed_log(&scene).append(draft("on")).await.unwrap();
    let chain = verified(&scene).await.unwrap();
    assert_eq!((chain.vouching.with, chain.breaks.len()), (5, 0));
    assert_eq!(chain.vouching.keys.unwrap().1.to_string(), "log-2");
}
