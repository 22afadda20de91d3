//! Looks through a project for the variables that it uses: `.env` files, compose files, package scripts, code, and the
//! settings of MCP clients.
//!
//! A value is looked at where it stands and dropped; what is kept of it is a judgement. Links, hidden folders and
//! folders of built or foreign code are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io, mem,
    path::{Path, PathBuf},
};

use keyless_vault::{DotenvText, PlainFile, Weakness, is_utf16, read_dotenv};
use zeroize::Zeroizing;

use super::{
    carrying::uncarried_as,
    elsewhere, mentions, names,
    propose::{Judged, Proposal, Proposer, stands_for_another},
    values,
};

/// Larger files are data.
const MAX_FILE: usize = 1024 * 1024;
/// What is said of what is no file, or is gone.
const NO_FILE: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, PlainFile::NO_FILE];
/// As much of `.env` files as a command waits for that is about to start; larger ones are a doctor's.
const MAX_AT_HAND: u64 = 64 * 1024;
/// The files of that form that tools read in development, in the order in which they are told of.
const AT_HAND: &[&str] = &[".env", ".env.local", ".env.development", ".envrc", ".dev.vars"];
/// Where a project ends and somebody's whole disk begins.
const MAX_FILES: usize = 20_000;
/// Built or foreign.
const FOREIGN: &[&str] = &[
    "__pycache__",
    "bower_components",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "out",
    "target",
    "vendor",
    "venv",
];
/// Files of the form of `.env` under names of their own; lines of `.envrc` that are more than that are passed over.
const OF_ENV_FORM: &[&str] = &[".dev.vars", ".env", ".envrc", ".flaskenv"];
/// Settings of MCP clients, below a project.
const CLIENTS: &[&str] =
    &[".cursor/mcp.json", ".gemini/settings.json", ".mcp.json", ".vscode/mcp.json"];

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// By variable.
    pub variables: BTreeMap<String, Variable>,
    /// `.env` files that hold secrets now.
    pub held_in: BTreeSet<PathBuf>,
    /// Variables that are left out by their names though their values may be credentials, by file.
    pub doubtful: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Variables of the `.env` files whose values no request carries.
    pub uncarried: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Files with raw values that are not taken in, and where in them: the variable, or the line.
    pub raw: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Files from which nothing is taken, and the variables that have a secret's value there.
    pub elsewhere: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Variables of which a file here has a value that can be compared with the vault's.
    pub valued: BTreeSet<String>,
    /// How many files were looked at.
    pub files: usize,
    /// Whether there were more files than are looked at.
    pub cut_short: bool,
    /// Folders and files that would have been looked at and can't be read, from the project's root.
    pub unreadable: BTreeSet<PathBuf>,
    /// Lines of `.env` files that can't be read, counted from one, by their files from the project's root.
    pub unread: BTreeMap<PathBuf, Vec<usize>>,
}

/// One variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Where it is used, from the project's root.
    pub used_in: BTreeSet<PathBuf>,
    /// What it holds.
    pub judged: Judged,
    /// Whether its path is the one that the project's own alias names.
    pub aliased: bool,
}

impl Scan {
    /// How many variables hold secrets.
    pub fn secrets(&self) -> usize {
        self.variables.values().filter(|one| matches!(one.judged, Judged::Secret(_))).count()
    }
}

/// Looks through the project at `root`. Blocks.
pub fn scan(root: &Path, proposer: &Proposer<'_>) -> Scan {
    let mut looked = looked_through(root, proposer, Files::All);
    for client in CLIENTS {
        looked.client(&root.join(client));
    }
    looked.found
}

/// Whether a file's values are taken in by `setup`: it is of the form of `.env`.
pub fn is_taken_from(file: &Path) -> bool {
    is_env_file(file, &file.file_name().unwrap_or_default().to_string_lossy())
}

/// What lies in the `.env` files of a project, by file.
#[derive(Debug, Default)]
pub struct ValuesHeld {
    /// What looks like a secret's value.
    pub secrets: BTreeMap<PathBuf, Vec<Proposal>>,
    /// The variables among these whose values no request carries.
    pub uncarried: BTreeMap<PathBuf, BTreeSet<String>>,
    /// What looks like a secret's value in a line that a later one of the same name overrules, with the line's number;
    /// nothing takes those out.
    pub overruled: BTreeMap<PathBuf, Vec<(Proposal, usize)>>,
    /// Variables that are left out by their names though their values may be credentials.
    pub doubtful: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Files, and folders, of which nobody knows what they hold.
    pub unreadable: BTreeSet<PathBuf>,
    /// Lines of which nobody knows what they hold, counted from one.
    pub unread: BTreeMap<PathBuf, Vec<usize>>,
}

/// What lies in the `.env` files of the project at `root`. Blocks.
pub fn values_held(root: &Path, proposer: &Proposer<'_>) -> ValuesHeld {
    held(looked_through(root, proposer, Files::Env))
}

/// What lies in the `.env` files of `folder` itself, and of none below it: where no project says how far it goes. Blocks.
pub fn values_beside(folder: &Path, proposer: &Proposer<'_>) -> ValuesHeld {
    held(looked_through(folder, proposer, Files::EnvHere))
}

/// What of the variables `names` lies in the usual `.env` files of `folder`, of which only small ones are read, and no folder
/// is listed: for who waits. Blocks.
pub fn values_at_hand(
    folder: &Path,
    names: &BTreeSet<&str>,
    proposer: &Proposer<'_>,
) -> ValuesHeld {
    let mut looked = Looking::at(folder, proposer, Files::EnvHere);
    looked.names = Some(names);
    for name in AT_HAND {
        let file = folder.join(name);
        let is_small = |found: fs::Metadata| found.is_file() && found.len() <= MAX_AT_HAND;
        if fs::symlink_metadata(&file).is_ok_and(is_small) {
            looked.file(&file, name);
        }
    }
    held(looked)
}

fn held(looked: Looking<'_>) -> ValuesHeld {
    let (secrets, overruled) = (looked.held, looked.overruled);
    let (uncarried, doubtful) = (looked.found.uncarried, looked.found.doubtful);
    let unreadable = looked.found.unreadable.iter().map(|place| looked.root.join(place)).collect();
    let unread = looked.found.unread.into_iter();
    let unread = unread.map(|(file, lines)| (looked.root.join(file), lines)).collect();
    ValuesHeld { secrets, uncarried, overruled, doubtful, unreadable, unread }
}

/// The lines of a file whose values nobody typed, are or hold a password, or are a secret's by their names; none unless its
/// own name is that of a `.env` file, since elsewhere much else is as random.
pub fn made_up_in(file: &Path, text: &str) -> Vec<usize> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if !is_env_file(file, &name) {
        return Vec::new();
    }
    let assignments = read_dotenv(text).assignments.into_iter();
    let lines = assignments.filter(|one| {
        if stands_for_another(&one.value).is_some() {
            return false;
        }
        let looks = values::is_made_up(&one.value) || values::holds_credential_field(&one.value);
        (looks && !names::is_open(&one.name))
            || values::is_chosen_password(&one.name, &one.value)
            || values::is_of_secret(&one.name, &one.value)
    });
    lines.map(|one| one.line).collect()
}

/// Whether somebody wrote a value down here, be it a short one.
fn is_typed(value: &str) -> bool {
    matches!(Weakness::of(value.as_bytes()), None | Some(Weakness::Short))
}

/// A file's text, with substitutes for what is no UTF-8; [`io::ErrorKind::InvalidData`] where it says that it is UTF-16.
pub(super) fn text_of(file: &Path) -> io::Result<Zeroizing<String>> {
    let mut bytes = PlainFile::open_unlinked(file)?.bytes(MAX_FILE)?;
    if is_utf16(&bytes) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Zeroizing::new(match String::from_utf8(mem::take(&mut *bytes)) {
        Ok(text) => text,
        Err(error) => {
            let bytes = Zeroizing::new(error.into_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }))
}

fn is_env_file(path: &Path, name: &str) -> bool {
    let ends_so = path.extension().is_some_and(|end| end == "env");
    name.starts_with(".env.") || OF_ENV_FORM.contains(&name) || ends_so
}

fn looked_through<'a>(root: &'a Path, proposer: &'a Proposer<'a>, files: Files) -> Looking<'a> {
    let mut looked = Looking::at(root, proposer, files);
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let read = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let Ok(mut entries) = read else {
            looked.unreadable(&folder);
            continue;
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (Ok(kind), path) = (entry.file_type(), entry.path()) else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() {
                let is_its = !name.starts_with('.') && !FOREIGN.contains(&name.as_str());
                if is_its && files != Files::EnvHere {
                    folders.push(path);
                }
            } else if kind.is_file() {
                looked.file(&path, &name);
            }
        }
    }
    looked
}

/// Which files are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    /// Code too, for the names in it.
    All,
    /// Files of the form of `.env`, where values lie.
    Env,
    /// Files of the form of `.env`, in one folder.
    EnvHere,
}

struct Looking<'a> {
    root: &'a Path,
    proposer: &'a Proposer<'a>,
    files: Files,
    /// The variables of `.env` files that are looked at; all when absent.
    names: Option<&'a BTreeSet<&'a str>>,
    found: Scan,
    /// What the `.env` files hold that no example has, by file.
    held: BTreeMap<PathBuf, Vec<Proposal>>,
    /// The proposals from lines that a later one overrules, with their lines.
    overruled: BTreeMap<PathBuf, Vec<(Proposal, usize)>>,
}

impl<'a> Looking<'a> {
    fn at(root: &'a Path, proposer: &'a Proposer<'a>, files: Files) -> Self {
        let (found, held, overruled) = (Scan::default(), BTreeMap::new(), BTreeMap::new());
        Self { root, proposer, files, names: None, found, held, overruled }
    }

    fn file(&mut self, path: &Path, name: &str) {
        if self.found.files == MAX_FILES {
            self.found.cut_short = true;
            return;
        }
        let is_env = is_env_file(path, name);
        let is_code = self.files == Files::All && !name.starts_with('.') && mentions::is_read(name);
        if !is_env && !is_code {
            return;
        }
        if is_env {
            if let Some(text) = self.read_env(path) {
                self.found.files += 1;
                self.dotenv(path, &text);
            }
            return;
        }
        let Some(text) = self.read(path) else { return };
        self.found.files += 1;
        for variable in mentions::of(name, &text) {
            self.name(&variable, path);
        }
        self.raw(path, name, &text);
    }

    /// Values that stand in a file from which none is taken.
    fn raw(&mut self, path: &Path, name: &str, text: &str) {
        let literals = mentions::literals(name, text).into_iter();
        let literals = literals.filter(|(name, value)| self.is_raw(name, value));
        let mut places: BTreeSet<String> = literals.map(|(name, _)| name).collect();
        self.elsewhere(path, text);
        let lines = text.lines().enumerate().filter(|(_, line)| self.proposer.finds_in(line));
        places.extend(lines.map(|(index, line)| {
            mentions::first_name(line).unwrap_or_else(|| format!("line {}", index + 1))
        }));
        if !places.is_empty() {
            self.left(path).extend(places);
        }
    }

    fn is_raw(&self, name: &str, value: &str) -> bool {
        is_typed(value) && matches!(self.proposer.judge(name, value), Judged::Secret(_))
    }

    fn elsewhere(&mut self, path: &Path, text: &str) {
        let names: BTreeSet<String> = elsewhere::values(path, text, self.proposer)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        if !names.is_empty() {
            self.found.valued.extend(names.iter().cloned());
            self.found.elsewhere.insert(path.to_owned(), names);
        }
    }

    fn left(&mut self, path: &Path) -> &mut BTreeSet<String> {
        let place = path.strip_prefix(self.root).unwrap_or(path).to_owned();
        self.found.raw.entry(place).or_default()
    }

    fn dotenv(&mut self, path: &Path, text: &DotenvText) {
        let is_example = path
            .extension()
            .is_some_and(|end| end == "example" || end == "sample" || end == "template");
        let read = text.read();
        // A script has lines of its own, and nothing is taken from an example.
        let is_script = path.file_name().is_some_and(|name| name == ".envrc");
        if !read.unread.is_empty() && !is_script && !is_example {
            let place = path.strip_prefix(self.root).unwrap_or(path).to_owned();
            self.found.unread.insert(place, read.unread);
        }
        let mut assignments = read.assignments;
        if let Some(names) = self.names {
            assignments.retain(|one| names.contains(one.name.as_str()));
        }
        let last: BTreeMap<String, Zeroizing<String>> =
            assignments.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
        for one in assignments {
            let is_overruled = last.get(&one.name).is_some_and(|value| *value != one.value);
            let judged = self.proposer.judge(&one.name, &one.value);
            if judged.is_doubtful() {
                self.found.doubtful.entry(path.to_owned()).or_default().insert(one.name.clone());
            }
            if let (Judged::Secret(proposal), false) = (judged, is_example) {
                self.found.held_in.insert(path.to_owned());
                match Weakness::of(one.value.as_bytes()) {
                    // An import leaves it too.
                    _ if one.is_composed => {}
                    None if is_overruled => {
                        let overruled = self.overruled.entry(path.to_owned()).or_default();
                        overruled.push((proposal, one.line));
                    }
                    None => self.hold(path, proposal, &one.value),
                    Some(Weakness::Short) => {
                        self.left(path).insert(one.name.clone());
                    }
                    Some(_) => {}
                }
            }
            self.value(&one.name, &one.value, path);
        }
    }

    fn hold(&mut self, path: &Path, proposal: Proposal, value: &str) {
        if uncarried_as(&proposal, value).is_some() {
            let names = self.found.uncarried.entry(path.to_owned()).or_default();
            names.insert(proposal.variable.clone());
        }
        self.found.valued.insert(proposal.variable.clone());
        self.held.entry(path.to_owned()).or_default().push(proposal);
    }

    fn client(&mut self, path: &Path) {
        let Some(text) = self.read(path) else { return };
        let Some(variables) = elsewhere::of_client(&text) else { return };
        self.found.files += 1;
        self.elsewhere(path, &text);
        let raw = variables.iter().filter(|(name, value)| self.is_raw(name, value));
        let raw: BTreeSet<String> = raw.map(|(name, _)| name.clone()).collect();
        if !raw.is_empty() {
            self.left(path).extend(raw);
        }
        for (name, value) in variables {
            self.value(&name, &value, path);
        }
    }

    /// A variable and what it holds here.
    fn value(&mut self, name: &str, value: &str, path: &Path) {
        if let Some(Ok(secret)) = keyless_core::alias(value.trim()) {
            let proposal = self.proposer.aliased(name, secret);
            let known = self.note(name, Judged::Secret(proposal.clone()), path);
            if !known.aliased {
                (known.judged, known.aliased) = (Judged::Secret(proposal), true);
            }
            return;
        }
        let by_value = self.proposer.judge(name, value);
        // An empty line or a reference says what the project needs, by its name.
        let says_nothing = matches!(by_value, Judged::Skip(_)) && !by_value.is_doubtful();
        let judged = if says_nothing { self.proposer.judge_name(name) } else { by_value };
        self.note(name, judged, path);
    }

    fn name(&mut self, name: &str, path: &Path) {
        let judged = self.proposer.judge_name(name);
        self.note(name, judged, path);
    }

    fn note(&mut self, name: &str, judged: Judged, path: &Path) -> &mut Variable {
        let place = path.strip_prefix(self.root).unwrap_or(path).to_owned();
        let variables = &mut self.found.variables;
        let known = variables.entry(name.to_owned()).or_insert_with(|| Variable {
            used_in: BTreeSet::new(),
            judged: judged.clone(),
            aliased: false,
        });
        known.used_in.insert(place);
        // Somewhere its value is known, and says more than its name.
        if matches!((&known.judged, &judged), (Judged::Skip(_), Judged::Secret(_))) {
            known.judged = judged;
        }
        known
    }

    /// A file's text; what is too long for one is data.
    fn read(&mut self, path: &Path) -> Option<Zeroizing<String>> {
        let read = text_of(path);
        let is_data = read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::FileTooLarge);
        if is_data { None } else { self.or_unreadable(path, read) }
    }

    /// As [`read`](Self::read), of a file of values: however long it is, somebody has to know that nobody has seen them.
    fn read_env(&mut self, path: &Path) -> Option<DotenvText> {
        let bytes = PlainFile::open_unlinked(path).and_then(|file| file.bytes(MAX_FILE));
        let text =
            bytes.and_then(|bytes| DotenvText::of(&bytes).ok_or(io::ErrorKind::InvalidData.into()));
        self.or_unreadable(path, text)
    }

    fn or_unreadable<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        let is_there = |error: &io::Error| !NO_FILE.contains(&error.kind());
        if read.as_ref().is_err_and(is_there) {
            self.unreadable(path);
        }
        read.ok()
    }

    fn unreadable(&mut self, path: &Path) {
        let place = path.strip_prefix(self.root).unwrap_or(path);
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        self.found.unreadable.insert(place.to_owned());
    }
}
