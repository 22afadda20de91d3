//! `sources.toml`: which sources there are, and which secrets are kept where. Pure.
//!
//! Source: reference/secrets.md, section 4.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    time::Duration,
};

use data_encoding::HEXLOWER;
use keyless_core::{ALIAS_PREFIX, Code, Error, SafeText, SecretPath, alias};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::{
    LOCAL,
    references::OpenPlaces,
    source_type::{SourceType, UnknownSourceType},
};
use crate::{inventory::IndexFile, metadata::EnvName, plain_file::read_settings_text, toml_fault};

/// How long a fetched value may be kept, unless the source or the secret says less.
const DEFAULT_TTL: Duration = Duration::from_mins(15);

/// How long a source may take, unless the file says otherwise: a person may have to touch a key or type into a
/// pinentry.
const DEFAULT_DEADLINE: Duration = Duration::from_mins(1);

/// What devboy writes in place of a credential where none of ours is needed.
const NO_CREDENTIAL: &[&str] = &["biometric", "default-profile"];

/// The tables of the file.
const TABLES: &[&str] =
    &["default", "route", "schema_version", "secret", "source", "source_credentials"];

/// What is read of a route, by one kind of source or another.
const ROUTE_SETTINGS: &[&str] = &["field", "folder", "mount", "prefix", "source", "vault"];

/// Settings in whose place, or in whose depth, a secret may be named.
const MAY_BE_SECRETS: &[&str] = &["access_key_id", "config", "environment", "role_id"];

/// What is read of every source.
const SETTINGS_OF_ALL: &[&str] = &["access", "cache_ttl_seconds", "references", "timeout_seconds"];

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterConfig {
    pub(super) sources: BTreeMap<String, SourceSpec>,
    default: Option<DefaultRoute>,
    routes: Vec<Route>,
    secrets: BTreeMap<SecretPath, (String, String)>,
    pub(super) credentials: BTreeMap<String, SecretPath>,
    /// What nothing reads, as fragments of sentences.
    unread: Vec<String>,
    /// Of the environment, by the operator's index.
    pub(super) variables: BTreeMap<SecretPath, EnvName>,
}

/// One `[[source]]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceSpec {
    pub(crate) name: String,
    pub(crate) kind: SourceType,
    pub(crate) access: Access,
    pub(crate) cache_ttl: Duration,
    /// It is asked no longer than this.
    pub(crate) deadline: Duration,
    /// The places in the source that a reference may name without a secret.
    pub(crate) references: Vec<OpenPlaces>,
    /// Everything else, for the kind.
    pub(crate) settings: Table,
    /// The secrets that the settings name.
    pub(crate) named: Vec<SecretPath>,
}

/// What the operator lets Keyless do there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl SourceSpec {
    /// A source that is there without being declared, and keeps nothing from anybody.
    pub(crate) fn builtin(name: &str, kind: SourceType) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            access: Access::Read,
            cache_ttl: Duration::ZERO,
            deadline: DEFAULT_DEADLINE,
            references: Vec::new(),
            settings: Table::new(),
            named: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct DefaultRoute {
    source: String,
    fallback: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Route {
    prefix: String,
    source: String,
    settings: Table,
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved<'a> {
    pub(crate) source: &'a str,
    /// Where no reference is named, the source makes one of the path.
    pub(crate) reference: Option<&'a str>,
    /// The route's own settings, and how long the prefix is that led here.
    pub(crate) route: Option<(&'a Table, usize)>,
    /// Asked when the source is not installed; never when it is locked or fails.
    pub(crate) fallback: Option<&'a str>,
}

impl RouterConfig {
    /// What can be set about a source of `kind`.
    pub fn settings_of(kind: SourceType) -> Vec<&'static str> {
        kind.settings().iter().chain(SETTINGS_OF_ALL).copied().collect()
    }

    /// Reads the file; nothing when there is none. [`Code::SourcesInvalid`] says where it is wrong.
    /// Blocks.
    pub fn load(file: &Path) -> Result<Self, Error> {
        let invalid = |fault: &str| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            Error::with(Code::SourcesInvalid, place.and(": ").as_they_wrote(fault))
        };
        match read_settings_text(file) {
            Ok(text) => Self::parse(&text).map_err(|fault| invalid(&fault)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(invalid(&error.to_string())),
        }
    }

    /// Reads the file's text; the error is a fragment of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Table =
            text.parse().map_err(|error: toml::de::Error| toml_fault(text, &error))?;
        if file.get("schema_version").is_some_and(|version| version.as_integer() != Some(1)) {
            return Err("schema_version is not 1".to_owned());
        }
        let mut config = Self { unread: unread("the file", &file, TABLES), ..Self::default() };
        for table in tables(&file, "source")? {
            let spec = source(table)?;
            let known = [&Self::settings_of(spec.kind)[..], &["name", "type"]].concat();
            config.unread.extend(unread(&format!("the source {}", spec.name), table, &known));
            if let Some(twice) = config.sources.insert(spec.name.clone(), spec) {
                return Err(format!("the source {:?} stands there twice", twice.name));
            }
        }
        if let Some(default) = file.get("default") {
            let table = default.as_table().ok_or("default is no table")?;
            config.unread.extend(unread("default", table, &["source", "fallback"]));
            let fallback = optional(table, "fallback")?;
            config.default = Some(DefaultRoute { source: required(table, "source")?, fallback });
        }
        for table in tables(&file, "route")? {
            config.add_route(table)?;
        }
        for (path, table) in entries(&file, "secret")? {
            let table = table.as_table().ok_or_else(|| format!("secret.{path:?} is no table"))?;
            let place = format!("secret.{path:?}");
            config.unread.extend(unread(&place, table, &["source", "reference"]));
            let pair = (required(table, "source")?, required(table, "reference")?);
            config.secrets.insert(parse_path(path)?, pair);
        }
        for (name, path) in entries(&file, "source_credentials")? {
            let path = path.as_str().ok_or_else(|| format!("{name:?} names no secret"))?;
            if NO_CREDENTIAL.contains(&path) {
                continue;
            }
            // How devboy spells the paths of its own.
            let path = path.strip_prefix(ALIAS_PREFIX).unwrap_or(path);
            let path = parse_path(path.trim_start_matches("__"))?;
            config.credentials.insert(name.clone(), path);
        }
        config.check_names().map(|()| config)
    }

    /// What stands there and nothing reads, as a misspelt key: fragments of sentences. No fault, since other tools' files
    /// of this name work as they are.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Which secret of the store is which source's own credential.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &SecretPath)> {
        self.credentials.iter().map(|(source, path)| (source.as_str(), path))
    }

    /// Which secrets the settings of which source name.
    pub fn named(&self) -> impl Iterator<Item = (&str, &SecretPath)> {
        let all = self.sources.values();
        all.flat_map(|spec| spec.named.iter().map(|path| (spec.name.as_str(), path)))
    }

    /// What the sources are given, values of the store or new ones, and what is asked of those: a sentence about each, which is
    /// another once anything is set differently there. What the account can read by itself is not among them.
    pub fn given_out(&self) -> Vec<String> {
        let sources = self.sources.values().filter_map(|spec| self.given_to(spec));
        let is_given = |name: &str| self.sources.get(name).is_some_and(|spec| self.gives(spec));
        let secrets = self.secrets.iter().filter(|(_, (source, _))| is_given(source));
        let secrets = secrets.map(|(path, (source, reference))| {
            format!("{path} is {reference} at the source {source}")
        });
        let routes = self.routes.iter().filter(|route| is_given(&route.source));
        let routes = routes.map(|Route { prefix, source, settings }| {
            let settings: Vec<String> =
                settings.iter().map(|(key, value)| format!(", {key} {value}")).collect();
            format!("what begins with {prefix} is kept at the source {source}{}", settings.concat())
        });
        let default = self.default.iter();
        let default =
            default.flat_map(|route| std::iter::once(&route.source).chain(&route.fallback));
        let default = default.filter(|source| is_given(source));
        let default = default
            .map(|source| format!("what nothing leads elsewhere is kept at the source {source}"));
        let handed_on = self.handed_on_lines();
        sources.chain(secrets).chain(routes).chain(default).chain(handed_on).collect()
    }

    /// Where what a source is asked with comes from another source: by a route or a line of its own, from one that needs no
    /// secret itself. Nothing where it may not, or the store is meant.
    fn handed_on(&self, path: &SecretPath) -> Option<(&SourceSpec, Resolved<'_>)> {
        let resolved = self.resolve(path)?;
        let is_led = resolved.route.is_some() || resolved.reference.is_some();
        let spec = self.sources.get(resolved.source).filter(|_| is_led)?;
        let is_plain = !spec.kind.takes_credential() && self.paths_given_to(spec).next().is_none();
        is_plain.then_some((spec, resolved))
    }

    /// Whether `path`, with which a source is asked, may be kept where a route or a line of its own leads.
    pub fn hands_on(&self, path: &SecretPath) -> bool {
        self.handed_on(path).is_some()
    }

    /// The paths that [`Self::hands_on`] is true of, as sentences: somebody who could change them could have a source be
    /// given another value.
    fn handed_on_lines(&self) -> impl Iterator<Item = String> {
        let given = self.sources.values().flat_map(|spec| self.paths_given_to(spec));
        let paths: BTreeSet<&SecretPath> = given.collect();
        paths.into_iter().filter_map(|path| {
            let (spec, resolved) = self.handed_on(path)?;
            if spec.kind == SourceType::Local {
                return None;
            }
            let said = spec.settings.to_string() + &resolved.route.map_or(String::new(), |(table, cut)| {
                format!("{table}{cut}")
            });
            let digest = HEXLOWER.encode(&Sha256::digest(said)[..8]);
            let reference = resolved.reference.map(|reference| format!(" as {reference}"));
            Some(format!(
                "{path}, which a source is given, comes from the source {} ({}; settings {digest}){}",
                spec.name,
                spec.kind,
                reference.unwrap_or_default()
            ))
        })
    }

    /// What a source is given, and as what; nothing of one that gets nothing.
    fn given_to(&self, spec: &SourceSpec) -> Option<String> {
        if !self.gives(spec) {
            return None;
        }
        let place = ["program", "addr", "endpoint", "file", "region"]
            .iter()
            .find_map(|key| spec.settings.get(*key)?.as_str())
            .map(|place| format!(", {place}"));
        let digest = Sha256::digest(spec.settings.to_string());
        let paths: Vec<_> = self.paths_given_to(spec).map(SecretPath::as_str).collect();
        let new = (spec.access == Access::ReadWrite).then_some("new values");
        let given: Vec<&str> = paths.into_iter().chain(new).collect();
        Some(format!(
            "the source {} ({}{}; settings {}) is given {}",
            spec.name,
            spec.kind,
            place.unwrap_or_default(),
            HEXLOWER.encode(&digest[..8]),
            given.join(", ")
        ))
    }

    fn gives(&self, spec: &SourceSpec) -> bool {
        spec.access == Access::ReadWrite || self.paths_given_to(spec).next().is_some()
    }

    fn paths_given_to<'a>(&'a self, spec: &'a SourceSpec) -> impl Iterator<Item = &'a SecretPath> {
        self.credentials.get(&spec.name).into_iter().chain(&spec.named)
    }

    /// This configuration with the variables that `index` names, for sources of the kind `env`.
    #[must_use]
    pub fn with_variables_of(mut self, index: &IndexFile) -> Self {
        let named = index.secrets.iter();
        let named = named.filter_map(|(path, said)| Some((path.clone(), said.env.clone()?)));
        self.variables = named.collect();
        self
    }

    /// Whether it declares a source at all.
    pub fn declares_any(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Whether there is a source of this name: the store's own, the environment, or one that it declares.
    pub fn knows(&self, name: &str) -> bool {
        is_known(name, &self.sources)
    }

    /// The name of the source that `path` is led to, as far as the file says.
    pub fn source_of(&self, path: &SecretPath) -> Option<&str> {
        self.resolve(path).map(|resolved| resolved.source)
    }

    /// The source that is asked where `source` is not installed: the default's fallback, unless a route or a secret's own
    /// line, which have no fallback, leads to `source` as well.
    pub(crate) fn fallback_of(&self, source: &str) -> Option<&str> {
        let default = self.default.as_ref().filter(|default| default.source == source)?;
        let is_named = self.routes.iter().any(|route| route.source == source)
            || self.secrets.values().any(|(named, _)| named == source);
        default.fallback.as_deref().filter(|_| !is_named)
    }

    /// Where `path` is kept: by its own word, by the longest prefix (the first of equals), or by
    /// default. `None` when nothing says.
    pub(crate) fn resolve(&self, path: &SecretPath) -> Option<Resolved<'_>> {
        if let Some((source, reference)) = self.secrets.get(path) {
            let reference = Some(reference.as_str());
            return Some(Resolved { source, reference, route: None, fallback: None });
        }
        let mut best: Option<&Route> = None;
        for route in self.routes.iter().filter(|route| path.as_str().starts_with(&route.prefix)) {
            if best.is_none_or(|best| route.prefix.len() > best.prefix.len()) {
                best = Some(route);
            }
        }
        if let Some(Route { prefix, source, settings }) = best {
            let route = Some((settings, prefix.len()));
            return Some(Resolved { source, reference: None, route, fallback: None });
        }
        let DefaultRoute { source, fallback } = self.default.as_ref()?;
        let fallback = fallback.as_deref();
        Some(Resolved { source, reference: None, route: None, fallback })
    }

    fn add_route(&mut self, table: &Table) -> Result<(), String> {
        let prefix = required(table, "prefix")?;
        if !prefix.ends_with('/') {
            return Err(format!("the prefix {prefix:?} does not end with a slash"));
        }
        self.unread.extend(unread(&format!("the route {prefix}"), table, ROUTE_SETTINGS));
        if let Some(other) = self.routes.iter().find(|route| route.prefix == prefix) {
            return Err(format!(
                "the prefix {prefix:?} stands there twice: it leads to the source {} already",
                other.source
            ));
        }
        let mut settings = table.clone();
        settings.retain(|key, _| key != "prefix" && key != "source");
        self.routes.push(Route { prefix, source: required(table, "source")?, settings });
        Ok(())
    }

    fn check_names(&self) -> Result<(), String> {
        let defaults = self.default.iter();
        let defaults =
            defaults.flat_map(|route| std::iter::once(&route.source).chain(&route.fallback));
        let routes = self.routes.iter().map(|route| &route.source);
        let secrets = self.secrets.values().map(|(source, _)| source);
        for name in defaults.chain(routes).chain(secrets).chain(self.credentials.keys()) {
            if !is_known(name, &self.sources) {
                return Err(format!("there is no source {name:?}"));
            }
        }
        for name in self.credentials.keys() {
            let undeclared = || name.parse().ok();
            let kind = self.sources.get(name).map(|spec| spec.kind).or_else(undeclared);
            if let Some(kind) = kind.filter(|kind| !kind.takes_credential()) {
                return Err(format!(
                    "a source of type {kind} takes no credential: take {name} out of [source_credentials]"
                ));
            }
        }
        Ok(())
    }
}

/// The secrets that a source's settings name, each once. What reads the other settings would take an alias for what it
/// names.
fn named(source: &str, settings: &Table) -> Result<Vec<SecretPath>, String> {
    let mut all = Vec::new();
    for (key, value) in settings {
        let found = named_in(value).map_err(|fault| format!("{source}: {key}: {fault}"))?;
        if !found.is_empty() && !MAY_BE_SECRETS.contains(&key.as_str()) {
            let may = MAY_BE_SECRETS.join(", ");
            return Err(format!(
                "{source}: {key} is an alias, which is resolved in {may} alone; a secret that opens a source stands in [source_credentials]"
            ));
        }
        all.extend(found);
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The secrets that a setting names, at whatever depth. The error is a fragment of a sentence.
pub(crate) fn named_in(setting: &Value) -> Result<Vec<SecretPath>, String> {
    let mut found = Vec::new();
    let inner: Vec<&Value> = match setting {
        Value::String(text) => {
            let path = alias(text).transpose().map_err(|error| format!("{text:?}: {error}"))?;
            found.extend(path);
            Vec::new()
        }
        Value::Array(all) => all.iter().collect(),
        Value::Table(table) => table.values().collect(),
        _ => Vec::new(),
    };
    for value in inner {
        found.extend(named_in(value)?);
    }
    Ok(found)
}

/// The keys of a table that are not among `known`.
fn unread(place: &str, table: &Table, known: &[&str]) -> Vec<String> {
    let keys = table.keys().filter(|key| !known.contains(&key.as_str()));
    keys.map(|key| {
        format!("{place} has {key:?}, which nothing reads; there are {}", known.join(", "))
    })
    .collect()
}

/// The store and the environment are there without being declared.
fn is_known(name: &str, sources: &BTreeMap<String, SourceSpec>) -> bool {
    matches!(name, LOCAL | "env") || sources.contains_key(name)
}

fn source(table: &Table) -> Result<SourceSpec, String> {
    let (name, kind) = (required(table, "name")?, required(table, "type")?);
    let kind: SourceType =
        kind.parse().map_err(|unknown: UnknownSourceType| format!("source {name}: {unknown}"))?;
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if !begins || !name.bytes().all(fine) {
        return Err(format!("{name:?} is no name: a-z, 0-9, `-` and `_`"));
    }
    if name == LOCAL && kind != SourceType::Local {
        return Err("local is the store's own name: call the source something else".to_owned());
    }
    let access = match optional(table, "access")?.as_deref() {
        None | Some("read") => Access::Read,
        Some("readwrite") => Access::ReadWrite,
        Some(_) => return Err(format!("{name}: access is read or readwrite")),
    };
    let cache_ttl = match table.get("cache_ttl_seconds").map(toml::Value::as_integer) {
        None => DEFAULT_TTL,
        Some(Some(seconds @ 0..=86_400)) => Duration::from_secs(seconds.unsigned_abs()),
        Some(_) => return Err(format!("{name}: cache_ttl_seconds is from 0 to 86400")),
    };
    let deadline = match table.get("timeout_seconds").map(toml::Value::as_integer) {
        None => DEFAULT_DEADLINE,
        Some(Some(seconds @ 1..=600)) => Duration::from_secs(seconds.unsigned_abs()),
        Some(_) => return Err(format!("{name}: timeout_seconds is from 1 to 600")),
    };
    let references = references(&name, kind, table)?;
    let mut settings = table.clone();
    let names = ["name", "type"];
    settings.retain(|key, _| !names.contains(&key) && !SETTINGS_OF_ALL.contains(&key));
    let secrets = named(&name, &settings)?;
    Ok(SourceSpec { name, kind, access, cache_ttl, deadline, references, settings, named: secrets })
}

/// The places in a source that a reference may name without a secret: none, unless the operator says so.
fn references(name: &str, kind: SourceType, table: &Table) -> Result<Vec<OpenPlaces>, String> {
    let all = match table.get("references") {
        None => return Ok(Vec::new()),
        Some(Value::Array(all)) => all,
        Some(_) => return Err(format!("{name}: references is no list")),
    };
    if !kind.fits_handles() && !all.is_empty() {
        return Err(format!(
            "{name}: a handle can't write the references of type {kind}: take out references and add secrets"
        ));
    }
    let read = |one: &Value| {
        one.as_str().and_then(OpenPlaces::parse).ok_or_else(|| {
            format!(
                "{name}: references has {one}, which is no place such as \"prod/db\", \"prod/*\" or \"prod/db#field\""
            )
        })
    };
    all.iter().map(read).collect()
}

fn tables<'a>(file: &'a Table, key: &'static str) -> Result<Vec<&'a Table>, String> {
    match file.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => all
            .iter()
            .map(|entry| entry.as_table().ok_or_else(|| format!("{key} is no list of tables")))
            .collect(),
        Some(_) => Err(format!("{key} is no list of tables: write [[{key}]]")),
    }
}

fn entries<'a>(file: &'a Table, key: &'static str) -> Result<Vec<(&'a String, &'a Value)>, String> {
    match file.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Table(all)) => Ok(all.iter().collect()),
        Some(_) => Err(format!("{key} is no table")),
    }
}

pub(crate) fn required(table: &Table, key: &str) -> Result<String, String> {
    optional(table, key)?.ok_or_else(|| format!("{key} is missing"))
}

pub(crate) fn optional(table: &Table, key: &str) -> Result<Option<String>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key} is not text")),
    }
}

fn parse_path(text: &str) -> Result<SecretPath, String> {
    SecretPath::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        schema_version = 1
        [[source]]
        name = "corp"
        type = "vault"
        addr = "https://vault.corp.test:8200"
        access = "readwrite"
        cache_ttl_seconds = 60
        [[source]]
        name = "mine"
        type = "pass"
        [default]
        source = "mine"
        fallback = "env"
        [[route]]
        prefix = "team/"
        source = "corp"
        mount = "kv"
        [[route]]
        prefix = "team/private/"
        source = "local"
        [secret."team/x/y"]
        source = "mine"
        reference = "work/x"
        [source_credentials]
        corp = "__sources/corp/default"
    "#;

    fn route(text: &str) -> Option<(String, Option<String>, Option<String>)> {
        let config = RouterConfig::parse(FILE).unwrap();
        let path = SecretPath::parse(text).unwrap();
        let found = config.resolve(&path)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some((found.source.to_owned(), owned(found.reference), owned(found.fallback)))
    }

    #[test]
    fn the_closest_word_counts() {
        let to = |source: &str| Some((source.to_owned(), None, None));
        assert_eq!(route("team/a/b"), to("corp"));
        assert_eq!(route("team/private/b"), to("local"));
        let own = Some(("mine".to_owned(), Some("work/x".to_owned()), None));
        assert_eq!(route("team/x/y"), own);
        assert_eq!(route("teams/a/b"), Some(("mine".to_owned(), None, Some("env".to_owned()))));
        let nothing = RouterConfig::parse("").unwrap();
        assert_eq!(nothing.resolve(&SecretPath::parse("a/b/c").unwrap()), None);
    }

    #[test]
    fn settings_may_name_secrets_where_a_secret_is_meant() {
        let config = RouterConfig::parse(
            r#"
            [[source]]
            name = "p"
            type = "plugin"
            config = { deep = [{ token = "@secret:a/b/d" }], text = "see @secret:a/b/x" }
            environment = { T = "@secret:a/b/c", U = "@secret:a/b/d" }
            [[source]]
            name = "v"
            type = "vault"
            addr = "https://vault.corp.test"
            role_id = "@secret:a/b/r"
            "#,
        );
        let config = config.unwrap();
        let named: Vec<_> = config.named().map(|(source, path)| (source, path.as_str())).collect();
        assert_eq!(named, [("p", "a/b/c"), ("p", "a/b/d"), ("v", "a/b/r")]);
    }

    #[test]
    fn what_is_handed_on_to_a_source_is_one_step_and_agreed_to() {
        let file = |mounted: &str, how: &str| {
            let text = format!(
                "[[source]]\nname = \"mnt\"\n{mounted}\n[[source]]\nname = \"v\"\ntype = \"vault\"\n\
                 addr = \"https://vault.corp.test\"\n{how}\n[source_credentials]\nv = \"creds/v/tok\"\n"
            );
            RouterConfig::parse(&text).unwrap()
        };
        let path = SecretPath::parse("creds/v/tok").unwrap();
        let mounted = "type = \"files\"\nfolder = \"/m\"";
        let route = "[[route]]\nprefix = \"creds/\"\nsource = \"mnt\"";
        for (mounted, how, may) in [
            (mounted, route, true),
            (mounted, "[secret.\"creds/v/tok\"]\nsource = \"mnt\"\nreference = \"r\"", true),
            // What nothing leads elsewhere is anybody's.
            (mounted, "[default]\nsource = \"mnt\"", false),
            (mounted, "[[route]]\nprefix = \"creds/\"\nsource = \"v\"", false),
            ("type = \"1password\"", route, false),
            ("type = \"pass\"\nenvironment = { A = \"@secret:a/b/c\" }", route, false),
        ] {
            assert_eq!(file(mounted, how).hands_on(&path), may, "{mounted} {how}");
        }
        let lines = |mounted: &str| file(mounted, route).given_out();
        let said = lines(mounted);
        assert!(said.iter().any(|line| line.starts_with("creds/v/tok, which a source is given")));
        assert_ne!(lines("type = \"files\"\nfolder = \"/other\""), said);
        assert_eq!(file(mounted, "").given_out().len(), 1);
    }

    #[test]
    fn settings_go_to_their_source_and_route() {
        let config = RouterConfig::parse(FILE).unwrap();
        let corp = &config.sources["corp"];
        assert_eq!((corp.access, corp.cache_ttl.as_secs()), (Access::ReadWrite, 60));
        assert_eq!(corp.settings.keys().collect::<Vec<_>>(), ["addr"]);
        let path = SecretPath::parse("team/a/b").unwrap();
        let (settings, cut) = config.resolve(&path).unwrap().route.unwrap();
        assert_eq!((settings["mount"].as_str(), cut), (Some("kv"), 5));
        assert_eq!(config.credentials["corp"].as_str(), "sources/corp/default");
    }

    #[test]
    fn what_nothing_reads_is_told_and_no_fault() {
        let text = r#"
            [[sorce]]
            name = "a"
            [[source]]
            name = "mine"
            type = "pass"
            fodler = "work"
            cache_ttl_second = 0
            [defualt]
            source = "mine"
            [[route]]
            prefix = "team/"
            source = "mine"
            foldr = "x"
            [secret."team/x/y"]
            source = "mine"
            reference = "work/x"
            field = "y"
        "#;
        let config = RouterConfig::parse(text).unwrap();
        let keys = ["defualt", "sorce", "cache_ttl_second", "fodler", "foldr", "field"];
        assert_eq!(config.unread().len(), keys.len(), "{:?}", config.unread());
        for (said, key) in config.unread().iter().zip(keys) {
            assert!(said.contains(&format!("{key:?}, which nothing reads")), "{said}");
        }
        let local = RouterConfig::parse("[[source]]\nname = \"here\"\ntype = \"local-vault\"\n");
        assert!(local.unwrap().unread().is_empty());
        assert!(RouterConfig::parse(FILE).unwrap().unread().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("schema_version = 2", "not 1"),
            ("source = 3", "list of tables"),
            ("[[source]]\nname = \"A\"\ntype = \"pass\"", "no name"),
            ("[[source]]\nname = \"a\"", "type is missing"),
            (
                "[[source]]\nname = \"a\"\ntype = \"passs\"",
                "source a: the type \"passs\" is unknown; there are 1password, ",
            ),
            ("[[source]]\nname = \"a\"\ntype = \"pass\"\naccess = \"all\"", "read or readwrite"),
            (
                "[[source]]\nname = \"a\"\ntype = \"pass\"\n[[source]]\nname = \"a\"\ntype = \"pass\"",
                "twice",
            ),
            (
                "[[source]]\nname = \"a\"\ntype = \"pass\"\ntimeout_seconds = 0",
                "timeout_seconds is from 1 to 600",
            ),
            ("[default]\nsource = \"gone\"", "no source \"gone\""),
            ("[[route]]\nprefix = \"team\"\nsource = \"local\"", "slash"),
            ("[secret.\"team/x\"]\nsource = \"local\"\nreference = \"r\"", "2 of at least 3"),
            ("[[source]]\nname = \"local\"\ntype = \"env\"", "the store's own name"),
            (
                "[[source]]\nname = \"a\"\ntype = \"plugin\"\nprogram = \"@secret:a/b/c\"",
                "a: program is an alias",
            ),
            (
                "[[source]]\nname = \"a\"\ntype = \"plugin\"\nconfig = { all = [\"@secret:a/b\"] }",
                "a: config: \"@secret:a/b\": ",
            ),
            (
                "[[source]]\nname = \"a\"\ntype = \"plugin\"\n[source_credentials]\na = \"a/b/c\"",
                "type plugin takes no credential: take a out",
            ),
            ("[source_credentials]\nenv = \"a/b/c\"", "type env takes no credential"),
            (
                "[[source]]\nname = \"a\"\ntype = \"pass\"\nreferences = \"work\"",
                "a: references is no list",
            ),
            (
                "[[source]]\nname = \"a\"\ntype = \"pass\"\nreferences = [\"a//b\"]",
                "a: references has \"a//b\", which is no place",
            ),
            (
                "[[source]]\nname = \"a\"\ntype = \"keyring\"\nreferences = [\"*\"]",
                "a handle can't write the references of type keyring",
            ),
            ("\nx = [", "line 2, x: "),
        ] {
            let fault = RouterConfig::parse(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }
}
