//! `keyless hooks check`: raw secrets in files, and aliases that nothing resolves.

use std::{borrow::Cow, collections::BTreeSet, env, fs, path::Path, process::ExitCode};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    Places,
    setup::{KnownPaths, aliases_in, carries_variables, made_up_in},
};
use keyless_pack::{NOT_A_SECRET, TokenForms, scan, utf16_text};
use serde::Serialize;
use serde_json::json;

use super::{super::pack::token_forms, git, search::search};
use crate::{args::HooksCheckArgs, ui::Ui, visible::one_line};

/// Something that should not be committed.
#[derive(Debug, Serialize)]
struct Found {
    file: String,
    /// Counted from one; 0 for its name.
    line: usize,
    kind: &'static str,
    what: String,
}

/// What was looked at and found.
struct Looking {
    forms: TokenForms,
    known: KnownPaths,
    found: Vec<Found>,
    files: usize,
    /// Aliases of which it can't be told here whether anything resolves them.
    untold: usize,
}

pub(super) async fn run(ui: &Ui, args: &HooksCheckArgs) -> Result<ExitCode, Error> {
    let here = if args.staged { git::top()? } else { current_folder()? };
    let known = KnownPaths::read(&Places::from_environment()?).await?;
    let forms = token_forms();
    let mut looking = Looking { forms, known, found: Vec::new(), files: 0, untold: 0 };
    if args.staged {
        looking.look_at_staged(&here)?;
    }
    for file in &args.files {
        let bytes = fs::read(file).map_err(|error| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
        })?;
        looking.look(&current_folder()?, file, &bytes)?;
    }
    let Looking { found, files, untold, .. } = looking;
    if untold > 0 {
        let aliases =
            if untold == 1 { "1 alias was".to_owned() } else { format!("{untold} aliases were") };
        ui.warn(format!(
            "{aliases} not looked up: an agent's session does not see which secrets there are"
        ));
    }
    let data = json!({ "files": files, "findings": found });
    ui.answer("hooks check", &data, &words(&found));
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Looking {
    /// Looks through what the next commit brings into the working tree `top`.
    fn look_at_staged(&mut self, top: &Path) -> Result<(), Error> {
        let files = git::staged()?;
        if files.is_empty() {
            return Ok(());
        }
        let mut objects = git::Objects::open()?;
        for staged in &files {
            match objects.bytes(staged) {
                Ok(bytes) => self.look(top, &staged.file, &bytes)?,
                Err(why) => return Err(objects.failure(staged, &why)),
            }
        }
        objects.close()
    }

    /// Looks at a file's name; gives it as it may be shown.
    fn look_at_name(&mut self, file: &Path) -> String {
        let name = file.to_string_lossy();
        let shown: Vec<Cow<'_, str>> = name.split('/').map(|part| self.shown(part)).collect();
        let shown = shown.join("/");
        if shown != name {
            let what = "its name looks like a credential".to_owned();
            self.found.push(Found { file: shown.clone(), line: 0, kind: "secret", what });
        }
        shown
    }

    /// A part of a file's name, without what looks like a credential.
    fn shown<'n>(&self, part: &'n str) -> Cow<'n, str> {
        if scan("", part.as_bytes(), &self.forms).is_empty() {
            return part.into();
        }
        let begin: String = part.chars().take(4).collect();
        format!("{begin}…").into()
    }

    /// Looks through a file, whose name is seen from `here`.
    fn look(&mut self, here: &Path, file: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.files += 1;
        let name = self.look_at_name(file);
        let looks = search(&name, bytes, &self.forms);
        self.found.extend(looks.into_iter().map(|(line, kind)| Found {
            file: name.clone(),
            line,
            kind: "secret",
            what: format!("looks like a credential ({kind})"),
        }));
        let decoded = utf16_text(bytes);
        let Some(text) = decoded.as_deref().or_else(|| std::str::from_utf8(bytes).ok()) else {
            return Ok(());
        };
        let lines: Vec<&str> = text.lines().collect();
        let known: BTreeSet<usize> =
            self.found.iter().filter(|one| one.file == name).map(|one| one.line).collect();
        for line in made_up_in(file, text).into_iter().filter(|line| !known.contains(line)) {
            if !lines.get(line - 1).is_some_and(|line| line.contains(NOT_A_SECRET)) {
                let what =
                    "looks like a credential (a value that nobody typed, or a password)".to_owned();
                self.found.push(Found { file: name.clone(), line, kind: "secret", what });
            }
        }
        let (whole, is_resolved) = (here.join(file), carries_variables(file));
        for alias in aliases_in(file, text) {
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
            let (kind, what) = match (&alias.path, resolves) {
                _ if !is_resolved => (
                    "unresolved",
                    format!(
                        "nothing resolves @secret:{written} in this file: its program takes it for the value"
                    ),
                ),
                (_, Some(true)) => continue,
                (_, None) => {
                    self.untold += 1;
                    continue;
                }
                (Some(path), _) => {
                    ("alias", format!("@secret:{path} names a secret that is not known here"))
                }
                (None, _) => {
                    ("alias", format!("@secret:{written} is no path (project/category/name)"))
                }
            };
            self.found.push(Found { file: name.clone(), line: alias.line, kind, what });
        }
        Ok(())
    }
}

fn words(found: &[Found]) -> String {
    let row = |one: &Found| match one.line {
        0 => format!("{}: {}\n", one_line(&one.file), one.what),
        line => format!("{}:{line}: {}\n", one_line(&one.file), one.what),
    };
    let rows = found.iter().map(row);
    let mut words: String = rows.collect();
    if found.is_empty() {
        return "Nothing found.\n".to_owned();
    }
    if found.iter().any(|one| one.kind == "secret") {
        words.push_str("Next: keyless secret import FILE --leave aliases, or take the value out and rotate it.\n");
    }
    if found.iter().any(|one| one.kind == "alias") {
        words.push_str("Next: keyless secret add PATH, or declare it in .keyless/secrets.toml.\n");
    }
    if found.iter().any(|one| one.kind == "unresolved") {
        words.push_str(
            "Next: put the alias into a variable (.env, the env of an MCP client), have the program read that, and start it with keyless run.\n",
        );
    }
    words.push_str("A line that only looks like one may carry the words ");
    words.push_str(NOT_A_SECRET);
    words.push_str(".\n");
    words
}

fn current_folder() -> Result<std::path::PathBuf, Error> {
    env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })
}
