//! A vault's life: made, locked, unlocked, filled, changed, emptied.

use std::{fs, os::unix::fs::PermissionsExt};

use keyless_core::{Code, Error};
use keyless_store::{AuditLog, Store};
use keyless_vault::{
    Entries, EnvName, Factor, KdfCost, Metadata, NewSecret, RecoveryPhrase, SourceConfig,
    Succession, Upkeep, Vault, Warning,
};
use zeroize::Zeroizing;

use crate::scene::{
    Engine, PASSPHRASE, Scene, bound, by_passphrase, code, on_both, opened, passphrase, path, value,
};

on_both! {
    a_secret_may_be_kept_elsewhere
    many_secrets_are_added_at_once_and_each_is_judged_by_itself
    both_factors_open_it_and_others_do_not
    a_passphrase_can_be_replaced
    making_one_is_refused_where_it_must_be
    secrets_come_change_and_go
    values_must_fit_their_use
    what_was_said_meanwhile_stays
    a_persons_value_outruns_a_successor
    a_fresh_value_is_none_that_others_know
    the_number_of_a_version_is_never_anothers
    a_day_that_was_said_before_the_first_value_is_that_values
    the_audit_log_is_sealed_with_its_key
}

async fn both_factors_open_it_and_others_do_not(engine: Engine) {
    let scene = Scene::on(engine).await;
    scene
        .vault
        .add(path("a/b/c"), bound(), Some(value("0123456789")), Entries::untold())
        .await
        .unwrap();
    let vault = scene.again().await;
    assert_eq!(opened(&vault, "a/b/c").await, "0123456789");
    let words = scene.phrase.expose_to_operator();
    let recovery = Factor::Recovery(RecoveryPhrase::parse(&words).unwrap());
    let vault = Vault::unlock(scene.store().await, recovery).await.unwrap();
    assert_eq!(opened(&vault, "a/b/c").await, "0123456789");
    let wrong = Vault::unlock(scene.store().await, by_passphrase("correct horse batterY")).await;
    assert_eq!(code(wrong), Code::WrongPassphrase);
    let other = Scene::new().await.phrase;
    let wrong = Vault::unlock(scene.store().await, Factor::Recovery(other)).await;
    assert_eq!(code(wrong), Code::WrongRecoveryPhrase);
}

#[tokio::test]
async fn the_standard_cost_works_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let store = Store::create_or_open(&file).await.unwrap();
    drop(Vault::create(store, passphrase(PASSPHRASE)).await.unwrap());
    let store = Store::open(&file).await.unwrap();
    Vault::unlock(store, by_passphrase(PASSPHRASE)).await.unwrap();
}

async fn a_passphrase_can_be_replaced(engine: Engine) {
    let scene = Scene::on(engine).await;
    let cost = KdfCost::dangerously_cheap();
    scene
        .vault
        .change_passphrase_with(passphrase("another passphrase"), cost, Entries::untold())
        .await
        .unwrap();
    let old = Vault::unlock(scene.store().await, by_passphrase(PASSPHRASE)).await;
    assert_eq!(code(old), Code::WrongPassphrase);
    Vault::unlock(scene.store().await, by_passphrase("another passphrase")).await.unwrap();
    let short =
        scene.vault.change_passphrase_with(passphrase("short"), cost, Entries::untold()).await;
    assert_eq!(code(short), Code::PassphraseWeak);
}

async fn making_one_is_refused_where_it_must_be(engine: Engine) {
    let scene = Scene::on(engine).await;
    let cost = KdfCost::dangerously_cheap();
    let again = Vault::create_with(scene.store().await, passphrase(PASSPHRASE), cost).await;
    assert_eq!(code(again), Code::AlreadyInitialised);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
    let short = Vault::create_with(store.clone(), passphrase("elevenchars"), cost).await;
    assert_eq!(code(short), Code::PassphraseWeak);
    let unmade = Vault::unlock(store, by_passphrase(PASSPHRASE)).await;
    assert_eq!(code(unmade), Code::NotInitialised);
}

async fn secrets_come_change_and_go(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    let at = path("team/github/token");
    let added = vault
        .add(at.clone(), bound(), Some(value("first-value")), Entries::untold())
        .await
        .unwrap();
    assert_eq!((added.version, added.rotated_at.is_some()), (Some(1), true));
    assert_eq!(
        code(vault.add(at.clone(), bound(), None, Entries::untold()).await),
        Code::SecretExists
    );
    assert_eq!(vault.put(&at, value("second-value"), Entries::untold()).await.unwrap(), 2);
    assert_eq!(opened(vault, "team/github/token").await, "second-value");
    let described = Metadata { description: Some("CI".to_owned()), ..bound() };
    let changed =
        vault.set_metadata(&at, &bound(), described.clone(), Entries::untold()).await.unwrap();
    assert_eq!(vault.show(&at).await.unwrap(), changed);
    assert_eq!((changed.metadata, changed.version), (described, Some(2)));
    vault.add(path("a/b/empty"), Metadata::default(), None, Entries::untold()).await.unwrap();
    assert_eq!(code(vault.open(&path("a/b/empty")).await), Code::SecretUnavailable);
    let listed = vault.list().await.unwrap();
    let paths: Vec<_> = listed.iter().map(|secret| &secret.path).collect();
    assert_eq!(paths, [&path("a/b/empty"), &at]);
    vault.remove(&at, Entries::untold()).await.unwrap();
    for gone in [
        code(vault.open(&at).await),
        code(vault.show(&at).await),
        code(vault.remove(&at, Entries::untold()).await),
        code(vault.put(&at, value("0123456789"), Entries::untold()).await),
        code(vault.set_metadata(&at, &bound(), bound(), Entries::untold()).await),
    ] {
        assert_eq!(gone, Code::SecretNotFound);
    }
    assert_eq!(scene.again().await.list().await.unwrap().len(), 1);
}

/// Two hands at one secret: neither takes back what the other has said meanwhile.
async fn what_was_said_meanwhile_stays(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (vault, other) = (&scene.vault, scene.again().await);
    let at = path("team/github/token");
    vault.add(at.clone(), bound(), Some(value("first-value")), Entries::untold()).await.unwrap();
    let before = vault.show(&at).await.unwrap().metadata;
    let first = vault.open(&at).await.unwrap().value;
    let compromised = other.revoke_compromised(&at, Entries::untold()).await.unwrap().metadata;
    let described = Metadata { description: Some("CI".to_owned()), ..before.clone() };
    let late = vault.set_metadata(&at, &before, described, Entries::untold()).await.unwrap_err();
    assert!(
        late.code() == Code::ChangedMeanwhile && late.to_string().contains("meanwhile"),
        "{late}"
    );
    // What a service gives in its place is no more of a secret, and a person's value is.
    assert_eq!(
        code(vault.put_successor(&at, &first, value("second-value"), Entries::untold()).await),
        Code::SecretCompromised
    );
    assert_eq!(vault.show(&at).await.unwrap().metadata, compromised);
    assert_eq!(vault.put(&at, value("second-value"), Entries::untold()).await.unwrap(), 2);
    let second = vault.open(&at).await.unwrap().value;
    let third = vault.put_successor(&at, &second, value("third-value"), Entries::untold()).await;
    assert_eq!(third.unwrap(), Succession::Stored(3));
    assert_eq!(opened(vault, "team/github/token").await, "third-value");
    let late = vault.put_successor(&at, &second, value("of-the-second"), Entries::untold()).await;
    assert_eq!(late.unwrap(), Succession::Outrun);
    assert_eq!(opened(vault, "team/github/token").await, "third-value");
}

/// Whichever comes first: a person has seen no other value there than their own.
async fn a_persons_value_outruns_a_successor(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (vault, other) = (&scene.vault, scene.again().await);
    let at = path("team/github/token");
    vault.add(at.clone(), bound(), Some(value("first-value")), Entries::untold()).await.unwrap();
    for round in 0..20 {
        let last = vault.open(&at).await.unwrap().value;
        let persons = format!("of-a-person-{round}");
        let (succession, put) = tokio::join!(
            vault.put_successor(&at, &last, value("of-the-service"), Entries::untold()),
            other.put(&at, value(&persons), Entries::untold()),
        );
        succession.unwrap();
        put.unwrap();
        assert_eq!(opened(vault, "team/github/token").await, persons);
    }
}

/// The number of a version that was purged is not given again while it stands for a value that others know.
async fn a_fresh_value_is_none_that_others_know(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (vault, at) = (&scene.vault, path("team/github/token"));
    vault.add(at.clone(), bound(), Some(value("first-value")), Entries::untold()).await.unwrap();
    vault.put(&at, value("second-value"), Entries::untold()).await.unwrap();
    vault.restore(&at, Some(1), Entries::untold()).await.unwrap();
    vault.revoke_compromised(&at, Entries::untold()).await.unwrap();
    vault.purge(&at, Some(2), Entries::untold()).await.unwrap();
    assert_eq!(code(vault.open(&at).await), Code::SecretCompromised);
    assert_eq!(vault.put(&at, value("third-value"), Entries::untold()).await.unwrap(), 3);
    assert_eq!(opened(vault, "team/github/token").await, "third-value");
}

/// The log tells versions by their numbers.
async fn the_number_of_a_version_is_never_anothers(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (vault, at) = (&scene.vault, path("team/github/token"));
    vault.add(at.clone(), bound(), Some(value("first-value")), Entries::untold()).await.unwrap();
    let put = async |what: &str| vault.put(&at, value(what), Entries::untold()).await.unwrap();
    let purge = async |version| vault.purge(&at, Some(version), Entries::untold()).await.unwrap();
    assert_eq!(put("second-value").await, 2);
    vault.restore(&at, Some(1), Entries::untold()).await.unwrap();
    purge(2).await;
    assert_eq!(opened(vault, "team/github/token").await, "first-value");
    assert_eq!(put("third-value").await, 3);
    // An older one that goes changes nothing, and one of a removed secret leaves that removed.
    purge(1).await;
    assert_eq!(put("fourth-value").await, 4);
    vault.restore(&at, Some(3), Entries::untold()).await.unwrap();
    vault.remove(&at, Entries::untold()).await.unwrap();
    purge(4).await;
    assert_eq!(vault.removed().await.unwrap().len(), 1);
    assert_eq!(vault.restore(&at, None, Entries::untold()).await.unwrap().version, Some(3));
    assert_eq!(put("fifth-value").await, 5);
}

/// It is no old value's, which a later one's is.
async fn a_day_that_was_said_before_the_first_value_is_that_values(engine: Engine) {
    let scene = Scene::on(engine).await;
    let (vault, at) = (&scene.vault, path("team/github/token"));
    let day = Some(jiff::civil::date(2031, 1, 31));
    let upkeep = Upkeep { expires_at: day, rotate_every_days: Some(30), ..Upkeep::default() };
    let metadata = Metadata { upkeep, ..bound() };
    vault.add(at.clone(), metadata, None, Entries::untold()).await.unwrap();
    let said = async || vault.show(&at).await.unwrap().metadata.upkeep;
    vault.put(&at, value("first-value"), Entries::untold()).await.unwrap();
    assert_eq!(said().await.expires_at, day);
    vault.put(&at, value("second-value"), Entries::untold()).await.unwrap();
    assert_eq!((said().await.expires_at, said().await.rotate_every_days), (None, Some(30)));
}

async fn values_must_fit_their_use(engine: Engine) {
    let scene = Scene::on(engine).await;
    let add = async |at: &str, metadata, text: &str| {
        scene
            .vault
            .add(path(at), metadata, Some(value(text)), Entries::untold())
            .await
            .map_err(|e| e.code())
    };
    for bad in ["short", "", "with\nnewline", "with\rreturn", "with\0nul-byte"] {
        assert_eq!(add("a/b/c", bound(), bad).await, Err(Code::ValueRefused), "{bad:?}");
    }
    let large = "x".repeat(64 * 1024 + 1);
    assert_eq!(add("a/b/c", Metadata::default(), &large).await, Err(Code::ValueRefused));
    assert!(add("a/b/c", bound(), &large[1..]).await.is_ok());
    assert!(add("a/b/d", Metadata::default(), "two\nlines").await.is_ok());
    let binding = scene
        .vault
        .set_metadata(&path("a/b/d"), &Metadata::default(), bound(), Entries::untold())
        .await;
    assert_eq!(code(binding), Code::ValueRefused);
    let mut nowhere = bound();
    nowhere.egress.as_mut().unwrap().to.clear();
    assert_eq!(add("a/b/e", nowhere, "0123456789").await, Err(Code::ValueRefused));
}

async fn a_secret_may_be_kept_elsewhere(engine: Engine) {
    let scene = Scene::on(engine).await;
    let file = scene.beside("token");
    fs::write(&file, "value-in-a-file\n").unwrap();
    let source = SourceConfig::File { path: file.clone() };
    let metadata = Metadata { source, ..bound() };
    let given = scene
        .vault
        .add(path("a/b/f"), metadata.clone(), Some(value("0123456789")), Entries::untold())
        .await;
    assert_eq!(code(given), Code::Usage);
    scene.vault.add(path("a/b/f"), metadata, None, Entries::untold()).await.unwrap();
    let reading = scene.vault.open(&path("a/b/f")).await.unwrap();
    assert_eq!(reading.value.expose_for_sealing(), b"value-in-a-file");
    assert_eq!(reading.warnings, [Warning::TrailingNewline { file: file.clone() }]);
    assert_eq!(
        code(scene.vault.put(&path("a/b/f"), value("0123456789"), Entries::untold()).await),
        Code::Usage
    );
    fs::write(&file, "x".repeat(64 * 1024 + 1)).unwrap();
    assert_eq!(code(scene.vault.open(&path("a/b/f")).await), Code::ValueRefused);
    fs::remove_file(&file).unwrap();
    let error = scene.vault.open(&path("a/b/f")).await.unwrap_err();
    assert_eq!(error.code(), Code::SecretUnavailable);
    assert!(error.to_string().contains("token"), "{error}");
    let relative = SourceConfig::File { path: "token".into() };
    let relative = Metadata { source: relative, ..bound() };
    assert_eq!(
        code(scene.vault.add(path("a/b/g"), relative, None, Entries::untold()).await),
        Code::ValueRefused
    );
    let variable = EnvName::parse("KEYLESS_TEST_SURELY_NOT_SET").unwrap();
    let from_env = Metadata { source: SourceConfig::Env { variable }, ..bound() };
    scene.vault.add(path("a/b/h"), from_env, None, Entries::untold()).await.unwrap();
    assert_eq!(code(scene.vault.open(&path("a/b/h")).await), Code::SecretUnavailable);
}

#[tokio::test]
async fn odd_files_do_not_hold_it_up() {
    let scene = Scene::new().await;
    let fifo = scene.beside("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (name, file) in [("fifo", fifo), ("folder", scene.beside("")), ("dev", "/dev/zero".into())]
    {
        let at = path(&format!("a/b/{name}"));
        let metadata = Metadata { source: SourceConfig::File { path: file }, ..bound() };
        scene.vault.add(at.clone(), metadata, None, Entries::untold()).await.unwrap();
        assert_eq!(code(scene.vault.open(&at).await), Code::SecretUnavailable, "{name}");
    }
}

async fn the_audit_log_is_sealed_with_its_key(engine: Engine) {
    let scene = Scene::on(engine).await;
    let log = AuditLog::start(scene.vault.store(), Some(scene.vault.head_sealer()));
    log.flush().await.unwrap();
    let again = scene.again().await;
    let verified = again.store().audit_verify(Some(&*again.head_sealer())).await.unwrap();
    assert_eq!((verified[0].entries, verified[0].sealed), (0, 0));
    let other = Scene::new().await;
    let foreign = scene.vault.store().audit_verify(Some(&*other.vault.head_sealer())).await;
    assert!(foreign.is_err());
}

#[tokio::test]
async fn the_file_is_private() {
    let scene = Scene::new().await;
    let mode = fs::metadata(scene.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn nothing_prints_what_it_holds() {
    let words = format!("{:?}", passphrase(PASSPHRASE));
    assert!(!words.contains("horse"));
    let zeros = "abandon ".repeat(23) + "art";
    let phrase = RecoveryPhrase::parse(&Zeroizing::new(zeros)).unwrap();
    assert!(!format!("{phrase:?}").contains("abandon"));
}

/// A batch is one mutation: what doesn't fit is told by itself, and nothing else waits for it.
async fn many_secrets_are_added_at_once_and_each_is_judged_by_itself(engine: Engine) {
    let scene = Scene::on(engine).await;
    scene
        .vault
        .add(path("a/b/there"), Metadata::default(), Some(value("old")), Entries::untold())
        .await
        .unwrap();
    let new = |name: &str, text: &str| NewSecret {
        path: path(name),
        metadata: Metadata::default(),
        value: Some(value(text)),
    };
    let before = generation(&scene).await;
    let all = vec![
        new("a/b/one", "first"),
        new("a/b/there", "another"),
        new("a/b/one", "again"),
        NewSecret { value: None, ..new("a/b/later", "") },
        new("a/b/two", "second"),
    ];
    let answers = scene.vault.add_all(all, Entries::untold()).await.unwrap();
    let codes: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().err().map(Error::code)).collect();
    let exists = Some(Code::SecretExists);
    assert_eq!(codes, [None, exists, exists, None, None]);
    assert_eq!(generation(&scene).await, before + 1, "one mutation");
    let vault = scene.again().await;
    for (name, text) in [("a/b/one", "first"), ("a/b/there", "old"), ("a/b/two", "second")] {
        assert_eq!(opened(&vault, name).await, text);
    }
    assert!(vault.show(&path("a/b/later")).await.unwrap().lacks_value());

    let again = vault.add_all(vec![new("a/b/one", "third")], Entries::untold()).await.unwrap();
    assert_eq!(again[0].as_ref().unwrap_err().code(), Code::SecretExists);
    assert_eq!(generation(&scene).await, before + 1, "nothing to write");
}

async fn generation(scene: &Scene) -> u64 {
    scene.store().await.rows().await.unwrap().commitment.unwrap().generation
}
