use keyless_store::AuditQuery;

use super::*;
use crate::scene::Scene;

#[tokio::test]
async fn the_same_asked_many_times_at_once_is_one_request_and_one_entry() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    let ask = || requests.ask("ses-1", Some(&path), Asked::provision(), None);
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    let ids = [one, two, three].map(|request| request.unwrap().id);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(requests.all().await.unwrap().len(), 1);
    assert_eq!(entries(&scene).await, 1);
}

/// An agent that asks again with less time means that: the person's answer would come too late for it.
#[tokio::test]
async fn the_same_asked_with_less_time_waits_no_longer() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    let ask = async |life: Option<i64>| {
        let life = life.map(SignedDuration::from_secs);
        requests.ask("ses-1", Some(&path), Asked::provision(), life).await.unwrap()
    };
    let first = ask(None).await;
    let left = |request: &Request| Timestamp::now().duration_until(request.expires_at).as_secs();
    let narrowed = ask(Some(60)).await;
    assert!(narrowed.id == first.id && left(&narrowed) <= 60, "{narrowed:?}");
    // It never gets more again, and what the store has is genuine.
    for life in [None, Some(120)] {
        assert_eq!(ask(life).await, narrowed);
    }
    let other = Requests::new(&scene.vault, scene.log.clone());
    assert_eq!(other.poll("ses-1", &first.id).await.unwrap(), narrowed);
    other.settle(&first.id, Decision::Cancel).await.unwrap();
    assert_eq!(entries(&scene).await, 1);
}

#[tokio::test]
async fn who_leaves_while_asking_leaves_no_request_that_is_not_on_record() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    // At every moment of it.
    for step in 0..40 {
        let session = format!("ses-{step}");
        let ask = requests.ask(&session, Some(&path), Asked::provision(), None);
        let _ = tokio::time::timeout(Duration::from_micros(step * 100), ask).await;
    }
    assert!(requests.all().await.unwrap().len() <= entries(&scene).await);
}

#[tokio::test]
async fn a_name_that_another_request_shows_is_drawn_anew() {
    let scene = Scene::new().await;
    let path = SecretPath::parse("team/a/key").unwrap();
    let make = |full_id| {
        let (path, now) = (Some(path.clone()), Timestamp::now());
        Request::new(full_id, path, Asked::provision(), "ses-1", None, now)
    };
    let id = |text| Ok(FullRequestId::parse(text).unwrap());
    let (first, same_name, free) = (
        "010203abcdef00000000000000000000",
        "010203abcdef11111111111111111111",
        "010203abcdee00000000000000000000",
    );
    // Of another broker, which shares no more than the store.
    let other = Requests::new(&scene.vault, scene.log.clone());
    let before = other.admit(make, || id(first)).await.unwrap();
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let mut draws = [same_name, free].into_iter();
    let new = requests.admit(make, || id(draws.next().unwrap())).await.unwrap();
    assert_eq!(new.id.as_str(), "prov-010203abcdee");
    assert_eq!(requests.all().await.unwrap(), [before, new]);
    let ever_taken = requests.admit(make, || id(same_name)).await.unwrap_err();
    assert_eq!(ever_taken.code(), Code::Internal);
    assert_eq!(entries(&scene).await, 2, "what was not asked is not in the log");
}

/// A clock that is set back makes nothing wait again.
#[tokio::test]
async fn what_was_seen_expired_stays_so() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let made = Timestamp::now() - SignedDuration::from_hours(2);
    let path = SecretPath::parse("team/a/key").unwrap();
    let request = |full_id| {
        Request::new(full_id, Some(path.clone()), Asked::provision(), "ses-1", None, made)
    };
    let id = requests.admit(request, draw).await.unwrap().id;
    let seen = requests.poll("ses-1", &id).await.unwrap();
    let then = made + SignedDuration::from_secs(1);
    assert_eq!(
        (seen.status(Timestamp::now()), seen.status(then)),
        (Status::Expired, Status::Expired)
    );
    // In the store as well, and its seal fits.
    let other = Requests::new(&scene.vault, scene.log.clone());
    assert_eq!(other.poll("ses-1", &id).await.unwrap().status(then), Status::Expired);
    let late = other.settle(&id, Decision::Cancel).await.unwrap_err();
    assert_eq!(late.code(), Code::RequestSettled);
}

#[tokio::test]
async fn a_request_is_128_bits_in_the_store_and_in_the_log() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    let asked = requests.ask("ses-1", Some(&path), Asked::provision(), None).await.unwrap();
    let kept = requests.pending(&asked.id).await.unwrap().full_id.unwrap();
    assert_eq!((kept.as_str().len() * 4, kept.name()), (128, asked.id.clone()));
    requests.settle(&asked.id, Decision::Cancel).await.unwrap();
    scene.log.flush().await.unwrap();
    let entries = scene.vault.store().audit_query(&AuditQuery::default()).await.unwrap();
    let about: Vec<_> =
        entries.iter().filter(|entry| entry.correlation_id == asked.id.as_str()).collect();
    assert_eq!(about.len(), 2);
    assert!(about.iter().all(|e| e.detail.request_id.as_deref() == Some(kept.as_str())));
}

#[tokio::test]
async fn a_request_from_before_there_were_128_bits_is_answered_as_ever() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = Some(SecretPath::parse("team/a/key").unwrap());
    let new = Request::new(draw().unwrap(), path, Asked::provision(), "s", None, Timestamp::now());
    let old = Request { full_id: None, ..new };
    // The words that were sealed then.
    let Request { id, path, asked, session, created_at, expires_at, settled, .. } = &old;
    let all = (id, path, session, asked, created_at, expires_at, settled);
    let seal = requests.voucher.seal(&serde_json::to_vec(&all).unwrap());
    let row = RequestRow { request: old.clone(), seal };
    scene.vault.store().insert_request(&row, Told::nothing()).await.unwrap();
    let settled = requests.settle(&old.id, Decision::Cancel).await.unwrap();
    assert_eq!(settled.status(Timestamp::now()), Status::Cancelled);
}

/// It holds for nobody here at once; that the store does not know yet is told, and mended by taking it back again.
#[tokio::test]
async fn what_is_taken_back_is_written_by_another_try() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    let ask = async |reason: &str| {
        let asked = Asked::use_approval(reason.to_owned());
        let asked = requests.ask("ses-1", Some(&path), asked, None).await.unwrap();
        requests.settle(&asked.id, Decision::AllowSession).await.unwrap().id
    };
    let ids = [ask("to look").await, ask("to write").await];
    let holding = async |requests: &Requests| {
        let (all, now) = (requests.all().await.unwrap(), Timestamp::now());
        all.iter().filter(|request| request.allows_use(now)).count()
    };
    scene.behind_its_back(
        "CREATE TRIGGER full BEFORE UPDATE ON requests BEGIN SELECT raise(ABORT, 'no'); END",
    );
    let error = requests.take_back(&ids[0]).await.unwrap_err();
    assert_eq!(error.code(), Code::TakenBackUnwritten);
    assert!(!error.message().contains("nothing was changed"), "{error:?}");
    let restarted = || Requests::new(&scene.vault, scene.log.clone());
    assert_eq!((holding(&requests).await, holding(&restarted()).await), (0, 2));
    scene.behind_its_back("DROP TRIGGER full");
    requests.take_back(&ids[0]).await.unwrap();
    assert_eq!((holding(&requests).await, holding(&restarted()).await), (0, 0));
    let again = requests.take_back(&ids[0]).await.unwrap_err();
    assert_eq!(again.code(), Code::RequestSettled);
}

/// Of each of them, also of those that go with the one that was named; and later where the log takes nothing just now.
#[tokio::test]
async fn what_is_taken_back_is_on_record_at_last() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    let allowed = async || {
        let ask = async |reason: &str| {
            let asked = Asked::use_approval(reason.to_owned());
            let asked = requests.ask("ses-1", Some(&path), asked, None).await.unwrap();
            requests.settle(&asked.id, Decision::AllowSession).await.unwrap().id
        };
        (ask("to look").await, ask("to write").await)
    };
    let taken_back = async || {
        scene.log.flush().await.unwrap();
        let wanted = AuditQuery { action: Some(Action::Answer), ..AuditQuery::default() };
        let entries = scene.vault.store().audit_query(&wanted).await.unwrap();
        entries.iter().filter(|entry| format!("{entry:?}").contains("taken back")).count()
    };
    let (first, _) = allowed().await;
    requests.take_back(&first).await.unwrap();
    assert_eq!(taken_back().await, 2);
    let (first, _) = allowed().await;
    scene.behind_its_back(
        "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'no'); END",
    );
    requests.take_back(&first).await.unwrap();
    let restarted = Requests::new(&scene.vault, scene.log.clone());
    let (all, now) = (restarted.all().await.unwrap(), Timestamp::now());
    assert!(!all.iter().any(|request| request.allows_use(now)));
    scene.behind_its_back("DROP TRIGGER full");
    scene.log.flush_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(taken_back().await, 4);
}

/// What could not be asked any more does not go on waiting for the same answer; and lifted, the denial is gone whole.
#[tokio::test]
async fn a_denial_answers_what_waits_alike_and_is_lifted_whole() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let (path, other) = ("team/a/key", "team/b/key");
    let ask = async |session: &str, path: &str, reason: &str| {
        let path = SecretPath::parse(path).unwrap();
        let asked = Asked::use_approval(reason.to_owned());
        requests.ask(session, Some(&path), asked, None).await.map(|request| request.id)
    };
    let denied = ask("ses-1", path, "to look").await.unwrap();
    let alike = ask("ses-1", path, "to write").await.unwrap();
    let elsewhere = ask("ses-2", path, "to look").await.unwrap();
    let of_another = ask("ses-1", other, "to look").await.unwrap();
    let settled = requests.settle(&denied, Decision::Deny).await.unwrap();
    requests.settle_alike(&settled).await.unwrap();
    let status = async |id: &RequestId| requests.any(id).await.unwrap().status(Timestamp::now());
    assert_eq!(status(&alike).await, Status::Denied);
    assert_eq!(status(&elsewhere).await, Status::Denied);
    assert_eq!(status(&of_another).await, Status::Pending);
    let refused = ask("ses-3", path, "to look").await.unwrap_err();
    assert_eq!(refused.code(), Code::ApprovalDenied);
    requests.take_back(&elsewhere).await.unwrap();
    ask("ses-3", path, "to look").await.unwrap();
}

/// A row that was put back could count until then; what is remembered for longer only fills the memory.
#[tokio::test]
async fn what_is_over_is_remembered_while_it_could_count() {
    let scene = Scene::new().await;
    let requests = Requests::new(&scene.vault, scene.log.clone());
    let path = SecretPath::parse("team/a/key").unwrap();
    for (decision, minutes) in [(Decision::AllowSession, 8 * 60), (Decision::AllowOnce, 60)] {
        let asked = Asked::use_approval("to look".to_owned());
        let id = requests.ask("ses-1", Some(&path), asked, None).await.unwrap().id;
        requests.settle(&id, decision).await.unwrap();
        requests.take_back(&id).await.unwrap();
        let remembered_in = |minutes: i64| {
            let passed = Duration::from_mins(minutes.unsigned_abs());
            let later = Timestamp::now() + SignedDuration::from_mins(minutes);
            // The clock was set back, or on and back again: by that its row, put back, would count.
            requests.forget_over(Moment::now() + passed, Timestamp::now());
            requests.forget_over(Moment::now(), later);
            assert_eq!(requests.over.lock().len(), 1);
            requests.forget_over(Moment::now() + passed, later);
            requests.over.lock().len()
        };
        assert_eq!(remembered_in(minutes - 1), 1);
        assert_eq!(remembered_in(minutes), 0);
    }
}

async fn entries(scene: &Scene) -> usize {
    scene.log.flush().await.unwrap();
    let wanted = AuditQuery { action: Some(Action::Ask), ..AuditQuery::default() };
    scene.vault.store().audit_query(&wanted).await.unwrap().len()
}
