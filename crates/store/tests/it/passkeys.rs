//! Passkeys: kept over a restart, and counted once.

use jiff::Timestamp;
use keyless_store::{Passkey, PasskeyRow, StoreError};

use crate::scene::{Engine, Scene, on_both};

on_both! {
    a_passkey_survives_a_restart_and_counts_once
}

fn row(counter: u32, seal: &[u8]) -> PasskeyRow {
    let passkey = Passkey {
        id: "aWQ".to_owned(),
        name: "laptop".to_owned(),
        public_key: vec![1, 2, 3],
        algorithm: -7,
        counter,
        created_at: Timestamp::from_second(1_700_000_000).unwrap(),
        used_at: None,
    };
    PasskeyRow { passkey, seal: seal.to_vec() }
}

async fn a_passkey_survives_a_restart_and_counts_once(engine: Engine) {
    let scene = Scene::new(engine).await;
    let first = row(u32::MAX, b"first");
    scene.store.insert_passkey(&first).await.unwrap();
    let again = scene.store.insert_passkey(&first).await;
    assert!(matches!(again, Err(StoreError::Taken(_))), "{again:?}");
    let other = scene.opened_again().await;
    let (one, two) = (row(7, b"one"), row(7, b"two"));
    assert!(scene.store.replace_passkey(&first, &one).await.unwrap());
    assert!(!other.replace_passkey(&first, &two).await.unwrap());
    assert_eq!(other.passkeys().await.unwrap(), [one]);
    assert!(other.remove_passkey("aWQ").await.unwrap());
    assert!(!scene.store.remove_passkey("aWQ").await.unwrap());
}
