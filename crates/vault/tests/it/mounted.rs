//! The fleet's values, laid out as the kubelet does it.

use std::{fs, os::unix::fs::symlink, path::Path};

use keyless_core::Code;
use keyless_vault::{MountedValues, Warning, parse_catalog};

const CATALOG: &str = "
apiVersion: keyless.dev/v1alpha1
kind: SecretProxy
spec:
  secrets:
    - { env: A, secretRef: { name: github, key: API_TOKEN }, egressTo: [api.github.com] }
    - { env: B, secretRef: { name: github, key: ABSENT }, egressTo: [api.github.com] }
    - { env: C, secretRef: { name: github, key: SHORT }, egressTo: [api.github.com] }
";

/// Writes a generation of the mount and turns the link to it.
fn publish(secret: &Path, generation: &str, token: &str) {
    let data = secret.join(generation);
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("API_TOKEN"), token).unwrap();
    fs::write(data.join("SHORT"), "short").unwrap();
    let next = secret.join("..data_tmp");
    symlink(generation, &next).unwrap();
    fs::rename(next, secret.join("..data")).unwrap();
}

#[tokio::test]
async fn values_are_read_as_they_are_mounted_now() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("github");
    publish(&secret, "..1", "first-value\n");
    for key in ["API_TOKEN", "SHORT"] {
        symlink(Path::new("..data").join(key), secret.join(key)).unwrap();
    }
    let catalog = parse_catalog(CATALOG).unwrap();
    let mounted = MountedValues::new(folder.path());
    let first = mounted.read(&catalog.entries[0]).await.unwrap();
    assert_eq!(first.value.expose_for_sealing(), b"first-value");
    assert_eq!(first.value.path().as_str(), "fleet/github/api-token");
    let file = secret.join("API_TOKEN");
    assert_eq!(first.warnings, [Warning::TrailingNewline { file }]);
    publish(&secret, "..2", "second-value");
    let second = mounted.read(&catalog.entries[0]).await.unwrap();
    assert_eq!(second.value.expose_for_sealing(), b"second-value");
    let absent = mounted.read(&catalog.entries[1]).await.unwrap_err();
    assert_eq!(absent.code(), Code::SecretUnavailable);
    assert!(absent.to_string().contains("github/ABSENT"), "{absent}");
    let short = mounted.read(&catalog.entries[2]).await.unwrap_err();
    assert_eq!(short.code(), Code::ValueRefused);
}
