//! A real process that writes without end, killed at moments of no choosing.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use keyless_store::Store;
use keyless_vault::{Entries, Metadata, Vault};

use crate::scene::{PASSPHRASE, Scene, by_passphrase, opened, path, value};

const FILE: &str = "KEYLESS_CRASH_TEST_STORE";
const ROUND: &str = "KEYLESS_CRASH_TEST_ROUND";
const KILLS: u64 = 32;

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let scene = Scene::new().await;
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..KILLS {
        acknowledged.extend(write_until_killed(&scene, round));
        let vault = scene.again().await;
        let present = vault.list().await.unwrap().len();
        // One write may have been made durable and not have been told.
        let least = acknowledged.len();
        assert!((least..=least + usize::try_from(round).unwrap() + 1).contains(&present));
        for name in acknowledged.iter().rev().take(20) {
            assert_eq!(opened(&vault, name).await, format!("value-of-{name}"));
        }
    }
    assert!(acknowledged.len() > 32, "the child wrote something between its deaths");
    let vault = scene.again().await;
    vault.store().check().await.unwrap();
    for name in &acknowledged {
        assert_eq!(opened(&vault, name).await, format!("value-of-{name}"));
    }
}

/// Starts the writer, lets it acknowledge something, kills it a little later, and gives what it
/// had acknowledged.
fn write_until_killed(scene: &Scene, round: u64) -> Vec<String> {
    let mut child = spawn(scene, round);
    let output = child.stdout.take().unwrap();
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, name)) = line.split_once("acknowledged ") {
                sender.send(name.to_owned()).unwrap();
            }
        }
    });
    let told = |_| lines.recv_timeout(Duration::from_mins(1)).expect("the child writes");
    // One, two or three, however long a busy machine takes for each.
    let mut acknowledged: Vec<String> = (0..=round % 3).map(told).collect();
    // Different in each round, within the time of a few writes.
    thread::sleep(Duration::from_micros(round.wrapping_mul(2_654_435_761) % 15_000));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    acknowledged.extend(lines.try_iter());
    acknowledged
}

pub(crate) fn spawn(scene: &Scene, round: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::the_writer", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, scene.file())
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The child's part.
#[tokio::test]
#[ignore = "run by what_was_acknowledged_survives_a_kill"]
async fn the_writer() {
    let Some(file) = env::var_os(FILE).map(PathBuf::from) else { return };
    let round = env::var(ROUND).unwrap();
    let store = Store::open(&file).await.unwrap();
    let vault = Vault::unlock(store, by_passphrase(PASSPHRASE)).await.unwrap();
    for count in 0.. {
        let name = format!("crash/r{round}/n{count}");
        let secret = value(&format!("value-of-{name}"));
        vault.add(path(&name), Metadata::default(), Some(secret), Entries::untold()).await.unwrap();
        println!("acknowledged {name}");
    }
}
