//! Whatever writes into targets asks the caller's gate first.

use std::{
    collections::HashSet,
    fs,
    sync::{Arc, Mutex},
};

use keyless_pack::{
    ApplyGate, BootstrapOptions, BootstrapScope, Code, Gate, InitOptions, Op, PackError, Request,
    Result, Review, ReviewedPlan, Surroundings, Unwatched, commands,
};

use crate::scene::{MANIFEST, Scene, refused};

/// A person who allows plans by their digest, each once, and sees what they are asked.
#[derive(Default)]
struct Person {
    asked: Mutex<Vec<(&'static str, ReviewedPlan)>>,
    allowed: Mutex<HashSet<String>>,
}

impl Gate for Person {
    fn pass(&self, review: &Review<'_>) -> Result<()> {
        if self.allowed.lock().unwrap().remove(review.plan_hash) {
            return Ok(());
        }
        self.asked.lock().unwrap().push((review.command(), review.shown()?));
        Err(PackError::new(Code::ApprovalRequired, "a person is asked"))
    }
}

impl Person {
    fn last(&self) -> (&'static str, ReviewedPlan) {
        self.asked.lock().unwrap().last().cloned().expect("nobody was asked")
    }

    /// Allows what was asked last.
    fn allow(&self) {
        let hash = self.last().1.plan_hash;
        self.allowed.lock().unwrap().insert(hash);
    }
}

fn gated(scene: &Scene) -> (Arc<Person>, Surroundings) {
    let person = Arc::new(Person::default());
    let gate = ApplyGate::new(Arc::clone(&person) as _);
    (person, Surroundings { gate, ..scene.surroundings() })
}

#[track_caller]
fn waits<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = refused(outcome, Code::ApprovalRequired);
    let actions = &error.details()["next_actions"];
    assert_eq!(*actions, serde_json::json!(["wait_for_approval", "retry_command"]));
}

#[test]
fn a_restore_is_allowed_as_it_was_shown_and_once() {
    let scene = Scene::new();
    let (person, at) = gated(&scene);
    let restore = |module| commands::evolve_restore(&at, &Request::default(), module, false, true);
    // Nothing was deployed ever: a restore would be a deploy by another name.
    waits(restore(Some("instructions:base")));
    assert!(!scene.exists("home/.codex"));
    let (command, plan) = person.last();
    assert_eq!((command, plan.files[0].op), ("restore", Op::Create));
    assert!(plan.files[0].diff.as_ref().unwrap().contains("+Be kind."), "{plan:?}");
    person.allow();
    // Another text or another module is another plan.
    waits(restore(None));
    scene.module("base/AGENTS.md", "Be cruel.\n");
    waits(restore(Some("instructions:base")));
    assert!(!scene.exists("home/.codex"));
    scene.module("base/AGENTS.md", "Be kind.\n");
    assert!(restore(Some("instructions:base")).unwrap().data.summary.restored > 0);
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    fs::remove_file(scene.at("home/.codex/AGENTS.md")).unwrap();
    waits(restore(Some("instructions:base")));
    let dry = commands::evolve_restore(&at, &Request::default(), None, true, false);
    assert_eq!(dry.unwrap().data.reason, "dry_run", "looking needs nobody");
}

#[test]
fn a_rollback_is_allowed_as_it_was_shown_and_once() {
    let scene = Scene::new();
    let first = scene.deploy();
    scene.module("base/AGENTS.md", "Be brief.\n");
    let second = scene.deploy();
    let (person, at) = gated(&scene);
    let back = |to: &str| commands::rollback(&at, &Request::default(), to, true, &Unwatched);
    let before = scene.picture("home");
    waits(back(&first));
    let (command, plan) = person.last();
    assert_eq!((command, plan.files.len()), ("rollback", 1), "{plan:?}");
    assert!(plan.repo.ends_with(&first), "{}", plan.repo);
    assert_eq!(plan.files[0].op, Op::Update);
    let diff = plan.files[0].diff.as_ref().unwrap();
    assert!(diff.contains("-Be brief.\n+Be kind.\n"), "{diff}");
    person.allow();
    // The same files by another name of the way back, or from another state, were not allowed.
    waits(back(&format!("before:{second}")));
    scene.write("home/.codex/AGENTS.md", "edited\n");
    waits(back(&first));
    scene.write("home/.codex/AGENTS.md", "Be brief.\n");
    assert_eq!(scene.picture("home"), before, "nothing was written");
    back(&first).unwrap();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    scene.rollback(&second);
    waits(back(&first));
}

/// What comes back may be a user's own, which no scan of modules has seen.
#[test]
fn a_rollback_shows_no_credential() {
    let scene = Scene::new();
    let key = format!("OPENAI_API_KEY=sk-proj-{}\n", "a1B2c3D4e5F6".repeat(4));
    scene.write("home/.codex/AGENTS.md", &key);
    let id = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    let (person, at) = gated(&scene);
    let to = format!("before:{id}");
    waits(commands::rollback(&at, &Request::default(), &to, true, &Unwatched));
    let (_, plan) = person.last();
    let file = plan.files.iter().find(|file| file.path.ends_with(".codex/AGENTS.md")).unwrap();
    assert_eq!((file.op, &file.diff), (Op::Update, &None));
}

#[test]
fn a_bootstrap_is_allowed_as_it_was_shown_and_once() {
    let scene = Scene::deployed();
    let (person, at) = gated(&scene);
    let bootstrap = |scope| {
        let options = BootstrapOptions { scope, adopt: false, dry_run: false };
        commands::bootstrap(&at, &Request::default(), options, true, &Unwatched)
    };
    waits(bootstrap(BootstrapScope::User));
    assert_eq!(person.last().0, "bootstrap");
    assert!(!scene.exists("home/.claude/commands/ap-plan.md"));
    person.allow();
    waits(bootstrap(BootstrapScope::Project));
    assert!(bootstrap(BootstrapScope::User).unwrap().data.applied);
    let again = bootstrap(BootstrapScope::User).unwrap().data;
    assert_eq!(again.reason, Some("no_changes"), "nothing to ask about");
    fs::remove_file(scene.at("home/.claude/commands/ap-plan.md")).unwrap();
    waits(bootstrap(BootstrapScope::User));
}

/// `init` makes the repo; what it would give to agents waits.
#[test]
fn init_installs_nothing_unasked() {
    let scene = Scene::empty();
    let (person, at) = gated(&scene);
    let bootstrap =
        BootstrapOptions { scope: BootstrapScope::Project, adopt: false, dry_run: false };
    let options = InitOptions { bootstrap: Some(bootstrap), ..InitOptions::default() };
    waits(commands::init(&at, &Request::default(), &options, true));
    assert_eq!(person.last().0, "bootstrap");
    assert!(scene.exists("ap/repo/agentpack.yaml") && !scene.exists("ap/repo/.claude"));
    person.allow();
    let at = Surroundings { cwd: scene.at("ap/repo"), ..at };
    commands::bootstrap(&at, &Request::default(), bootstrap, true, &Unwatched).unwrap();
    assert!(scene.exists("ap/repo/.claude/commands/ap-plan.md") && !scene.exists("home/.claude"));
}

/// In a file that others write too, a person sees the entries that come back and nothing else of it.
#[test]
fn a_rollback_shows_entries_of_shared_files_alone() {
    let scene = Scene::new();
    let with = |command: &str| {
        let servers = format!("mcp_servers:\n  tools: {{ command: {command} }}\n");
        scene.manifest(&format!("{MANIFEST}{servers}"));
    };
    scene.write("home/.claude.json", "{ \"mine\": \"private\" }\n");
    with("first");
    let first = scene.deploy();
    with("second");
    scene.deploy();
    let (person, at) = gated(&scene);
    waits(commands::rollback(&at, &Request::default(), &first, true, &Unwatched));
    let (_, plan) = person.last();
    let file = plan.files.iter().find(|file| file.path.ends_with(".claude.json")).unwrap();
    let diff = file.diff.as_ref().unwrap();
    assert!(diff.contains("first") && !diff.contains("private"), "{diff}");
}
