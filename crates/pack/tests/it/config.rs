//! Manifests and modules that can't be used: refused with file, line and remedy, before anything is written.

use keyless_pack::Code;

use crate::scene::{MANIFEST, Scene, refused};

#[test]
fn every_fault_of_a_manifest_names_its_line() {
    for (text, line, words) in [
        ("profiles: {default: {}}\n", 1, "`version: 1` is missing"),
        ("version: x\nprofiles: {default: {}}\n", 1, "must be the number 1"),
        ("version: 1\nprofiles: {}\n", 2, "profile `default` is missing"),
        ("version: 1\nprofiles: {default: {}}\nmodules: 7\n", 3, "must be a list"),
        ("version: 1\nprofiles: {default: {}}\nmodules:\n  - type: prompt\n", 4, "needs an `id`"),
        (
            "version: 1\nprofiles: {default: {}}\nmodules:\n  - id: a\n    type: poem\n",
            4,
            "needs a `type`",
        ),
        (
            "version: 1\nprofiles: {default: {}}\nmodules:\n  - id: a\n    type: prompt\n",
            4,
            "needs a `source`",
        ),
        (
            "version: 1\nprofiles: {default: {}}\nmodules:\n  - id: a\n    type: prompt\n    source: {}\n",
            6,
            "exactly one",
        ),
        (
            "version: 1\nprofiles: {default: {}}\ntargets:\n  zed: {mode: files, scope: user}\n",
            4,
            "projects only",
        ),
        (
            "version: 1\nprofiles: {default: {}}\ntargets:\n  zed: {scope: both}\n",
            4,
            "`mode: files`",
        ),
        ("version: 1\nprofiles: {default: {}}\nversion: 1\n", 3, "stands here twice"),
        ("version: 1\nprofiles: [\n", 2, "unclosed"),
    ] {
        let scene = Scene::empty();
        scene.manifest(text);
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains(&format!("agentpack.yaml:{line}: ")), "{text}\n{error}");
        assert!(error.message().contains(words), "{text}\n{error}");
        assert!(error.hint_text().is_some(), "{text}");
    }
}

#[test]
fn a_module_that_stands_twice_names_both_lines() {
    let scene = Scene::new();
    let again = MANIFEST.replace("prompt:review", "instructions:base");
    scene.manifest(&again);
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert_eq!(error.details()["module_id"], "instructions:base");
    assert!(error.message().contains("first on line 9"), "{error}");
}

#[test]
fn unknown_keys_and_unknown_modules_are_warned_about_with_their_line() {
    let scene = Scene::new();
    let text = MANIFEST.replace(
        "include_tags: [base]",
        "include_tags: [base]\n    include_module: [x]\n    include_modules: [gone]",
    );
    scene.manifest(&text);
    let warnings = scene.plan().unwrap().warnings.join("\n");
    assert!(warnings.contains("agentpack.yaml:5: unknown key `include_module`"), "{warnings}");
    assert!(
        warnings.contains("agentpack.yaml:6: profile `default` names module `gone`"),
        "{warnings}"
    );
}

#[test]
fn other_versions_targets_profiles_and_repos_have_their_codes() {
    let scene = Scene::empty();
    refused(scene.plan(), Code::ConfigMissing);
    scene.manifest("version: 2\nprofiles: {default: {}}\n");
    let error = refused(scene.plan(), Code::ConfigUnsupportedVersion);
    assert_eq!(error.details()["supported"], serde_json::json!([1]));
    scene.manifest(
        "version: 1\nprofiles: {default: {}}\ntargets:\n  emacs: {mode: files, scope: user}\n",
    );
    let error = refused(scene.plan(), Code::TargetUnsupported);
    assert_eq!(error.details()["reason_code"], "target_not_compiled");
    let scene = Scene::new();
    let request = |profile: Option<&str>, target: Option<&str>| keyless_pack::Request {
        profile: profile.map(str::to_owned),
        target: target.map(str::to_owned),
        ..keyless_pack::Request::default()
    };
    let plan = |request| keyless_pack::commands::plan(&scene.surroundings(), &request);
    let error = refused(plan(request(Some("nope"), None)), Code::ConfigInvalid);
    assert!(error.message().contains("there are: default"), "{error}");
    let error = refused(plan(request(None, Some("emacs"))), Code::TargetUnsupported);
    assert_eq!(error.details()["reason_code"], "target_filter_unsupported");
    refused(plan(request(None, Some("zed"))), Code::ConfigInvalid);
}

/// Weakness 28: the cause is in the message.
#[test]
fn modules_that_no_target_could_use_say_why() {
    let scene = Scene::new();
    let tried = |path: &str, text: Option<&str>, words: &str| {
        let whole = scene.at(&format!("ap/repo/modules/{path}"));
        let before = std::fs::read(&whole).ok();
        match text {
            Some(text) => scene.module(path, text),
            None => std::fs::remove_file(&whole).unwrap(),
        }
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains(words), "{error}");
        assert!(error.message().starts_with("agentpack.yaml:"), "{error}");
        match before {
            Some(bytes) => std::fs::write(&whole, bytes).unwrap(),
            None => std::fs::remove_file(&whole).unwrap(),
        }
    };
    tried("review.md", None, "does not exist");
    tried("base/AGENTS.md", None, "has no AGENTS.md");
    tried("tidy/SKILL.md", Some("no front matter\n"), "first line is not `---`");
    tried("tidy/SKILL.md", Some("---\nname: x\n---\n"), "lacks description");
    tried("tidy/SKILL.md", Some("---\nname: 7\ndescription: x\n---\n"), "`name` is no text");
    tried("ship.md", Some("---\nx: y\n---\n"), "has no description");
    tried(
        "ship.md",
        Some("---\ndescription: x\n---\n!bash\nls\n"),
        "runs bash and does not allow it",
    );
    scene.manifest(&MANIFEST.replace("modules/review.md", "modules/two"));
    scene.module("two/a.md", "a");
    scene.module("two/b.md", "b");
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("must hold one file and holds 2: a.md, b.md"), "{error}");
    std::fs::write(scene.at("ap/repo/modules/base/AGENTS.md"), [0xff, 0xfe]).unwrap();
    scene.manifest(MANIFEST);
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("not UTF-8") && !error.message().contains("tmp"), "{error}");
}

/// Weakness 13: a module's id can't lead out of the target.
#[test]
fn a_skill_can_not_be_named_out_of_its_directory() {
    for id in ["skill:../../../escaped", "skill:..", "skill:a/b", "\"skill:a\\\\b\""] {
        let scene = Scene::new();
        scene.manifest(&MANIFEST.replace("skill:tidy", id));
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains("can't be a directory's name"), "{id}: {error}");
    }
}

/// Weakness 14: a link in a module does not deploy what it leads to.
#[test]
fn a_link_out_of_a_module_is_refused() {
    let scene = Scene::new();
    scene.write("home/.ssh/id_ed25519", "private");
    for target in ["../../../../home/.ssh/id_ed25519", "/etc/hostname", "nowhere", ".."] {
        scene.link(target, "ap/repo/modules/tidy/notes.md");
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(
            error.message().contains("does not lead to a file of this module"),
            "{target}: {error}"
        );
        std::fs::remove_file(scene.at("ap/repo/modules/tidy/notes.md")).unwrap();
    }
    scene.link("SKILL.md", "ap/repo/modules/tidy/notes.md");
    assert!(scene.plan().is_ok());
}

/// Weakness 15: sources stay inside their repository, by words and by links.
#[test]
fn a_source_can_not_lead_out_of_its_repository() {
    for path in ["../../home", "/etc", "modules/../../../home", "\"\""] {
        let scene = Scene::new();
        scene.manifest(&MANIFEST.replace("modules/base", path));
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains("inside the config repo"), "{path}: {error}");
    }
    let scene = Scene::new();
    scene.manifest(&MANIFEST.replace("modules/base", "modules/out"));
    scene.link("/etc", "ap/repo/modules/out");
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("by a link"), "{error}");
    scene.manifest(&MANIFEST.replace(
        "{ local_path: { path: modules/base } }",
        "{ git: { url: /srv/x, subdir: ../../../x } }",
    ));
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("must stay inside the repository"), "{error}");
}

/// Weakness 18: two skills don't merge into one directory.
#[test]
fn two_skills_of_one_name_conflict() {
    let scene = Scene::new();
    let more = "  - id: other:tidy\n    type: skill\n    tags: [base]\n    source: { local_path: { path: modules/tidy } }\n";
    scene.manifest(&format!("{MANIFEST}{more}"));
    let error = refused(scene.plan(), Code::DesiredStateConflict);
    assert!(error.message().contains("`other:tidy` and `skill:tidy`"), "{error}");
}

/// Weakness 19: a URL is never an option or a command.
#[test]
fn a_url_that_git_would_run_is_refused() {
    for url in ["--upload-pack=touch INJECTED;", "ext::sh -c touch%20INJECTED", "-x@h:p"] {
        let scene = Scene::new();
        let source = format!("{{ git: {{ url: \"{url}\" }} }}");
        scene.manifest(&MANIFEST.replace("{ local_path: { path: modules/base } }", &source));
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains("agentpack.yaml:12"), "{error}");
        assert!(!scene.exists("project/INJECTED") && !scene.exists("ap/repo/INJECTED"));
    }
}

#[test]
fn a_credential_in_a_module_stops_the_plan_and_is_not_repeated() {
    let scene = Scene::new();
    let token = "ghp_Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR";
    scene.module("review.md", &format!("Use this:\n\n    export GITHUB_TOKEN={token}\n"));
    let error = refused(scene.plan(), Code::SecretInModule);
    let told = serde_json::to_string(&error.details()).unwrap() + error.message();
    assert!(told.contains("review.md:3") && told.contains("GitHub personal token"), "{told}");
    assert!(!told.contains(&token[4..]), "{told}");
    scene.module("review.md", "Use this:\n\n    export GITHUB_TOKEN=@secret:team/github/token\n");
    assert!(scene.plan().is_ok());
}

#[test]
fn sizes_have_limits_and_many_files_have_not() {
    let scene = Scene::new();
    let file = std::fs::File::create(scene.at("ap/repo/modules/tidy/huge.bin")).unwrap();
    file.set_len(33 << 20).unwrap();
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("larger than 32 MiB"), "{error}");
    std::fs::remove_file(scene.at("ap/repo/modules/tidy/huge.bin")).unwrap();
    for number in 0..2000 {
        scene.module(&format!("tidy/data/{number}.txt"), "x");
    }
    assert!(scene.changes().len() > 2000);
}
