//! Copies of a vault that somebody else wrote: who knows the public key can, and gets none of our values by it.

use age::{secrecy::ExposeSecret as _, x25519::Identity};
use keyless_core::Code;
use keyless_vault::{
    Backup, BackupIdentities, Conflicts, Entries, EnvName, Metadata, SourceConfig, Vault,
};
use serde_json::{Value, json};

use crate::scene::{Engine, Scene, bound, on_both, opened, path, value};

on_both! {
    a_copy_without_a_value_repoints_none_of_ours
    a_copy_repoints_no_value_that_is_kept_elsewhere
    a_replaced_secret_has_the_copys_values_alone
    the_same_value_brings_no_older_one_along
}

const AT: &str = "a/b/token";
const EVIL: &str = "evil.example";

/// A copy of one secret, as anybody writes one who knows the public key.
fn copy(source: &Value, more: &Value, versions: &[(u32, &str)]) -> Backup {
    let at = "2026-01-01T00:00:00Z";
    let version = |(version, value): &(u32, &str)| {
        let value = data_encoding::BASE64.encode(value.as_bytes());
        json!({ "version": version, "created_at": at, "value": value })
    };
    let mut secret = json!({
        "path": AT, "metadata": { "egress": { "to": [EVIL] }, "source": source },
        "created_at": at, "updated_at": at,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
    });
    secret.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let document =
        json!({ "format": "keyless-vault", "version": 1, "exported_at": at, "secrets": [secret] });
    let identity = Identity::generate();
    let file = age::encrypt(&identity.to_public(), document.to_string().as_bytes()).unwrap();
    let key = BackupIdentities::parse(identity.to_string().expose_secret()).unwrap();
    Backup::decrypt(&file, &key).unwrap()
}

async fn destinations(vault: &Vault) -> Vec<String> {
    let rule = vault.show(&path(AT)).await.unwrap().metadata.egress.unwrap();
    rule.to.iter().map(ToString::to_string).collect()
}

async fn numbers(vault: &Vault) -> Vec<u32> {
    let versions = vault.versions(&path(AT)).await.unwrap();
    let mut numbers: Vec<u32> = versions.iter().map(|version| version.version).collect();
    numbers.sort_unstable();
    numbers
}

async fn a_copy_without_a_value_repoints_none_of_ours(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    vault.add(path(AT), bound(), Some(value("ours-1-ours-1")), Entries::untold()).await.unwrap();
    let before = vault.list().await.unwrap();
    for source in [json!("local"), json!({ "routed": {} }), json!({ "env": { "variable": "A" } })] {
        let refused = vault
            .import(copy(&source, &json!({}), &[]), Conflicts::Replace, Entries::untold())
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::StateUnfit, "{source}");
    }
    // Nor while ours is removed, to be restored later.
    vault.remove(&path(AT), Entries::untold()).await.unwrap();
    let refused = vault
        .import(copy(&json!("local"), &json!({}), &[]), Conflicts::Replace, Entries::untold())
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::StateUnfit);
    vault.restore(&path(AT), None, Entries::untold()).await.unwrap();
    assert_eq!(vault.list().await.unwrap()[0].metadata, before[0].metadata);
    assert_eq!(opened(vault, AT).await, "ours-1-ours-1");
}

/// A value that another source keeps for us is ours as well.
async fn a_copy_repoints_no_value_that_is_kept_elsewhere(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    let kept = SourceConfig::Env { variable: EnvName::parse("KEPT").unwrap() };
    vault
        .add(path(AT), Metadata { source: kept, ..bound() }, None, Entries::untold())
        .await
        .unwrap();
    for source in
        [json!({ "env": { "variable": "KEPT" } }), json!({ "routed": {} }), json!("local")]
    {
        let refused = vault
            .import(copy(&source, &json!({}), &[]), Conflicts::Replace, Entries::untold())
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::StateUnfit, "{source}");
    }
    assert_eq!(destinations(vault).await, ["api.github.com"]);
}

async fn a_replaced_secret_has_the_copys_values_alone(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    vault.add(path(AT), bound(), Some(value("ours-1-ours-1")), Entries::untold()).await.unwrap();
    vault.put(&path(AT), value("ours-2-ours-2"), Entries::untold()).await.unwrap();
    let theirs = || {
        let versions = [(1, "theirs-1-theirs"), (4, "theirs-4-theirs")];
        copy(&json!("local"), &json!({ "in_use": 1 }), &versions)
    };
    let shown = vault.replacements(&theirs()).await.unwrap();
    let to = |metadata: &Metadata| metadata.egress.as_ref().unwrap().to[0].to_string();
    assert_eq!((to(&shown[0].before), to(&shown[0].after)), ("api.github.com".into(), EVIL.into()));
    let imported = vault.import(theirs(), Conflicts::Replace, Entries::untold()).await.unwrap();
    assert_eq!(imported.replaced, [path(AT)]);
    assert_eq!(destinations(vault).await, [EVIL]);
    // No number that meant a value of ours means another now.
    assert_eq!(numbers(vault).await, [3, 4]);
    assert_eq!(opened(vault, AT).await, "theirs-1-theirs");
    for ours in [1, 2] {
        let gone = vault.restore(&path(AT), Some(ours), Entries::untold()).await;
        assert_eq!(gone.unwrap_err().code(), Code::SecretVersionUnknown, "version {ours}");
    }
    vault.restore(&path(AT), Some(4), Entries::untold()).await.unwrap();
    assert_eq!(opened(vault, AT).await, "theirs-4-theirs");
}

/// The same value of ours in the copy's hand brings none of the others along.
async fn the_same_value_brings_no_older_one_along(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    vault.add(path(AT), bound(), Some(value("ours-1-ours-1")), Entries::untold()).await.unwrap();
    vault.put(&path(AT), value("ours-2-ours-2"), Entries::untold()).await.unwrap();
    let known = copy(&json!("local"), &json!({}), &[(2, "ours-2-ours-2")]);
    vault.import(known, Conflicts::Replace, Entries::untold()).await.unwrap();
    assert_eq!(numbers(vault).await, [3]);
}
