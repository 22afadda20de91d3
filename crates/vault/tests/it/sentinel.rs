//! No value lies in the clear in any file of the store, in what a server dumps of it, nor in what is printed about it.

use keyless_vault::Entries;
use std::fs;

use data_encoding::HEXLOWER;

use crate::scene::{Engine, PASSPHRASE, Scene, bound, on_both, path, value};

on_both! {
    the_store_holds_no_value
}

const SENTINEL: &str = "SENTINEL-5f1c9f0e7b-VALUE";

/// As it is, or in the digits of a server's dump.
fn contains(haystack: &[u8], needle: &str) -> bool {
    let digits = HEXLOWER.encode(needle.as_bytes());
    let is_in = |needle: &[u8]| haystack.windows(needle.len()).any(|window| window == needle);
    is_in(needle.as_bytes()) || is_in(digits.as_bytes())
}

async fn the_store_holds_no_value(engine: Engine) {
    let scene = Scene::on(engine).await;
    let at = path("team/github/token");
    scene.vault.add(at.clone(), bound(), Some(value(SENTINEL)), Entries::untold()).await.unwrap();
    scene.vault.put(&at, value(&format!("{SENTINEL}-2")), Entries::untold()).await.unwrap();
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        scene.vault,
        scene.vault.list().await.unwrap(),
        scene.vault.open(&at).await.unwrap(),
        scene.vault.store().rows().await.unwrap(),
    );
    assert!(!shown.contains("SENTINEL"));
    let mut seen = 0;
    let files = fs::read_dir(scene.file().parent().unwrap()).unwrap();
    let files = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    let dump = scene.server.iter().map(|server| server.dump().unwrap());
    for bytes in files.chain(dump) {
        seen += usize::from(contains(&bytes, "team/github/token"));
        let words = scene.phrase.expose_to_operator();
        for needle in [SENTINEL, PASSPHRASE, &words] {
            assert!(!contains(&bytes, needle));
        }
    }
    assert!(seen > 0, "the search sees what is there");
}
