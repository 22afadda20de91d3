//! `keyless hooks check`: raw secrets in files, and aliases that nothing resolves.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    env, fs,
    io::{self, Read as _},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, Exit, SafeText};
use keyless_daemon::{
    Places, path_unusable,
    setup::{KnownPaths, aliases_in, carries_variables, is_document, is_taken_from, made_up_in},
};
use keyless_pack::{NOT_A_SECRET, OutsideRun, TokenForms, outside_run, scan, utf16_text};
use serde::Serialize;
use serde_json::json;

use super::{
    super::pack::token_forms,
    commits, git,
    search::{HELD, search, search_long},
};
use crate::{args::HooksCheckArgs, ui::Ui, visible::one_line};

/// What stands in the place of a file for a commit's message.
pub(super) const MESSAGE: &str = "(message)";
/// From here on git leaves out what an editor was shown (git-commit(1), `scissors`).
const SCISSORS: &[u8] = b"------------------------ >8 ------------------------";
/// How much of a commit's name people are shown.
const SHORT: usize = 12;

/// Something that should not be committed.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) file: String,
    /// Counted from one; 0 for its name.
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) what: String,
    /// The commit that brings it, where commits are looked through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// An alias of a secret that is not known.
    Alias,
    Secret,
    /// An alias in what a client sends to a server that is elsewhere.
    #[serde(rename = "unresolved")]
    Remote,
    /// An alias where nothing resolves any.
    Unresolved,
}

/// What files are judged by, and how many were.
pub(super) struct Looking {
    forms: TokenForms,
    known: KnownPaths,
    pub(super) files: usize,
    /// Aliases of which it can't be told here whether anything resolves them: by file, as they are written.
    unjudged: BTreeSet<(String, String)>,
}

pub(super) async fn run(ui: &Ui, args: &HooksCheckArgs) -> Result<ExitCode, Error> {
    let known = KnownPaths::read(&Places::from_environment()?).await?;
    let mut looking = Looking { forms: token_forms(), known, files: 0, unjudged: BTreeSet::new() };
    if let Some(remote) = &args.push {
        return commits::run_push(ui, looking, remote, args.within).await;
    }
    if !args.commits.is_empty() {
        return commits::run_commits(ui, looking, &args.commits).await;
    }
    let mut found = Vec::new();
    if args.staged {
        found = looking.look_at_staged(&git::top()?)?;
    }
    if let Some(file) = &args.message {
        let Given::Whole(text) = read(file)? else {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            return Err(Error::with(Code::PathUnusable, place.and(" is too long for a message")));
        };
        found = looking.look_at_message(MESSAGE, before_scissors(&text));
    }
    for file in &args.files {
        found.extend(match read(file)? {
            Given::Whole(bytes) => looking.look(&current_folder()?, file, &bytes)?,
            Given::Long(mut bytes) => looking
                .look_at_long(file, &mut bytes)
                .map_err(|error| path_unusable(file, &error))?,
        });
    }
    looking.warn_of_unjudged(ui);
    let data = json!({ "files": looking.files, "findings": found });
    let outcome = if found.is_empty() { Ok(()) } else { Err(Exit::Failure) };
    Ok(ui.conclude("hooks check", outcome, &data, &words(&found)))
}

impl Looking {
    /// Says what could not be judged.
    pub(super) fn warn_of_unjudged(&self, ui: &Ui) {
        let aliases = match self.unjudged.len() {
            0 => return,
            1 => "1 alias was".to_owned(),
            unjudged => format!("{unjudged} aliases were"),
        };
        ui.warn(format!(
            "{aliases} not looked up: an agent's session does not see which secrets there are"
        ));
    }

    /// Looks through what the next commit brings into the working tree `top`.
    fn look_at_staged(&mut self, top: &Path) -> Result<Vec<Found>, Error> {
        let (files, mut found) = (git::staged()?, Vec::new());
        if files.is_empty() {
            return Ok(found);
        }
        let mut objects = git::Objects::open()?;
        for staged in &files {
            found.extend(match self.look_at_object(&mut objects, &staged.object, &staged.file) {
                Ok(Looked::Long(found)) => found,
                Ok(Looked::Whole(bytes)) => self.look(top, &staged.file, &bytes)?,
                Err(why) => return Err(objects.failure(&staged.file, &why)),
            });
        }
        objects.close()?;
        Ok(found)
    }

    /// Reads a version of a file, or looks through it for secrets as it comes where it is too long to be held.
    pub(super) fn look_at_object(
        &mut self,
        objects: &mut git::Objects,
        object: &str,
        file: &Path,
    ) -> io::Result<Looked> {
        objects.read(object, |size, bytes| {
            if size <= HELD as u64 {
                let mut whole = Vec::new();
                bytes.read_to_end(&mut whole)?;
                return Ok(Looked::Whole(whole));
            }
            self.look_at_long(file, bytes).map(Looked::Long)
        })
    }

    /// Looks through a file for secrets as it comes.
    fn look_at_long(&mut self, file: &Path, bytes: &mut dyn io::Read) -> io::Result<Vec<Found>> {
        self.files += 1;
        let mut found = Vec::new();
        let name = self.look_at_name(file, &mut found);
        let looks = search_long(&name, bytes, &self.forms, HELD)?;
        found.extend(looks.into_iter().map(|look| secret(&name, look)));
        Ok(found)
    }

    /// Looks through a message, which is shown by this name.
    pub(super) fn look_at_message(&self, name: &str, text: &[u8]) -> Vec<Found> {
        let looks = search("message", text, &self.forms);
        looks.into_iter().map(|look| secret(name, look)).collect()
    }

    /// Looks at a file's name; gives it as it may be shown.
    fn look_at_name(&self, file: &Path, found: &mut Vec<Found>) -> String {
        let name = file.to_string_lossy();
        let shown: Vec<Cow<'_, str>> = name.split('/').map(|part| self.shown(part)).collect();
        let shown = shown.join("/");
        if shown != name {
            let what = "its name looks like a credential".to_owned();
            found.push(Found::new(&shown, 0, Kind::Secret, what));
        }
        shown
    }

    /// A part of a file's name, without what looks like a credential.
    pub(super) fn shown<'n>(&self, part: &'n str) -> Cow<'n, str> {
        if scan("", part.as_bytes(), &self.forms).is_empty() {
            return part.into();
        }
        let begin: String = part.chars().take(4).collect();
        format!("{begin}…").into()
    }

    /// Looks through a file, whose name is seen from `here`.
    pub(super) fn look(
        &mut self,
        here: &Path,
        file: &Path,
        bytes: &[u8],
    ) -> Result<Vec<Found>, Error> {
        self.files += 1;
        let mut found = Vec::new();
        let name = self.look_at_name(file, &mut found);
        let looks = search(&name, bytes, &self.forms);
        found.extend(looks.into_iter().map(|look| secret(&name, look)));
        let decoded = utf16_text(bytes);
        let Some(text) = decoded.as_deref().or_else(|| std::str::from_utf8(bytes).ok()) else {
            return Ok(found);
        };
        let lines: Vec<&str> = text.lines().collect();
        let known: BTreeSet<usize> = found.iter().map(|one| one.line).collect();
        for line in made_up_in(file, text).into_iter().filter(|line| !known.contains(line)) {
            if !lines.get(line - 1).is_some_and(|line| line.contains(NOT_A_SECRET)) {
                let what =
                    "looks like a credential (a value that nobody typed, or a password)".to_owned();
                found.push(Found::new(&name, line, Kind::Secret, what));
            }
        }
        let (whole, is_carrier) = (here.join(file), carries_variables(file));
        let outside = if is_carrier { outside_run(file, text) } else { Vec::new() };
        for alias in aliases_in(file, text) {
            let server = outside.iter().find(|one| one.place.contains(&alias.at));
            let is_resolved = is_carrier && server.is_none();
            let marked = lines.get(alias.line - 1).is_some_and(|line| line.contains(NOT_A_SECRET));
            if marked {
                continue;
            }
            let written = &alias.written;
            let resolves = match &alias.path {
                Some(path) if is_resolved => {
                    self.known.resolves(whole.parent().unwrap_or(here), path)?
                }
                _ => Some(false),
            };
            let unresolved = match (server, is_carrier) {
                (Some(OutsideRun { server, is_remote: true, .. }), _) => Some((
                    Kind::Remote,
                    format!(
                        "nothing resolves @secret:{written} here: the server {} is elsewhere, and is sent these words",
                        one_line(server)
                    ),
                )),
                (Some(OutsideRun { server, .. }), _) => Some((
                    Kind::Unresolved,
                    format!(
                        "nothing resolves @secret:{written} here: the server {} is not started by keyless run",
                        one_line(server)
                    ),
                )),
                (None, false) => Some((
                    Kind::Unresolved,
                    format!(
                        "nothing resolves @secret:{written} in this file: its program takes it for the value"
                    ),
                )),
                (None, true) => None,
            };
            let (kind, what) = match (unresolved, &alias.path, resolves) {
                (Some(unresolved), ..) => unresolved,
                (None, _, Some(true)) => continue,
                (None, _, None) => {
                    self.unjudged.insert((name.clone(), written.clone()));
                    continue;
                }
                (None, Some(path), _) => {
                    (Kind::Alias, format!("@secret:{path} names a secret that is not known here"))
                }
                (None, None, _) => {
                    (Kind::Alias, format!("@secret:{written} is no path (project/category/name)"))
                }
            };
            found.push(Found::new(&name, alias.line, kind, what));
        }
        Ok(found)
    }
}

/// What was read of a version of a file.
pub(super) enum Looked {
    /// It was looked through already.
    Long(Vec<Found>),
    Whole(Vec<u8>),
}

impl Found {
    fn new(file: &str, line: usize, kind: Kind, what: String) -> Self {
        Self { file: file.to_owned(), line, kind, what, commit: None }
    }
}

fn secret(name: &str, (line, kind): (usize, Cow<'static, str>)) -> Found {
    Found::new(name, line, Kind::Secret, format!("looks like a credential ({kind})"))
}

/// What was read of a file that was named.
enum Given {
    /// It is too long to be held.
    Long(io::Chain<io::Cursor<Vec<u8>>, fs::File>),
    Whole(Vec<u8>),
}

/// Reads a file, or a pipe; a device (`/dev/zero` behind a link) may have no end.
fn read(file: &Path) -> Result<Given, Error> {
    let read = || -> io::Result<Option<Given>> {
        let mut opened = fs::File::open(file)?;
        let kind = opened.metadata()?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        opened.by_ref().take(HELD as u64 + 1).read_to_end(&mut bytes)?;
        let is_long = bytes.len() > HELD;
        Ok(Some(if is_long {
            Given::Long(io::Cursor::new(bytes).chain(opened))
        } else {
            Given::Whole(bytes)
        }))
    };
    read().map_err(|error| path_unusable(file, &error))?.ok_or_else(|| {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(" is a device, and no file"))
    })
}

/// The part of a commit message in the making that git keeps: what stands before the scissors line.
fn before_scissors(text: &[u8]) -> &[u8] {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let kept = lines.take_while(|line| !line.trim_ascii_end().ends_with(SCISSORS));
    &text[..kept.map(<[u8]>::len).sum()]
}

fn words(found: &[Found]) -> String {
    if found.is_empty() {
        return "Nothing found.\n".to_owned();
    }
    let mut words = rows(found);
    words.push_str(&about_secrets(found));
    words.push_str(&about_aliases(found));
    words.push_str("A line that only looks like one may carry the words ");
    words.push_str(NOT_A_SECRET);
    words.push_str(".\n");
    words
}

/// What to do about secrets: what takes a value out of its file goes by the file's form.
fn about_secrets(found: &[Found]) -> String {
    let mut advice: Vec<&'static str> = Vec::new();
    for one in found.iter().filter(|one| one.kind == Kind::Secret) {
        let next = match one.line {
            _ if one.file == MESSAGE => REWRITE,
            0 => RENAME,
            _ => next_in(Path::new(&one.file)),
        };
        if !advice.contains(&next) {
            advice.push(next);
        }
    }
    if !advice.is_empty() {
        advice.push("Rotate each value that anybody else has seen.\n");
    }
    advice.concat()
}

/// About a name of a file.
const RENAME: &str = "Next: rename the file.\n";
/// About a commit's message.
const REWRITE: &str = "Next: write the message without the value (git keeps it in .git/COMMIT_EDITMSG: git commit -e -F of that file).\n";

fn next_in(file: &Path) -> &'static str {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    if is_taken_from(file) {
        "Next: keyless secret import FILE --leave aliases, or take the value out of the .env file.\n"
    } else if carries_variables(file) && ["json", "toml"].contains(&end) {
        "Next: keyless pack adopt-secret --file FILE --path PROJECT/CATEGORY/NAME, which leaves an alias, and start what \
         reads it with keyless run.\n"
    } else if is_document(file) {
        "Next: keyless secret import FILE puts the value into the vault; then have the program read a variable, which \
         keyless run sets, and take the value out of the file by hand.\n"
    } else {
        "Next: keyless secret add PATH keeps the value; then have the program read a variable, which keyless run sets, and \
         take the value out of the file by hand.\n"
    }
}

/// What was found, where.
pub(super) fn rows(found: &[Found]) -> String {
    let row = |one: &Found| {
        let line = if one.line == 0 { String::new() } else { format!(":{}", one.line) };
        let commit = one
            .commit
            .as_deref()
            .map(|commit| format!(" (commit {})", commit.get(..SHORT).unwrap_or(commit)));
        let (file, commit) = (one_line(&one.file), commit.unwrap_or_default());
        format!("{file}{line}{commit}: {}\n", one.what)
    };
    found.iter().map(row).collect()
}

/// What to do about aliases that nothing resolves.
pub(super) fn about_aliases(found: &[Found]) -> String {
    let mut words = String::new();
    if found.iter().any(|one| one.kind == Kind::Alias) {
        words.push_str("Next: keyless secret add PATH, or declare it in .keyless/secrets.toml.\n");
    }
    if found.iter().any(|one| one.kind == Kind::Unresolved) {
        words.push_str(
            "Next: put the alias into a variable (.env, the env of an MCP server), have the program read that, and start it with \
             keyless run: the command of an MCP server is then keyless, with run -- COMMAND as its arguments.\n",
        );
    }
    if found.iter().any(|one| one.kind == Kind::Remote) {
        words.push_str(
            "Next: in its headers, name the variable that keyless run sets for the secret (${GITHUB_TOKEN} in Claude Code, \
             ${env:GITHUB_TOKEN} in Cursor and VS Code), and start the client with keyless run -- CLIENT.\n",
        );
    }
    words
}

fn current_folder() -> Result<PathBuf, Error> {
    env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })
}
