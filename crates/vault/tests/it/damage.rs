//! A store's file that was damaged: whatever became of it, it gives the right value or an error, and never takes the
//! process down.

use std::{fs, path::Path};

use keyless_core::{Code, Error};
use keyless_store::Store;
use keyless_vault::{Entries, Vault};

use crate::scene::{PASSPHRASE, Scene, bound, by_passphrase, path, value};

const VALUE: &str = "the-right-value";
const FLIPS: usize = 400;
const CUTS: usize = 40;

/// The file of a store with a secret, all of it in one place.
async fn sound() -> Vec<u8> {
    let scene = Scene::new().await;
    let at = path("a/b/c");
    scene
        .vault
        .add(at.clone(), bound(), Some(value("an-older-value")), Entries::untold())
        .await
        .unwrap();
    scene.vault.put(&at, value(VALUE), Entries::untold()).await.unwrap();
    let file = scene.file();
    let copy = scene.beside("copy.db");
    // Readers of the file as it lies there see what is beside it as well.
    for end in ["", "-wal"] {
        let of = |file: &Path| format!("{}{end}", file.display());
        if Path::new(&of(&file)).exists() {
            fs::copy(of(&file), of(&copy)).unwrap();
        }
    }
    // Whoever closes the last handle writes everything into the file; a handle that is dropped closes when it gets to it.
    let store = Store::open(&copy).await.unwrap();
    store.rows().await.unwrap();
    store.close().await;
    fs::read(&copy).unwrap()
}

/// What a store of these bytes gives.
async fn read(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    fs::write(&file, bytes).unwrap();
    let store = Store::open(&file).await?;
    let vault = Vault::unlock(store, by_passphrase(PASSPHRASE)).await?;
    let reading = vault.open(&path("a/b/c")).await?;
    Ok(reading.value.expose_for_sealing().to_vec())
}

/// The right value, or an error that says that the store is not as it was.
fn is_fine(what: &str, answer: Result<Vec<u8>, Error>) -> bool {
    match answer {
        Ok(read) => {
            assert_eq!(String::from_utf8_lossy(&read), VALUE, "{what}");
            true
        }
        Err(error) => {
            let known = [
                Code::KeylessOutdated,
                Code::NotInitialised,
                Code::SecretNotFound,
                Code::StoreTampered,
                Code::StoreUnusable,
                Code::WrongFactor,
                Code::WrongPassphrase,
            ];
            assert!(known.contains(&error.code()), "{what}: {}", error.message());
            false
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_gives_no_other_value() {
    let sound = sound().await;
    assert!(is_fine("as it was", read(&sound).await));
    let mut refused = 0;
    let mut place: usize = 1;
    for _ in 0..FLIPS {
        // A fixed walk over the whole file.
        place =
            place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bit = (place >> 16) % (sound.len() * 8);
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(!is_fine(&format!("bit {bit}"), read(&flipped).await));
    }
    assert!(refused > 0, "some of them were noticed");
}

#[tokio::test]
async fn a_file_that_was_cut_off_gives_no_other_value() {
    let sound = sound().await;
    for cut in 0..CUTS {
        let length = sound.len() * cut / CUTS;
        is_fine(&format!("{length} bytes"), read(&sound[..length]).await);
    }
    let mut longer = sound.clone();
    longer.extend_from_slice(&[0xff; 8192]);
    is_fine("longer", read(&longer).await);
}
