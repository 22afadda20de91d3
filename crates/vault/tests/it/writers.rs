//! Several handles, and a process beside this one, that write at once.

use std::io::{BufRead, BufReader};

use keyless_core::Code;
use keyless_vault::{Entries, Metadata};

use crate::{
    crash,
    scene::{Engine, Scene, bound, on_both, opened, path, value},
};

on_both! {
    all_that_is_written_is_there
    only_one_of_two_adds_wins
}

async fn all_that_is_written_is_there(engine: Engine) {
    let scene = Scene::on(engine).await;
    scene
        .vault
        .add(path("a/b/shared"), bound(), Some(value("value-number-1")), Entries::untold())
        .await
        .unwrap();
    let mut writers = Vec::new();
    for writer in 0..3 {
        let vault = scene.again().await;
        writers.push(tokio::spawn(async move {
            for round in 0..10 {
                let at = path(&format!("w{writer}/b/n{round}"));
                vault
                    .add(at, Metadata::default(), Some(value("x")), Entries::untold())
                    .await
                    .unwrap();
                vault
                    .put(&path("a/b/shared"), value("another-value"), Entries::untold())
                    .await
                    .unwrap();
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

async fn only_one_of_two_adds_wins(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (one, two) = (scene.again().await, scene.again().await);
    let (one, two) = tokio::join!(
        one.add(path("a/b/c"), bound(), Some(value("0123456789")), Entries::untold()),
        two.add(path("a/b/c"), bound(), Some(value("9876543210")), Entries::untold()),
    );
    let codes = [one, two].map(|answer| answer.err().map(|error| error.code()));
    assert!(codes.contains(&None) && codes.contains(&Some(Code::SecretExists)), "{codes:?}");
}

#[tokio::test]
async fn another_process_may_write_as_well() {
    let scene = Scene::new().await;
    let mut child = crash::spawn(&scene, 0);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("acknowledged crash/r0/n0")));
    for round in 0..20 {
        let at = path(&format!("here/b/n{round}"));
        scene
            .vault
            .add(at, Metadata::default(), Some(value("x")), Entries::untold())
            .await
            .unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let theirs = 1 + lines.filter(|line| line.contains("acknowledged")).count();
    let all = scene.again().await.list().await.unwrap().len();
    assert!((20 + theirs..=21 + theirs).contains(&all), "{all} of 20 and {theirs}");
}
