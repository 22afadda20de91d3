//! Deeds that a person is asked about as a whole: an agent's action, a deploy of agent configuration.
//!
//! An approval is good for one of them, exactly as it was shown, once.

use std::{collections::BTreeSet, fmt::Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{ActionType, Destination, SafeText, SecretPath, agent::AgentUri};

/// The most of a deploy that a person is shown: files, and characters of their diffs together.
pub const MAX_DEPLOY_FILES: usize = 200;
/// See [`MAX_DEPLOY_FILES`]. What can't be seen counts as it is shown, a line as 64 more.
pub const MAX_DEPLOY_DIFF: usize = 48 * 1024;
const LINE: usize = 64;
/// The longest path, project or profile that is shown.
const MAX_NAME_BYTES: usize = 4096;
/// What all names of a deploy may take together: beyond it files are counted and not named.
const MAX_NAMES_BYTES: usize = 32 * 1024;

/// An action of an agent that a grant leaves to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedAction {
    /// The agent that wants to do it.
    pub agent: AgentUri,
    /// The agent that delegated the work, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acting_for: Option<AgentUri>,
    /// Its type.
    pub action: ActionType,
    /// Every secret that it means.
    pub secrets: Vec<SecretPath>,
    /// The hosts that it may reach by itself, as its grants say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Destination>,
    /// All that is to be done, as the agent wrote it.
    pub text: String,
    /// What it is for, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The digest of all of that purpose, of which a long one is shown in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose_sha256: Option<String>,
    /// The digest of the action with its secrets, in hexadecimal.
    pub sha256: String,
}

/// The pack command that would write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackVerb {
    /// `bootstrap`, or `init` with it.
    Bootstrap,
    /// `deploy --apply`.
    #[default]
    Deploy,
    /// `evolve restore`.
    Restore,
    /// `rollback`.
    Rollback,
}

/// A plan of the pack that is to be carried out, as the program that would do it says: it runs on the agent's
/// side, and what it shows of files is the config repo's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedDeploy {
    /// What would carry it out.
    #[serde(default, skip_serializing_if = "PackVerb::is_deploy")]
    pub verb: PackVerb,
    /// The plan's digest, in hexadecimal: what its confirm token is bound to.
    pub plan_hash: String,
    /// The project's directory.
    pub project: String,
    /// The config repo.
    pub repo: String,
    /// The profile.
    pub profile: String,
    /// The machine.
    pub machine: String,
    /// What is written and removed.
    pub files: Vec<WantedFile>,
    /// Files that are not listed.
    #[serde(default)]
    pub more_files: usize,
}

/// One file of a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// What is done.
    pub op: FileOp,
    /// The absolute path.
    pub path: String,
    /// It is the user's own file, which would be overwritten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// It was changed by hand since it was deployed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The lines that differ, if they are text and not too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileOp {
    /// The file is not there yet.
    Create,
    /// The file is deleted.
    Delete,
    /// The file gets other content.
    Update,
}

impl PackVerb {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Deploy => "deploy",
            Self::Restore => "restore",
            Self::Rollback => "rollback",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_deploy(&self) -> bool {
        *self == Self::Deploy
    }
}

impl WantedAction {
    /// Whether it reaches the same hosts, for the same agent and the same purpose: the digest says none of that.
    pub(super) fn goes_as_far_as(&self, other: &Self) -> bool {
        let hosts = |wanted: &Self| wanted.hosts.iter().cloned().collect::<BTreeSet<_>>();
        hosts(self) == hosts(other)
            && self.acting_for == other.acting_for
            && (&self.purpose, &self.purpose_sha256) == (&other.purpose, &other.purpose_sha256)
    }
}

impl WantedDeploy {
    /// This plan, no longer than a person reads: diffs, then names, are left out from where it gets too long.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let (mut diffs, mut names) = (0, 0);
        let mut fits = |file: &WantedFile| {
            names += file.path.len();
            names <= MAX_NAMES_BYTES && file.path.len() <= MAX_NAME_BYTES
        };
        let listed = self.files.iter().take(MAX_DEPLOY_FILES).take_while(|file| fits(file)).count();
        self.more_files += self.files.len() - listed;
        self.files.truncate(listed);
        for file in &mut self.files {
            diffs += file.diff.as_deref().map_or(0, shown_size);
            if diffs > MAX_DEPLOY_DIFF {
                file.diff = None;
            }
        }
        self
    }

    /// How many files there are, listed or not.
    pub fn file_count(&self) -> usize {
        self.files.len() + self.more_files
    }

    /// What an approval of it is good for: all that was shown, and the plan's own digest.
    pub(super) fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a plan is plain data");
        hexadecimal(&Sha256::digest(text))
    }

    /// Whether nobody has to read or store more than [`bounded`](Self::bounded) leaves.
    pub(super) fn is_readable(&self) -> bool {
        let is_digest =
            |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let names = [&self.project, &self.repo, &self.profile, &self.machine];
        is_digest(&self.plan_hash)
            && names.iter().all(|name| name.len() <= MAX_NAME_BYTES)
            && self.file_count() > 0
            && self.clone().bounded() == *self
    }
}

impl FileOp {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Update => "update",
        }
    }
}

fn shown_size(diff: &str) -> usize {
    let lines = diff.bytes().filter(|b| *b == b'\n').count();
    SafeText::default().as_they_wrote_in_full(diff).as_str().len() + lines * LINE
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: String, diff: &str) -> WantedFile {
        let (op, diff) = (FileOp::Create, Some(diff.to_owned()));
        WantedFile { op, path, adopted: false, edited: false, diff }
    }

    fn plan(files: Vec<WantedFile>) -> WantedDeploy {
        let word = |text: &str| text.to_owned();
        WantedDeploy {
            verb: PackVerb::Deploy,
            plan_hash: "0".repeat(64),
            project: word("/p"),
            repo: word("/r"),
            profile: word("default"),
            machine: word("m"),
            files,
            more_files: 0,
        }
    }

    #[test]
    fn a_large_plan_is_cut_where_nobody_reads_on() {
        let files = (0..MAX_DEPLOY_FILES + 5).map(|n| file(format!("/f{n}"), "+line\n"));
        let large = plan(files.collect());
        assert!(!large.is_readable());
        let cut = large.bounded();
        assert_eq!((cut.files.len(), cut.more_files), (MAX_DEPLOY_FILES, 5));
        assert!(cut.is_readable() && cut.file_count() == MAX_DEPLOY_FILES + 5);

        let long = "x".repeat(MAX_DEPLOY_DIFF);
        let cut = plan(vec![file("/a".into(), &long), file("/b".into(), "+b\n")]).bounded();
        assert!(cut.files[0].diff.is_some() && cut.files[1].diff.is_none());
        let unseen = "\u{200b}".repeat(MAX_DEPLOY_DIFF / 8 + 1);
        let empty = "\n".repeat(MAX_DEPLOY_DIFF / LINE);
        for long in [unseen, empty] {
            assert!(plan(vec![file("/a".into(), &long)]).bounded().files[0].diff.is_none());
        }

        let named = plan(vec![file("/".repeat(MAX_NAME_BYTES + 1), "")]).bounded();
        assert_eq!((named.files.len(), named.more_files), (0, 1));
    }

    #[test]
    fn whatever_is_shown_is_in_the_digest() {
        let one = plan(vec![file("/a".into(), "+a\n")]);
        let mut other = one.clone();
        other.files[0].diff = Some("+b\n".into());
        assert_ne!(one.digest(), other.digest());
        let back = WantedDeploy { verb: PackVerb::Rollback, ..one.clone() };
        assert_ne!(one.digest(), back.digest(), "allowing a deploy allows no rollback");
        assert_ne!(one.digest(), WantedDeploy { more_files: 1, ..one.clone() }.digest());
    }
}
