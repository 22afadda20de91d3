use crate::process::which;
use crate::scene::{Scene, User, users};

const CA: &str = include_str!("../vectors/spaced-subject.pem");
const HASH: &str = include_str!("../vectors/spaced-subject.hash");
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

fn scene(user: User, script: &str) -> Scene {
    let scene =
        Scene::script(user, script).with("ca_pem", CA).with("environment", serde_json::json!([]));
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    keyless_jail::trust_environment()
        .into_iter()
        .fold(scene.variable("PATH", path), |scene, (name, value)| scene.variable(name, value))
}

#[test]
fn the_system_bundle_has_the_ca_and_the_roots_as_before() {
    let roots = std::fs::read_to_string(SYSTEM_BUNDLE).unwrap_or_default();
    for user in users() {
        let bundle = scene(user, &format!("cat {}", keyless_jail::BUNDLE_IN_JAIL)).play().text();
        assert_eq!(bundle, format!("{roots}{CA}"));
        if !roots.is_empty() {
            assert_eq!(scene(user, &format!("cat {SYSTEM_BUNDLE}")).play().text(), bundle);
        }
    }
    assert_eq!(std::fs::read_to_string(SYSTEM_BUNDLE).unwrap_or_default(), roots);
}

#[test]
fn openssl_finds_the_ca_in_the_directory_and_keeps_its_links() {
    let script = format!(
        "unset SSL_CERT_FILE; openssl verify -no-CAfile -CApath /etc/ssl/certs {}; readlink -e /etc/ssl/certs/{}.0",
        keyless_jail::CA_IN_JAIL,
        HASH.trim(),
    );
    let before = std::fs::read_dir("/etc/ssl/certs").expect("a directory").count();
    for user in users() {
        let text = scene(user, &script).play().text();
        assert_eq!(text, "/run/keyless/ca.pem: OK\n/run/keyless/ca.pem\n");
        let count = scene(user, "ls -A /etc/ssl/certs | wc -l").play().text();
        assert_eq!(count.trim().parse::<usize>().expect("a number"), before + 1);
    }
}

#[test]
fn python_and_node_trust_it_without_a_setting() {
    let script = "import ssl; c=ssl.create_default_context(); \
        print(any('Session CA' in str(x['subject']) for x in c.get_ca_certs()))";
    for user in users() {
        let quoted = format!("env -i /usr/bin/python3 -c \"{script}\"");
        assert_eq!(scene(user, &quoted).play().text(), "True\n");
    }
}

#[test]
fn java_lists_it_and_the_roots() {
    if !which("keytool") {
        return;
    }
    let script =
        "keytool -list -cacerts -storepass changeit 2>/dev/null | grep -c trustedCertEntry";
    let text = scene(User::Caller, script).play().text();
    let roots = std::fs::read_to_string(SYSTEM_BUNDLE).unwrap_or_default();
    assert_eq!(text.trim(), (roots.matches("BEGIN CERTIFICATE").count() + 1).to_string());
}
