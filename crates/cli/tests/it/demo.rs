use serde_json::Value;

use crate::{invocation::KEYLESS, world::World};

/// As in a container with its defaults: the story's half that stands without a jail is told, and nobody takes it for
/// the whole.
#[test]
fn where_no_jail_can_be_made_the_rest_is_shown() {
    let world = World::empty();
    let played = |options: &str| {
        let script =
            format!(r#"echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" {options} demo"#);
        world.keyless(&[]).instead(&["unshare", "-Ur", "sh", "-ec", &script, KEYLESS]).run()
    };
    let told = played("--json");
    told.exits(7);
    let report: Value = serde_json::from_slice(&told.stdout).unwrap();
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.len() >= 7 && steps.iter().all(|step| step["ok"] == true), "{report}");
    assert_eq!((&report["ok"], &report["leaks"]), (&false.into(), &0.into()), "{report}");
    let left_out = report["not_shown"].as_array().unwrap();
    assert_eq!((steps.len() + left_out.len(), left_out.is_empty()), (12, false), "{report}");

    let told = played("");
    told.exits(7);
    let words = told.text();
    assert_eq!(words.matches("not shown: it takes a jail").count(), left_out.len(), "{words}");
    assert!(words.contains("sudo sysctl -w user.max_user_namespaces=15000"), "{words}");
}
