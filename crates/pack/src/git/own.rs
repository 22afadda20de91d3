//! A repository's own settings, which whoever may write to it has written: an agent in a jail, for one.
//!
//! Git runs what they name (filters, helpers, hooks, the far end of a connection) and trusts whom they name. A git that only
//! reads is started so that it has no use for any of it ([`reading`]). Before any other, the settings are looked at, and what
//! would be followed is refused by its name: to set it aside instead would commit what a filter was to encrypt. What the
//! person's own and the machine's settings say is theirs and stays. Source: `git-config(1)`, `gitattributes(5)`.

use std::{
    collections::HashSet,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::{answer, with_shown_urls};
use crate::{
    error::{Code, PackError, Result},
    paths::shown,
};

/// A git that asks a repository, and changes nothing in it: it runs no program and fetches nothing, whatever the
/// repository's settings say. The verb comes first.
pub fn reading(arguments: &[&str]) -> Command {
    let mut git = unfetching();
    // rev-parse is asked where the hooks are, and runs none.
    if arguments.first() != Some(&"rev-parse") {
        git.args(["-c", "core.hooksPath=/dev/null"]);
    }
    git.args(arguments);
    git
}

/// One that asks no watcher of files, and no server for objects that it lacks. The list of protocols stands above all
/// settings, in any git; from 2.45 on the other variable has it say so in better words.
pub(super) fn unfetching() -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "core.fsmonitor=false"]).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "");
    git
}

/// What no call of ours wants, whoever has set it: other repositories' programs (submodules), editors, tasks in the
/// background, and a list of steps whose lines somebody else has written (`%n` begins another one).
pub(super) fn sets_aside(git: &mut Command) {
    for setting in [
        "submodule.recurse=false",
        "fetch.recurseSubmodules=false",
        "push.recurseSubmodules=no",
        "gc.auto=0",
        "maintenance.auto=false",
        "merge.stat=false",
        "rebase.stat=false",
        "rebase.backend=merge",
        "rebase.instructionFormat=%s",
    ] {
        git.args(["-c", setting]);
    }
    git.env("GIT_EDITOR", ":").env("GIT_SEQUENCE_EDITOR", ":");
}

/// The settings that count in a folder.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Those of the person, of the machine and of this process.
    theirs: HashSet<Setting>,
    /// Those of the repository and of its working tree, and what these include.
    own: Vec<Setting>,
}

type Setting = (String, Option<String>);

impl Settings {
    /// Asks git, which runs nothing for it.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let list = answer(folder, &["config", "--list", "--show-scope", "-z"], super::LOCAL)?;
        Ok(Self::parse(&String::from_utf8_lossy(&list)))
    }

    /// `SCOPE`, zero, `KEY`, a line end and the value where there is one, zero; again and again.
    fn parse(list: &str) -> Self {
        let mut settings = Self::default();
        let mut fields = list.split_terminator('\0');
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let (key, value) = match setting.split_once('\n') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (setting.to_owned(), None),
            };
            match scope {
                "command" | "global" | "system" => drop(settings.theirs.insert((key, value))),
                _ => settings.own.push((key, value)),
            }
        }
        settings
    }

    /// Refuses a repository whose own settings name what git would run, or trust; what the person's say as well is theirs.
    pub(super) fn check(&self, folder: &Path) -> Result<()> {
        let named = |setting: &&Setting| !self.theirs.contains(*setting) && is_followed(setting);
        let mut keys: Vec<String> =
            self.own.iter().filter(named).map(|(key, _)| with_shown_urls(key)).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        let place = folder.display();
        let message = format!(
            "the own settings of the git repository in {place} name what git would run or trust ({}); Keyless follows \
             that in nobody's settings but yours, since whoever may write to the repository may have put it there",
            keys.join(", ")
        );
        let hint = format!(
            "see where it comes from (`git -C {place} config --show-origin --get-all {key}`); if it is yours, set it in your \
             own ~/.gitconfig (`git config --global {key} VALUE`, or below `[includeIf \"gitdir:{place}/\"]` for this \
             repository alone); then take it out of the repository's (`git -C {place} config --unset-all {key}`)",
            key = keys[0]
        );
        Err(refusal(folder, message, &hint).with("keys", keys))
    }

    /// The folder of hooks that the person's own settings name. One that depends on where git runs is the repository's.
    pub(super) fn hooks(&self) -> Option<&str> {
        let mut hooks = self.theirs.iter().filter(|(key, _)| key == "core.hookspath");
        // Of several only git knows which one counts.
        let (only, None) = (hooks.next()?, hooks.next()) else { return None };
        only.1.as_deref().filter(|path| path.starts_with(['/', '~']))
    }
}

/// Refuses a repository in which one of these hooks would run.
pub(super) fn check_hooks(folder: &Path, names: &[&str]) -> Result<()> {
    let place = answer(folder, &["rev-parse", "--git-path", "hooks"], super::LOCAL)?;
    let place = String::from_utf8_lossy(&place);
    let hooks = folder.join(place.trim_end_matches('\n'));
    let runs = |name: &&&str| {
        let hook = std::fs::metadata(hooks.join(name));
        hook.is_ok_and(|hook| hook.is_file() && hook.permissions().mode() & 0o111 != 0)
    };
    let active: Vec<&str> = names.iter().filter(runs).copied().collect();
    if active.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the git repository in {} has hooks of its own ({}); Keyless runs none, since whoever may write to the repository may \
         have put them there, and does not pass them by",
        folder.display(),
        active.join(", ")
    );
    let hint = format!(
        "read what is in {}, and call git yourself (`git commit`, `git push`), or keep hooks in a folder of your own \
         (`git config --global core.hooksPath FOLDER`); those that `keyless hooks install` has put there `keyless hooks uninstall` takes out",
        hooks.display()
    );
    Err(refusal(folder, message, &hint).with("hooks", active))
}

fn refusal(folder: &Path, message: String, hint: &str) -> PackError {
    PackError::new(Code::GitFailed, message)
        .with("cwd", shown(folder))
        .with("cwd_posix", shown(folder))
        .hint(hint)
        .reason("git_repository_not_trusted", &["fix_git_settings", "retry_command"])
}

/// The folder that a URL means, where that is on this machine: git starts the other end of the connection there itself.
pub(super) fn place_of(url: &str, folder: &Path) -> Option<PathBuf> {
    if let Some(rest) = url.strip_prefix("file://") {
        return Some(PathBuf::from(rest.find('/').map_or("/", |start| &rest[start..])));
    }
    // As git tells them apart: before a colon of `host:path` there is no slash.
    let before = url.split(':').next().unwrap_or_default();
    (before.len() == url.len() || before.contains('/')).then(|| folder.join(url))
}

/// What receives a push on this machine, in the words of a shell, without the other repository's programs.
pub(super) const RECEIVES: &str = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c receive.autogc=false \
                                   -c receive.denyCurrentBranch=refuse -c core.alternateRefsCommand=true receive-pack";

/// Whether git would run what a setting names, or trust it with the person's credentials, in a verb of ours.
fn is_followed((key, value): &Setting) -> bool {
    if value.as_deref() == Some("") {
        return false;
    }
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    let (below, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    match section {
        // Aliases of verbs never stand in front of git's own; the others are for people at a terminal, and for verbs
        // that nobody here calls. No verb here shows a difference.
        "alias" | "browser" | "diff" | "difftool" | "gui" | "guitool" | "instaweb"
        | "interactive" | "man" | "mergetool" | "pager" | "sendemail" | "trailer" => false,
        "core" => {
            matches!(name, "askpass" | "gitproxy" | "virtualfilesystem") || names_a_program(name)
        }
        "credential" => !matches!(name, "usehttppath" | "username"),
        "filter" => matches!(name, "clean" | "process" | "smudge"),
        // Where what is sent goes, whose certificate is good there, and which files are read and written.
        "http" => !matches!(
            name,
            "lowspeedlimit"
                | "lowspeedtime"
                | "maxrequests"
                | "minsessions"
                | "postbuffer"
                | "receivepack"
                | "uploadpack"
                | "useragent"
                | "version"
        ),
        // Programs that git's large files run are named there, for a filter that is the person's.
        "lfs" => {
            below.starts_with("customtransfer.")
                || below.starts_with("extension.")
                || name == "standalonetransferagent"
        }
        // Another working tree, or another branch, would have other settings than those that were looked at.
        "includeif" => true,
        "merge" => name == "driver",
        "remote" => {
            matches!(name, "proxy" | "receivepack" | "uploadpack" | "vcs") || names_a_program(name)
        }
        "submodule" => value.as_deref().is_some_and(|value| value.starts_with('!')),
        _ => names_a_program(name),
    }
}

/// Whether a setting is called as those are whose value is a command: `core.sshCommand`, `gpg.program`,
/// `gc.recentObjectsHook`, `hook.NAME.command`, `annex.freezecontent-command`.
fn names_a_program(name: &str) -> bool {
    ["cmd", "command", "helper", "hook", "program"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_git_would_follow_are_told_from_others() {
        for key in [
            "core.sshcommand",
            "core.askpass",
            "core.gitproxy",
            "core.alternaterefscommand",
            "credential.helper",
            "includeif.gitdir:**/worktrees/**.path",
            "includeif.onbranch:propose/**.path",
            "credential.https://h.example.helper",
            "filter.a.b=c.clean",
            "filter.x.process",
            "gc.recentobjectshook",
            "gpg.program",
            "gpg.ssh.defaultkeycommand",
            "gpg.x509.program",
            "hook.x.command",
            "http.proxy",
            "http.https://h.example.sslverify",
            "lfs.customtransfer.x.path",
            "lfs.extension.x.clean",
            "merge.x.driver",
            "remote.origin.uploadpack",
            "remote.origin.vcs",
            "annex.freezecontent-command",
        ] {
            assert!(is_followed(&(key.to_owned(), Some("x".to_owned()))), "{key}");
        }
        for key in [
            "alias.st",
            "branch.main.merge",
            "core.bare",
            "core.fsmonitor",
            "credential.username",
            "diff.x.textconv",
            "filter.x.required",
            "http.postbuffer",
            "lfs.repositoryformatversion",
            "merge.x.name",
            "remote.origin.url",
            "submodule.x.update",
            "user.email",
        ] {
            assert!(!is_followed(&(key.to_owned(), Some("x".to_owned()))), "{key}");
        }
        assert!(is_followed(&("submodule.x.update".to_owned(), Some("!x".to_owned()))));
    }

    #[test]
    fn what_the_persons_own_settings_say_is_theirs() {
        let theirs = "global\0filter.lfs.clean\ngit-lfs clean -- %f\0";
        let check = |more: &str| Settings::parse(&format!("{theirs}{more}")).check(Path::new("/x"));
        assert!(check("local\0filter.lfs.clean\ngit-lfs clean -- %f\0").is_ok());
        for other in ["local\0filter.lfs.clean\nother\0", "worktree\0filter.lfs.process\nother\0"] {
            let error = check(other).unwrap_err();
            assert!(error.message().contains("filter.lfs."), "{error:?}");
        }
    }

    #[test]
    fn urls_of_this_machine_are_told_from_others() {
        let place = |url| place_of(url, Path::new("/r"));
        assert_eq!(place("file:///srv/a"), Some("/srv/a".into()));
        assert_eq!(place("file://localhost/srv/a"), Some("/srv/a".into()));
        assert_eq!(place("/srv/a:b"), Some("/srv/a:b".into()));
        assert_eq!(place("../a"), Some("/r/../a".into()));
        for url in ["https://h.example/a", "git@h:a", "h:a/b", "ssh://h/a"] {
            assert_eq!(place(url), None, "{url}");
        }
    }
}
