//! Git modules, the lockfile, and the commands that edit the config repo.

use std::{fs, sync::Barrier, thread};

use keyless_pack::{
    AddOptions, Code, InitOptions, ModuleKind, Request, SyncOptions, UpdateOptions, commands,
};

use crate::scene::{MANIFEST, Scene, refused};

/// A scene whose prompt comes from a git repository beside it.
fn with_git(subdir: &str) -> Scene {
    let scene = Scene::new();
    scene.write("upstream/prompts/review.md", "From git.\n");
    scene.git("upstream", &["init", "-q", "-b", "main"]);
    commit(&scene);
    let url = scene.at("upstream").display().to_string();
    let source = format!("{{ git: {{ url: \"{url}\", subdir: {subdir} }} }}");
    scene.manifest(&MANIFEST.replace("{ local_path: { path: modules/review.md } }", &source));
    scene
}

fn commit(scene: &Scene) {
    scene.git("upstream", &["add", "-A"]);
    scene.git("upstream", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]);
}

fn lock(scene: &Scene) {
    commands::lock(&scene.surroundings(), &Request::default(), true).unwrap();
}

#[test]
fn a_git_module_stays_at_its_locked_commit() {
    let scene = with_git("prompts");
    assert!(scene.plan().unwrap().warnings[0].contains("there is no agentpack.lock.json"));
    lock(&scene);
    scene.write("upstream/prompts/review.md", "Newer.\n");
    commit(&scene);
    scene.deploy();
    assert_eq!(scene.read("home/.codex/prompts/review.md"), "From git.\n");
    lock(&scene);
    scene.deploy();
    assert_eq!(scene.read("home/.codex/prompts/review.md"), "Newer.\n");
}

#[test]
fn a_tag_is_peeled_and_a_missing_ref_is_named() {
    let scene = with_git("prompts");
    scene.git(
        "upstream",
        &["-c", "user.name=t", "-c", "user.email=t@t", "tag", "-a", "v1", "-m", "x"],
    );
    let text = scene.read("ap/repo/agentpack.yaml");
    scene.manifest(&text.replace("subdir:", "ref: v1, subdir:"));
    lock(&scene);
    let head = scene.git("upstream", &["rev-parse", "HEAD"]);
    assert!(scene.read("ap/repo/agentpack.lock.json").contains(head.trim()));
    scene.manifest(&text.replace("subdir:", "ref: nope, subdir:"));
    let error =
        refused(commands::lock(&scene.surroundings(), &Request::default(), true), Code::GitFailed);
    assert!(error.message().contains("no branch or tag `nope`"), "{error}");
}

/// Departure 9: locking twice gives the same bytes.
#[test]
fn locking_twice_gives_the_same_bytes() {
    let scene = with_git("prompts");
    lock(&scene);
    let first = scene.read("ap/repo/agentpack.lock.json");
    lock(&scene);
    assert_eq!(scene.read("ap/repo/agentpack.lock.json"), first);
    let value: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(value["modules"][0]["id"], "command:ship");
    assert_eq!(value["modules"][0]["resolved_source"]["local_path"]["path"], "modules/ship.md");
    assert_eq!(value["modules"][0]["resolved_version"], "local");
}

/// Weakness 20: a lockfile that can't be read stops what needs it, and is told to the rest.
#[test]
fn a_broken_lockfile_is_never_ignored() {
    let scene = with_git("prompts");
    scene.write("ap/repo/agentpack.lock.json", "{ broken");
    refused(scene.plan(), Code::LockfileInvalid);
    scene.write("ap/repo/agentpack.lock.json", "{\"version\": 7}");
    refused(scene.plan(), Code::LockfileUnsupportedVersion);
    let scene = Scene::new();
    scene.write("ap/repo/agentpack.lock.json", "{ broken");
    assert!(scene.plan().unwrap().warnings[0].contains("can't be read"));
    fs::remove_file(scene.at("ap/repo/agentpack.lock.json")).unwrap();
    lock(&scene);
    scene.module("review.md", "Changed.\n");
    let warnings = scene.plan().unwrap().warnings.join("\n");
    assert!(
        warnings
            .contains("1 local module(s) changed since the lockfile was written (prompt:review)"),
        "{warnings}"
    );
}

#[test]
fn a_checkout_that_was_changed_is_refused() {
    let scene = with_git("prompts");
    lock(&scene);
    let changed: Vec<_> = scene
        .picture("ap/cache")
        .into_iter()
        .filter(|(path, _)| path.ends_with("/prompts/review.md"))
        .collect();
    assert_eq!(changed.len(), 1);
    fs::write(&changed[0].0, "Tampered.\n").unwrap();
    let error = refused(scene.plan(), Code::LockfileInvalid);
    assert_eq!(error.details()["reason_code"], "lockfile_digest_mismatch");
}

/// Weaknesses 14 and 15, from a stranger's repository.
#[test]
fn links_in_a_checkout_lead_nowhere() {
    let scene = with_git("prompts");
    scene.link("/etc/hostname", "upstream/prompts/leak.md");
    fs::remove_file(scene.at("upstream/prompts/review.md")).unwrap();
    commit(&scene);
    refused(scene.plan(), Code::ConfigInvalid);
    scene.link("/etc", "upstream/out");
    commit(&scene);
    let text = scene.read("ap/repo/agentpack.yaml");
    scene.manifest(&text.replace("subdir: prompts", "subdir: out"));
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("by a link"), "{error}");
}

/// Weakness 33: a ref is resolved once per command, whoever asks.
#[test]
fn fetch_and_update_bring_what_is_locked() {
    let scene = with_git("prompts");
    let fetch = || commands::fetch(&scene.surroundings(), &Request::default(), true);
    refused(fetch(), Code::LockfileMissing);
    let update = |options| {
        commands::update(&scene.surroundings(), &Request::default(), options, true).unwrap().data
    };
    let data = update(UpdateOptions::default());
    let names: Vec<&str> = data.steps.iter().map(|step| step.name).collect();
    assert_eq!((names.as_slice(), data.git_modules_fetched), (["lock", "fetch"].as_slice(), 1));
    fs::remove_dir_all(scene.at("ap/cache")).unwrap();
    assert_eq!(fetch().unwrap().data.git_modules_fetched, 1);
    let names: Vec<&str> =
        update(UpdateOptions::default()).steps.iter().map(|step| step.name).collect();
    assert_eq!(names, ["fetch"]);
}

#[test]
fn a_repo_is_made_and_grows_and_shrinks() {
    let scene = Scene::empty();
    let (at, request) = (scene.surroundings(), Request::default());
    let options = InitOptions { git: true, ..InitOptions::default() };
    refused(commands::init(&at, &request, &options, false), Code::ConfirmRequired);
    commands::init(&at, &request, &options, true).unwrap();
    assert!(scene.exists("ap/repo/.git"));
    let manifest = scene.read("ap/repo/agentpack.yaml") + "# mine\n";
    scene.manifest(&manifest);
    assert!(commands::init(&at, &request, &options, true).unwrap().data.existed);
    assert_eq!(scene.read("ap/repo/agentpack.yaml"), manifest, "a second init keeps what is there");
    scene.module("review.md", "Review.\n");
    let add = |source: &str| AddOptions {
        kind: ModuleKind::Prompt,
        source: source.to_owned(),
        id: None,
        tags: vec!["base".to_owned()],
        targets: vec!["codex".to_owned()],
    };
    let added = commands::add(&at, &request, &add("local:modules/review.md"), true).unwrap().data;
    assert_eq!(added.module_id, "prompt:review");
    scene.deploy();
    assert!(scene.exists("home/.codex/prompts/review.md"));
    refused(commands::add(&at, &request, &add("local:../x"), true), Code::ConfigInvalid);
    refused(commands::add(&at, &request, &add("svn:x"), true), Code::ConfigInvalid);
    let git = commands::add(
        &at,
        &request,
        &add("git:https://github.com/a/b.git#ref=v2&subdir=p/q"),
        true,
    );
    assert_eq!(git.unwrap().data.module_id, "prompt:q");
    let text = scene.read("ap/repo/agentpack.yaml");
    assert!(text.contains("ref: v2") && text.contains("subdir: p/q"), "{text}");
    commands::remove(&at, &request, "prompt:q", true).unwrap();
    commands::remove(&at, &request, "prompt:review", true).unwrap();
    scene.deploy();
    assert!(!scene.exists("home/.codex/prompts/review.md"));
}

/// Read in parallel, fetched once.
#[test]
fn many_modules_of_one_repository_share_its_checkout() {
    let scene = Scene::new();
    let url = scene.at("upstream").display().to_string();
    let module = |number: u32| {
        scene.write(&format!("upstream/p{number}/p{number}.md"), "From git.\n");
        let source = format!("{{ git: {{ url: \"{url}\", subdir: p{number} }} }}");
        format!(
            "  - {{ id: \"prompt:p{number}\", type: prompt, tags: [base], source: {source} }}\n"
        )
    };
    let head = MANIFEST.split("modules:").next().unwrap();
    let manifest = format!("{head}modules:\n{}", (0..40).map(module).collect::<String>());
    scene.git("upstream", &["init", "-q", "-b", "main"]);
    commit(&scene);
    scene.manifest(&manifest);
    assert_eq!(scene.changes().len(), 40);
    lock(&scene);
    assert!(scene.plan().unwrap().warnings.is_empty());
}

/// Each of many commands at once adds to what the others left.
#[test]
fn modules_that_are_added_at_once_are_all_there() {
    let scene = Scene::new();
    let names: Vec<String> = (0..8).map(|number| format!("at-once-{number}")).collect();
    let add = |name: &String| {
        let options = AddOptions {
            kind: ModuleKind::Prompt,
            source: "local:modules/review.md".to_owned(),
            id: Some(format!("prompt:{name}")),
            tags: Vec::new(),
            targets: Vec::new(),
        };
        commands::add(&scene.surroundings(), &Request::default(), &options, true).unwrap();
    };
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(move || add(name));
        }
    });
    let text = scene.read("ap/repo/agentpack.yaml");
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn a_sync_that_conflicts_in_a_linked_worktree_is_taken_back() {
    let scene = Scene::new();
    scene.commit();
    scene.git("ap/repo", &["config", "user.name", "t"]);
    scene.git("ap/repo", &["config", "user.email", "t@t"]);
    scene.git("ap/repo", &["worktree", "add", "-q", "-b", "side", "../linked"]);
    scene.git("", &["clone", "-q", "--bare", "ap/repo", "origin.git"]);
    scene.git("", &["clone", "-q", "-b", "side", "origin.git", "other"]);
    scene.write("other/modules/base/AGENTS.md", "theirs\n");
    scene.git("other", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "theirs"]);
    scene.git("other", &["push", "-q"]);
    let origin = scene.at("origin.git").display().to_string();
    scene.git("ap/linked", &["remote", "add", "origin", &origin]);
    scene.write("ap/linked/modules/base/AGENTS.md", "ours\n");
    scene.git("ap/linked", &["commit", "-qam", "ours"]);
    let standing = || {
        let branch = scene.git("ap/linked", &["symbolic-ref", "HEAD"]);
        branch
            + &scene.git("ap/linked", &["log", "--oneline"])
            + &scene.git("ap/linked", &["status", "--porcelain"])
    };
    let before = standing();
    let request = Request { repo: Some(scene.at("ap/linked")), ..Request::default() };
    for rebase in [true, false] {
        let options = SyncOptions { remote: "origin".to_owned(), rebase, dry_run: false };
        let error = refused(
            commands::sync(&scene.surroundings(), &request, &options, true),
            Code::GitFailed,
        );
        assert_eq!(
            (&error.details()["undone"], standing()),
            (&true.into(), before.clone()),
            "{error}"
        );
    }
}

/// Many calls of one process, as a server for agents makes them, fetch a commit that none has yet.
#[test]
fn a_commit_that_is_fetched_many_times_at_once_is_there_for_all() {
    let scene = with_git("prompts/review.md");
    lock(&scene);
    let _ = fs::remove_dir_all(scene.at("ap/cache"));
    let at_once = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                at_once.wait();
                commands::fetch(&scene.surroundings(), &Request::default(), true).unwrap();
            });
        }
    });
    for repository in fs::read_dir(scene.at("ap/cache/git")).unwrap() {
        assert_eq!(
            fs::read_dir(repository.unwrap().path()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }
    scene.deploy();
    assert_eq!(scene.read("home/.codex/prompts/review.md"), "From git.\n");
}
