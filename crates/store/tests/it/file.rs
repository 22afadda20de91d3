//! The file: who may read it, and what else may lie in its place.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{Seek, SeekFrom, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use keyless_core::{Code, Error};
use keyless_store::{Store, StoreError};
use sqlx::{
    ConnectOptions as _, Connection as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::scene::{Engine, Scene, draft};

fn file_of(scene: &Scene) -> PathBuf {
    scene.folder.path().join("home/store.db")
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn nobody_else_may_read_it() {
    let scene = Scene::new(Engine::Sqlite).await;
    let log = keyless_store::AuditLog::start(&scene.store, None);
    log.append(draft("s")).await.unwrap();
    assert_eq!(mode(file_of(&scene).parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm"] {
        let file = file_of(&scene).with_file_name(format!("store.db{suffix}"));
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    fs::set_permissions(file_of(&scene), Permissions::from_mode(0o644)).unwrap();
    Store::open(&file_of(&scene)).await.unwrap();
    assert_eq!(mode(&file_of(&scene)), 0o600);
}

#[tokio::test]
async fn what_is_not_a_store_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    assert!(matches!(Store::open(&file).await, Err(StoreError::Missing)));
    fs::write(&file, "not a database at all, whatever its name says".repeat(100)).unwrap();
    let error = Store::open(&file).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign), "{error:?}");
    assert_eq!(Error::from(error).code(), Code::StoreUnusable);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(Store::open(&file).await, Err(StoreError::Foreign)));
    fs::remove_dir(&file).unwrap();
    // To `init` it would be no store, and no place for one.
    symlink(folder.path().join("not mounted"), &file).unwrap();
    for opened in [Store::open(&file).await, Store::create_or_open(file.as_path()).await] {
        assert!(matches!(opened, Err(StoreError::File(_))), "{:?}", opened.err());
    }
}

#[tokio::test]
async fn another_programs_database_is_left_alone() {
    let scene = Scene::new(Engine::Sqlite).await;
    scene.store.close().await;
    scene.behind_its_back("PRAGMA application_id = 7").await;
    assert!(matches!(Store::open(&file_of(&scene)).await, Err(StoreError::Foreign)));
    scene.behind_its_back("PRAGMA application_id = 1263293233; PRAGMA user_version = 99").await;
    let error = Store::open(&file_of(&scene)).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
}

#[tokio::test]
async fn a_making_that_was_cut_short_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    // What SQLite's first step leaves: one page, and nothing of ours.
    let first = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let first = first.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap();
    first.close().await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), 4096);
    let store = Store::create_or_open(&file).await.unwrap();
    assert!(store.rows().await.unwrap().header.is_none());
    assert!(Store::open(&file).await.unwrap().check().await.is_ok());
}

/// SQLite would take it for a new database, and drop the write-ahead log beside it, which may have everything.
#[tokio::test]
async fn an_emptied_file_is_no_new_one() {
    let check = async |left: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("store.db"), folder.path().join("store.db-wal"));
        fs::write(&file, left).unwrap();
        fs::write(&log, "what was written last").unwrap();
        let (opened, made) = tokio::join!(Store::open(&file), Store::create_or_open(&file));
        assert!(matches!(opened, Err(StoreError::Emptied)), "{opened:?}");
        assert!(matches!(made, Err(StoreError::Emptied)), "{made:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), left);
        assert!(log.exists());
    };
    tokio::join!(check(""), check("S"));
}

#[tokio::test]
async fn damage_is_an_error_and_not_a_panic() {
    let scene = Scene::new(Engine::Sqlite).await;
    let log = keyless_store::AuditLog::start(&scene.store, None);
    for _ in 0..200 {
        log.append_soon(draft("s")).unwrap();
    }
    log.flush().await.unwrap();
    scene.behind_its_back("PRAGMA wal_checkpoint(TRUNCATE)").await;
    let mut file = OpenOptions::new().write(true).open(file_of(&scene)).unwrap();
    let length = file.metadata().unwrap().len();
    for page in 1..length / 4096 {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xa5; 512]).unwrap();
    }
    drop(file);
    // Another handle, whose cache does not know the pages.
    let answer = async { Store::open(&file_of(&scene)).await?.audit_tail(300).await }.await;
    let error = answer.unwrap_err();
    assert_eq!(Error::from(error).code(), Code::StoreUnusable);
}

#[tokio::test]
async fn many_may_make_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let makers: Vec<_> = (0..8)
        .map(|_| {
            let file = file.clone();
            tokio::spawn(async move { Store::create_or_open(&file).await.map(|_| ()) })
        })
        .collect();
    for maker in makers {
        maker.await.unwrap().unwrap();
    }
    Store::open(&file).await.unwrap().check().await.unwrap();
}

#[tokio::test]
async fn closing_leaves_one_file() {
    let scene = Scene::new(Engine::Sqlite).await;
    let log = keyless_store::AuditLog::start(&scene.store, None);
    log.append(draft("s")).await.unwrap();
    let clone = scene.store.clone();
    scene.store.close().await;
    let files: Vec<_> = fs::read_dir(file_of(&scene).parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1);
    assert!(clone.change_mark().await.is_err());
    assert_eq!(log.append(draft("s")).await.unwrap_err().code(), Code::AuditUnavailable);
}
