//! What git says of the repository that this folder lies in, whose settings an agent may have written.

mod commits;

use std::{
    ffi::OsStr,
    io::{self, BufRead as _, BufReader, ErrorKind, Read, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio},
    thread::{self, JoinHandle},
};

use keyless_core::{Code, Error, SafeText};
use keyless_pack::reading_git;

pub(super) use self::commits::{Brought, Change, Changes, Range, standing};

/// The mode of an entry that is another repository's commit.
const SUBMODULE: &str = "160000";

/// The working tree's root.
pub(super) fn top() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--show-toplevel"])
}

/// The folder that all working trees of the repository share.
pub(super) fn common() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--path-format=absolute", "--git-common-dir"])
}

/// The working tree's root, or where a repository without one lies.
pub(super) fn top_or_common() -> Result<PathBuf, Error> {
    top().or_else(|_| common())
}

/// Where git looks for hooks, wherever `core.hooksPath` leads.
pub(super) fn hooks() -> Result<PathBuf, Error> {
    one_path(&["rev-parse", "--path-format=absolute", "--git-path", "hooks"])
}

/// A file that the next commit adds or changes, as it is staged.
pub(super) struct Staged {
    /// From the working tree's root.
    pub(super) file: PathBuf,
    /// Git's name for its bytes, which none of a file's own can be taken for.
    pub(super) object: String,
}

/// The files that the next commit adds or changes; a submodule is none.
pub(super) fn staged() -> Result<Vec<Staged>, Error> {
    let list = ask(&[
        "diff",
        "--cached",
        "--raw",
        "-z",
        "--no-abbrev",
        "--no-renames",
        "--no-relative",
        "--ita-invisible-in-index",
        "--diff-filter=AMT",
    ])?;
    let mut fields = list.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut files = Vec::new();
    // `:OLDMODE MODE OLDOBJECT OBJECT STATUS`, then the name.
    while let (Some(what), Some(name)) = (fields.next(), fields.next()) {
        let what = std::str::from_utf8(what).unwrap_or_default();
        let [_, mode, _, object, _] = what.split(' ').collect::<Vec<_>>()[..] else {
            return Err(unusable(SafeText::words("git diff's list can't be read")));
        };
        if mode != SUBMODULE {
            let file = PathBuf::from(OsStr::from_bytes(name));
            files.push(Staged { file, object: object.to_owned() });
        }
    }
    Ok(files)
}

/// The message of a commit or of a tag.
pub(super) struct Message {
    /// What a tag is called.
    pub(super) tag: Option<String>,
    /// What a tag is of.
    pub(super) tagged: Option<String>,
    pub(super) text: Vec<u8>,
}

impl Message {
    /// Of such an object: lines of `WORD VALUE`, an empty one, then the message.
    fn of(object: &[u8]) -> Self {
        let end = object.windows(2).position(|two| two == b"\n\n").unwrap_or(object.len());
        let (head, text) = object.split_at(end);
        let head = String::from_utf8_lossy(head);
        let named = |word| head.lines().find_map(|line| line.strip_prefix(word)).map(str::to_owned);
        Self {
            tag: named("tag "),
            tagged: named("object "),
            text: text.get(2..).unwrap_or_default().to_vec(),
        }
    }
}

/// One git that hands out the bytes of objects.
pub(super) struct Objects {
    git: Child,
    wanted: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Read beside the answers: git would wait for whoever leaves it full.
    said: JoinHandle<String>,
}

impl Objects {
    pub(super) fn open() -> Result<Self, Error> {
        let mut git = reading_git(&["cat-file", "--batch"])
            // A commit takes the object that is staged, not one that stands in for it here.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| not_run(&error))?;
        let wanted = git.stdin.take().expect("it is piped");
        let answers = git.stdout.take().expect("it is piped");
        let said = heard(git.stderr.take().expect("it is piped"));
        Ok(Self { git, wanted, answers: BufReader::new(answers), said })
    }

    /// Hands a file's bytes to `take`, which is told how many there are; what it leaves is passed over.
    pub(super) fn read<T>(
        &mut self,
        object: &str,
        take: impl FnOnce(u64, &mut dyn Read) -> io::Result<T>,
    ) -> io::Result<T> {
        self.read_any(object, |kind, size, bytes| match kind {
            "blob" => take(size, bytes),
            _ => Err(ErrorKind::InvalidData.into()),
        })
    }

    /// What somebody wrote beside the files; nothing for what is neither a commit nor a tag.
    pub(super) fn message(&mut self, object: &str) -> io::Result<Option<Message>> {
        self.read_any(object, |kind, _, bytes| {
            if !matches!(kind, "commit" | "tag") {
                return Ok(None);
            }
            let mut whole = Vec::new();
            bytes.read_to_end(&mut whole)?;
            Ok(Some(Message::of(&whole)))
        })
    }

    /// Reads an object of any kind; `take` is told the kind, the size and the bytes.
    fn read_any<T>(
        &mut self,
        object: &str,
        take: impl FnOnce(&str, u64, &mut dyn Read) -> io::Result<T>,
    ) -> io::Result<T> {
        writeln!(self.wanted, "{object}")?;
        self.wanted.flush()?;
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        // `OBJECT KIND SIZE`, or `OBJECT missing`.
        let told = head.trim_end().strip_prefix(object).and_then(|rest| rest.strip_prefix(' '));
        let told = told.and_then(|told| told.split_once(' '));
        let Some((kind, size)) = told.and_then(|(kind, size)| Some((kind, size.parse().ok()?)))
        else {
            let absent = head.ends_with(" missing\n");
            return Err(if absent { ErrorKind::NotFound } else { ErrorKind::InvalidData }.into());
        };
        let mut bytes = self.answers.by_ref().take(size);
        let taken = take(kind, size, &mut bytes)?;
        io::copy(&mut bytes, &mut io::sink())?;
        let mut end = [0];
        self.answers.read_exact(&mut end)?;
        if end == *b"\n" { Ok(taken) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// Why a file's bytes did not come: git's own words, if it said any.
    pub(super) fn failure(self, file: &Path, why: &io::Error) -> Error {
        match self.end() {
            Ok((_, said)) if !said.is_empty() => failed(&said),
            _ => {
                let file = file.to_string_lossy();
                let words = SafeText::words("git does not have the bytes of ").as_they_wrote(&file);
                unusable(words.and(": ").and(why.kind()))
            }
        }
    }

    /// Lets git end; fails as it does.
    pub(super) fn close(self) -> Result<(), Error> {
        let (status, said) = self.end().map_err(|error| not_run(&error))?;
        if status.success() { Ok(()) } else { Err(failed(&said)) }
    }

    fn end(self) -> io::Result<(ExitStatus, String)> {
        let Self { mut git, wanted, answers, said } = self;
        drop((wanted, answers));
        Ok((git.wait()?, said.join().unwrap_or_default()))
    }
}

/// What comes from there, read beside everything else: a git whose words nobody reads waits.
fn heard(mut errors: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut said = Vec::new();
        // Whatever came before a fault is told.
        let _ = errors.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}

fn one_path(arguments: &[&str]) -> Result<PathBuf, Error> {
    let mut line = ask(arguments)?;
    // git's own line end; any further one is the name's.
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(PathBuf::from(OsStr::from_bytes(&line)))
}

fn ask(arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let output = reading_git(arguments).output().map_err(|error| not_run(&error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr)))
}

fn not_run(error: &io::Error) -> Error {
    unusable(SafeText::words("git: ").and(error.kind()))
}

fn failed(said: &str) -> Error {
    // Its words in the one language that every git of ours speaks: see `reading_git`.
    if said.contains("not a git repository") {
        return Code::RepositoryMissing.into();
    }
    let said = said.lines().next().unwrap_or("git failed");
    unusable(SafeText::words("git says: ").as_they_wrote(said))
}

fn unusable(words: SafeText) -> Error {
    Error::with(Code::GitFailed, words)
}
