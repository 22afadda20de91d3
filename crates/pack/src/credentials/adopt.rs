//! Moving a credential out of a file: found here, kept by the caller, and replaced by a reference.
//!
//! The file is written only if it is still the one in which the credential was found.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

use super::{Finding, configs::is_read_by_an_agent, scan};
use crate::{
    apply::write_durably,
    envelope::Answer,
    error::{Code, PackError, Result},
    manifest::{Module, Source},
    overlay::{OverlayKind, Overlays, compose::compose, kind_of},
    paths::shown,
    plain_file,
    servers::{Start, start_of},
    sha::Content,
    site::Site,
    workspace::one_module,
};

/// What no change of a file takes back.
const PAST: &str = "the value is still in git's history of this file: rotate it at its service";

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In this file.
    File(PathBuf),
    /// In the module with this id.
    Module(String),
}

/// A credential and its place. Holds the value: neither shown nor compared.
pub struct Found {
    finding: Finding,
    place: PathBuf,
    content: Content,
    /// Whether git keeps the file's past.
    versioned: bool,
    /// What its server's entry has to become.
    start: Start,
}

/// The payload of `adopt-secret`.
#[derive(Clone, Debug, Serialize)]
pub struct AdoptData {
    /// The file that was changed.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// The line.
    pub line: usize,
    /// What stood there.
    pub kind: String,
    /// What stands there now.
    pub reference: String,
}

impl Found {
    /// The value.
    pub fn value(&self) -> &[u8] {
        let range = self.finding.range.clone().unwrap_or_default();
        &self.content.bytes()[range]
    }

    /// What it looks like, and where.
    pub fn finding(&self) -> &Finding {
        &self.finding
    }

    /// The server that `keyless run` will start, since nothing else resolves what takes the credential's place.
    pub fn started_by_run(&self) -> Option<&str> {
        match &self.start {
            Start::ByRun { server, .. } => Some(server),
            Start::AsItIs | Start::NoServer | Start::Never { .. } => None,
        }
    }

    /// The file that holds it.
    pub fn place(&self) -> &Path {
        &self.place
    }
}

/// Finds the one credential of a module or file, or the one that stands `at` a file's line.
pub(crate) fn find(site: &Site, place: &Where, at: Option<(&str, usize)>) -> Result<Found> {
    let seen = match place {
        Where::File(file) => in_file(site, &site.cwd.join(file))?,
        Where::Module(id) => in_module(site, id)?,
    };
    let finding = chosen(seen, at, &place_named(site, place))?;
    let is_file = matches!(place, Where::File(_));
    let place = match place {
        Where::File(file) => site.cwd.join(file),
        Where::Module(id) => source_of(site, id, &finding.file)?,
    };
    let real = fs::canonicalize(&place).map_err(|error| PackError::io("read", &place, &error))?;
    let bytes = plain_file::read(&real).map_err(|error| PackError::io("read", &real, &error))?;
    // The same line of the file itself: an overlay may have moved on since.
    let here = scan(&finding.file, &bytes, &site.forms);
    let same = here.into_iter().find(|one| one.line == finding.line && one.kind == finding.kind);
    let finding = same.ok_or_else(|| gone(&real))?;
    if finding.range.is_none() || std::str::from_utf8(&bytes).is_err() {
        let message =
            format!("{}:{}: a {} can't be moved", real.display(), finding.line, finding.kind);
        return Err(PackError::new(Code::SecretInModule, message).with("path", shown(&real)).hint(
            "store it with `keyless secret add --from-file`, and take it out of the file by hand",
        ));
    }
    let start = match (&finding.range, std::str::from_utf8(&bytes)) {
        (Some(range), Ok(text)) if is_file => start_of(&real, text, range),
        _ => Start::NoServer,
    };
    if let Start::Never { server, why, instead } = &start {
        let message = format!("{}:{}: the server {server} {why}", real.display(), finding.line);
        return Err(PackError::new(Code::SecretInModule, message)
            .with("path", shown(&real))
            .hint(instead));
    }
    let versioned = real.ancestors().any(|folder| folder.join(".git").exists());
    Ok(Found { finding, place: real, content: Content::new(bytes), versioned, start })
}

/// Puts the reference where the value stood.
pub(crate) fn replace(found: &Found, reference: &str) -> Result<Answer<AdoptData>> {
    let Found { finding, place, content, versioned, start } = found;
    let fault = |error: std::io::Error| PackError::io("read", place, &error);
    let now = Content::new(plain_file::read(place).map_err(fault)?);
    if now != *content {
        return Err(gone(place));
    }
    let mode = fs::metadata(place).map_err(fault)?.permissions();
    let mut edits = vec![(finding.range.clone().unwrap_or_default(), reference.to_owned())];
    let mut warnings = Vec::new();
    match start {
        Start::ByRun { server, edits: others } => {
            edits.extend(others.iter().cloned());
            warnings.push(format!(
                "the server {server} is started by `keyless run` from now on, which resolves {reference}"
            ));
        }
        Start::NoServer if is_read_by_an_agent(place) => warnings.push(format!(
            "whoever reads this file gets {reference} as it is, unless what it starts is started by `keyless run`: a server's \
             command is then `keyless run -- COMMAND ARGUMENTS…`"
        )),
        Start::AsItIs | Start::NoServer | Start::Never { .. } => {}
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut bytes = content.bytes().to_vec();
    for (place, instead) in edits.into_iter().rev() {
        bytes.splice(place, instead.into_bytes());
    }
    write_durably(place, &bytes)?;
    fs::set_permissions(place, mode).map_err(fault)?;
    if *versioned {
        warnings.push(PAST.to_owned());
    }
    Ok(Answer {
        data: AdoptData {
            path: shown(place),
            path_posix: shown(place),
            line: finding.line,
            kind: finding.kind.to_string(),
            reference: reference.to_owned(),
        },
        warnings,
    })
}

fn in_file(site: &Site, file: &Path) -> Result<Vec<Finding>> {
    let bytes = plain_file::read(file).map_err(|error| PackError::io("read", file, &error))?;
    Ok(scan(&shown(file), &bytes, &site.forms))
}

fn in_module(site: &Site, id: &str) -> Result<Vec<Finding>> {
    let (module, upstream) = one_module(site, id)?;
    let composed = compose(&module, &upstream.tree, &Overlays::open(site))?;
    let files = composed.tree.0.iter();
    Ok(files
        .flat_map(|(path, file)| scan(path.as_str(), file.content.bytes(), &site.forms))
        .collect())
}

/// Whether the file of a finding is meant by a name: of a file of its own by any name that leads to it from here.
fn place_named<'a>(site: &'a Site, place: &'a Where) -> impl Fn(&str, &str) -> bool + 'a {
    move |file, name| {
        let here = |name: &str| fs::canonicalize(site.cwd.join(name)).ok();
        let is_same = || here(name).is_some_and(|place| here(file) == Some(place));
        file == name || (matches!(place, Where::File(_)) && is_same())
    }
}

fn chosen(
    seen: Vec<Finding>,
    at: Option<(&str, usize)>,
    is_named: &impl Fn(&str, &str) -> bool,
) -> Result<Finding> {
    let wanted =
        |one: &Finding| at.is_none_or(|(file, line)| one.line == line && is_named(&one.file, file));
    let (all, is_empty) = (json!(seen), seen.is_empty());
    let mut fitting = seen.into_iter().filter(wanted);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let message = match at {
                Some((file, line)) if !is_empty => {
                    format!("nothing at {file}:{line} looks like a credential")
                }
                _ => "nothing there looks like a credential".to_owned(),
            };
            Err(PackError::new(Code::ArgumentsInvalid, message)
                .with("findings", all)
                .hint("`keyless pack plan` names file and line of what it refuses"))
        }
        (Some(first), Some(_)) => {
            let hint = format!("say which, with --at {}:{} for the first", first.file, first.line);
            Err(PackError::new(Code::ArgumentsInvalid, "there are several credentials")
                .with("findings", all)
                .hint(&hint))
        }
    }
}

/// The file of the config repo behind a module's file: the topmost overlay's, else the source's.
fn source_of(site: &Site, id: &str, file: &str) -> Result<PathBuf> {
    for (_, folder) in Overlays::open(site).of(id).into_iter().rev() {
        let place = folder.join(file);
        if kind_of(&folder)? == OverlayKind::Dir && place.is_file() {
            return Ok(place);
        }
    }
    let (module, _) = one_module(site, id)?;
    let Source::Local(path) = &module.source else { return Err(foreign(&module)) };
    let source = site.repo.join(path);
    Ok(if source.is_dir() { source.join(file) } else { source })
}

fn foreign(module: &Module) -> PackError {
    PackError::new(
        Code::SecretInModule,
        format!("module `{}` comes from another repository", module.id),
    )
    .with("module_id", module.id.clone())
    .hint("take the credential out there, or overlay the file: `keyless pack overlay edit`")
}

fn gone(place: &Path) -> PackError {
    PackError::new(Code::PlanChanged, format!("{} is not as it was a moment ago", place.display()))
        .with("path", shown(place))
        .hint("look at the file and run the command again")
}
