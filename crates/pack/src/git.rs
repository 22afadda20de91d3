//! Git, called as a program: with a deadline, without prompts, and never with a word that could be an option.
//!
//! URLs come from manifests that others wrote. A URL that begins with `-` would be an option, and
//! `ext::…` would be a command; both are refused before git is called, and `--` stands before every URL.
//! What a repository's own settings name is not run either: see [`own`].

mod own;

use std::{
    io::{self, Read as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use self::own::{RECEIVES, Settings};
use crate::{
    credentials,
    error::{Code, PackError, Result},
    paths::shown,
    tree::MAX_FILE,
};

pub use self::own::reading;

/// How long a call that stays on this machine may take.
const LOCAL: Duration = Duration::from_mins(1);
/// How long a call to a server may take.
const REMOTE: Duration = Duration::from_mins(5);
/// How long what git printed may be on its way once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often it is looked whether git has ended, at first and later.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(50);
/// A folder of hooks that has none.
const NO_HOOKS: &str = "/dev/null";
/// Ways to reach a repository that git itself carries, and that run no command of the URL's choice.
const SCHEMES: &[&str] = &["https://", "http://", "ssh://", "git://", "git+ssh://", "file://"];

/// Refuses a URL or ref that git could take for something else, or that a rule about hosts and paths could.
pub(crate) fn check_source(url: &str, reference: &str) -> std::result::Result<(), String> {
    check_url(url)?;
    check_place(url)?;
    let odd =
        |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    if reference.is_empty()
        || reference.starts_with('-')
        || reference.contains("..")
        || reference.contains(odd)
    {
        return Err(format!("git ref `{reference}` is no branch, tag or commit"));
    }
    Ok(())
}

/// Refuses a URL that git could take for an option or a command.
pub(crate) fn check_url(url: &str) -> std::result::Result<(), String> {
    let clean = !url.is_empty() && !url.chars().any(|c| c.is_control() || c == ' ');
    let scheme = SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    // user@host:path, as ssh's users write it; the host can't begin with a dash.
    let scp = url.split_once(':').is_some_and(|(host, path)| {
        !host.contains('/') && !host.is_empty() && !path.starts_with(':') && !host.contains("@-")
    });
    let local = url.starts_with('/');
    if !clean || url.starts_with('-') || authority.starts_with('-') || url.contains("::") {
        return Err(format!("git url `{}` is not one that can be fetched safely", shown_url(url)));
    }
    if !(scheme || local || (scp && !url.contains("://"))) {
        let url = shown_url(url);
        return Err(format!("git url `{url}` must be https, ssh, git, file or an absolute path"));
    }
    Ok(())
}

/// Refuses a URL whose repository is another one than its text says: servers and clients resolve `..` (`RFC 3986`,
/// section 5.2.4) and what stands for it, and read a host after user info. The user of ssh's login may be there.
pub(crate) fn check_place(url: &str) -> std::result::Result<(), String> {
    let (scheme, authority, path) = parts(url);
    if user_info(scheme, authority).is_some() {
        // What stands there may be a credential, so the URL is not repeated.
        return Err("a git url has a user or password before its host; git's credential helpers \
                    know better places for them"
            .to_owned());
    }
    let lower = url.to_ascii_lowercase();
    let encoded = ["%2e", "%2f", "%5c"].iter().any(|code| lower.contains(code));
    let path = path.strip_suffix('/').unwrap_or(path);
    let odd = |segment: &str| matches!(segment, "" | "." | "..");
    if url.contains('\\') || encoded || path.split('/').any(odd) {
        let url = shown_url(url);
        return Err(format!(
            "git url `{url}` must name its repository as it is: no `.`, `..`, empty or encoded parts, no backslash"
        ));
    }
    Ok(())
}

/// The URL without what may be a credential in it: a user or password before its host, but for `git`, as whom all log in
/// by ssh. Any other user may be a token.
fn without_user_info(url: &str) -> String {
    let (scheme, authority, _) = parts(url);
    match authority.rsplit_once('@') {
        Some((user, _)) if user != "git" || user_info(scheme, authority).is_some() => {
            url.replacen(&format!("{user}@"), "", 1)
        }
        _ => url.to_owned(),
    }
}

/// The URL as it may be shown: without what may be a credential before its host, behind its path, or as a part of that.
pub(crate) fn shown_url(url: &str) -> String {
    let url = without_user_info(url);
    let (place, more) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let parts = place.split('/').map(|part| if credentials::is_token(part) { "…" } else { part });
    let place = parts.collect::<Vec<_>>().join("/");
    if more.is_empty() { place } else { format!("{place}?…") }
}

/// A text, git's own words perhaps, with every URL in it as it may be shown.
fn with_shown_urls(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let before = &rest[..at];
        let scheme =
            before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let end = rest[at..].find(|c: char| c.is_whitespace() || "'\"`<>".contains(c));
        let end = end.map_or(rest.len(), |end| at + end);
        told.push_str(&with_shown_logins(scheme));
        told.push_str(&shown_url(&rest[scheme.len()..end]));
        rest = &rest[end..];
    }
    told.push_str(&with_shown_logins(rest));
    told
}

/// A text without the logins of `user@host:path` in it; ssh tells its faults with the like.
fn with_shown_logins(text: &str) -> String {
    let in_word = |c: char| !c.is_whitespace() && !"'\"`<>()".contains(c);
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(in_word) {
        let end = rest[start..].find(|c| !in_word(c)).map_or(rest.len(), |end| start + end);
        let word = &rest[start..end];
        let is_login = word.split_once('@').is_some_and(|(user, place)| {
            !user.is_empty() && !user.contains('/') && place.contains(':')
        });
        told.push_str(&rest[..start]);
        told.push_str(&if is_login { shown_url(word) } else { word.to_owned() });
        rest = &rest[end..];
    }
    told.push_str(rest);
    told
}

/// A URL's scheme, what stands where its host is named, and its path; no scheme for paths and `user@host:path`.
fn parts(url: &str) -> (&str, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = if scheme.is_empty() && !rest.starts_with('/') {
        // To git `me:token@host` is a path on the host `me`; whoever wrote it meant a login.
        let login = rest.split('/').next().and_then(|start| start.rsplit_once('@'));
        let login = login.filter(|(user, _)| {
            user.split_once(':').is_some_and(|(name, word)| !name.contains('@') && !word.is_empty())
        });
        let (user, place) = rest.split_at(login.map_or(0, |(user, _)| user.len()));
        let (host, path) = match place.find([':', '/']).filter(|_| login.is_some()) {
            Some(end) => (&rest[..user.len() + end], &place[end + 1..]),
            None if login.is_some() => (rest, ""),
            None => rest.split_once(':').unwrap_or((rest, "")),
        };
        // The path of user@host:path may begin at the server's root.
        (host, path.strip_prefix('/').unwrap_or(path))
    } else {
        rest.split_once('/').unwrap_or((rest, ""))
    };
    (scheme, authority, path)
}

/// What stands before the host, where it is more than the plain user of ssh's login, or a token in that one's place.
fn user_info<'u>(scheme: &str, authority: &'u str) -> Option<&'u str> {
    let (user, _) = authority.rsplit_once('@')?;
    let by_ssh = matches!(scheme, "" | "ssh" | "git+ssh");
    let plain = !user.is_empty()
        && user.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !credentials::is_token(user);
    (!(by_ssh && plain)).then_some(user)
}

/// Whether this is a whole commit id.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What differs from the commit that is checked out. In a submodule its own settings count: it is asked no more than which
/// commit it has.
pub(crate) const STATUS: &[&str] = &["status", "--porcelain", "--ignore-submodules=dirty"];

/// Refuses `command` unless the config repo is a git repository without uncommitted changes.
pub(crate) fn require_clean(repo: &Path, command: &str) -> Result<()> {
    if !repo.join(".git").exists() {
        let message = "the config repo is no git repository";
        let hint = "run `git init` there and commit, or `agentpack init --git`";
        return Err(fault(repo, command, Code::GitRepoRequired, message, hint));
    }
    if !run(repo, STATUS)?.trim().is_empty() {
        let message = "the config repo has changes that are not committed";
        return Err(fault(
            repo,
            command,
            Code::GitWorktreeDirty,
            message,
            "commit or stash them first",
        ));
    }
    Ok(())
}

/// A refusal of `command` for what the config repo is like.
pub(crate) fn fault(
    repo: &Path,
    command: &str,
    code: Code,
    message: &str,
    hint: &str,
) -> PackError {
    PackError::new(code, message)
        .with("command", command)
        .with("repo", shown(repo))
        .with("repo_posix", shown(repo))
        .hint(hint)
}

/// Runs git in a directory; gives what it printed.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Result<String> {
    call(folder, arguments, LOCAL)
}

/// As [`run`], for a call that talks to a server.
pub(crate) fn run_remote(folder: &Path, arguments: &[&str]) -> Result<String> {
    call(folder, arguments, REMOTE)
}

/// The bytes of a file in a commit; `None` when it was not there, or is not on this machine (a partial clone).
pub(crate) fn show(folder: &Path, revision: &str, path: &str) -> Option<Vec<u8>> {
    let object = format!("{revision}:{path}");
    answer(folder, &["cat-file", "blob", &object], LOCAL).ok()
}

/// The URL of `origin`, where there is one.
pub(crate) fn origin_of(folder: &Path) -> Option<String> {
    if !folder.join(".git").exists() {
        return None;
    }
    let url = run(folder, &["remote", "get-url", "origin"]).ok()?;
    let url = url.trim();
    (!url.is_empty()).then(|| url.to_owned())
}

fn call(folder: &Path, arguments: &[&str], patience: Duration) -> Result<String> {
    let output = answer(folder, arguments, patience)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// What git printed, byte for byte, as much as a module's file may have: a blob takes little room in a repository that others
/// made, whatever comes of it.
fn answer(folder: &Path, arguments: &[&str], patience: Duration) -> Result<Vec<u8>> {
    let mut command = prepared(folder, arguments)?;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(
        |error| match error.kind() {
            io::ErrorKind::NotFound if folder.is_dir() => not_found(folder, arguments),
            _ => PackError::io("run git in", folder, &error),
        },
    )?;
    let mut streams = Streams::of(&mut child);
    let status = until_ended(&mut child, &mut streams, patience);
    // What git started may live on and hold the pipes: whoever waits for their end may wait for a silent server.
    let is_done = status.is_some_and(|status| status.success());
    let wanted = if is_done { Stream::Output } else { Stream::Errors };
    let last = status.and_then(|_| streams.last_words(wanted));
    let fault = |words: &str| failed(folder, arguments, words);
    if last.as_deref().is_some_and(is_over) || streams.are_over() {
        return Err(fault(&format!("it printed more than {} MiB", MAX_FILE >> 20)));
    }
    match (status, last) {
        (Some(_), Some(output)) if is_done => Ok(output),
        (Some(_), errors) if !is_done => {
            Err(fault(String::from_utf8_lossy(&errors.unwrap_or_default()).trim()))
        }
        _ => Err(fault(&format!("no answer within {} s", patience.as_secs()))),
    }
}

/// Waits until git has ended; ends it, and gives nothing, where it takes too long or prints too much.
fn until_ended(child: &mut Child, streams: &mut Streams, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    let mut pause = SHORTEST_LOOK;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if !left.is_zero() && !streams.are_over() => {}
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
        // It mostly ends as its streams do, but what it started may hold these for longer.
        if !streams.read_within(pause.min(left)) {
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }
}

/// The verb: the first word that is neither an option of git's own nor the setting behind one. A branch may have any name.
fn verb<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-c" => drop(words.next()),
            _ => return Some(word),
        }
    }
    None
}

/// What a call may do, by its verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Reads, or writes settings and refs.
    Asks,
    /// Reads or writes the working tree, or makes commits.
    Works,
    /// Talks to a server, and may do either as well.
    Talks,
}

impl Does {
    fn of(verb: Option<&str>) -> Self {
        match verb {
            Some(
                "cat-file" | "check-ignore" | "check-ref-format" | "config" | "init" | "remote"
                | "rev-parse" | "symbolic-ref",
            ) => Self::Asks,
            Some("clone" | "ls-remote" | "pull" | "push") => Self::Talks,
            _ => Self::Works,
        }
    }
}

fn prepared(folder: &Path, arguments: &[&str]) -> Result<Command> {
    let verb = verb(arguments);
    let does = Does::of(verb);
    let mut command = own::unfetching();
    command.args(["-c", "protocol.ext.allow=never"]);
    own::sets_aside(&mut command);
    // A clone follows its own settings, which are looked at once there are any, and not those of what lies around it.
    let is_judged = does != Does::Asks && verb != Some("clone");
    let settings = is_judged.then(|| Settings::of(folder)).transpose()?.unwrap_or_default();
    // These are asked where the hooks are, and run none.
    if !matches!(verb, Some("config" | "rev-parse")) {
        command.arg("-c").arg(format!("core.hooksPath={}", hooks(folder, verb, &settings)?));
    }
    if does != Does::Asks {
        settings.check(folder)?;
        command.env_remove("GIT_OPTIONAL_LOCKS");
    }
    if does == Does::Talks {
        command.env_remove("GIT_NO_LAZY_FETCH").env_remove("GIT_ALLOW_PROTOCOL");
        if let Some(own) = std::env::var_os("GIT_ALLOW_PROTOCOL") {
            command.env("GIT_ALLOW_PROTOCOL", own);
        }
    }
    if let Some(remote) = arguments.iter().skip_while(|word| **word != "push").nth(1)
        && verb == Some("push")
        && goes_to_this_machine(folder, remote)?
    {
        command.arg("-c").arg(format!("remote.{remote}.receivepack={RECEIVES}"));
    }
    // The helper that speaks HTTP outlives a git that is killed; it goes when the server stays silent. It is in no group
    // of its own, for ssh could not ask at the terminal there, nor would Ctrl-C end it.
    command.arg("-c").arg("http.lowSpeedLimit=1");
    command.arg("-c").arg(format!("http.lowSpeedTime={}", REMOTE.as_secs()));
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    // The caller may itself be a git hook, whose variables would lead every call to another repository.
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"]
    {
        command.env_remove(name);
    }
    // The repository's settings could name another folder to write files into.
    let has_tree = does != Does::Asks && !matches!(verb, Some("clone" | "ls-remote"));
    if has_tree && folder.join(".git").exists() {
        command.env("GIT_WORK_TREE", folder);
    }
    Ok(command)
}

/// The folder of hooks: the person's own, before a commit or a push. Those of the repository are never run.
fn hooks(folder: &Path, verb: Option<&str>, settings: &Settings) -> Result<String> {
    let names: &[&str] = match verb {
        Some("commit") => &["commit-msg", "post-commit", "pre-commit", "prepare-commit-msg"],
        Some("push") => &["pre-push"],
        _ => return Ok(NO_HOOKS.to_owned()),
    };
    if let Some(theirs) = settings.hooks() {
        return Ok(theirs.to_owned());
    }
    own::check_hooks(folder, names)?;
    Ok(NO_HOOKS.to_owned())
}

/// Refuses a repository that has hooks of its own for a push.
pub(crate) fn check_pushes(folder: &Path) -> Result<()> {
    hooks(folder, Some("push"), &Settings::of(folder)?).map(drop)
}

/// Whether a push goes to a folder of this machine. The repository there is looked at as well.
fn goes_to_this_machine(folder: &Path, remote: &str) -> Result<bool> {
    let urls = run(folder, &["remote", "get-url", "--push", "--all", "--", remote])?;
    let places: Vec<_> = urls.lines().filter_map(|url| own::place_of(url, folder)).collect();
    for place in places.iter().filter(|place| place.is_dir()) {
        Settings::of(place)?.check(place)?;
    }
    Ok(!places.is_empty())
}

/// Which of git's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Errors,
    Output,
}

/// What git's streams had, each once it is at its end or has had more than may be.
struct Streams {
    read: Receiver<(Stream, Vec<u8>)>,
    /// Kept, so that a caller that waits for the next waits for as long as it says.
    _told: Sender<(Stream, Vec<u8>)>,
    output: Option<Vec<u8>>,
    errors: Option<Vec<u8>>,
}

impl Streams {
    fn of(child: &mut Child) -> Self {
        let (told, read) = mpsc::channel();
        drain(Stream::Output, child.stdout.take(), told.clone());
        drain(Stream::Errors, child.stderr.take(), told.clone());
        Self { read, _told: told, output: None, errors: None }
    }

    /// Waits for the next to be read; `false` when none was.
    fn read_within(&mut self, time: Duration) -> bool {
        let Ok((stream, bytes)) = self.read.recv_timeout(time) else { return false };
        *self.slot(stream) = Some(bytes);
        true
    }

    /// What one had, where that comes soon.
    fn last_words(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let deadline = Instant::now() + LAST_WORDS;
        while self.slot(stream).is_none()
            && self.read_within(deadline.saturating_duration_since(Instant::now()))
        {}
        self.slot(stream).take()
    }

    /// Whether one has had more than may be.
    fn are_over(&self) -> bool {
        [&self.output, &self.errors].into_iter().any(|read| read.as_deref().is_some_and(is_over))
    }

    fn slot(&mut self, stream: Stream) -> &mut Option<Vec<u8>> {
        match stream {
            Stream::Errors => &mut self.errors,
            Stream::Output => &mut self.output,
        }
    }
}

fn is_over(bytes: &[u8]) -> bool {
    bytes.len() as u64 > MAX_FILE
}

/// Reads a stream to its end, or until it has had more than may be, beside.
fn drain(
    which: Stream,
    stream: Option<impl io::Read + Send + 'static>,
    told: Sender<(Stream, Vec<u8>)>,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(MAX_FILE + 1).read_to_end(&mut bytes);
        }
        told.send((which, bytes))
    });
}

fn not_found(folder: &Path, arguments: &[&str]) -> PackError {
    PackError::new(Code::GitNotFound, "git is not installed or not on the PATH")
        .with("cwd", shown(folder))
        .with("cwd_posix", shown(folder))
        .with("args", shown_arguments(arguments))
        .hint("install git, then run the command again")
}

fn shown_arguments(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|word| with_shown_urls(word)).collect()
}

fn failed(folder: &Path, arguments: &[&str], errors: &str) -> PackError {
    let what = arguments.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let errors = with_shown_urls(errors);
    PackError::new(Code::GitFailed, format!("git {what} failed in {}: {errors}", folder.display()))
        .with("cwd", shown(folder))
        .with("cwd_posix", shown(folder))
        .with("args", shown_arguments(arguments))
        .hint("run the same git command by hand to see what it needs")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn urls_that_are_options_or_commands_are_refused() {
        for bad in [
            "",
            "--upload-pack=touch /tmp/INJECTED;",
            "-oProxyCommand=x",
            "ext::sh -c touch% /tmp/x",
            "fd::17",
            "ssh://-oProxyCommand=x/y",
            "-x@host:path",
            "git@-oProxyCommand=x:path",
            "https://host/a b",
            "relative/path",
            "gopher://host/x",
        ] {
            assert!(check_source(bad, "main").is_err(), "{bad}");
        }
        for good in [
            "https://github.com/a/b.git",
            "git@github.com:a/b",
            "ssh://git@h/a",
            "/srv/repo",
            "file:///srv/r",
        ] {
            assert_eq!(check_source(good, "main"), Ok(()), "{good}");
        }
        for elsewhere in [
            "https://github.com/acme/../evil/repo",
            "https://github.com/acme/..",
            "https://github.com/acme/./repo",
            "https://github.com/acme/%2e%2e/evil/repo",
            "https://github.com/acme/.%2E/evil/repo",
            "https://github.com/acme%2F..%2fevil/repo",
            "https://github.com/acme//repo",
            "https://github.com//acme/repo",
            "https://github.com/acme/repo//",
            "https://github.com/acme\\..\\evil/repo",
            "https://github.com",
            "https://me@github.com/acme/repo",
            "https://github.com@evil.example/acme/repo",
            "https://github.com?@evil.example/acme/repo",
            "http://me:word@github.com/acme/repo",
            "git://me@github.com/acme/repo",
            "ssh://me:word@github.com/acme/repo",
            "ssh://a@b@github.com/acme/repo",
            "me:word@github.com/acme/repo",
            "me:word@github.com:acme/repo",
            "git@github.com:acme/../evil/repo",
            "git@github.com:../evil/repo",
            "/srv/../etc/repo",
            "/srv//repo",
            "file:///srv/../repo",
        ] {
            assert!(check_source(elsewhere, "main").is_err(), "{elsewhere}");
        }
        for good in [
            "https://github.com/a/b/",
            "https://github.com:8443/a..b/.c",
            "ssh://me-2@h.example:22/a",
            "git@h:/srv/a",
        ] {
            assert_eq!(check_source(good, "main"), Ok(()), "{good}");
        }
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        for url in [format!("{token}@github.com:acme/repo"), format!("ssh://{token}@github.com/a")]
        {
            let told = check_source(&url, "main").unwrap_err();
            assert!(!told.contains(&token), "{told}");
        }
        let told = check_source("https://me:hunter2@github.com/acme/repo", "main").unwrap_err();
        assert!(!told.contains("hunter2"), "{told}");
        for bad in ["", "--orphan", "a..b", "a b", "x:y"] {
            assert!(check_source("/srv/repo", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_is_shown_without_credentials() {
        for (url, shown) in [
            ("https://me:hunter2@github.com/acme/repo", "https://github.com/acme/repo"),
            ("https://hunter2@github.com:8443/a/b", "https://github.com:8443/a/b"),
            ("https://me:a@b@github.com/acme/repo", "https://github.com/acme/repo"),
            ("ssh://me:hunter2@h/a", "ssh://h/a"),
            ("ssh://git@h/a", "ssh://git@h/a"),
            ("git@github.com:a/b", "git@github.com:a/b"),
            ("https://github.com/@acme/repo", "https://github.com/@acme/repo"),
            ("/srv/me@here/repo", "/srv/me@here/repo"),
            ("me:hunter2@h", "h"),
            ("me:hunter2@h/a", "h/a"),
            ("me:hunter2@h:a/b", "h:a/b"),
            ("git@h:a@b/c", "git@h:a@b/c"),
            ("hunter2@h:a/b", "h:a/b"),
            ("ssh://hunter2@h:22/a", "ssh://h:22/a"),
            ("git://git@h/a", "git://h/a"),
            ("h:@a/b", "h:@a/b"),
            ("h:a/@b", "h:a/@b"),
        ] {
            assert_eq!(without_user_info(url), shown);
        }
    }

    #[test]
    fn urls_in_a_text_are_shown_without_credentials() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let said = format!(
            "fatal: unable to access 'https://me:hunter2@h.example/a/b/': \
             https://h.example/{token}/b.git, ssh://git@h/a\nhttp://h/a?private_token=hunter2 (see git+ssh://x:hunter2@h/y) \
             hunter2@h.example: Permission denied, 'x:hunter2@h:a/b' git@h:a, you@h"
        );
        assert_eq!(
            with_shown_urls(&said),
            "fatal: unable to access 'https://h.example/a/b/': https://h.example/…/b.git, ssh://git@h/a\n\
             http://h/a?… (see git+ssh://h/y) h.example: Permission denied, 'h:a/b' git@h:a, you@h"
        );
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let urls = [
            format!("http://me:hunter2@{at}/a/b"),
            format!("http://{at}/a/b?token=hunter2"),
            format!("http://{at}/{token}/b"),
        ];
        for url in urls {
            let error = run_remote(&std::env::temp_dir(), &["ls-remote", "--", &url]).unwrap_err();
            let told = format!("{error:?}");
            assert!(told.contains(&at.to_string()), "{told}");
            assert!(!told.contains("hunter2") && !told.contains(&token), "{told}");
        }
    }

    /// A repository with one commit, in which an agent could have written anything.
    struct Theirs {
        home: tempfile::TempDir,
        /// What says that a program of the repository's has run.
        ran: std::path::PathBuf,
        program: String,
    }

    impl Theirs {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join("repo");
            std::fs::create_dir(&folder).unwrap();
            let ran = home.path().join("ran");
            let text = format!("#!/bin/sh\ntouch {}\ncat\n", ran.display());
            let program = home.path().join("program");
            let theirs = Self { ran, program: program.to_str().unwrap().to_owned(), home };
            put_program(&program, &text);
            theirs.git(&["init", "-q", "-b", "main"]);
            std::fs::write(folder.join("a"), "a").unwrap();
            theirs.git(&["add", "a"]);
            theirs.git(&["commit", "-q", "-m", "a"]);
            theirs
        }

        fn folder(&self) -> std::path::PathBuf {
            self.home.path().join("repo")
        }

        fn try_git(&self, arguments: &[&str]) -> Result<String> {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            run(&self.folder(), &[&identity[..], arguments].concat())
        }

        fn git(&self, arguments: &[&str]) -> String {
            self.try_git(arguments).unwrap()
        }

        fn put_hook(&self, name: &str) {
            put_program(
                &self.folder().join(".git/hooks").join(name),
                &std::fs::read_to_string(&self.program).unwrap(),
            );
        }
    }

    fn put_program(place: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;

        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_that_a_repository_names_are_not_run() {
        let theirs = Theirs::new();
        theirs.put_hook("post-checkout");
        theirs.put_hook("post-index-change");
        theirs.git(&["config", "core.fsmonitor", &theirs.program]);
        theirs.git(&["config", "diff.external", &theirs.program]);
        theirs.git(&["config", "core.pager", &theirs.program]);
        theirs.git(STATUS);
        theirs.git(&["worktree", "add", "--quiet", ".git/tree", "HEAD"]);
        // What the verb is given may be called as another verb is.
        for name in ["commit", "push"] {
            let tree = format!(".git/tree-{name}");
            theirs.git(&["worktree", "add", "--quiet", "-b", name, &tree, "HEAD"]);
            theirs.git(&["checkout", "--quiet", "HEAD", "--", "a"]);
        }
        assert!(!theirs.ran.exists());
        theirs.put_hook("pre-commit");
        let error = theirs.try_git(&["commit", "-q", "--allow-empty", "-m", "b"]).unwrap_err();
        assert!(error.message().contains("has hooks of its own (pre-commit)"), "{error:?}");
        assert!(!theirs.ran.exists());
    }

    #[test]
    fn a_repository_that_names_a_filter_is_asked_and_not_worked_in() {
        for name in ["clean", "process", "smudge"] {
            let theirs = Theirs::new();
            let key = format!("filter.x=y.{name}");
            theirs.git(&["config", &key, &theirs.program]);
            std::fs::create_dir_all(theirs.folder().join(".git/info")).unwrap();
            std::fs::write(theirs.folder().join(".git/info/attributes"), "* filter=x=y\n").unwrap();
            std::fs::write(theirs.folder().join("a"), "b").unwrap();
            for work in
                [STATUS, &["add", "-A"], &["worktree", "add", "--quiet", ".git/tree", "HEAD"]]
            {
                let error = theirs.try_git(work).unwrap_err();
                assert!(error.message().contains(&key), "{error:?}");
                assert!(error.hint_text().unwrap().contains("--unset-all"), "{error:?}");
            }
            theirs.git(&["rev-parse", "HEAD"]);
            assert_eq!(show(&theirs.folder(), "HEAD", "a"), Some(b"a".to_vec()));
            assert!(!theirs.ran.exists(), "{name}");
        }
    }

    /// What it includes is its own as well.
    #[test]
    fn a_repository_that_names_helpers_is_not_talked_for() {
        let theirs = Theirs::new();
        let more = theirs.home.path().join("more");
        let program = &theirs.program;
        std::fs::write(&more, format!("[core]\n\tsshCommand = {program}\n")).unwrap();
        theirs.git(&["remote", "add", "origin", "ssh://h.invalid/a"]);
        theirs.git(&["config", "include.path", more.to_str().unwrap()]);
        let error = run_remote(&theirs.folder(), &["ls-remote", "--", "origin"]).unwrap_err();
        assert!(error.message().contains("core.sshcommand"), "{error:?}");
        theirs.git(&["config", "--unset", "include.path"]);
        for key in ["remote.origin.uploadpack", "credential.helper", "http.proxy"] {
            theirs.git(&["config", key, program]);
            let error = run_remote(&theirs.folder(), &["ls-remote", "--", "origin"]).unwrap_err();
            assert!(error.message().contains(key), "{error:?}");
            theirs.git(&["config", "--unset", key]);
        }
        assert!(!theirs.ran.exists());
    }

    /// A line of `rebase`'s list may be a command.
    #[test]
    fn a_pull_and_a_push_run_nothing_of_either_repository() {
        let theirs = Theirs::new();
        let origin = theirs.home.path().join("origin.git");
        let origin_git = |arguments: &[&str]| run(&origin, arguments).unwrap();
        std::fs::create_dir(&origin).unwrap();
        origin_git(&["init", "-q", "--bare", "-b", "main"]);
        theirs.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
        let remote = |arguments: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            run_remote(&theirs.folder(), &[&identity[..], arguments].concat())
        };
        remote(&["push", "origin", "main"]).unwrap();
        theirs.git(&["commit", "-q", "--allow-empty", "-m", "theirs"]);
        remote(&["push", "origin", "main"]).unwrap();
        theirs.git(&["checkout", "--quiet", "-B", "main", "HEAD~1", "--"]);
        std::fs::write(theirs.folder().join("b"), "b").unwrap();
        theirs.git(&["add", "b"]);
        theirs.git(&["commit", "-q", "-m", "ours"]);
        let line = format!("%s%nexec {}", theirs.program);
        theirs.git(&["config", "rebase.instructionFormat", &line]);
        theirs.git(&["config", "gc.auto", "1"]);
        for name in ["pre-receive", "update", "post-receive", "reference-transaction"] {
            put_program(
                &origin.join("hooks").join(name),
                &std::fs::read_to_string(&theirs.program).unwrap(),
            );
        }
        remote(&["pull", "--rebase", "origin", "main"]).unwrap();
        remote(&["push", "origin", "main"]).unwrap();
        assert_eq!(origin_git(&["rev-parse", "main"]), theirs.git(&["rev-parse", "HEAD"]));
        assert!(!theirs.ran.exists());
        origin_git(&["config", "hook.x.command", &theirs.program]);
        let error = remote(&["push", "origin", "main"]).unwrap_err();
        assert!(error.message().contains("hook.x.command"), "{error:?}");
    }

    /// Into which a pull would write.
    #[test]
    fn a_repository_does_not_say_that_its_files_lie_elsewhere() {
        let theirs = Theirs::new();
        let elsewhere = theirs.home.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        theirs.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
        theirs.git(&["checkout", "--quiet", "HEAD", "--", "a"]);
        assert!(!elsewhere.join("a").exists());
        assert_eq!(theirs.git(STATUS), "");
    }

    #[test]
    fn bytes_that_a_server_has_are_not_fetched() {
        let theirs = Theirs::new();
        let object = theirs.git(&["rev-parse", "HEAD:a"]);
        assert_eq!(show(&theirs.folder(), "HEAD", "a"), Some(b"a".to_vec()));
        assert_eq!(show(&theirs.folder(), "HEAD", "b"), None);
        // A partial clone, which asks its server for what it lacks.
        let (folder, rest) = object.trim().split_at(2);
        let objects = theirs.folder().join(".git/objects");
        std::fs::remove_file(objects.join(folder).join(rest)).unwrap();
        for (name, value) in [
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", theirs.folder().to_str().unwrap()),
            ("remote.origin.uploadpack", &theirs.program),
        ] {
            theirs.git(&["config", name, value]);
        }
        assert_eq!(show(&theirs.folder(), "HEAD", "a"), None);
        assert!(!theirs.ran.exists());
    }

    #[test]
    fn a_blob_of_more_than_a_file_may_have_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            run(home.path(), &[&identity[..], arguments].concat()).unwrap()
        };
        git(&["init", "-q"]);
        for (name, bytes) in [("most", MAX_FILE), ("more", MAX_FILE + 1)] {
            let file = std::fs::File::create(home.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "a"]);
        let length = show(home.path(), "HEAD", "most").map(|bytes| bytes.len() as u64);
        assert_eq!(length, Some(MAX_FILE));
        assert_eq!(show(home.path(), "HEAD", "more").map(|bytes| bytes.len()), None);
        let error = run(home.path(), &["cat-file", "blob", "HEAD:more"]).unwrap_err();
        assert!(error.message().ends_with("it printed more than 32 MiB"), "{error:?}");
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a/b", silent.local_addr().unwrap());
        let (told, answer) = mpsc::channel();
        thread::spawn(move || {
            let folder = std::env::temp_dir();
            told.send(call(&folder, &["ls-remote", "--", &url], Duration::from_secs(1)))
        });
        let answer = answer.recv_timeout(Duration::from_secs(20)).expect("it ends");
        assert!(answer.unwrap_err().message().contains("no answer within 1 s"));
    }
}
