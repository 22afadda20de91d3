//! What tells that the vault's rows have changed.

use crate::scene::{Engine, draft, filled, on_both, sealed_log};

on_both! {
    every_change_of_the_vault_has_another_mark_and_the_log_has_none
}

/// Whoever makes them, with the commitment or without.
const CHANGES: &[&str] = &[
    "INSERT INTO vault (id, format, created_at) VALUES (1, 1, '2026-01-01T00:00:00Z')",
    "INSERT INTO commitment (id, generation, mac) VALUES (1, 1, BYTES)",
    "UPDATE vault SET format = 2",
    "INSERT INTO envelopes (kind, parameters, nonce, wrapped, created_at) VALUES ('k', '', BYTES, BYTES, '')",
    "UPDATE envelopes SET parameters = '{}'",
    "INSERT INTO secrets (path, format, metadata, created_at, updated_at) VALUES ('a/b', 1, '', '', '')",
    "UPDATE secrets SET metadata = '{}'",
    "INSERT INTO versions (path, version, nonce, ciphertext, created_at) VALUES ('a/b', 1, BYTES, BYTES, '')",
    "UPDATE versions SET version = 2",
    "UPDATE commitment SET generation = 1",
    "DELETE FROM secrets",
    "DELETE FROM envelopes",
    "DELETE FROM commitment",
    "DELETE FROM vault",
];

async fn every_change_of_the_vault_has_another_mark_and_the_log_has_none(engine: Engine) {
    let scene = filled(engine, 1).await;
    let no_bytes = match engine {
        Engine::Postgres => "''",
        Engine::Sqlite => "x''",
    };
    let mut mark = scene.store.change_mark().await.unwrap();
    for change in CHANGES {
        scene.behind_its_back(&change.replace("BYTES", no_bytes)).await;
        let now = scene.store.change_mark().await.unwrap();
        assert_ne!(now, mark, "{change}");
        mark = now;
    }
    sealed_log(&scene).append(draft("s")).await.unwrap();
    assert_eq!(scene.store.change_mark().await.unwrap(), mark);
}
