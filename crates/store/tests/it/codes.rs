//! How codes were judged: kept over a restart, and of two judges at once one has the word.

use crate::scene::{Engine, Scene, on_both};

on_both! {
    of_two_judges_at_once_one_has_the_word
}

async fn of_two_judges_at_once_one_has_the_word(engine: Engine) {
    let scene = Scene::new(engine).await;
    let other = scene.opened_again().await;
    assert_eq!(other.code_gate().await.unwrap(), None);
    assert!(scene.store.replace_code_gate(None, "one").await.unwrap());
    assert!(!other.replace_code_gate(None, "two").await.unwrap());
    assert!(other.replace_code_gate(Some("one"), "two").await.unwrap());
    assert!(!scene.store.replace_code_gate(Some("one"), "three").await.unwrap());
    assert_eq!(scene.store.code_gate().await.unwrap().as_deref(), Some("two"));
}
