//! What commits bring: their messages, and each version of each file that none of their parents has, oldest first.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    process::{Child, ChildStdout, Stdio},
    thread::{self, JoinHandle},
    vec,
};

use keyless_core::{Code, Error, SafeText};
use keyless_pack::reading_git;

use super::{SUBMODULE, ask, failed, heard, not_run, unusable};

/// Commits, as git's own words say which.
#[derive(Debug, Default)]
pub(in super::super) struct Range {
    options: Vec<String>,
    pub(in super::super) heads: Vec<String>,
    /// What the other side has.
    known: Vec<String>,
}

impl Range {
    /// The range of git's lines to a pre-push hook (`LOCAL-REF LOCAL-OBJECT REMOTE-REF REMOTE-OBJECT`): what is pushed and
    /// neither the refs that it goes to nor those that were last seen at that remote have.
    pub(in super::super) fn pushed(remote: &str, lines: &str) -> Result<Self, Error> {
        let mut range = Self::default();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            // The first is as somebody has typed it, blanks and all (githooks(5)).
            let [theirs, _, local, _] = line.rsplitn(4, ' ').collect::<Vec<_>>()[..] else {
                let words = "--push reads the lines that git writes to a pre-push hook (LOCAL-REF LOCAL-OBJECT \
                             REMOTE-REF REMOTE-OBJECT), and one is not such: to look through commits by name, \
                             keyless hooks check --commits REVISION";
                return Err(Error::with(Code::Usage, SafeText::words(words)));
            };
            // A deletion brings nothing.
            if !is_none(local) {
                range.heads.push(local.to_owned());
            }
            if !is_none(theirs) {
                range.known.push(theirs.to_owned());
            }
        }
        // What somebody else has pushed there since is unknown here, and no fault.
        range.options.push("--ignore-missing".to_owned());
        let named = named_by_url(remote)?;
        let remote = named.as_deref().unwrap_or(remote);
        // A URL that is no remote's has no refs of its own, and may have letters that mean more in a pattern.
        if !remote.is_empty() && !remote.contains(['?', '*', '[', '\\', ':']) {
            range.options.extend(["--not".to_owned(), format!("--remotes={remote}")]);
            range.options.push("--not".to_owned());
        }
        Ok(range)
    }

    /// What is pushed and no commit: files, and trees of them, that refs lead to by themselves. Files are no longer
    /// heads then.
    fn without_commits(&mut self) -> Result<Vec<Change>, Error> {
        let mut asked = Git::start(
            reading_git(&["cat-file", "--batch-check=%(objecttype) %(objectname)"]),
            Stdio::piped(),
        )?;
        let mut wanted = asked.child.stdin.take().expect("it is piped");
        let answers = BufReader::new(asked.child.stdout.take().expect("it is piped"));
        let heads = std::mem::take(&mut self.heads);
        // Beside the answers, which git would wait for somebody to read.
        let names: Vec<String> = heads.iter().map(|head| format!("{head}^{{}}\n")).collect();
        let writer = thread::spawn(move || wanted.write_all(names.concat().as_bytes()));
        let mut changes = Vec::new();
        for (head, answer) in heads.into_iter().zip(answers.lines()) {
            let answer = answer.map_err(|error| not_run(&error))?;
            match answer.split_once(' ') {
                Some(("blob", object)) => {
                    let object = object.to_owned();
                    changes.push(Change { commit: head, file: PathBuf::from(&object), object });
                    continue;
                }
                Some(("tree", tree)) => each_file(tree, |object, file| {
                    changes.push(Change { commit: head.clone(), file, object });
                })?,
                _ => {}
            }
            self.heads.push(head);
        }
        // If it ended first, its own words say why.
        let _ = writer.join();
        asked.close()?;
        Ok(changes)
    }

    /// Of revisions as `git log` takes them (`main`, `origin/main..HEAD`).
    pub(in super::super) fn named(revisions: &[String]) -> Result<Self, Error> {
        let asked = [
            &["rev-parse", "--revs-only"],
            &*revisions.iter().map(String::as_str).collect::<Vec<_>>(),
            // Without it git leaves out what it does not know, and says nothing.
            &["--"],
        ];
        let named = String::from_utf8_lossy(&ask(&asked.concat())?).into_owned();
        let (known, heads): (Vec<&str>, Vec<&str>) =
            named.lines().partition(|revision| revision.starts_with('^'));
        let known = known.iter().map(|revision| revision[1..].to_owned()).collect();
        let heads = heads.into_iter().map(str::to_owned).collect();
        Ok(Self { options: Vec::new(), heads, known })
    }
}

/// The remote that has this URL.
fn named_by_url(url: &str) -> Result<Option<String>, Error> {
    // Each ends with a NUL, and its key with a line.
    let asked = ["config", "-z", "--list"];
    let settings = String::from_utf8_lossy(&ask(&asked)?).into_owned();
    Ok(settings.split('\0').find_map(|setting| {
        let (key, value) = setting.split_once('\n')?;
        let name = key.strip_prefix("remote.")?;
        let name = name.strip_suffix(".url").or_else(|| name.strip_suffix(".pushurl"))?;
        (value == url).then(|| name.to_owned())
    }))
}

/// What commits bring.
#[derive(Debug)]
pub(in super::super) enum Brought {
    File(Change),
    /// The message of a commit of this name.
    Message(String),
}

/// A version of a file.
#[derive(Debug)]
pub(in super::super) struct Change {
    pub(in super::super) commit: String,
    pub(in super::super) file: PathBuf,
    pub(in super::super) object: String,
}

/// Two gits: one names the commits, one says what each brings. Read as they go, so that neither's list is ever held here.
pub(in super::super) struct Changes {
    names: Git,
    brought: Git,
    list: BufReader<ChildStdout>,
    commit: String,
    /// What no commit brings.
    loose: vec::IntoIter<Change>,
}

impl Changes {
    pub(in super::super) fn of(range: &mut Range) -> Result<Self, Error> {
        let loose = range.without_commits()?.into_iter();
        let mut list = reading_git(&["rev-list", "--reverse"]);
        list.args(&range.options).arg("--stdin").arg("--");
        let mut names = Git::start(list, Stdio::piped())?;
        let mut wanted = names.child.stdin.take().expect("it is piped");
        let heads = range.heads.iter().map(|head| format!("{head}\n"));
        let known = range.known.iter().map(|known| format!("^{known}\n"));
        let revisions: String = heads.chain(known).collect();
        // It reads all of them before it says a word. If it ended first, its own words say why.
        let _ = wanted.write_all(revisions.as_bytes());
        drop(wanted);
        let commits = names.child.stdout.take().expect("it is piped");
        // Plumbing, since what people set for `log` and `diff` does not count there. Of a merge, what differs from
        // all that it merges: the rest is some other commit's.
        let changes = ["diff-tree", "--stdin", "-r", "-c", "--root", "--raw", "-z", "--no-abbrev"];
        let mut brought = reading_git(&changes);
        // Also of one that changes no file, which has a message.
        brought.args(["--no-renames", "--always"]);
        let mut brought = Git::start(brought, commits.into())?;
        let list = BufReader::new(brought.child.stdout.take().expect("it is piped"));
        Ok(Self { names, brought, list, commit: String::new(), loose })
    }

    /// The next version or message; nothing after the last.
    pub(in super::super) fn next(&mut self) -> Result<Option<Brought>, Error> {
        if let Some(change) = self.loose.next() {
            return Ok(Some(Brought::File(change)));
        }
        while let Some(field) = self.field()? {
            if field.first() != Some(&b':') {
                self.commit = String::from_utf8_lossy(&field).into_owned();
                return Ok(Some(Brought::Message(self.commit.clone())));
            }
            let (Some((mode, object)), Some(name)) = (result(&field), self.field()?) else {
                return Err(unusable(SafeText::words("git diff-tree's list can't be read")));
            };
            if mode != SUBMODULE && !is_none(&object) {
                let file = PathBuf::from(OsStr::from_bytes(&name));
                let commit = self.commit.clone();
                return Ok(Some(Brought::File(Change { commit, file, object })));
            }
        }
        self.names.close()?;
        self.brought.close()?;
        Ok(None)
    }

    fn field(&mut self) -> Result<Option<Vec<u8>>, Error> {
        next_field(&mut self.list).map_err(|error| not_run(&error))
    }
}

/// The files, of those given, that stand in a commit as they are given; a file is an object and a name.
pub(in super::super) fn standing(
    head: &str,
    files: &BTreeSet<(String, PathBuf)>,
) -> Result<BTreeSet<(String, PathBuf)>, Error> {
    let mut standing = BTreeSet::new();
    each_file(head, |object, file| {
        let file = (object, file);
        if files.contains(&file) {
            standing.insert(file);
        }
    })?;
    Ok(standing)
}

/// Hands each file of a commit or tree to `take`: its object, and its name.
fn each_file(of: &str, mut take: impl FnMut(String, PathBuf)) -> Result<(), Error> {
    let mut git =
        Git::start(reading_git(&["ls-tree", "-r", "-z", "--full-tree", of, "--"]), Stdio::null())?;
    let mut list = BufReader::new(git.child.stdout.take().expect("it is piped"));
    // `MODE TYPE OBJECT`, a tab, then the name.
    while let Some(entry) = next_field(&mut list).map_err(|error| not_run(&error))? {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
        let what = String::from_utf8_lossy(&entry[..tab]);
        let [_, "blob", object] = what.split(' ').collect::<Vec<_>>()[..] else { continue };
        take(object.to_owned(), PathBuf::from(OsStr::from_bytes(&entry[tab + 1..])));
    }
    git.close()
}

/// A git whose answer is read while it runs; it ends when nobody wants more.
struct Git {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Git {
    fn start(mut git: std::process::Command, input: Stdio) -> Result<Self, Error> {
        // What is pushed is the objects themselves, not what stands in for them here.
        let git = git.env("GIT_NO_REPLACE_OBJECTS", "1").stdin(input);
        let git = git.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = git.spawn().map_err(|error| not_run(&error))?;
        let said = child.stderr.take().map(heard);
        Ok(Self { child, said })
    }

    /// Fails as it did.
    fn close(&mut self) -> Result<(), Error> {
        let status = self.child.wait().map_err(|error| not_run(&error))?;
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        if status.success() { Ok(()) } else { Err(failed(&said)) }
    }
}

impl Drop for Git {
    fn drop(&mut self) {
        // One that has ended can't be killed, and is waited for only once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mode and the object that come of `:MODE… MODE OBJECT… OBJECT STATUS`, with one colon and one of each for every
/// parent.
fn result(field: &[u8]) -> Option<(String, String)> {
    let field = std::str::from_utf8(field).ok()?;
    let parents = field.bytes().take_while(|byte| *byte == b':').count();
    let words: Vec<&str> = field[parents..].split(' ').collect();
    let (mode, object) = (words.get(parents)?, words.get(2 * parents + 1)?);
    Some(((*mode).to_owned(), (*object).to_owned()))
}

/// The bytes up to the next zero.
fn next_field(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut field = Vec::new();
    from.read_until(0, &mut field)?;
    if field.pop().is_none() {
        return Ok(None);
    }
    Ok(Some(field))
}

/// Whether this is git's name for no object.
fn is_none(object: &str) -> bool {
    object.bytes().all(|byte| byte == b'0')
}
