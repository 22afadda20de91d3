//! The operator's files: whether each can be used as it lies there.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use keyless_core::{Error, SecretPath};
use keyless_vault::{
    IndexFile, LackingSource, ProviderFault, Providers, RouterConfig, Secret, SecretsFile,
    SourceConfig, Upkeep, variables_with_value,
};

use super::{Check, CheckState};
use crate::{
    agreed::AgreedBy,
    config::Config,
    nl::guard::GuardRules,
    operator::{UnknownPattern, counted},
    places::Places,
    providers::project_providers,
    service_files::in_words,
    source_file::to_look_at,
    store_place::store_place,
};

pub(super) fn look(places: &Places, folder: &Path) -> Vec<Check> {
    let mut checks = vec![
        file("files.config", &places.config_file(), config_fault(places)),
        file("files.guard", &places.guard_file(), GuardRules::new(places.guard_file()).current().1),
    ];
    checks.extend(sources(places));
    checks.extend(SecretsFile::named().iter().flat_map(secrets_file));
    checks.extend(index(places));
    checks.extend(catalog(places, folder));
    checks.extend(services(places));
    checks
}

/// How many operations of one document are named.
const NAMED: usize = 3;

/// The services that the operator wrote down for actions to call.
fn services(places: &Places) -> Vec<Check> {
    const ID: &str = "files.providers";
    let folder = places.services_folder();
    let place = folder.display();
    let faults = keyless_action::Providers::faults_in(&folder);
    let (files, operations): (Vec<_>, Vec<_>) =
        faults.iter().partition(|fault| fault.operation.is_none());
    let mut checks: Vec<Check> = files
        .iter()
        .map(|fault| {
            let remedy = format!("mend it in {place}, or take it out; the others can be called");
            Check::warning(ID, in_words(fault), remedy)
        })
        .collect();
    for of_one in operations.chunk_by(|one, other| one.file == other.file) {
        let more = of_one.len().saturating_sub(NAMED);
        let mut found: Vec<String> =
            of_one.iter().take(NAMED).map(|fault| in_words(fault)).collect();
        found.extend((more > 0).then(|| format!("and {more} more")));
        let remedy = format!(
            "change it in {place} if an agent is to call it; the rest of the document can be"
        );
        checks.push(Check::note(ID, found.join("; "), remedy));
    }
    if checks.is_empty() {
        let found =
            if folder.exists() { "can be used" } else { "is not there: no services of your own" };
        checks.push(Check::ok(ID, format!("{place} {found}")));
    }
    checks
}

/// What keeps a broker from starting with config.toml: it, or a file that it names.
fn config_fault(places: &Places) -> Option<Error> {
    let usable = || {
        let config = Config::load(&places.config_file())?;
        config.egress.proxy()?;
        config.unlock.window(None)?;
        config.nl.webhooks.iter().try_for_each(|hook| hook.key.check())?;
        store_place(places).map(drop)
    };
    usable().err()
}

fn file(id: &'static str, place: &Path, fault: Option<Error>) -> Check {
    match fault {
        Some(error) => {
            let remedy = format!(
                "mend it; until then the last good one is in force, if there was one: {}",
                place.display()
            );
            Check::fault(id, error.message(), remedy)
        }
        None if place.exists() => Check::ok(id, format!("{} can be used", place.display())),
        None => Check::ok(id, format!("none at {}", place.display())),
    }
}

fn sources(places: &Places) -> Vec<Check> {
    let place = places.sources_file();
    let config = match RouterConfig::load(&place) {
        Err(error) => return vec![file("files.sources", &place, Some(error))],
        Ok(config) => config,
    };
    let remedy = || format!("mend it in {}, or take it out", place.display());
    let unread = config.unread().iter();
    let mut checks: Vec<Check> =
        unread.map(|said| Check::warning("files.sources", said.clone(), remedy())).collect();
    match to_look_at(config) {
        Err(error) => checks.push(file("files.sources", &place, Some(error))),
        Ok(router) => {
            if checks.is_empty() {
                checks.push(file("files.sources", &place, None));
            }
            checks.extend(router.lacking().iter().map(|source| lacking(source, &place)));
        }
    }
    checks
}

/// A source whose program, folder or file is not there, or not what was allowed.
fn lacking(source: &LackingSource, place: &Path) -> Check {
    let LackingSource { name, why, is_missing, instead } = source;
    let (found, place) = (format!("the source {name} can't be asked: {why}"), place.display());
    if let Some(other) = instead {
        let found = format!("{found}; {other} is asked in its stead");
        return Check::note("sources.there", found, "put it there if this machine is to use it");
    }
    let remedy = if *is_missing {
        format!("put it there, or name where it is in {place}")
    } else {
        format!(
            "see who changed it; if all is well, allow it: chmod go-w, and checksum_sha256 in {place}"
        )
    };
    Check::fault("sources.there", found, remedy)
}

/// The variables of the operator's that are in no environment.
fn secrets_file(file: &SecretsFile) -> Vec<Check> {
    const ID: &str = "files.variables";
    let place = file.place().display();
    let read = match file.read() {
        Ok(read) => read,
        Err(error) => {
            let remedy = format!(
                "make it yours and private (chmod 600 {place}), or unset KEYLESS_SECRETS_FILE"
            );
            return vec![Check::fault(ID, error.message(), remedy)];
        }
    };
    let unread = |line: &usize| {
        let found = format!("{place}: line {line} is no NAME=value, so nothing is taken from it");
        Check::warning(ID, found, "mend that line, or take it out")
    };
    let mut checks: Vec<Check> = read.unread.iter().map(unread).collect();
    if checks.is_empty() {
        let names: BTreeSet<&str> = variables_with_value(&read).collect();
        checks.push(Check::ok(ID, format!("{} in {place}", counted(names.len(), "variable"))));
    }
    checks
}

/// Sources whose credential, or a secret of whose settings, is not there or would have to come from a source: none can
/// be asked.
pub(super) fn credentials(places: &Places, known: &[Secret]) -> Vec<Check> {
    // Of a file that can't be read another check tells.
    let config = RouterConfig::load(&places.sources_file()).unwrap_or_default();
    let all = config.credentials().map(|(source, path)| (source, "its credential", path));
    let all = all
        .chain(config.named().map(|(source, path)| (source, "the secret of its settings", path)));
    let check = |(source, what, path): (&str, &str, &SecretPath)| {
        let why = match known.iter().find(|secret| secret.path == *path) {
            None => "is no secret here",
            Some(Secret { metadata, .. }) => match &metadata.source {
                SourceConfig::Routed { source: None, reference: None } if config.hands_on(path) => {
                    return None;
                }
                SourceConfig::Routed { .. } => "is kept at a source itself",
                _ => return None,
            },
        };
        let found = format!("the source {source} can't be asked: {what} {path} {why}");
        let remedy = format!(
            "keyless secret add it, or another one (--source local, env:NAME or file:PATH, or routed, by a route to a source that is \
             asked with no secret), and name that for {source} in {}",
            places.sources_file().display()
        );
        Some(Check::fault("sources.credentials", found, remedy))
    };
    all.filter_map(check).collect()
}

/// Patterns that secrets of the store and entries of index.toml name, and that nobody knows: no rule, and no fault.
pub(super) fn unknown_patterns(places: &Places, folder: &Path, known: &[Secret]) -> Vec<Check> {
    // Of files that can't be read another check tells.
    let Ok(providers) = project_providers(places, folder, AgreedBy::File) else {
        return Vec::new();
    };
    let index = IndexFile::load(&places.index_file()).unwrap_or_default();
    let stored = known.iter().map(|secret| (&secret.path, &secret.metadata.upkeep, None));
    let file = places.index_file();
    let indexed = index.secrets.iter().map(|(path, said)| (path, &said.upkeep, Some(&file)));
    let word = |(path, upkeep, file): (&SecretPath, &Upkeep, Option<&PathBuf>)| {
        let unknown = UnknownPattern::of(upkeep.pattern_id.as_deref()?, &providers)?;
        let remedy = match file {
            Some(file) => format!("name another pattern_id in {}", file.display()),
            None => format!("keyless secret set {path} --pattern PATTERN"),
        };
        let remedy = format!("{remedy}; keyless catalog list tells which there are");
        Some(Check::warning("patterns.unknown", format!("{path}: {}", unknown.in_words()), remedy))
    };
    stored.chain(indexed).filter_map(word).collect()
}

fn index(places: &Places) -> Vec<Check> {
    let place = places.index_file();
    let index = match IndexFile::load(&place) {
        Ok(index) => index,
        Err(error) => return vec![file("files.index", &place, Some(error))],
    };
    let entry = |fault: &keyless_vault::Fault| {
        let remedy = format!("mend that entry in {}", place.display());
        Check::warning("files.index", fault.to_string(), remedy)
    };
    if index.faults.is_empty() {
        return vec![file("files.index", &place, None)];
    }
    index.faults.iter().map(entry).collect()
}

fn patterns(providers: &Providers) -> Vec<Check> {
    const ID: &str = "files.patterns";
    let said = |fault: &ProviderFault| format!("{}: {}", fault.file.display(), fault.why);
    let fault = |fault: &ProviderFault| {
        let remedy = "mend it; what is right in patterns.d counts meanwhile";
        Check::warning(ID, format!("{}; it is left out", said(fault)), remedy)
    };
    let note = |note: &ProviderFault| {
        Check::warning(ID, said(note), "mend it or take it out; the rest of the pattern counts")
    };
    let shadow = |shadow: &ProviderFault| {
        Check::warning(ID, said(shadow), "give it another id, if that is not what it is for")
    };
    let faults = providers.pattern_faults.iter().map(fault);
    let notes = providers.pattern_notes.iter().map(note);
    faults.chain(notes).chain(providers.shadowed.iter().map(shadow)).collect()
}

fn catalog(places: &Places, folder: &Path) -> Vec<Check> {
    let providers = match project_providers(places, folder, AgreedBy::File) {
        Err(error) => {
            return vec![file("files.catalog", &places.catalog_sources_file(), Some(error))];
        }
        Ok(providers) => providers,
    };
    let found =
        |fault: &ProviderFault| format!("{}: {}; it is left out", fault.file.display(), fault.why);
    let fault = |fault: &ProviderFault| {
        let remedy = "keyless catalog validate FILE says what is wrong";
        Check::warning("files.catalog", found(fault), remedy)
    };
    let left_out = |file: &ProviderFault| {
        let remedy = "keyless catalog status lists the project's files";
        Check::note("files.catalog", found(file), remedy)
    };
    let mut checks: Vec<Check> = providers.faults.iter().map(fault).collect();
    if checks.is_empty() {
        let known = format!("{} services are known", providers.iter().count());
        checks.push(Check::ok("files.catalog", known));
    }
    let said = |file: &ProviderFault| format!("{}: {}", file.file.display(), file.why);
    let unagreed = |file: &ProviderFault| {
        let remedy = "keyless unlock shows what it says and asks for your word; remove it if it is not yours";
        Check::warning("files.catalog", said(file), remedy)
    };
    let in_place = |file: &ProviderFault| {
        let remedy = "nothing, if that is yours; else remove it";
        Check::other("files.catalog", CheckState::Note, said(file), remedy)
    };
    checks.extend(providers.unagreed.iter().map(unagreed));
    checks.extend(providers.in_place.iter().map(in_place));
    checks.extend(providers.left_out.iter().map(left_out));
    checks.extend(patterns(&providers));
    checks
}
