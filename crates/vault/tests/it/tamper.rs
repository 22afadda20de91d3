//! Hands that have the file and no key: whatever they do to the rows is found.

use keyless_core::Code;
use keyless_store::{CommitmentRow, Rows, Writing};
use keyless_vault::{Entries, Vault};

use crate::scene::{Engine, PASSPHRASE, Scene, bound, by_passphrase, on_both, opened, path, value};

on_both! {
    a_deleted_version_does_not_revive_the_one_before
    altered_destinations_are_found
    swapped_values_are_found
    one_flipped_bit_is_found
    an_older_commitment_with_its_rows_is_found_while_open
    a_forged_commitment_is_found
    a_swapped_envelope_opens_nothing
}

async fn filled(engine: Engine) -> Scene {
    let scene = Scene::on(engine).await;
    for name in ["one", "two"] {
        let at = path(&format!("a/b/{name}"));
        scene
            .vault
            .add(at.clone(), bound(), Some(value(&format!("{name}-old-value"))), Entries::untold())
            .await
            .unwrap();
        scene.vault.put(&at, value(&format!("{name}-new-value")), Entries::untold()).await.unwrap();
    }
    assert_eq!(opened(&scene.vault, "a/b/one").await, "one-new-value");
    scene
}

/// Puts `rows` in place of all secrets and versions.
async fn rewrite(writing: &mut Writing, rows: &Rows) {
    for secret in &rows.secrets {
        writing.remove_secret(&secret.path).await.unwrap();
        writing.insert_secret(secret).await.unwrap();
    }
    for version in &rows.versions {
        writing.insert_version(version).await.unwrap();
    }
}

/// Changes the rows, then expects both the open vault and a fresh unlock to find it.
async fn is_found(engine: Engine, name: &str, change: impl FnOnce(&mut Rows)) {
    let scene = filled(engine).await;
    let mut writing = scene.store().await.write().await.unwrap();
    let mut rows = writing.rows().await.unwrap();
    change(&mut rows);
    rewrite(&mut writing, &rows).await;
    writing.commit().await.unwrap();
    let error = scene.vault.open(&path("a/b/one")).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreTampered, "{name}, open");
    let error = scene
        .vault
        .put(&path("a/b/one"), value("0123456789"), Entries::untold())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::StoreTampered, "{name}, put");
    let error = Vault::unlock(scene.store().await, by_passphrase(PASSPHRASE)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreTampered, "{name}, unlock");
}

async fn a_deleted_version_does_not_revive_the_one_before(engine: Engine) {
    is_found(engine, "newest version gone", |rows| drop(rows.versions.remove(1))).await;
}

async fn altered_destinations_are_found(engine: Engine) {
    is_found(engine, "destination", |rows| {
        rows.secrets[0].metadata = rows.secrets[0].metadata.replace("api.github.com", "evil.test");
    })
    .await;
}

async fn swapped_values_are_found(engine: Engine) {
    is_found(engine, "swapped", |rows| {
        let (first, second) = rows.versions.split_at_mut(2);
        std::mem::swap(&mut first[1].ciphertext, &mut second[1].ciphertext);
        std::mem::swap(&mut first[1].nonce, &mut second[1].nonce);
    })
    .await;
}

async fn one_flipped_bit_is_found(engine: Engine) {
    is_found(engine, "bit", |rows| rows.versions[1].ciphertext[3] ^= 4).await;
}

async fn an_older_commitment_with_its_rows_is_found_while_open(engine: Engine) {
    let scene = filled(engine).await;
    let old = scene.vault.store().rows().await.unwrap();
    scene.vault.put(&path("a/b/one"), value("newest-value"), Entries::untold()).await.unwrap();
    assert_eq!(opened(&scene.vault, "a/b/one").await, "newest-value");
    let mut writing = scene.store().await.write().await.unwrap();
    rewrite(&mut writing, &old).await;
    writing.put_commitment(&old.commitment.clone().unwrap()).await.unwrap();
    writing.commit().await.unwrap();
    let error = scene.vault.open(&path("a/b/one")).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreTampered);
}

async fn a_forged_commitment_is_found(engine: Engine) {
    let scene = filled(engine).await;
    let mut writing = scene.store().await.write().await.unwrap();
    let forged = CommitmentRow { generation: 99, mac: vec![0; 32] };
    writing.put_commitment(&forged).await.unwrap();
    writing.commit().await.unwrap();
    assert_eq!(scene.vault.check().await.unwrap_err().code(), Code::StoreTampered);
}

async fn a_swapped_envelope_opens_nothing(engine: Engine) {
    let (scene, other) = (filled(engine).await, filled(engine).await);
    let theirs = other.vault.store().rows().await.unwrap().envelopes;
    let mut writing = scene.store().await.write().await.unwrap();
    for envelope in &theirs {
        writing.put_envelope(envelope).await.unwrap();
    }
    writing.commit().await.unwrap();
    let error = Vault::unlock(scene.store().await, by_passphrase(PASSPHRASE)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreTampered);
}
