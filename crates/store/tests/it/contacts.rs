//! Contacts with sources: the last of each, for whoever opens the store next.

use jiff::Timestamp;
use keyless_store::SourceContact;

use crate::scene::{Engine, Scene, on_both};

on_both! {
    the_last_contact_of_each_source_is_kept
}

async fn the_last_contact_of_each_source_is_kept(engine: Engine) {
    let scene = Scene::new(engine).await;
    let contact = |second: i64, outcome: &str| SourceContact {
        at: Timestamp::from_second(second).unwrap(),
        outcome: outcome.to_owned(),
    };
    for (source, second, outcome) in
        [("corp", 1_700_000_000, "available"), ("mine", 7, "locked"), ("corp", 8, "unavailable")]
    {
        let said = contact(second, outcome);
        scene.store.record_source_contact(source, &said).await.unwrap();
    }
    let kept = scene.opened_again().await.source_contacts().await.unwrap();
    let kept: Vec<_> = kept.iter().map(|(source, contact)| (source.as_str(), contact)).collect();
    // The last is the one that was told last, though a clock went back.
    assert_eq!(kept, [("corp", &contact(8, "unavailable")), ("mine", &contact(7, "locked"))]);
}
