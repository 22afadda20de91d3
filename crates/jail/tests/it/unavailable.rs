use std::process::Command;

use crate::scene::Scene;

/// Runs `jail-probe --check` (as `$0 --check`) below a script, in a user namespace of its own whose
/// settings the script may change.
fn check(unshare: &[&str], script: &str) -> (bool, String) {
    let scene = Scene::new(&[]);
    let probe = &scene.command_line()[0];
    let output = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-ec", &format!("{script} \"$0\" --check"), probe])
        .output()
        .expect("unshare starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_jail_can_be_made_here_and_in_another_namespace() {
    for unshare in [&["--fork"][..], &["-Ur"]] {
        let (made, errors) = check(unshare, "");
        assert!(made, "{unshare:?}: {errors}");
    }
}

#[test]
fn the_missing_setting_is_named_with_its_remedy() {
    let table: [(&[&str], &str, &str); 4] = [
        (
            &["-Ur"],
            "echo 0 > /proc/sys/user/max_user_namespaces;",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (
            &["-Ur"],
            "echo 0 > /proc/sys/user/max_net_namespaces;",
            "sysctl -w user.max_net_namespaces=15000",
        ),
        (&["-Urm"], "mount --bind /proc/sys /proc/sys;", "systempaths=unconfined"),
        (&["-Ur"], "setpriv --bounding-set=-setfcap", "--cap-add SETFCAP"),
    ];
    for (unshare, script, expected) in table {
        let (made, errors) = check(unshare, script);
        assert!(!made && errors.contains(expected), "{script}: {errors}");
    }
}

#[test]
fn a_jail_in_a_jail_is_refused_with_the_reason() {
    let scene = Scene::new(&[]);
    let probe = scene.command_line()[0].clone();
    let outcome = Scene::new(&[&probe, "--check"]).play();
    assert!(outcome.errors().contains("seccomp filter"), "{}", outcome.errors());
}
