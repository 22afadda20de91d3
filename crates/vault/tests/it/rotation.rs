//! Rotations without end by a real process, killed 200 times, or fewer beside a server: no value is lost, none comes back,
//! and the log has an entry of each.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::audit::{Action, Agent, Detail, Draft, Outcome, Target};
use keyless_store::{AuditLog, AuditQuery, Store};
use keyless_vault::{Entries, NewVersion, Vault};

use crate::scene::{
    Engine, PASSPHRASE, Scene, bound, by_passphrase, on_both, opened, path, place_at, value,
};

/// The folder of the child's store, and the address of its server where it has one.
const FOLDER: &str = "KEYLESS_ROTATION_TEST_FOLDER";
const SERVER: &str = "KEYLESS_ROTATION_TEST_SERVER";
const AT: &str = "a/b/rotated";

on_both! {
    a_kill_during_a_rotation_loses_and_revives_nothing
}

async fn a_kill_during_a_rotation_loses_and_revives_nothing(engine: Engine) {
    let kills = match engine {
        Engine::Postgres => 40,
        Engine::Sqlite => 200,
    };
    let scene = Scene::on(engine).await;
    scene.vault.add(path(AT), bound(), Some(value(&text(1))), Entries::untold()).await.unwrap();
    let mut newest = 1;
    for round in 0..kills {
        let acknowledged = rotate_until_killed(&scene, round).unwrap_or(newest);
        let vault = scene.again().await;
        let version = vault.show(&path(AT)).await.unwrap().version.unwrap();
        // One rotation may have been made durable and not have been told.
        assert!(version >= acknowledged && version <= acknowledged + 1, "{version} {acknowledged}");
        assert!(version >= newest, "version {newest} was in use, now it is {version}");
        assert_eq!(opened(&vault, AT).await, text(version));
        newest = version;
    }
    assert!(u64::from(newest) > kills / 6, "the child rotated between its deaths");
    let versions = scene.again().await.versions(&path(AT)).await.unwrap();
    assert_eq!(versions.len(), usize::try_from(newest).unwrap());
    let store = scene.vault.store();
    let wanted = AuditQuery { action: Some(Action::Rotate), ..AuditQuery::default() };
    let told = store.audit_query(&wanted).await.unwrap();
    let told: Vec<_> = told.iter().map(|entry| entry.detail.note.clone().unwrap()).collect();
    let done: Vec<_> = (2..=newest).map(|version| format!("version {version}")).collect();
    assert_eq!(told, done);
    let verified = store.audit_verify(Some(&*scene.vault.head_sealer())).await.unwrap();
    let entries: u64 = verified.iter().map(|chain| chain.entries).sum();
    assert!(entries >= u64::from(newest), "others were written in between: {entries} {newest}");
}

/// An entry of this vault's log.
fn entry(action: Action, note: String) -> Draft {
    let agent = Agent {
        uri: "nl://keyless.dev/operator/0.1.0".to_owned(),
        organization_id: "local".to_owned(),
        session_id: "operator".to_owned(),
        delegated_by: "human:operator".to_owned(),
    };
    let (now, id) = (Timestamp::now(), "req-0".to_owned());
    let draft = Draft::new(now, agent.into(), action, Outcome::Success, Target::Session, id);
    Draft { detail: Detail { note: Some(note), ..Detail::default() }, ..draft }
}

fn text(version: u32) -> String {
    format!("value-at-version-{version}")
}

/// Gives the last version that the child acknowledged, if any.
fn rotate_until_killed(scene: &Scene, round: u64) -> Option<u32> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "rotation::the_rotator", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, scene.folder())
        .envs(scene.server.as_ref().map(|server| (SERVER, server.socket_url())))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (sender, versions) = mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let acknowledged = lines.filter_map(|line| line.split_once("rotated ")?.1.parse().ok());
        acknowledged.for_each(|version: u32| sender.send(version).unwrap());
    });
    // From before the store is open to some rotations later. In every other round the time runs from the first of
    // them, which on a busy machine may be far off.
    let first = (round % 2 == 1)
        .then(|| versions.recv_timeout(Duration::from_mins(1)).expect("the child rotates"));
    thread::sleep(Duration::from_micros(round.wrapping_mul(2_654_435_761) % 60_000));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    versions.try_iter().last().or(first)
}

/// The child's part.
#[tokio::test]
#[ignore = "run by a_kill_during_a_rotation_loses_and_revives_nothing"]
async fn the_rotator() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let server = env::var(SERVER).ok();
    let store = Store::open(place_at(&folder, server.as_deref())).await.unwrap();
    let vault = Vault::unlock(store, by_passphrase(PASSPHRASE)).await.unwrap();
    let log = AuditLog::start(vault.store(), Some(vault.head_sealer()));
    loop {
        let next = vault.show(&path(AT)).await.unwrap().version.unwrap() + 1;
        // What the log's own writer does in between has its place in the same chain.
        if next % 2 == 0 {
            log.append(entry(Action::Query, String::new())).await.unwrap();
        }
        let entries = Entries::in_log(&log, |new: &NewVersion| {
            vec![entry(Action::Rotate, format!("version {}", new.number))]
        });
        let version = vault.put(&path(AT), value(&text(next)), entries).await.unwrap();
        println!("rotated {version}");
    }
}
