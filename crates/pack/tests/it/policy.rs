//! An organisation's rules: looked at, pinned, audited.

use std::{collections::BTreeMap, fs};

use keyless_pack::{Code, Request, commands};
use serde_json::Value;

use crate::scene::{Scene, git, refused};

/// The issues of a lint, by rule and file.
fn issues(scene: &Scene) -> Vec<(String, String)> {
    let Err(error) = commands::policy_lint(&scene.surroundings(), &Request::default()) else {
        return Vec::new();
    };
    assert_eq!(error.code(), Code::PolicyViolations, "{error}");
    let details = error.details();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |issue: &Value| (text(&issue["rule"]), text(&issue["path"]));
    details["issues"].as_array().unwrap().iter().map(of).collect()
}

fn rules(scene: &Scene) -> BTreeMap<String, usize> {
    let mut rules = BTreeMap::new();
    for (rule, _) in issues(scene) {
        *rules.entry(rule).or_default() += 1;
    }
    rules
}

fn policy(scene: &Scene, text: &str) {
    scene.write("ap/repo/agentpack.org.yaml", text);
}

fn expected<const N: usize>(rules: [(&str, usize); N]) -> BTreeMap<String, usize> {
    rules.into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect()
}

#[test]
fn skills_and_commands_are_looked_at_without_a_policy() {
    let scene = Scene::new();
    assert_eq!(issues(&scene), []);
    scene.module("bare/SKILL.md", "no front matter\n");
    scene.module("half/SKILL.md", "---\nname: \"\"\n---\n");
    scene.module("odd/SKILL.md", "---\nname: [a]\ndescription: d\n---\n");
    scene.write("ap/repo/node_modules/x/SKILL.md", "somebody else's\n");
    scene.module(
        "claude-commands/a/loud.md",
        "---\ndescription: d\n---\n!bash\nagentpack deploy --apply\n",
    );
    scene.write("ap/repo/.claude/commands/fine.md", "no bash, no duty\n");
    scene.link("/etc/hostname", "ap/repo/.claude/commands/link.md");
    let wanted =
        [("claude_command_allowed_tools", 1), ("dangerous_defaults", 1), ("skill_frontmatter", 4)];
    assert_eq!(rules(&scene), expected(wanted));
    let before = scene.picture("");
    issues(&scene);
    assert_eq!(scene.picture(""), before, "a lint writes nothing");
}

#[test]
fn a_policy_that_cant_be_read_is_said_and_asks_for_the_most() {
    let scene = Scene::new();
    for (text, count) in [
        ("version: [1", 1),
        ("version: 2", 1),
        ("version: 1\npolicy_pack: { source: nope }", 1),
        (
            "version: 1\ndistribution_policy: { required_targets: [\"\", 3x, []] }\nsupply_chain_policy: { allowed_git_remotes: x, require_lockfile: maybe }",
            3,
        ),
    ] {
        policy(&scene, text);
        assert_eq!(rules(&scene).get("policy_config"), Some(&count), "{text}");
        let locked = commands::policy_lock(&scene.surroundings(), &Request::default(), true);
        let code = if text == "version: 2" {
            Code::PolicyConfigUnsupportedVersion
        } else {
            Code::PolicyConfigInvalid
        };
        refused(locked, code);
    }
}

const SUPPLY: &str = "version: 1\ndistribution_policy:\n  required_targets: [codex, zed]\n  required_modules: [\"prompt:x\", nope]\n\
                      supply_chain_policy: { allowed_git_remotes: [github.com/Fine/], require_lockfile: true }\n";

#[test]
fn modules_targets_remotes_and_pins_are_held_to_the_policy() {
    let scene = Scene::new();
    let git_module = |id: &str, url: &str, enabled: bool| {
        format!(
            "  - {{ id: \"{id}\", type: prompt, enabled: {enabled}, source: {{ git: {{ url: \"{url}\" }} }} }}\n"
        )
    };
    let modules = [
        git_module("prompt:x", "https://github.com/bad/x.git", false),
        git_module("prompt:y", "git@GitHub.com:Fine/y.git", true),
        git_module("prompt:z", "https://github.com/finer/z", true),
    ];
    scene.manifest(&format!("{}{}", crate::scene::MANIFEST, modules.concat()));
    policy(&scene, SUPPLY);
    let always = [
        ("distribution_required_modules", 1),
        ("distribution_required_targets", 1),
        ("supply_chain_allowed_git_remotes", 2),
    ];
    let and = |rule: &str, count| {
        let mut all = expected(always);
        all.insert(rule.to_owned(), count);
        all
    };
    assert_eq!(rules(&scene), and("supply_chain_lockfile_missing", 1));
    scene.write("ap/repo/agentpack.lock.json", "{");
    assert_eq!(rules(&scene), and("supply_chain_lockfile_invalid", 1));
    let entry = |id: &str, source: &str| {
        let sha = "0".repeat(64);
        format!(
            r#"{{"id":"{id}","type":"prompt","resolved_source":{source},"resolved_version":"x","sha256":"{sha}","file_manifest":[]}}"#
        )
    };
    let lock = |entries: &[String]| {
        let text =
            format!(r#"{{"version":1,"generated_at":"x","modules":[{}]}}"#, entries.join(","));
        scene.write("ap/repo/agentpack.lock.json", &text);
    };
    lock(&[entry(
        "prompt:y",
        r#"{"git":{"url":"https://github.com/fine/other","commit":"main"}}"#,
    )]);
    let mut wanted = and("supply_chain_lockfile_missing_module", 1);
    wanted.insert("supply_chain_lockfile_unpinned_commit".to_owned(), 1);
    wanted.insert("supply_chain_lockfile_url_mismatch".to_owned(), 1);
    assert_eq!(rules(&scene), wanted);
    let commit = "1".repeat(40);
    let pinned = format!(r#"{{"git":{{"url":"https://github.com/Fine/y","commit":"{commit}"}}}}"#);
    lock(&[entry("prompt:y", &pinned), entry("prompt:z", r#"{"local_path":{"path":"q"}}"#)]);
    assert_eq!(rules(&scene), and("supply_chain_lockfile_source_mismatch", 1));
    scene.manifest("version: 3\n");
    assert_eq!(rules(&scene), expected([("distribution_policy", 1), ("supply_chain_policy", 1)]));
}

/// A URL that leads out of what is allowed is refused wherever one is read: nothing locks or fetches it.
#[test]
fn a_remote_cant_lead_out_of_what_is_allowed() {
    let scene = Scene::new();
    let rule = "supply_chain_policy: { allowed_git_remotes: [github.com/acme] }\n";
    for url in [
        "https://github.com/acme/../evil/repo",
        "https://github.com/acme/%2e%2E/evil/repo",
        "https://github.com/acme//repo",
        "https://github.com@evil.example/acme/repo",
    ] {
        policy(&scene, &format!("version: 1\n{rule}"));
        scene.manifest(&format!(
            "{}  - {{ id: \"prompt:x\", type: prompt, source: {{ git: {{ url: \"{url}\" }} }} }}\n",
            crate::scene::MANIFEST
        ));
        assert_eq!(rules(&scene).get("supply_chain_policy"), Some(&1), "{url}");
        let (at, request) = (scene.surroundings(), Request::default());
        refused(commands::lock(&at, &request, true), Code::ConfigInvalid);
        // A lockfile that somebody else wrote is read by itself.
        let pinned = format!(r#"{{"git":{{"url":"{url}","commit":"{}"}}}}"#, "1".repeat(40));
        let module = format!(
            r#"{{"id":"prompt:x","type":"prompt","resolved_source":{pinned},"resolved_version":"x","sha256":"{}","file_manifest":[]}}"#,
            "0".repeat(64)
        );
        let lock = format!(r#"{{"version":1,"generated_at":"x","modules":[{module}]}}"#);
        scene.write("ap/repo/agentpack.lock.json", &lock);
        refused(commands::fetch(&at, &request, true), Code::ConfigInvalid);
        fs::remove_file(scene.at("ap/repo/agentpack.lock.json")).unwrap();
        scene.manifest(crate::scene::MANIFEST);
        policy(&scene, &format!("version: 1\npolicy_pack: {{ source: \"git:{url}\" }}\n{rule}"));
        assert_eq!(rules(&scene).get("policy_config"), Some(&1), "{url}");
        refused(commands::policy_lock(&at, &request, true), Code::PolicyConfigInvalid);
    }
}

#[test]
fn a_policy_pack_is_pinned_and_the_pin_is_held() {
    let scene = Scene::new();
    let lock = || commands::policy_lock(&scene.surroundings(), &Request::default(), true);
    refused(lock(), Code::PolicyConfigMissing);
    scene.git("", &["init", "-q", "-b", "main", "rules"]);
    scene.write("rules/p/a.md", "Be careful.\n");
    scene.git("rules", &["add", "-A"]);
    scene.git("rules", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]);
    let url = scene.at("rules").display().to_string();
    let pack = format!("version: 1\npolicy_pack: {{ source: \"git:{url}#subdir=p\" }}\n");
    policy(&scene, &pack);
    assert_eq!(rules(&scene), expected([("policy_pack_lock", 1)]));
    let data = lock().unwrap().data;
    let head = git(&scene.at("rules"), &["rev-parse", "HEAD"]);
    assert_eq!((data.resolved_version.as_str(), data.files), (head.trim(), 1));
    let text = scene.read("ap/repo/agentpack.org.lock.json");
    assert_eq!(issues(&scene), []);
    lock().unwrap();
    assert_eq!(
        scene.read("ap/repo/agentpack.org.lock.json"),
        text,
        "the same pack, the same bytes"
    );
    policy(
        &scene,
        &format!("{pack}supply_chain_policy: {{ allowed_git_remotes: [github.com/fine] }}\n"),
    );
    assert_eq!(rules(&scene), expected([("policy_pack_allowed_git_remotes", 1)]));
    refused(lock(), Code::PolicyConfigInvalid);
    policy(&scene, "version: 1\npolicy_pack: { source: \"local:modules\" }\n");
    assert_eq!(rules(&scene), expected([("policy_pack_lock", 1)]), "locked is another one");
    policy(&scene, "version: 1\n");
    refused(lock(), Code::PolicyConfigInvalid);
}

#[test]
fn an_audit_tells_what_the_last_commit_changed() {
    let scene = Scene::new();
    let at = scene.surroundings();
    let audit = || commands::policy_audit(&at, &Request::default());
    refused(audit(), Code::LockfileMissing);
    commands::lock(&at, &Request::default(), true).unwrap();
    let answer = audit().unwrap();
    assert_eq!((answer.data.modules.len(), answer.warnings.len()), (4, 0));
    scene.commit();
    assert!(audit().unwrap().warnings[0].contains("HEAD^"), "one commit has none before it");
    scene.module("base/AGENTS.md", "Be kinder.\n");
    let manifest = crate::scene::MANIFEST.replace("prompt:review", "prompt:look");
    scene.manifest(&manifest);
    commands::lock(&at, &Request::default(), true).unwrap();
    scene.commit();
    let changes = audit().unwrap().data.change_summary.unwrap();
    assert_eq!(
        (changes.modules_added, changes.modules_removed),
        (vec!["prompt:look".to_owned()], vec!["prompt:review".to_owned()])
    );
    let [one] = &changes.modules_changed[..] else { panic!("{:?}", changes.modules_changed) };
    assert_eq!(one.id, "instructions:base");
    assert!(one.sha256.is_some() && one.files.is_none() && one.resolved_source.is_none());
    scene.write("ap/repo/agentpack.org.lock.json", "{");
    assert!(audit().unwrap().warnings[0].contains("agentpack.org.lock.json"));
}
