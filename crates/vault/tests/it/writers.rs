//! Two processes' worth of handles that write at once.

use keyless_core::Code;
use keyless_vault::Metadata;

use crate::scene::{Scene, bound, opened, path, value};

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_written_is_there() {
    let scene = Scene::new().await;
    scene.vault.add(path("a/b/shared"), bound(), Some(value("value-number-1"))).await.unwrap();
    let mut writers = Vec::new();
    for writer in 0..3 {
        let vault = scene.again().await;
        writers.push(tokio::spawn(async move {
            for round in 0..10 {
                let at = path(&format!("w{writer}/b/n{round}"));
                vault.add(at, Metadata::default(), Some(value("x"))).await.unwrap();
                vault.put(&path("a/b/shared"), value("another-value")).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let shared = scene.vault.show(&path("a/b/shared")).await.unwrap();
    assert_eq!(shared.version, Some(31));
    assert_eq!(scene.vault.list().await.unwrap().len(), 31);
    assert_eq!(opened(&scene.vault, "w2/b/n9").await, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_adds_wins() {
    let scene = Scene::new().await;
    let (one, two) = (scene.again().await, scene.again().await);
    let (one, two) = tokio::join!(
        one.add(path("a/b/c"), bound(), Some(value("0123456789"))),
        two.add(path("a/b/c"), bound(), Some(value("9876543210"))),
    );
    let codes = [one, two].map(|answer| answer.err().map(|error| error.code()));
    assert!(codes.contains(&None) && codes.contains(&Some(Code::SecretExists)), "{codes:?}");
}
