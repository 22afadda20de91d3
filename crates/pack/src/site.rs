//! Where a command works: the home, the config repo, the project, the machine; read once per call.
//!
//! The environment and the current directory are arguments here, so that a server can answer each call for
//! another project. Source: shared/reference/agentpack.md, section 0.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde::{Deserialize, Serialize};

use crate::{
    credentials::TokenForms,
    error::{Code, PackError, Result},
    gate::ApplyGate,
    git, ids,
    paths::{absolute, expanded, shown},
};

/// What the process's environment says, as arguments.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where the caller stands; the project is found from here.
    pub cwd: PathBuf,
    /// The user's home directory.
    pub user_home: PathBuf,
    /// `$AGENTPACK_HOME`, or `~/.agentpack`.
    pub agentpack_home: PathBuf,
    /// `$CODEX_HOME`, when set.
    pub codex_home: Option<PathBuf>,
    /// The machine's name from the environment, when one is set.
    pub machine: Option<String>,
    /// `$EDITOR`, when set.
    pub editor: Option<String>,
    /// The caller's catalog of tokens; empty unless it has one.
    pub forms: TokenForms,
    /// The gate that has to let a deploy be carried out.
    pub gate: ApplyGate,
}

/// What every command may be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The config repo; `$AGENTPACK_HOME/repo` when absent.
    pub repo: Option<PathBuf>,
    /// The profile; `default` when absent.
    pub profile: Option<String>,
    /// The target; `all` when absent.
    pub target: Option<String>,
    /// The machine; found out when absent.
    pub machine: Option<String>,
}

/// Everything a command needs to know about where it works.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) home: PathBuf,
    pub(crate) user_home: PathBuf,
    pub(crate) codex_home: Option<PathBuf>,
    pub(crate) repo: PathBuf,
    pub(crate) project_root: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) profile: String,
    pub(crate) target: String,
    pub(crate) forms: TokenForms,
    request: Request,
    named_machine: Option<String>,
    project: OnceLock<Project>,
    machine: OnceLock<String>,
}

/// The project that the caller stands in.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: String,
}

impl Surroundings {
    /// Reads the environment. `cwd` takes the place of the current directory when given.
    pub fn from_process(cwd: Option<PathBuf>) -> Result<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let here = cwd.map_or_else(env::current_dir, Ok);
        let cwd = here.map_err(|error| PackError::io("find", Path::new("."), &error))?;
        let user_home = set("HOME").map(PathBuf::from).or_else(env::home_dir).ok_or_else(|| {
            PackError::new(Code::Unexpected, "there is no home directory").hint("set HOME")
        })?;
        let agentpack_home = match set("AGENTPACK_HOME") {
            Some(home) => absolute(&cwd, &expanded(&home.to_string_lossy(), &user_home)),
            None => user_home.join(".agentpack"),
        };
        let names = ["AGENTPACK_MACHINE_ID", "HOSTNAME", "COMPUTERNAME"];
        let machine =
            names.iter().filter_map(|name| env::var(name).ok()).find_map(|name| ids::slug(&name));
        let codex_home =
            set("CODEX_HOME").map(|home| expanded(&home.to_string_lossy(), &user_home));
        let editor = env::var("EDITOR").ok().filter(|editor| !editor.trim().is_empty());
        let (forms, gate) = (TokenForms::default(), ApplyGate::default());
        Ok(Self { cwd, user_home, agentpack_home, codex_home, machine, editor, forms, gate })
    }
}

impl Request {
    /// This request with every default written out, so that leaving a default out and naming it are one.
    #[must_use]
    pub fn normalized(&self, surroundings: &Surroundings) -> Self {
        let site = Site::new(surroundings, self);
        Self {
            repo: Some(site.repo.clone()),
            profile: Some(site.profile.clone()),
            target: Some(site.target.clone()),
            machine: Some(site.machine().to_owned()),
        }
    }
}

impl Site {
    /// Works out where everything is. Nothing is read but the directories above `cwd`.
    pub fn new(surroundings: &Surroundings, request: &Request) -> Self {
        let repo = match &request.repo {
            Some(repo) => {
                let repo = expanded(&repo.to_string_lossy(), &surroundings.user_home);
                absolute(&surroundings.cwd, &repo)
            }
            None => surroundings.agentpack_home.join("repo"),
        };
        let asked = request.machine.as_deref().and_then(ids::slug);
        Self {
            home: surroundings.agentpack_home.clone(),
            user_home: surroundings.user_home.clone(),
            codex_home: surroundings.codex_home.clone(),
            repo,
            project_root: project_root(&surroundings.cwd),
            cwd: surroundings.cwd.clone(),
            profile: request.profile.clone().unwrap_or_else(|| "default".to_owned()),
            target: request.target.clone().unwrap_or_else(|| "all".to_owned()),
            forms: surroundings.forms.clone(),
            request: request.clone(),
            named_machine: asked.or_else(|| surroundings.machine.clone()),
            project: OnceLock::new(),
            machine: OnceLock::new(),
        }
    }

    /// This site in the project at `root`.
    pub(crate) fn in_project(&self, root: &Path) -> Self {
        Self { project_root: root.to_owned(), project: OnceLock::new(), ..self.clone() }
    }

    /// This machine's id; asks the operating system when nothing names it.
    pub(crate) fn machine(&self) -> &str {
        self.machine.get_or_init(|| {
            let named = self.named_machine.clone();
            named.or_else(host_name).unwrap_or_else(|| "unknown".to_owned())
        })
    }

    /// The project's id and origin; asks git on the first call.
    pub(crate) fn project(&self) -> &Project {
        self.project.get_or_init(|| {
            let origin = git::origin_of(&self.project_root);
            let id = ids::project_id(origin.as_deref(), &shown(&self.project_root));
            Project { id }
        })
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.join("state")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.state().join("snapshots")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    /// How the caller would type a command that works in the same place.
    pub(crate) fn command(&self, words: &str) -> String {
        let target = Some(self.target.as_str()).filter(|target| *target != "all");
        self.command_for(Some(self.profile.as_str()), target, words)
    }

    /// As [`Self::command`], for this profile and target.
    pub(crate) fn command_for(
        &self,
        profile: Option<&str>,
        target: Option<&str>,
        words: &str,
    ) -> String {
        let profile = profile.filter(|profile| *profile != "default");
        let machine = self.request.machine.as_deref();
        self.typed(&[("--profile", profile), ("--target", target), ("--machine", machine)], words)
    }

    /// How the caller would install a target's assets.
    pub(crate) fn bootstrap_command(&self, target: &str, scope: &str) -> String {
        let machine = self.request.machine.as_deref();
        let words = format!("bootstrap --scope {scope}");
        self.typed(&[("--machine", machine), ("--target", Some(target))], &words)
    }

    fn typed(&self, options: &[(&str, Option<&str>)], words: &str) -> String {
        let repo = self.request.repo.as_deref().map(shown);
        let mut text = "agentpack".to_owned();
        for (name, value) in [("--repo", repo.as_deref())].iter().chain(options) {
            if let Some(value) = value {
                for word in [" ", name, " ", &shell_word(value)] {
                    text.push_str(word);
                }
            }
        }
        format!("{text} {words}")
    }
}

/// The directory with `.git` above `cwd`, links resolved; `cwd` itself when there is none.
fn project_root(cwd: &Path) -> PathBuf {
    let real = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let root = real.ancestors().find(|folder| folder.join(".git").exists());
    root.map_or_else(|| cwd.to_owned(), Path::to_owned)
}

fn host_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().and_then(ids::slug)
}

/// A word as a shell takes it.
pub(crate) fn shell_word(word: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(fine) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
