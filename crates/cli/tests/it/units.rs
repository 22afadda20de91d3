//! The units under systemd itself: one of its own, PID 1 of namespaces over this machine's files, of which nothing is
//! changed. It takes root, as installing what the tests need does: by `sudo -n` where this is somebody else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::invocation::KEYLESS;

const FIRST: &str = "first-value-of-the-test";
const ROTATED: &str = "rotated-value-of-the-test";
const CATALOG: &str = r#"
apiVersion: keyless.dev/v1alpha1
kind: SecretProxy
metadata: { name: agents }
spec:
  secrets:
    - env: GITHUB_TOKEN
      secretRef: { name: github, key: token }
      egressTo: ["http://origin.test:8080"]
  internal:
    allowlist: ["origin.test:8080"]
"#;

/// What a story is told with.
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(TempDir::new().unwrap());
        let stories = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/units");
        for entry in fs::read_dir(stories).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), scene.file(entry.file_name().to_str().unwrap())).unwrap();
        }
        fs::copy(KEYLESS, scene.file("keyless")).unwrap();
        scene
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Boots, has the story told, and gives it.
    fn tell(&self, story: &str) -> String {
        let root = rustix::process::geteuid().is_root();
        let mut words = if root { vec![] } else { vec!["sudo", "-n"] };
        words.extend(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup"]);
        words.extend(["--net", "--uts", "--ipc", "bash"]);
        let status = Command::new(words[0])
            .args(&words[1..])
            .args([&self.file("boot.sh"), self.0.path(), Path::new(story)])
            .status()
            .unwrap();
        let (told, journal) = (self.read("told"), self.read("journal"));
        assert!(status.success(), "{told}\n{}\n{journal}", self.read("commands"));
        for value in [FIRST, ROTATED] {
            assert!(!told.contains(value) && !journal.contains(value), "{told}\n{journal}");
        }
        told
    }
}

#[test]
fn the_sidecars_unit_is_installed_reloaded_killed_and_stopped() {
    let scene = Scene::new();
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unit = unit.join("../../deploy/systemd/keyless-proxy.service");
    let unit = fs::read_to_string(unit).unwrap();
    // As the unit's first lines say.
    let commands: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    scene.write("installed.sh", &commands.join("\n"));
    scene.write("keyless-proxy.service", &unit);
    scene.write("catalog.yaml", CATALOG);
    scene.write("token", FIRST);
    scene.write("rotated", ROTATED);
    let told = scene.tell("proxy.sh");
    let said: Vec<_> = told.lines().filter(|line| !line.starts_with('/')).collect();
    assert_eq!(
        said,
        [
            "started: active, as keyless, 200",
            "restarted: the same way in",
            "what was under way: 0",
            "stopped: inactive, success",
        ],
        "{told}"
    );
    let got =
        format!("/started {FIRST}\n/reloaded {ROTATED}\n/restarted {ROTATED}\n/slow {ROTATED}\n");
    assert_eq!(scene.read("got"), got);
}

#[test]
fn the_brokers_unit_is_started_killed_and_stopped() {
    let told = Scene::new().tell("broker.sh");
    let said: Vec<_> = told.lines().collect();
    assert_eq!(
        said,
        [
            "started: Broker: unlocked",
            "restarted: Broker: unlocked",
            "stopped: inactive, success, Broker: locked, sockets: 0",
            "session_end",
            "a wrong passphrase: failed, 0 restarts",
        ]
    );
}
