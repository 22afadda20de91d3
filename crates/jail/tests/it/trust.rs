use std::{fs, process::Command, thread};

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

/// Jails that people work in, and those of a single command.
fn ways() -> impl Iterator<Item = (User, bool)> {
    users().into_iter().flat_map(|user| [(user, false), (user, true)])
}

#[test]
fn the_system_bundle_has_the_ca_and_the_roots_as_before() {
    let roots = std::fs::read_to_string(SYSTEM_BUNDLE).unwrap_or_default();
    for (user, read_only) in ways() {
        let cat = |file: &str| {
            scene(user, &format!("cat {file}")).with("read_only", read_only).play().text()
        };
        let bundle = cat(keyless_jail::BUNDLE_IN_JAIL);
        assert_eq!(bundle, format!("{roots}{CA}"));
        if !roots.is_empty() {
            assert_eq!(cat(SYSTEM_BUNDLE), bundle);
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
    for (user, read_only) in ways() {
        let play = |script: &str| scene(user, script).with("read_only", read_only).play().text();
        assert_eq!(play(&script), "/run/keyless/ca.pem: OK\n/run/keyless/ca.pem\n");
        let count = play("ls -A /etc/ssl/certs | wc -l");
        assert_eq!(count.trim().parse::<usize>().expect("a number"), before + 1);
        let written = play("touch /etc/ssl/certs/mine 2>/dev/null && echo written || echo kept");
        assert_eq!(written, "kept\n");
    }
}

/// Each in memory of its own: jails that start at the same time have the same process numbers.
#[test]
fn databases_of_the_home_are_replaced_in_many_jails_at_once() {
    // All probes are copied before one starts: a copy that is open for writing while another thread
    // forks can't be executed (ETXTBSY).
    let scenes = [(); 6].map(|()| {
        let scene = scene(User::Caller, "certutil -L -d sql:$HOME/.pki/nssdb; ls /tmp");
        let home = scene.folder("home");
        fs::create_dir_all(home.join(".pki/nssdb")).expect("made");
        scene.variable("HOME", home.to_str().expect("text"))
    });
    let texts = thread::scope(|scope| {
        let jails = scenes.each_ref().map(|scene| scope.spawn(|| scene.play().text()));
        jails.map(|jail| jail.join().expect("ended"))
    });
    for text in texts {
        assert!(text.contains("keyless") && text.contains("C,,"), "{text}");
        assert!(!text.contains("nss"), "{text}");
    }
}

/// What ours is laid over must not show what is covered there, or what lies under a mount.
#[test]
fn what_is_hidden_or_mounted_in_a_directory_of_certificates_is_as_elsewhere() {
    let certs = "/etc/ssl/certs";
    let script = format!(
        "cd {certs}; cat credential; cat corporate/root.pem; ls own.pem {0}.0 {0}.1; readlink -e {0}.1",
        HASH.trim()
    );
    let prepare = format!(
        "mount -t tmpfs of-the-test {certs} && cd {certs} && mkdir corporate && echo canary > credential && \
         echo under > corporate/root.pem && touch own.pem {0}.0 && mount -t tmpfs of-the-test corporate && \
         echo mounted > corporate/root.pem && exec \"$@\"",
        HASH.trim()
    );
    let plain = prepare.replace("&& mount -t tmpfs of-the-test corporate ", "");
    for read_only in [false, true] {
        for (prepare, hide, expected) in [
            (&plain, None, "canary\nmounted\n"),
            (&prepare, None, "canary\nmounted\n"),
            (&plain, Some("credential"), "mounted\n"),
            (&prepare, Some("corporate"), "canary\n"),
        ] {
            let hidden: Vec<_> = hide.iter().map(|name| format!("{certs}/{name}")).collect();
            let script = format!("({script}) 2>/dev/null || true");
            let scene = scene(User::Caller, &script).with("read_only", read_only);
            let line = scene.with("hide", hidden);
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--mount", "sh", "-c", prepare, "sh"]);
            let output = command.args(line.command_line()).output().expect("unshare starts");
            let text = String::from_utf8_lossy(&output.stdout);
            let ours = format!("{0}.0\n{0}.1\nown.pem\n/run/keyless/ca.pem\n", HASH.trim());
            assert_eq!(text, format!("{expected}{ours}"), "{read_only} {hide:?} {output:?}");
        }
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
