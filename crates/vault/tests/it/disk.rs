//! A full disk: told as such, nothing lost, and it goes on when there is room.

use keyless_core::Code;
use keyless_store::{Store, StoreOptions};
use keyless_vault::{Entries, Metadata, Vault};

use crate::scene::{PASSPHRASE, Scene, by_passphrase, opened, path, value};

#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let scene = Scene::new().await;
    let store = Store::open_with(&scene.file(), StoreOptions { max_pages: Some(64) }).await;
    let vault = Vault::unlock(store.unwrap(), by_passphrase(PASSPHRASE)).await.unwrap();
    let large = "x".repeat(20_000);
    let mut kept = Vec::new();
    let error = loop {
        let name = format!("a/b/n{}", kept.len());
        match vault
            .add(path(&name), Metadata::default(), Some(value(&large)), Entries::untold())
            .await
        {
            Ok(_) => kept.push(name),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::DiskFull);
    assert!(!kept.is_empty());
    let again = scene.again().await;
    assert_eq!(again.list().await.unwrap().len(), kept.len());
    for name in &kept {
        assert_eq!(opened(&again, name).await, large);
    }
    vault.purge(&path(&kept[0]), None, Entries::untold()).await.unwrap();
    vault
        .add(path("a/b/fits"), Metadata::default(), Some(value(&large)), Entries::untold())
        .await
        .unwrap();
}
