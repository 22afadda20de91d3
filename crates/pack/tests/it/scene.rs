//! One home, one config repo, one project, in a directory of their own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use keyless_pack::{
    Answer, Code, DeployData, PackError, PlanData, Request, Result, Surroundings, Unwatched,
    commands,
};
use tempfile::TempDir;

/// A manifest with one module of each type, for Codex and Claude Code.
pub(crate) const MANIFEST: &str = "\
version: 1
profiles:
  default:
    include_tags: [base]
targets:
  codex: { mode: files, scope: user }
  claude_code: { mode: files, scope: both, options: { write_user_skills: true } }
modules:
  - id: instructions:base
    type: instructions
    tags: [base]
    source: { local_path: { path: modules/base } }
  - id: prompt:review
    type: prompt
    tags: [base]
    source: { local_path: { path: modules/review.md } }
  - id: command:ship
    type: command
    tags: [base]
    source: { local_path: { path: modules/ship.md } }
  - id: skill:tidy
    type: skill
    tags: [base]
    source: { local_path: { path: modules/tidy } }
";

pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    /// The usual modules, not deployed.
    pub(crate) fn new() -> Self {
        let scene = Self::empty();
        scene.manifest(MANIFEST);
        scene.module("base/AGENTS.md", "Be kind.\n");
        scene.module("review.md", "Review this.\n");
        scene.module("ship.md", "---\ndescription: Ship it\n---\nShip.\n");
        scene.module("tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nTidy.\n");
        scene.module("tidy/bin/run.sh", "#!/bin/sh\nexit 0\n");
        scene.chmod("ap/repo/modules/tidy/bin/run.sh", 0o755);
        scene
    }

    /// A home and a project, and no config repo.
    pub(crate) fn empty() -> Self {
        let scene = Self { folder: in_memory() };
        for folder in ["home", "ap/repo", "project/.git"] {
            fs::create_dir_all(scene.at(folder)).unwrap();
        }
        scene
    }

    /// The usual modules, deployed.
    pub(crate) fn deployed() -> Self {
        let scene = Self::new();
        scene.deploy();
        scene
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// A path below the scene's directory: `home/…`, `ap/…`, `project/…`.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn manifest(&self, text: &str) {
        self.write("ap/repo/agentpack.yaml", text);
    }

    pub(crate) fn module(&self, path: &str, text: &str) {
        self.write(&format!("ap/repo/modules/{path}"), text);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.at(path)).is_ok()
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            cwd: self.at("project"),
            user_home: self.at("home"),
            agentpack_home: self.at("ap"),
            codex_home: None,
            machine: Some("box".to_owned()),
            editor: None,
            forms: keyless_pack::TokenForms::default(),
            gate: keyless_pack::ApplyGate::default(),
        }
    }

    pub(crate) fn plan(&self) -> Result<Answer<PlanData>> {
        commands::plan(&self.surroundings(), &Request::default())
    }

    /// The paths that a plan would change, relative to the scene, with their sign.
    pub(crate) fn changes(&self) -> Vec<String> {
        let plan = self.plan().unwrap();
        let root = format!("{}/", self.root().display());
        let short = |change: &keyless_pack::Change| {
            format!("{:?} {}", change.op, change.path.strip_prefix(&root).unwrap_or(&change.path))
                .to_lowercase()
        };
        plan.data.changes.iter().map(short).collect()
    }

    pub(crate) fn try_deploy(&self, adopt: bool) -> Result<Answer<DeployData>> {
        self.deploy_for(&Request::default(), adopt)
    }

    pub(crate) fn deploy_for(&self, request: &Request, adopt: bool) -> Result<Answer<DeployData>> {
        let options = commands::DeployOptions { apply: true, adopt, yes: true, dry_run: false };
        commands::deploy(&self.surroundings(), request, options, &Unwatched)
    }

    /// Deploys; gives the snapshot's id.
    #[track_caller]
    pub(crate) fn deploy(&self) -> String {
        self.try_deploy(false).unwrap().data.snapshot_id.expect("something to deploy")
    }

    #[track_caller]
    pub(crate) fn rollback(&self, to: &str) {
        self.try_rollback(to).unwrap();
    }

    pub(crate) fn try_rollback(&self, to: &str) -> Result<Answer<keyless_pack::RollbackData>> {
        commands::rollback(&self.surroundings(), &Request::default(), to, true, &Unwatched)
    }

    /// Everything below a directory with its content, for before-and-after comparisons.
    pub(crate) fn picture(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.at(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
                }
            }
        }
        files.sort();
        files
    }

    pub(crate) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        git(&self.at(folder), arguments)
    }

    /// Makes the config repo a git repository with everything committed.
    pub(crate) fn commit(&self) {
        if !self.exists("ap/repo/.git") {
            self.git("ap/repo", &["init", "-q"]);
        }
        self.git("ap/repo", &["add", "-A"]);
        self.git("ap/repo", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]);
    }
}

/// A directory in memory where there is one: a test's deploy should not wait for everybody's disk.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The error, which must have this code.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T>, code: Code) -> PackError {
    let error = outcome.expect_err("it should be refused");
    assert_eq!(error.code(), code, "{error}");
    error
}
