//! Taking values in from a file or the environment: read, compared with the vault, kept, and only then replaced
//! where they stood.
//!
//! Nothing is lost wherever this ends: the file changes after every value in it that goes is durable in the vault, in
//! one step, and a second run finds what the first one kept. A path that holds another value is never written.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use keyless_core::{ALIAS_PREFIX, Code, Error, SafeText, SecretPath};
use keyless_vault::{DotenvText, NewSecret, PlainFile, Weakness};
use zeroize::Zeroizing;

use super::{
    carrying::{Login, uncarried_as},
    document::{self, Form},
    propose::{Judged, Proposal, Proposer},
    rewrite::{self, LeftBehind},
};
use crate::{operator::Operator, places::unusable};

/// More than a file of variables has.
const MAX_FILE: usize = 4 * 1024 * 1024;

/// What a person says of single variables, over what is proposed.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Taken whatever they look like.
    pub include: BTreeSet<String>,
    /// When given, nothing else is looked at.
    pub only: Option<BTreeSet<String>>,
    /// Left alone.
    pub exclude: BTreeSet<String>,
    /// Where these go.
    pub paths: BTreeMap<String, SecretPath>,
    /// Where the project says that these go, where a person says nothing.
    pub declared: BTreeMap<String, SecretPath>,
    /// Whether values that look like none are taken too.
    pub allow_weak: bool,
}

/// Why a line stays whose value is no more than a part of what its readers see.
const COMPOSED: &str = "is put together by whoever reads it (${…}, $(…), a command, $'…', a backslash at its end), or ends for a shell at a blank, `&`, `;` or the like outside of quotes";

/// What takes a value's place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// `@secret:PATH`.
    Aliases,
    /// `# NAME=@secret:PATH`: the line is a comment, so that a shell that reads the file keeps what is in the variable.
    Comments,
    /// Nothing.
    Empty,
}

/// Which of the values that the vault has go out of their file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// All values.
    All,
    /// Values that requests carry: of another a program in a session finds nothing once its line is gone.
    Carried,
}

/// What becomes of values in their file, once the vault has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What takes their place.
    pub what: Leave,
    /// The values that leave.
    pub of: Going,
}

/// The variables of one file, or of the environment.
pub struct Import {
    /// The file and what it holds, where values can be replaced.
    replaceable: Option<(PathBuf, Zeroizing<Vec<u8>>)>,
    held: Vec<Held>,
    /// Lines that can't be read, counted from one.
    pub unread: Vec<usize>,
    /// How many texts of a document stand in lists, where nothing says what they hold; they are not looked at.
    pub in_lists: usize,
}

/// A line whose value looks like a secret, and that a later one of the same name overrules. Its value goes nowhere, so
/// it is never taken out of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// The variable.
    pub variable: String,
    /// Counted from one.
    pub line: usize,
}

/// A line whose value looks like a secret's and is none as it stands: what shells or docker compose make of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// The variable.
    pub variable: String,
    /// Counted from one.
    pub line: usize,
}

/// Whether a file of this name is read as JSON or YAML, by its keys.
pub fn is_document(file: &Path) -> bool {
    Form::of(file).is_some()
}

/// A variable, what it holds and where.
struct Held {
    row: ImportRow,
    value: Zeroizing<String>,
    /// The password in the address that the value is: that is the secret then.
    password: Option<Zeroizing<String>>,
    places: Vec<Range<usize>>,
    /// A later line sets it to something else, and this looks like a secret's value.
    is_overruled_secret: bool,
}

/// What is known of one variable, and what became of it. Holds no value.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportRow {
    /// Its name.
    pub variable: String,
    /// Where it stands, counted from one.
    pub line: Option<usize>,
    /// Where it goes.
    pub proposal: Option<Proposal>,
    /// How it is.
    pub outcome: Outcome,
    /// Why no request carries it, where none does: a fragment of a sentence.
    pub uncarried: Option<String>,
    /// Where it could go instead, where its path holds another value: to a path of the project's own.
    pub instead: Option<SecretPath>,
}

/// How a variable is, or what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its value is in the vault now.
    Imported,
    /// Its value will go into the vault.
    New,
    /// The vault has this value at this path.
    Present,
    /// The vault refused it, and why.
    Refused(String),
    /// It stays where it is, and why.
    Skipped(String),
    /// The vault has another value at this path, which stays.
    Taken,
}

/// A variable as it was read.
struct Found {
    name: String,
    value: Zeroizing<String>,
    line: Option<usize>,
    place: Option<Range<usize>>,
    is_composed: bool,
}

impl Import {
    /// Reads `file`: JSON and YAML by their names, else the form of `.env`. Blocks.
    pub fn of_file(file: &Path, wish: &Wish, proposer: &Proposer<'_>) -> Result<Self, Error> {
        let bytes = read_bytes(file)?;
        if let Some(form) = Form::of(file) {
            let text = str::from_utf8(&bytes).map_err(|_| no_text(file))?;
            let document = document::read(text, form).ok_or_else(|| {
                let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
                Error::with(Code::Usage, place.and(" is neither JSON nor YAML as its name says"))
            })?;
            let found = document.texts.into_iter().map(|(name, value)| Found {
                name,
                value,
                line: None,
                place: None,
                is_composed: false,
            });
            let mut import = Self::new(found.collect(), wish, proposer);
            import.in_lists = document.in_lists;
            return Ok(import);
        }
        let read = DotenvText::of(&bytes).ok_or_else(|| no_text(file))?.read();
        let found = read.assignments.into_iter().map(|one| Found {
            name: one.name,
            value: one.value,
            line: Some(one.line),
            place: Some(one.place),
            is_composed: one.is_composed,
        });
        let mut import = Self::new(found.collect(), wish, proposer);
        import.unread = read.unread;
        import.replaceable = Some((file.to_owned(), bytes));
        Ok(import)
    }

    /// Takes these variables, such as a process's environment.
    pub fn of_variables(
        variables: impl IntoIterator<Item = (String, String)>,
        wish: &Wish,
        proposer: &Proposer<'_>,
    ) -> Self {
        let found = variables.into_iter().map(|(name, value)| Found {
            name,
            value: Zeroizing::new(value),
            line: None,
            place: None,
            is_composed: false,
        });
        Self::new(found.collect(), wish, proposer)
    }

    fn new(mut found: Vec<Found>, wish: &Wish, proposer: &Proposer<'_>) -> Self {
        if let Some(only) = &wish.only {
            // Who names some asks about no other.
            found.retain(|one| only.contains(&one.name));
        }
        let last: BTreeMap<String, usize> =
            found.iter().enumerate().map(|(at, one)| (one.name.clone(), at)).collect();
        let mut held: Vec<Held> = Vec::new();
        let mut earlier: Vec<Found> = Vec::new();
        for (at, one) in found.into_iter().enumerate() {
            if last.get(&one.name) == Some(&at) {
                held.push(Held::new(one, wish, proposer));
            } else {
                earlier.push(one);
            }
        }
        for one in earlier {
            let same = held
                .iter_mut()
                .find(|held| held.row.variable == one.name && *held.value == *one.value);
            match same {
                Some(held) => held.places.extend(one.place),
                None => held.push(Held::overruled(one, wish, proposer)),
            }
        }
        give_paths_of_their_own(&mut held);
        Self { replaceable: None, held, unread: Vec::new(), in_lists: 0 }
    }

    /// The lines that stay as they are, though what they hold looks like a secret's value: a later one overrules them.
    pub fn overruled(&self) -> impl Iterator<Item = Overruled> {
        let overruled = self.held.iter().filter(|held| held.is_overruled_secret);
        overruled.filter_map(|Held { row, .. }| {
            Some(Overruled { variable: row.variable.clone(), line: row.line? })
        })
    }

    /// The lines that stay since what stands there is not the value that their readers have.
    pub fn composed(&self) -> impl Iterator<Item = Composed> {
        let why = Outcome::Skipped(COMPOSED.to_owned());
        let composed = self.rows().filter(move |row| row.outcome == why);
        composed
            .filter_map(|row| Some(Composed { variable: row.variable.clone(), line: row.line? }))
    }

    /// What is known of each variable.
    pub fn rows(&self) -> impl Iterator<Item = &ImportRow> {
        self.held.iter().map(|held| &held.row)
    }

    /// Whether values in it can be replaced: those of `.env` files can.
    pub fn is_replaceable(&self) -> bool {
        self.replaceable.is_some()
    }

    /// How many variables are in this state.
    pub fn count(&self, outcome: &Outcome) -> usize {
        self.rows().filter(|row| row.outcome == *outcome).count()
    }

    /// How many values would go out of the file, could all that are new be kept.
    pub fn going(&self, of: Going) -> usize {
        let is_to_be_kept = |row: &&ImportRow| {
            matches!(row.outcome, Outcome::Imported | Outcome::New | Outcome::Present)
        };
        self.rows().filter(is_to_be_kept).filter(|row| row.goes(of)).count()
    }

    /// Looks what of it the vault has.
    pub async fn compare(
        &mut self,
        operator: &Operator,
        proposer: &Proposer<'_>,
    ) -> Result<(), Error> {
        let mut claims = Claims::default();
        for held in &mut self.held {
            let Some(proposal) = &held.row.proposal else { continue };
            if held.row.outcome == Outcome::New {
                held.row.outcome = match held.is_kept_at(operator, &proposal.path).await? {
                    None => Outcome::New,
                    Some(true) => Outcome::Present,
                    Some(false) => Outcome::Taken,
                };
            }
            let path = match held.row.outcome {
                Outcome::New | Outcome::Present => Some(&proposal.path),
                _ => held.row.instead.as_ref(),
            };
            claims.extend(path.map(|path| (path.clone(), held.value.clone())));
        }
        let taken =
            |held: &&mut Held| held.row.outcome == Outcome::Taken && held.row.instead.is_none();
        for held in self.held.iter_mut().filter(taken) {
            let Some(proposal) = &held.row.proposal else { continue };
            for path in proposer.of_project(&proposal.path) {
                // Another variable of this file may be offered it, or go there.
                let is_free = claims.get(&path).is_none_or(|value| *value == held.value);
                if is_free && held.is_kept_at(operator, &path).await? != Some(false) {
                    claims.insert(path.clone(), held.value.clone());
                    held.row.instead = Some(path);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives those whose path holds another value one of the project's own, where `may_move` agrees to the path;
    /// tells which, from where to where. They want comparing again.
    pub fn move_aside(
        &mut self,
        may_move: impl Fn(&SecretPath) -> bool,
    ) -> Vec<(String, SecretPath, SecretPath)> {
        let mut moved = Vec::new();
        for Held { row, .. } in &mut self.held {
            let Some(proposal) = row.proposal.as_mut().filter(|proposal| may_move(&proposal.path))
            else {
                continue;
            };
            if let (Outcome::Taken, Some(path)) = (&row.outcome, row.instead.take()) {
                let before = std::mem::replace(&mut proposal.path, path.clone());
                moved.push((row.variable.clone(), before, path));
                row.outcome = Outcome::New;
            }
        }
        moved
    }

    /// Puts what is new into the vault, at once. One that is refused stays where it is, and the others go on.
    pub async fn keep(&mut self, operator: &Operator, proposer: &Proposer<'_>) {
        let mut given = Vec::new();
        let mut rows: Vec<Vec<&mut ImportRow>> = Vec::new();
        let mut places: BTreeMap<(SecretPath, &str), usize> = BTreeMap::new();
        for Held { row, value, password, .. } in &mut self.held {
            let (Outcome::New, Some(proposal)) = (&row.outcome, &row.proposal) else { continue };
            let whole = value.as_str();
            let value = password.as_ref().unwrap_or(value);
            match places.entry((proposal.path.clone(), whole)) {
                // Two variables with one value may share its path; with one password in two addresses they may not.
                Entry::Occupied(place) => rows[*place.get()].push(row),
                Entry::Vacant(place) => {
                    given.push(NewSecret {
                        path: proposal.path.clone(),
                        metadata: proposer.metadata(proposal, value.as_bytes()),
                        value: Some(Zeroizing::new(value.as_bytes().to_vec())),
                    });
                    place.insert(rows.len());
                    rows.push(vec![row]);
                }
            }
        }
        for (rows, answer) in rows.into_iter().zip(operator.provide_all(given).await) {
            let outcome = match answer {
                Ok(()) => Outcome::Imported,
                Err(error) => Outcome::Refused(error.message()),
            };
            for row in rows {
                row.outcome = outcome.clone();
            }
        }
    }

    /// Replaces in the file what the vault has now. [`Code::Usage`] when the values come from no `.env` file. Blocks.
    pub fn leave(&self, Leaving { what, of }: Leaving) -> Result<LeftBehind, Error> {
        let Some((file, bytes)) = &self.replaceable else {
            let words = "only values in the form of .env can be replaced where they stand";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        };
        let kept = |held: &&Held| matches!(held.row.outcome, Outcome::Imported | Outcome::Present);
        let mut edits = Vec::new();
        for held in self.held.iter().filter(kept).filter(|held| held.row.goes(of)) {
            let Some(proposal) = &held.row.proposal else { continue };
            let alias = format!("{ALIAS_PREFIX}{}", proposal.path);
            let edit = |place: &Range<usize>| match what {
                Leave::Aliases => (place.clone(), alias.clone()),
                Leave::Comments => {
                    let before = &bytes[..place.start];
                    let line = before.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
                    let name = String::from_utf8_lossy(&before[line..]);
                    (line..place.end, format!("# {name}{alias}"))
                }
                Leave::Empty => (place.clone(), String::new()),
            };
            edits.extend(held.places.iter().map(edit));
        }
        rewrite::rewrite(file, bytes, edits)
    }
}

impl ImportRow {
    fn goes(&self, of: Going) -> bool {
        of == Going::All || self.uncarried.is_none()
    }
}

impl Held {
    fn new(found: Found, wish: &Wish, proposer: &Proposer<'_>) -> Self {
        let (proposal, outcome) = judge(&found, wish, proposer);
        let new = proposal.as_ref().filter(|_| outcome == Outcome::New);
        let login = new.and_then(|_| Login::read(&found.value));
        let uncarried = new.and_then(|proposal| uncarried_as(proposal, &found.value));
        let mut held = Self::of(found, proposal, outcome);
        if let (Some(login), Some(proposal)) = (login, &mut held.row.proposal) {
            proposal.with_login(&login);
            held.password = Some(login.password);
        }
        held.row.uncarried = uncarried;
        held
    }

    /// Whether a path holds all of it: what stands in the file, or the password with the rest of the address around it, so that
    /// nothing is lost where it is taken out. Nothing where no value is there.
    async fn is_kept_at(
        &self,
        operator: &Operator,
        path: &SecretPath,
    ) -> Result<Option<bool>, Error> {
        let whole = operator.holds(path, self.value.as_bytes()).await?;
        let (Some(false), Some(password)) = (whole, &self.password) else { return Ok(whole) };
        let form = self.row.proposal.as_ref().and_then(Proposal::form);
        let is_around = operator.surrounds(path, form).await?;
        Ok(Some(is_around && operator.holds(path, password.as_bytes()).await? == Some(true)))
    }

    /// Set again further down: what counts is the last one.
    fn overruled(found: Found, wish: &Wish, proposer: &Proposer<'_>) -> Self {
        let is_overruled_secret = judge(&found, wish, proposer).1 == Outcome::New;
        let why = "another value is set further down, which counts".to_owned();
        Self { is_overruled_secret, ..Self::of(found, None, Outcome::Skipped(why)) }
    }

    fn of(found: Found, proposal: Option<Proposal>, outcome: Outcome) -> Self {
        let row = ImportRow {
            variable: found.name,
            line: found.line,
            proposal,
            outcome,
            uncarried: None,
            instead: None,
        };
        let places = found.place.into_iter().collect();
        Self { row, value: found.value, password: None, places, is_overruled_secret: false }
    }
}

/// The paths that values of one file have or are offered, and what goes there.
type Claims = BTreeMap<SecretPath, Zeroizing<String>>;

fn judge(found: &Found, wish: &Wish, proposer: &Proposer<'_>) -> (Option<Proposal>, Outcome) {
    let skipped = |why: &str| (None, Outcome::Skipped(why.to_owned()));
    if wish.exclude.contains(&found.name) {
        return skipped("is left out, as you said");
    }
    let wanted = wish.include.contains(&found.name) || wish.paths.contains_key(&found.name);
    let judged = proposer.judge(&found.name, &found.value);
    let mut proposal = match judged {
        Judged::Secret(proposal) => proposal,
        Judged::Skip(_) if wanted && !found.value.is_empty() => proposer.named(&found.name),
        Judged::Skip(why) => return skipped(why),
    };
    if let Some(path) = wish.paths.get(&found.name).or_else(|| wish.declared.get(&found.name)) {
        proposal.path = path.clone();
    }
    if found.is_composed {
        return (Some(proposal), Outcome::Skipped(COMPOSED.to_owned()));
    }
    if !wish.allow_weak && Weakness::of(found.value.as_bytes()).is_some() {
        return (
            Some(proposal),
            Outcome::Skipped("has no real value (--allow-weak takes it)".to_owned()),
        );
    }
    (Some(proposal), Outcome::New)
}

/// Two variables that would go to one path get two, unless they hold the same.
fn give_paths_of_their_own(all: &mut [Held]) {
    let mut taken = Claims::default();
    for held in all.iter_mut().filter(|held| held.row.outcome == Outcome::New) {
        let Some(proposal) = &mut held.row.proposal else { continue };
        let wanted = proposal.path.clone();
        let mut number = 1;
        while taken.get(&proposal.path).is_some_and(|there| *there != held.value) {
            number += 1;
            let Ok(path) = SecretPath::parse(&format!("{wanted}-{number}")) else { break };
            proposal.path = path;
        }
        taken.entry(proposal.path.clone()).or_insert_with(|| held.value.clone());
    }
}

fn no_text(file: &Path) -> Error {
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::PathUnusable, place.and(": it is no UTF-8 text"))
}

fn read_bytes(file: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let read = PlainFile::open(file).and_then(|opened| opened.bytes(MAX_FILE));
    read.map_err(|error| match error.kind() {
        PlainFile::NO_FILE | io::ErrorKind::FileTooLarge => {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            let words = place.and(" is no regular file of at most 4 MiB");
            Error::with(Code::PathUnusable, words)
        }
        _ => unusable(file, &error),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use keyless_vault::Providers;

    use super::*;

    fn import(text: &str, wish: &Wish) -> Import {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        fs::write(&file, text).unwrap();
        let providers = Providers::bundled();
        Import::of_file(&file, wish, &Proposer::new(&providers, "app", &|_| false)).unwrap()
    }

    fn told(import: &Import) -> Vec<(String, String)> {
        let words = |row: &ImportRow| match &row.outcome {
            Outcome::New => row.proposal.as_ref().unwrap().path.to_string(),
            Outcome::Skipped(why) => why.clone(),
            other => format!("{other:?}"),
        };
        import.rows().map(|row| (row.variable.clone(), words(row))).collect()
    }

    fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(name, said)| ((*name).to_owned(), (*said).to_owned())).collect()
    }

    #[test]
    fn a_person_has_the_last_word() {
        let text = "GITHUB_TOKEN=f3a9b7c5d1e82460\nACME_KEY=f3a9b7c5d1e82461\nPORT=f3a9b7c5d1e82462\nNPM_TOKEN=changeme\n";
        let wish = Wish {
            include: ["PORT".to_owned()].into(),
            exclude: ["ACME_KEY".to_owned()].into(),
            only: None,
            paths: [("GITHUB_TOKEN".to_owned(), SecretPath::parse("a/b/c").unwrap())].into(),
            declared: BTreeMap::new(),
            allow_weak: false,
        };
        let expected = [
            ("GITHUB_TOKEN", "a/b/c"),
            ("ACME_KEY", "is left out, as you said"),
            ("PORT", "personal/app/port"),
            ("NPM_TOKEN", "has no real value (--allow-weak takes it)"),
        ];
        assert_eq!(told(&import(text, &wish)), rows(&expected));
    }

    #[test]
    fn what_is_put_together_by_its_readers_stays() {
        let text = "ACME_KEY=f3a9b7c5d1e8${NPM_TOKEN}f3a9b7c5d1e82460\nB_SECRET=$'f3a9b7c5d1e82460'\nC_SECRET=f3a9b7c5d1e82460\\\nf3a9\nD_SECRET='f3a9b7c5d1e8${B}'\n";
        let wish = Wish { allow_weak: true, ..Wish::default() };
        let import = import(text, &wish);
        let composed: Vec<_> = import.composed().map(|one| (one.variable, one.line)).collect();
        let expected = [("ACME_KEY", 1), ("B_SECRET", 2), ("C_SECRET", 3)];
        assert_eq!(composed, expected.map(|(name, line)| (name.to_owned(), line)));
        assert_eq!((import.count(&Outcome::New), &import.unread[..]), (1, &[4][..]));
    }

    #[test]
    fn two_values_never_share_a_path() {
        let text =
            "ACME_KEY=f3a9b7c5d1e82460\nacme_key=f3a9b7c5d1e82461\nAcme_Key=f3a9b7c5d1e82460\n";
        let expected = [
            ("ACME_KEY", "personal/acme/key"),
            ("acme_key", "personal/acme/key-2"),
            ("Acme_Key", "personal/acme/key"),
        ];
        assert_eq!(told(&import(text, &Wish::default())), rows(&expected));
    }

    #[test]
    fn of_two_lines_the_last_one_counts() {
        let text = "ACME_KEY=f3a9b7c5d1e82461\nACME_KEY=f3a9b7c5d1e82460\nexport ACME_KEY='f3a9b7c5d1e82460'\n";
        let import = import(text, &Wish::default());
        let expected = [
            ("ACME_KEY", "personal/acme/key"),
            ("ACME_KEY", "another value is set further down, which counts"),
        ];
        assert_eq!(told(&import), rows(&expected));
        assert_eq!(import.held[0].places.len(), 2);
        let overruled: Vec<_> = import.overruled().map(|one| (one.variable, one.line)).collect();
        assert_eq!(overruled, [("ACME_KEY".to_owned(), 1)]);
    }
}
