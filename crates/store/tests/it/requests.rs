//! Requests: recorded, answered once, swept, kept over a restart.

use std::time::Duration;

use jiff::Timestamp;
use keyless_core::{
    SecretPath,
    approval::{Asked, Decision, FullRequestId, Request},
};
use keyless_store::{RequestRow, StoreError, Told};
use tokio::time::timeout;

use crate::scene::{Engine, Scene, on_both};

on_both! {
    a_request_survives_a_restart
    an_id_is_given_once
    of_two_answers_one_wins
    one_process_answers_at_a_time
    they_are_listed_by_age_and_swept
}

fn row(number: u8, seal: &[u8]) -> RequestRow {
    let now = Timestamp::from_second(1_700_000_000 + i64::from(number)).unwrap();
    // Every other one is about no secret, as a deploy is.
    let path = (number % 2 == 1).then(|| SecretPath::parse("team/jira/key").unwrap());
    let asked = Asked::use_approval("why".to_owned());
    let id = FullRequestId::from_random([number; 16]);
    let mut request = Request::new(id, path, asked, "m-1", None, now);
    // One that was recorded by its name alone, before there were full ids.
    request.full_id = request.full_id.filter(|_| number != 3);
    RequestRow { request, seal: seal.to_vec() }
}

fn answered(row: &RequestRow, decision: Decision, seal: &[u8]) -> RequestRow {
    let request = row.request.settle(decision, row.request.created_at).unwrap();
    RequestRow { request, seal: seal.to_vec() }
}

async fn a_request_survives_a_restart(engine: Engine) {
    let scene = Scene::new(engine).await;
    let rows = [row(1, b"one"), row(3, b"of before")];
    for asked in &rows {
        scene.store.insert_request(asked, Told::nothing()).await.unwrap();
    }
    scene.store.close().await;
    let again = scene.opened_again().await;
    for asked in rows {
        assert_eq!(again.request(&asked.request.id).await.unwrap(), Some(asked));
    }
}

async fn an_id_is_given_once(engine: Engine) {
    let scene = Scene::new(engine).await;
    scene.store.insert_request(&row(1, b"one"), Told::nothing()).await.unwrap();
    // Another identity of the same name is refused too: people would see no difference.
    let mut second = row(1, b"two");
    second.request.full_id = FullRequestId::parse("01010101010100000000000000000000");
    assert_eq!(second.request.full_id.as_ref().unwrap().name(), second.request.id);
    let second = scene.store.insert_request(&second, Told::nothing()).await;
    assert!(matches!(second, Err(StoreError::Taken(_))), "{second:?}");
    assert_eq!(scene.store.requests().await.unwrap(), [row(1, b"one")]);
}

async fn of_two_answers_one_wins(engine: Engine) {
    let scene = Scene::new(engine).await;
    let asked = row(1, b"pending");
    scene.store.insert_request(&asked, Told::nothing()).await.unwrap();
    let once = answered(&asked, Decision::AllowOnce, b"once");
    let denied = answered(&asked, Decision::Deny, b"denied");
    let other = scene.opened_again().await;
    let (first, second) = tokio::join!(
        scene.store.replace_request(&asked, &once, Told::nothing()),
        other.replace_request(&asked, &denied, Told::nothing()),
    );
    assert_ne!(first.unwrap(), second.unwrap());
    let stands = scene.store.request(&asked.request.id).await.unwrap().unwrap();
    assert!(stands == once || stands == denied);
}

async fn they_are_listed_by_age_and_swept(engine: Engine) {
    let scene = Scene::new(engine).await;
    for number in [3, 1, 2] {
        scene.store.insert_request(&row(number, b"x"), Told::nothing()).await.unwrap();
    }
    scene.behind_its_back("UPDATE requests SET asked = '{' WHERE id = 'prov-020202020202'").await;
    let ids = |rows: Vec<RequestRow>| {
        rows.into_iter().map(|row| row.request.id.to_string()).collect::<Vec<_>>()
    };
    let listed = ids(scene.store.requests().await.unwrap());
    assert_eq!(listed, ["prov-010101010101", "prov-030303030303"]);
    scene.store.remove_requests(&[row(1, b"").request.id]).await.unwrap();
    assert_eq!(ids(scene.store.requests().await.unwrap()), ["prov-030303030303"]);
}

async fn one_process_answers_at_a_time(engine: Engine) {
    let scene = Scene::new(engine).await;
    let other = scene.opened_again().await;
    let first = scene.store.turn().await.unwrap();
    let (waits, soon) = (other.turn(), Duration::from_millis(300));
    tokio::pin!(waits);
    assert!(timeout(soon, &mut waits).await.is_err(), "the first one is not done");
    drop(first);
    let second = timeout(Duration::from_secs(20), waits).await.unwrap().unwrap();
    drop(second);
    scene.store.turn().await.unwrap();
}
