//! Config repos of any size, for the pack: the shapes that agentpack 0.9.1 was measured on
//! (shared/reference/agentpack.md, section 19).

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Random, Result};

/// What a repo is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Modules in subdirectories of one git repository, pinned by a lockfile.
    Git,
    /// Of ten modules four skills of three files, four prompts, two commands; instructions for every 500.
    Mixed,
    /// Prompts, for Codex alone.
    Prompts,
}

/// A home with a config repo, a project, and directories for what is deployed.
pub struct PackRepo {
    root: PathBuf,
}

impl Shape {
    /// Its name on a command line.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "git" => Some(Self::Git),
            "mixed" => Some(Self::Mixed),
            "prompts" => Some(Self::Prompts),
            _ => None,
        }
    }
}

impl PackRepo {
    /// Makes one below `root`, which should be empty.
    pub fn generate(root: &Path, shape: Shape, modules: usize) -> Result<Self> {
        let repo = Self { root: root.to_owned() };
        for folder in ["home", "project/.git", "ap/repo/modules"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let source = match shape {
            Shape::Git => root.join("upstream"),
            Shape::Mixed | Shape::Prompts => root.join("ap/repo/modules"),
        };
        let mut random = Random::new(7);
        let targets = match shape {
            Shape::Mixed => {
                "  codex: { mode: files, scope: user }\n  claude_code: { mode: files, scope: user, options: { \
                 write_user_skills: true } }\n"
            }
            Shape::Git | Shape::Prompts => "  codex: { mode: files, scope: user }\n",
        };
        let mut manifest = format!(
            "version: 1\nprofiles:\n  default: {{ include_tags: [base] }}\ntargets:\n{targets}modules:\n"
        );
        for number in 0..modules {
            let kind = kind(shape, number);
            let path = write_module(&source, kind, number, &mut random)?;
            let from = match shape {
                Shape::Git => {
                    format!(
                        "{{ git: {{ url: \"{}\", ref: main, subdir: {path} }} }}",
                        source.display()
                    )
                }
                Shape::Mixed | Shape::Prompts => {
                    format!("{{ local_path: {{ path: modules/{path} }} }}")
                }
            };
            writeln!(
                manifest,
                "  - {{ id: \"{kind}:m{number}\", type: {kind}, tags: [base], source: {from} }}"
            )?;
        }
        fs::write(root.join("ap/repo/agentpack.yaml"), manifest)?;
        if shape == Shape::Git {
            commit(&source)?;
        }
        Ok(repo)
    }

    /// Points a command at it.
    pub fn at<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.root.join("project"))
            .env("HOME", self.root.join("home"))
            .env("AGENTPACK_HOME", self.root.join("ap"))
            .env("AGENTPACK_MACHINE_ID", "bench")
    }
}

fn kind(shape: Shape, number: usize) -> &'static str {
    match (shape, number % 10) {
        (Shape::Mixed, _) if number % 500 == 499 => "instructions",
        (Shape::Mixed, 0..=3) => "skill",
        (Shape::Mixed, 8..) => "command",
        _ => "prompt",
    }
}

/// Writes a module's files of about 1 kB each; gives its path.
fn write_module(folder: &Path, kind: &str, number: usize, random: &mut Random) -> Result<String> {
    let name = format!("m{number}");
    let write = |path: String, text: String| -> Result<()> {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().ok_or("a file has a folder")?)?;
        Ok(fs::write(file, text)?)
    };
    let mut body = || words(random);
    match kind {
        "instructions" => write(format!("{name}/AGENTS.md"), body())?,
        "skill" => {
            let head = format!("---\nname: {name}\ndescription: Module {number}\n---\n");
            write(format!("{name}/SKILL.md"), head + &body())?;
            write(format!("{name}/reference.md"), body())?;
            write(format!("{name}/scripts/run.sh"), body())?;
        }
        "command" => {
            let head = format!("---\ndescription: Command {number}\n---\n");
            write(format!("{name}/{name}.md"), head + &body())?;
        }
        _ => write(format!("{name}/{name}.md"), body())?,
    }
    Ok(name)
}

/// About 1 kB of lines of words.
fn words(random: &mut Random) -> String {
    let mut text = String::with_capacity(1100);
    while text.len() < 1000 {
        for _ in 0..9 {
            let length = 3 + random.below(7);
            text.push_str(&random.letters(b"abcdefghijklmnopqrstuvwxyz", length));
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

fn commit(folder: &Path) -> Result<()> {
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@bench.test"];
    for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-qm", "modules"]]
    {
        let status = Command::new("git").args(identity).args(words).current_dir(folder).status()?;
        if !status.success() {
            return Err(format!("git {words:?}: {status}").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_repo_has_its_shape() {
        let scratch = tempfile::tempdir().expect("a directory");
        PackRepo::generate(scratch.path(), Shape::Mixed, 500).expect("a repo");
        let manifest =
            fs::read_to_string(scratch.path().join("ap/repo/agentpack.yaml")).expect("a manifest");
        let count = |kind: &str| manifest.matches(&format!("type: {kind},")).count();
        assert_eq!(["skill", "prompt", "command", "instructions"].map(count), [200, 200, 99, 1]);
    }
}
