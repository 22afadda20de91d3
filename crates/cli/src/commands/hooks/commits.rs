//! `keyless hooks check --push` and `--commits`: what commits bring, each version of a file by itself, and each message.
//!
//! What one commit adds and a later one takes out again is pushed all the same, so every version is looked through for
//! secrets. Aliases give nothing away: they count where they stand in the end. Source: `githooks(5)`, pre-push.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, Exit, SafeText};
use keyless_pack::{NOT_A_SECRET, utf16_text};
use serde_json::json;

use super::{
    check::{Found, Kind, Looked, Looking, MESSAGE, about_aliases, rows},
    git::{self, Brought, Change, Changes, Message, Objects, Range, standing},
};
use crate::ui::Ui;

/// More findings than these are not told.
const MOST_FOUND: usize = 200;
/// After so many no more are looked for: a later commit may still mark them.
const MOST_HELD: usize = 10_000;
/// How many versions of files, and marked lines, are remembered at a time; what is forgotten is looked through again.
const REMEMBERED: usize = 200_000;
/// Tags of tags of tags.
const MOST_TAGS: usize = 16;
/// What stands around a mark to make a comment of it.
const COMMENT: &[char] = &['#', '/', '*', ';', '-', '<', '!', '%', '(', '{'];

pub(super) async fn run_push(
    ui: &Ui,
    looking: Looking,
    remote: &str,
    within: u64,
) -> Result<ExitCode, Error> {
    let mut lines = Vec::new();
    io::stdin().read_to_end(&mut lines).map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("standard input: ").and(error.kind()))
    })?;
    // The names of refs may be in any letters; those of objects are ASCII.
    let range = Range::pushed(remote, &String::from_utf8_lossy(&lines))?;
    let until = Instant::now() + Duration::from_secs(within);
    let walk = Walk::new(looking, range, Some(until))?;
    let seen = ui.wait("looking through what is pushed", walk.run()).await?;
    Ok(seen.tell(ui, within))
}

pub(super) async fn run_commits(
    ui: &Ui,
    looking: Looking,
    revisions: &[String],
) -> Result<ExitCode, Error> {
    let walk = Walk::new(looking, Range::named(revisions)?, None)?;
    let seen = ui.wait("looking through the commits", walk.run()).await?;
    Ok(seen.tell(ui, 0))
}

/// A way through a range of commits.
struct Walk {
    looking: Looking,
    range: Range,
    until: Option<Instant>,
    /// Where the working tree lies: the manifests there say what aliases may name.
    top: PathBuf,
    seen: HashSet<(String, PathBuf)>,
    secrets: Vec<Line>,
    /// What tells them from one another: the file, and the line's text, or its number where that is not known.
    told: HashSet<(PathBuf, Option<u64>, usize)>,
    aliases: Vec<Line>,
    /// Lines that carry the mark in some version of a file, without it.
    marked: HashSet<(PathBuf, u64)>,
}

/// A finding, and what tells it from others of other versions of its file.
struct Line {
    found: Found,
    file: PathBuf,
    object: String,
    /// The line's text; nothing for a name, or where the file was too long to be held.
    text: Option<u64>,
}

/// What came of it.
struct Seen {
    looking: Looking,
    found: Vec<Found>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Late,
    Many,
    Whole,
}

impl Walk {
    fn new(looking: Looking, range: Range, until: Option<Instant>) -> Result<Self, Error> {
        let top = git::top_or_common()?;
        let (seen, told, marked) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (secrets, aliases) = (Vec::new(), Vec::new());
        Ok(Self { looking, range, until, top, seen, secrets, told, aliases, marked })
    }

    /// Blocks its thread, but for a moment between two files.
    async fn run(mut self) -> Result<Seen, Error> {
        let mut end = if self.range.heads.is_empty() { End::Whole } else { self.look().await? };
        let (mut found, looking) = (self.findings()?, self.looking);
        if found.len() > MOST_FOUND {
            found.truncate(MOST_FOUND);
            end = End::Many;
        }
        Ok(Seen { looking, found, end })
    }

    async fn look(&mut self) -> Result<End, Error> {
        let mut objects = Objects::open()?;
        for head in self.range.heads.clone() {
            objects = self.look_at_tags(head, objects)?;
        }
        let mut changes = Changes::of(&mut self.range)?;
        while let Some(brought) = changes.next()? {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(End::Late);
            }
            if self.secrets.len() >= MOST_HELD {
                return Ok(End::Many);
            }
            if self.seen.len() >= REMEMBERED {
                self.seen.clear();
            }
            objects = match brought {
                Brought::File(change) => self.look_at_new(&change, objects)?,
                Brought::Message(commit) => self.look_at_message(&commit, objects)?,
            };
            tokio::task::yield_now().await;
        }
        objects.close()?;
        Ok(End::Whole)
    }

    /// Looks at the message of a tag that is pushed, and at that of the tag that it is of.
    fn look_at_tags(&mut self, head: String, mut objects: Objects) -> Result<Objects, Error> {
        let mut object = head;
        for _ in 0..MOST_TAGS {
            let message = match objects.message(&object) {
                Ok(message) => message,
                Err(why) => return Err(objects.failure(Path::new(&object), &why)),
            };
            // A commit's turn comes with what it brings.
            let Some(message) = message.filter(|message| message.tag.is_some()) else { break };
            self.keep_message(&object, &message);
            object = message.tagged.unwrap_or_default();
        }
        Ok(objects)
    }

    fn look_at_message(&mut self, commit: &str, mut objects: Objects) -> Result<Objects, Error> {
        match objects.message(commit) {
            Ok(Some(message)) => self.keep_message(commit, &message),
            Ok(None) => {}
            Err(why) => return Err(objects.failure(Path::new(commit), &why)),
        }
        Ok(objects)
    }

    fn keep_message(&mut self, object: &str, Message { tag, text, .. }: &Message) {
        let (name, commit) = match tag {
            Some(tag) => (format!("(message of the tag {})", self.looking.shown(tag)), None),
            None => (MESSAGE.to_owned(), Some(object.to_owned())),
        };
        for mut found in self.looking.look_at_message(&name, text) {
            found.commit.clone_from(&commit);
            // No other has this text: none is left out for it, and no mark in a file is about it.
            let (file, object) = (PathBuf::from(object), object.to_owned());
            self.keep(Line { found, file, object, text: None });
        }
    }

    fn look_at_new(&mut self, change: &Change, objects: Objects) -> Result<Objects, Error> {
        if self.seen.insert((change.object.clone(), change.file.clone())) {
            self.look_at(change, objects)
        } else {
            Ok(objects)
        }
    }

    fn look_at(&mut self, change: &Change, mut objects: Objects) -> Result<Objects, Error> {
        let Change { commit, file, object } = change;
        let (found, bytes) = match self.looking.look_at_object(&mut objects, object, file) {
            Ok(Looked::Long(found)) => (found, Vec::new()),
            Ok(Looked::Whole(bytes)) => (self.looking.look(&self.top, file, &bytes)?, bytes),
            Err(why) => return Err(objects.failure(file, &why)),
        };
        let text = utf16_text(&bytes).map(String::into_bytes).unwrap_or(bytes);
        self.remember_marks(file, &text);
        if found.is_empty() {
            return Ok(objects);
        }
        let lines: HashMap<usize, u64> =
            text.split(|byte| *byte == b'\n').map(digest).enumerate().collect();
        for mut found in found {
            let text = found.line.checked_sub(1).and_then(|line| lines.get(&line)).copied();
            found.commit = Some(commit.clone());
            let (file, object) = (file.clone(), object.clone());
            self.keep(Line { found, file, object, text });
        }
        Ok(objects)
    }

    fn keep(&mut self, line: Line) {
        if line.found.kind != Kind::Secret {
            if self.aliases.len() >= REMEMBERED {
                // The oldest are the least likely to stand in the end.
                self.aliases.drain(..REMEMBERED / 2);
            }
            self.aliases.push(line);
            return;
        }
        // A line that stays as it was is the finding of the commit that brought it.
        let number = if line.text.is_some() { 0 } else { line.found.line };
        if self.told.insert((line.file.clone(), line.text, number)) {
            self.secrets.push(line);
        }
    }

    fn remember_marks(&mut self, file: &Path, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        if !text.contains(NOT_A_SECRET) {
            return;
        }
        for (line, _) in text.lines().filter_map(|line| line.split_once(NOT_A_SECRET)) {
            if self.marked.len() < REMEMBERED {
                self.marked.insert((file.to_owned(), digest(line.as_bytes())));
            }
        }
    }

    /// What counts of all that was found.
    fn findings(&mut self) -> Result<Vec<Found>, Error> {
        let aliases = self.aliases.iter().map(Line::version);
        let aliases: BTreeSet<(String, PathBuf)> = aliases.collect();
        let mut stand = BTreeSet::new();
        if !aliases.is_empty() {
            let heads: BTreeSet<&String> = self.range.heads.iter().collect();
            for head in heads {
                stand.extend(standing(head, &aliases)?);
            }
        }
        self.aliases.retain(|one| stand.contains(&one.version()));
        // A person has said so since: for what is no secret no commit has to be made anew.
        let marked = &self.marked;
        self.secrets
            .retain(|one| one.text.is_none_or(|text| !marked.contains(&(one.file.clone(), text))));
        let found = self.secrets.drain(..).chain(self.aliases.drain(..));
        Ok(found.map(|one| one.found).collect())
    }
}

impl Line {
    /// The file that it is in, as a commit holds it.
    fn version(&self) -> (String, PathBuf) {
        (self.object.clone(), self.file.clone())
    }
}

impl Seen {
    fn tell(self, ui: &Ui, within: u64) -> ExitCode {
        let Self { looking, found, end } = self;
        looking.warn_of_unjudged(ui);
        let data = json!({ "files": looking.files, "findings": found, "whole": end == End::Whole });
        let is_fine = found.is_empty() && end == End::Whole;
        let outcome = if is_fine { Ok(()) } else { Err(Exit::Failure) };
        ui.conclude("hooks check", outcome, &data, &words(&found, end, within))
    }
}

fn words(found: &[Found], end: End, within: u64) -> String {
    if found.is_empty() && end == End::Whole {
        return "Nothing found.\n".to_owned();
    }
    let whole = match end {
        End::Late => format!(
            "Not all was looked through: it takes more than {within} seconds.\n\
             Next: push fewer commits at a time (git push REMOTE COMMIT:BRANCH), or look through them without a bound \
             (keyless hooks check --commits BRANCH) and then git push --no-verify.\n"
        ),
        End::Many => "There is more; not all is told.\n".to_owned(),
        End::Whole => String::new(),
    };
    let secrets = format!(
        "Next: take the value out of each of these commits (git commit --amend, git rebase -i; of a tag's message: git tag -f), \
         since what a later one takes out is pushed all the same; keyless secret add keeps it. Rotate it if it was ever pushed.\n\
         A line that only looks like one may carry the words {NOT_A_SECRET}, also in a later commit. What a remote has \
         already is not asked about once that is known here (git fetch REMOTE).\n"
    );
    let is_secret = found.iter().any(|one| one.kind == Kind::Secret);
    let secrets = if is_secret { secrets } else { String::new() };
    [rows(found), whole, secrets, about_aliases(found)].concat()
}

/// A line as it is told from others: without what stands around it, and the beginning of a comment behind it.
fn digest(line: &[u8]) -> u64 {
    let line = String::from_utf8_lossy(line);
    let line = line
        .trim_start()
        .trim_end_matches(|letter: char| letter.is_whitespace() || COMMENT.contains(&letter));
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}
