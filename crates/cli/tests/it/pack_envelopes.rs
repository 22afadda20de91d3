//! The envelope of every `keyless pack … --json` command, as it was reviewed: one life of a config repo, a file for
//! each answer in `vectors/pack-envelopes`. `KEYLESS_BLESS=1` writes them anew.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value};

use crate::{
    pack::{MANIFEST, codex, write},
    world::World,
};

/// The repo, its tools and the answers so far.
struct Life {
    world: World,
    home: String,
    /// The project's id, which is made of its place, once an answer told it.
    project: Option<String>,
    seen: Vec<String>,
    wrong: Vec<String>,
}

impl Life {
    fn new() -> Self {
        let world = World::with_store();
        let home = world.home.home().to_str().unwrap().to_owned();
        Self { world, home, project: None, seen: Vec::new(), wrong: Vec::new() }
    }

    /// Runs a command, and holds its answer to what was reviewed.
    fn step(&mut self, name: &str, command: &str) -> Value {
        self.fed(name, command, "")
    }

    fn fed(&mut self, name: &str, command: &str, stdin: &str) -> Value {
        let words: Vec<&str> = command.split(' ').collect();
        let call = self.world.keyless(&[&["pack", "--json"], &words[..]].concat());
        let machine = call.env("AGENTPACK_MACHINE_ID", "box").env("AGENTPACK_FSYNC", "0");
        let answer = machine.stdin(stdin).run().json();
        if let Some(id) = answer["data"]["project"]["project_id"].as_str() {
            self.project = Some(id.to_owned());
        }
        let mut text = format!("{:#}\n", self.redacted("", &answer));
        if let Some(id) = &self.project {
            text = text.replace(id, "$PROJECT");
        }
        let file = vectors().join(format!("{name}.json"));
        if std::env::var_os("KEYLESS_BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        if fs::read_to_string(&file).ok().as_deref() != Some(text.as_str()) {
            self.wrong.push(format!("{name} (pack {command}):\n{text}"));
        }
        self.seen.push(format!("{name}.json"));
        answer["data"].clone()
    }

    fn sh(&self, script: &str) {
        let identity = "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t";
        let script = format!("set -e; {identity}; cd {}/.agentpack/repo; {script}", self.home);
        self.world.keyless(&[]).instead(&["sh", "-c", &script]).run().exits(0);
    }

    /// Without what differs from run to run: places, times, snapshot ids, versions.
    fn redacted(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let field =
                    |(name, value): (&String, &Value)| (name.clone(), self.redacted(name, value));
                Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
            }
            Value::Array(items) => items.iter().map(|item| self.redacted(name, item)).collect(),
            Value::String(_) if name == "version" => "$VERSION".into(),
            Value::String(_) if name.ends_with("_at") => "$TIME".into(),
            Value::String(text) => {
                let root = self.home.trim_end_matches("/home");
                without_ids(&text.replace(&self.home, "$HOME").replace(root, "$ROOT")).into()
            }
            other => other.clone(),
        }
    }
}

/// Snapshot ids are times in nanoseconds.
fn without_ids(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        left.push_str(if digits >= 18 { "$ID" } else { &part[..digits] });
        left.push_str(&part[digits..]);
    }
    left
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/pack-envelopes")
}

#[test]
fn every_command_answers_with_the_envelope_that_was_reviewed() {
    let mut life = Life::new();
    from_init_to_deploy(&mut life);
    drift_and_back(&mut life);
    sources_and_overlays(&mut life);
    between_machines(&mut life);
    what_is_there_already(&mut life);
    under_a_policy(&mut life);
    assert!(life.wrong.is_empty(), "KEYLESS_BLESS=1 writes them anew:\n{}", life.wrong.join("\n"));
    let mut kept: Vec<String> = fs::read_dir(vectors())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    life.seen.sort();
    assert_eq!(kept, life.seen, "each file is of a step");
}

fn from_init_to_deploy(life: &mut Life) {
    life.step("error-config-missing", "plan");
    life.step("init", "init --git --yes");
    write(
        &life.world,
        "agentpack.yaml",
        &MANIFEST.replace("skill:many", "skill:one").replace("many", "one"),
    );
    write(&life.world, "modules/base/AGENTS.md", "Be kind.\n");
    write(&life.world, "modules/one/SKILL.md", "---\nname: one\ndescription: One file\n---\n");
    write(&life.world, "modules/prompts/review.md", "Review the diff.\n");
    life.step("add", "add prompt local:modules/prompts/review.md --tags base --yes");
    life.step("plan", "plan");
    life.step("diff", "diff");
    life.step("preview", "preview");
    life.step("preview-diff", "preview --diff --target codex");
    life.step("explain-plan", "explain plan");
    life.step("explain-diff", "explain diff");
    life.step("deploy", "deploy");
    life.step("error-confirm-required", "deploy --apply");
    life.step("error-target-unsupported", "plan --target emacs");
}

fn drift_and_back(life: &mut Life) {
    let agents = life.world.home.write("home/.codex/AGENTS.md", "mine\n").unwrap();
    life.step("error-adopt-confirm-required", "deploy --apply --yes");
    let applied = life.step("deploy-apply", "deploy --apply --adopt --yes");
    life.step("deploy-no-changes", "deploy --apply --yes");
    life.step("status-clean", "status");
    life.sh("git add -A; git commit -qm first");
    fs::write(&agents, "Be kind.\nBe brief.\n").unwrap();
    fs::remove_file(codex(&life.world).join("prompts/review.md")).unwrap();
    life.step("status", "status --only modified,missing");
    life.step("explain-status", "explain status");
    life.step("evolve-propose-dry", "evolve propose --dry-run");
    life.step("evolve-propose", "evolve propose --branch evolve/one --yes");
    life.step("evolve-restore", "evolve restore --yes");
    let id = applied["snapshot_id"].as_str().unwrap();
    life.step("rollback", &format!("rollback --to before:{id} --yes"));
    life.step("error-snapshot-not-found", "rollback --to 1 --yes");
    life.sh("git init -q ~/.codex");
    life.step("doctor", "doctor");
    life.step("doctor-fix", "doctor --fix --yes");
    life.step("bootstrap-dry", "bootstrap --scope user --dry-run");
    life.step("bootstrap", "bootstrap --scope user --target codex --yes");
}

fn sources_and_overlays(life: &mut Life) {
    life.step("error-lockfile-missing", "fetch --yes");
    life.step("lock", "lock --yes");
    life.step("fetch", "fetch --yes");
    life.step("update", "update --lock --yes");
    life.step("overlay-edit", "overlay edit instructions:base --yes");
    life.step("overlay-path", "overlay path instructions:base --scope machine");
    life.step("overlay-rebase", "overlay rebase instructions:base --yes");
    life.step("remove", "remove prompt:review --yes");
    // No token of anybody's, and not in one piece in this file.
    let token = ["ghp_Zk3v9QwT1rXb7LmN5p", "Yc2HsDf8GjKa4EuVoR"].concat();
    write(&life.world, "modules/one/run.sh", &format!("#!/bin/sh\nexport GITHUB_TOKEN={token}\n"));
    life.step("error-secret-in-module", "plan");
    life.step("adopt-secret", "adopt-secret skill:one --path team/github/token --yes");
    write(&life.world, "agentpack.yaml", "version: 1\nprofiles: {}\ntargets: {}\nmodules: []\n");
    life.step("error-config-invalid", "plan");
}

fn between_machines(life: &mut Life) {
    life.fed("record", "record --yes", r#"{"module_id":"skill:one","success":false}"#);
    life.step("score", "score");
    life.sh(
        "git init -q --bare ~/origin.git; git add -A; git commit -qm second; git branch -M main",
    );
    life.step("remote-set", &format!("remote set {}/origin.git --yes", life.home.clone()));
    life.step("sync", "sync --yes");
    life.step("help", "help");
    life.step("schema", "schema");
}

fn what_is_there_already(life: &mut Life) {
    write(&life.world, "agentpack.yaml", MANIFEST);
    life.world.home.write("home/.codex/prompts/mine.md", "Mine.\n").unwrap();
    life.world.home.write("home/.codex/prompts/other.md", "Other.\n").unwrap();
    life.world.home.write("home/.claude/commands/bare.md", "No front matter.\n").unwrap();
    life.step("import", "import");
    write(&life.world, "modules/prompts/imported/other.md", "In the way.\n");
    life.step("error-import-conflict", "import --apply --yes");
    life.sh("rm modules/prompts/imported/other.md");
    life.step("import-apply", "import --apply --yes");
}

fn under_a_policy(life: &mut Life) {
    life.step("policy-lint", "policy lint");
    life.step("error-policy-config-missing", "policy lock --yes");
    write(&life.world, "rules/README.md", "Be careful.\n");
    let policy = "version: 1\npolicy_pack: { source: \"local:rules\" }\ndistribution_policy: { required_targets: [zed] }\n";
    write(&life.world, "agentpack.org.yaml", policy);
    life.step("error-policy-violations", "policy lint");
    life.step("policy-lock", "policy lock --yes");
    life.step("policy-audit", "policy audit");
    write(&life.world, "agentpack.org.yaml", "version: 1\npolicy_pack: { source: rules }\n");
    life.step("error-policy-config-invalid", "policy lock --yes");
}
