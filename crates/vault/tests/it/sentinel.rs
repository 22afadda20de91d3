//! No value lies in the clear in any file of the store, nor in what is printed about it.

use std::fs;

use crate::scene::{PASSPHRASE, Scene, bound, path, value};

const SENTINEL: &str = "SENTINEL-5f1c9f0e7b-VALUE";

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test]
async fn the_files_hold_no_value() {
    let scene = Scene::new().await;
    let at = path("team/github/token");
    scene.vault.add(at.clone(), bound(), Some(value(SENTINEL))).await.unwrap();
    scene.vault.put(&at, value(&format!("{SENTINEL}-2"))).await.unwrap();
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        scene.vault,
        scene.vault.list().await.unwrap(),
        scene.vault.open(&at).await.unwrap(),
        scene.vault.store().rows().await.unwrap(),
    );
    assert!(!shown.contains("SENTINEL"));
    let mut seen = 0;
    for file in fs::read_dir(scene.file().parent().unwrap()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        seen += usize::from(contains(&bytes, "team/github/token"));
        let words = scene.phrase.expose_to_operator();
        for needle in [SENTINEL, PASSPHRASE, &words] {
            assert!(!contains(&bytes, needle));
        }
    }
    assert!(seen > 0, "the search sees what is there");
}
