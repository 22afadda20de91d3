//! What every source must do, run against each kind.

use std::{
    fs,
    os::unix::{ffi::OsStringExt, fs::symlink},
    path::Path,
};

use jiff::Timestamp;
use keyless_core::{Binding, Code, SecretPath};
use keyless_store::{Rows, SecretRow, Store, VersionRow};

use super::{EnvSource, FileSource, LocalSource, Source, mounted::MountedSource};
use crate::{
    index::{Index, IndexedVersion, commit_to},
    key::{Purpose, VaultKey},
    metadata::{EnvName, Metadata},
    seal,
};

const VALUE: &[u8] = b"suite-value-0123456789";

fn path() -> SecretPath {
    SecretPath::parse("team/github/token").unwrap()
}

/// `full` has [`VALUE`], `short` has `short`, `absent` has nothing.
async fn passes(full: impl Source, short: impl Source, absent: impl Source) {
    let reading = full.read(&path(), Binding::Destinations).await.unwrap();
    assert_eq!(reading.value.expose_for_sealing(), VALUE);
    assert_eq!((reading.value.path(), reading.warnings.len()), (&path(), 0));
    let code = |answer: Result<_, keyless_core::Error>| answer.map(|_| ()).unwrap_err().code();
    assert_eq!(code(short.read(&path(), Binding::Destinations).await), Code::ValueRefused);
    assert!(short.read(&path(), Binding::None).await.is_ok());
    let error = absent.read(&path(), Binding::None).await.unwrap_err();
    assert_eq!(error.code(), Code::SecretUnavailable);
    assert!(!error.detail().as_str().is_empty());
}

#[tokio::test]
async fn env_passes() {
    let [full, short, absent] = ["FULL", "SHORT", "ABSENT"].map(|n| EnvName::parse(n).unwrap());
    let lookup = |name: &str| match name {
        "FULL" => Some(std::ffi::OsString::from_vec(VALUE.to_vec())),
        "SHORT" => Some("short".into()),
        _ => None,
    };
    let source = |variable| EnvSource::looked_up_by(variable, lookup);
    passes(source(&full), source(&short), source(&absent)).await;
}

#[tokio::test]
async fn file_passes() {
    let folder = tempfile::tempdir().unwrap();
    let [full, short, absent] = ["full", "short", "absent"].map(|name| folder.path().join(name));
    fs::write(&full, VALUE).unwrap();
    fs::write(&short, "short").unwrap();
    passes(FileSource::new(&full), FileSource::new(&short), FileSource::new(&absent)).await;
}

#[tokio::test]
async fn mounted_passes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("..2026_11_20");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("full"), VALUE).unwrap();
    fs::write(data.join("short"), "short").unwrap();
    symlink(&data, folder.path().join("..data")).unwrap();
    let [full, short, absent] = ["full", "short", "absent"].map(|name| {
        let link = folder.path().join(name);
        symlink(Path::new("..data").join(name), &link).unwrap();
        link
    });
    let source = |file| MountedSource { file };
    passes(source(&full), source(&short), source(&absent)).await;
}

#[tokio::test]
async fn local_passes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
    let key = VaultKey::generate().unwrap();
    let full = stored(&store, &key, 1, VALUE).await;
    let short = stored(&store, &key, 2, b"short").await;
    let source = |current| LocalSource { store: &store, key: &key, current };
    passes(source(Some(&full)), source(Some(&short)), source(None)).await;
}

async fn stored(store: &Store, key: &VaultKey, version: u32, value: &[u8]) -> IndexedVersion {
    let at = Timestamp::UNIX_EPOCH;
    let sealed =
        seal::seal(&key.derive(Purpose::Values), &seal::value_label(&path(), version), value);
    let sealed = sealed.unwrap();
    let metadata = Metadata::default().to_stored();
    let secret = SecretRow {
        path: path(),
        format: 1,
        metadata,
        created_at: at,
        updated_at: at,
        current: None,
        removed_at: None,
    };
    let row = VersionRow {
        path: path(),
        version,
        nonce: sealed.nonce,
        ciphertext: sealed.ciphertext,
        created_at: at,
    };
    let mut writing = store.write().await.unwrap();
    if version == 1 {
        writing.insert_secret(&secret).await.unwrap();
    }
    writing.insert_version(&row).await.unwrap();
    writing.commit().await.unwrap();
    let mut rows = Rows { secrets: vec![secret], versions: vec![row], ..Rows::default() };
    rows.commitment = Some(commit_to(&rows, 1, key));
    let index = Index::verify(&rows, key).unwrap();
    index.find(&path()).unwrap().current().unwrap().clone()
}
