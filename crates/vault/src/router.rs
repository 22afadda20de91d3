//! Finds the source of a secret and asks it, by the operator's `sources.toml`.
//!
//! One stack: whatever needs a value that the store does not keep comes by here. A source's own
//! credential is a secret of the store, or comes by a route from a source that is asked with no secret, never from one that
//! has a credential too, so that no chain can form. What is fetched stays in memory as long as source, lease and secret allow.
//! Source: reference/secrets.md, section 4.

mod cache;
mod config;
mod contacts;
mod hints;
mod references;
mod source_type;

use std::{
    collections::BTreeMap,
    iter,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use futures_util::future::join_all;
use keyless_core::{Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::SourceContact;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

pub(crate) use self::cache::MadeOf;
pub(crate) use self::config::{named_in, optional, required};
use self::{
    cache::{Cache, shortest},
    config::{Access, Resolved, SourceSpec},
    contacts::Contacts,
    hints::hint,
    references::is_plain,
};
pub use self::{
    config::RouterConfig,
    source_type::{SourceType, UnknownSourceType},
};
use crate::{
    metadata::{EnvName, SourceConfig},
    moment::Moment,
    source::{
        Answer, AwsService, AwsSource, Backend, BitwardenSource, Capabilities, EnvironmentSource,
        Fetched, FolderSource, Held, KeePassSource, KeyringSource, MAX_VALUE_BYTES,
        OnePasswordSource, PassSource, PluginSource, SecretsFile, SourceFault, SourceHttp, State,
        Supply, VaultSource, refused, too_large,
    },
    vault::Secret,
};

/// The name of the store, as a source.
const LOCAL: &str = "local";

/// The sources that are declared, and who is asked for what.
pub struct Router {
    config: RouterConfig,
    sources: BTreeMap<String, Declared>,
    cache: Mutex<Cache>,
    contacts: Mutex<Contacts>,
}

struct Declared {
    spec: SourceSpec,
    backend: Box<dyn Backend>,
}

/// Where a value has to be got.
pub(crate) enum Place<'a> {
    /// In the store.
    Local,
    /// At a source.
    Source(At<'a>),
}

/// A source, and what it calls the secret.
pub(crate) struct At<'a> {
    name: &'a str,
    declared: &'a Declared,
    reference: String,
    fallback: Option<&'a str>,
}

/// What asking for a value came to.
pub(crate) enum Asked<'a> {
    /// It is not installed, and this is where to ask in its stead.
    Elsewhere(Place<'a>),
    /// The value.
    Value(SecretValue),
}

/// A source that can't be asked as this machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackingSource {
    /// Its name.
    pub name: String,
    /// What is wrong with what it needs, as a fragment of a sentence.
    pub why: SafeText,
    /// Whether what it needs is not there, and not another than was allowed.
    pub is_missing: bool,
    /// The source that is asked in its stead.
    pub instead: Option<String>,
}

/// Where a source keeps a secret; for the operator, as agents are told no references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAt {
    /// The source's name.
    pub source: String,
    /// What the source calls the secret.
    pub reference: String,
}

impl KeptAt {
    /// The source and what it calls the secret, on one line; partly the words of others.
    pub fn in_words(&self) -> String {
        format!("{}: {}", self.source, self.reference)
    }
}

/// A source, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SourceType,
    /// What it says it can do.
    pub declared: Vec<&'static str>,
    /// What the operator lets Keyless do of that.
    pub effective: Vec<&'static str>,
    /// Whether it can be asked.
    pub state: State,
    /// What mends it; nothing where nothing is amiss.
    pub hint: Option<&'static str>,
    /// When it was last asked for a value or given one, by whomever.
    pub last_contact: Option<SourceContact>,
}

impl Router {
    /// Makes the sources. [`Code::SourcesInvalid`] says which one's settings don't fit.
    pub fn new(config: RouterConfig, http: &Arc<dyn SourceHttp>) -> Result<Self, Error> {
        let mut sources = BTreeMap::new();
        let env = SourceSpec::builtin("env", SourceType::Env);
        for spec in iter::once(&env).chain(config.elsewhere()) {
            if let Some(backend) = backend(spec, &config.variables, Some(http))? {
                sources.insert(spec.name.clone(), Declared { spec: spec.clone(), backend });
            }
        }
        Ok(Self { config, sources, cache: Mutex::default(), contacts: Mutex::default() })
    }

    /// Where the value of `path` is. `named` is the secret's own word, which goes before the file's.
    pub(crate) fn place<'a>(
        &'a self,
        path: &SecretPath,
        named: Option<(&'a str, Option<&str>)>,
    ) -> Result<Place<'a>, Error> {
        let resolved = match named {
            Some((source, _)) => Resolved { source, reference: None, route: None, fallback: None },
            None => self.config.resolve(path).ok_or_else(|| {
                let words = SafeText::words("nothing in sources.toml says where ").and(path);
                Error::with(Code::SecretUnavailable, words.and(" is kept"))
            })?,
        };
        if self.is_local(resolved.source) {
            return Ok(Place::Local);
        }
        let Some(declared) = self.sources.get(resolved.source) else {
            let words = SafeText::words("sources.toml has no source ");
            return Err(Error::with(Code::SecretUnavailable, words.as_they_wrote(resolved.source)));
        };
        let own = named.and_then(|(_, reference)| reference).or(resolved.reference);
        let reference = match (own, resolved.route) {
            (Some(reference), _) => reference.to_owned(),
            (None, Some((route, cut))) => {
                declared.backend.reference(path, &path.as_str()[cut..], Some(route))
            }
            (None, None) => declared.backend.reference(path, path.as_str(), None),
        };
        let (name, fallback) = (resolved.source, resolved.fallback);
        Ok(Place::Source(At { name, declared, reference, fallback }))
    }

    /// Where `secret` is looked for, if that is at a source; nothing where no source is led to.
    pub fn kept_at(&self, secret: &Secret) -> Option<KeptAt> {
        let SourceConfig::Routed { source, reference } = &secret.metadata.source else {
            return None;
        };
        let named = source.as_deref().map(|source| (source, reference.as_deref()));
        let Ok(Place::Source(at)) = self.place(&secret.path, named) else { return None };
        Some(KeptAt { source: at.name.to_owned(), reference: at.reference })
    }

    /// The place that `provider://place` names where no secret says so, if `references` of its source open it. A kind's
    /// usual name means a source only while no other of that kind opens the place as well.
    pub(crate) fn open_place(&self, provider: &str, place: &str) -> Option<KeptAt> {
        let at = |(name, declared): (&String, &Declared)| {
            let reference = declared.opened(place)?;
            Some(KeptAt { source: name.clone(), reference })
        };
        if let Some(own) = self.sources.get_key_value(provider) {
            return at(own);
        }
        let usual = |(name, declared): &(&String, &Declared)| {
            declared.names(name).any(|known| known == provider)
        };
        let mut all = self.sources.iter().filter(usual).filter_map(at);
        let only = all.next()?;
        all.next().is_none().then_some(only)
    }

    fn is_local(&self, source: &str) -> bool {
        let declared = self.config.sources.get(source);
        source == LOCAL || declared.is_some_and(|spec| spec.kind == SourceType::Local)
    }

    /// Where to ask for `path` when what `at` says is not installed.
    fn instead(&self, path: &SecretPath, at: &At<'_>) -> Option<Place<'_>> {
        let fallback = at.fallback?;
        if self.is_local(fallback) {
            return Some(Place::Local);
        }
        let (name, declared) = self.sources.get_key_value(fallback)?;
        let reference = declared.backend.reference(path, path.as_str(), None);
        Some(Place::Source(At { name, declared, reference, fallback: None }))
    }

    /// Where a secret is that another source is asked with. [`Code::SourcesInvalid`] where it would come from one that takes a
    /// secret itself, or by another way than a route or a line of its own.
    pub(crate) fn place_for_a_source(&self, path: &SecretPath) -> Result<Place<'_>, Error> {
        if self.config.hands_on(path) {
            return self.place(path, None);
        }
        Err(Self::refuse_chain(path))
    }

    /// Refuses to ask one source for what another is asked with.
    pub(crate) fn refuse_chain(path: &SecretPath) -> Error {
        let words = SafeText::words("what a source is asked with is kept by another source: ");
        let words = words.and(path).and(
            "; keep it in the store, a variable or a file, or lead it by a route to a source that is asked with no secret",
        );
        Error::with(Code::SourcesInvalid, words)
    }

    /// The secret that is `source`'s own credential.
    pub(crate) fn credential_of(&self, source: &str) -> Option<&SecretPath> {
        self.config.credentials.get(source)
    }

    /// The secrets that the settings of `source` name.
    pub(crate) fn named_by(&self, source: &str) -> &[SecretPath] {
        self.sources.get(source).map_or(&[], |declared| &declared.spec.named)
    }

    /// What was fetched before, while it may still be used, and all is said of its secret that was said then.
    pub(crate) fn cached(&self, path: &SecretPath, made_of: &MadeOf) -> Option<SecretValue> {
        self.cache.lock().expect("nothing panics under it").get(path, made_of, Moment::now())
    }

    /// Forgets what was fetched of `path`.
    pub(crate) fn forget(&self, path: &SecretPath) {
        self.cache.lock().expect("nothing panics under it").forget(path);
    }

    /// Forgets everything that was fetched, and what sources were opened with.
    pub(crate) fn forget_all(&self) {
        self.cache.lock().expect("nothing panics under it").forget_all();
        self.sources.values().for_each(|declared| declared.backend.forget());
    }

    /// Fetches a value, fit for what it is bound to, and keeps it for a while. `at_most` is the secret's word.
    pub(crate) async fn fetch(
        &self,
        path: &SecretPath,
        at: &At<'_>,
        made_of: MadeOf,
        with: &Supply,
        at_most: Option<u64>,
    ) -> Result<Asked<'_>, Error> {
        let begun = self.cache.lock().expect("nothing panics under it").asked();
        let fetched = at.get(with).await;
        self.note(at.name, &fetched);
        if fetched.as_ref().is_err_and(|fault| fault.state == State::NotInstalled)
            && let Some(place) = self.instead(path, at)
        {
            return Ok(Asked::Elsewhere(place));
        }
        let (name, spec) = (at.name, &at.declared.spec);
        let Fetched { mut bytes, lease } =
            fetched.map_err(|fault| told(name, fault))?.ok_or_else(|| {
                let words =
                    SafeText::words("the source ").as_they_wrote(name).and(" has no value for ");
                Error::with(Code::SecretUnavailable, words.and(path))
            })?;
        if bytes.len() > MAX_VALUE_BYTES {
            return Err(too_large(path));
        }
        let bytes = std::mem::take(&mut *bytes);
        let value = SecretValue::new(path.clone(), bytes, made_of.binding)
            .map_err(|why| refused(path, why))?;
        let time = shortest(spec.cache_ttl, lease, at_most);
        let mut cache = self.cache.lock().expect("nothing panics under it");
        cache.put(&value, made_of, begun, time, Moment::now());
        Ok(Asked::Value(value))
    }

    /// Whether there is no value where it is kept, as the source says.
    pub(crate) async fn is_empty(&self, at: &At<'_>, with: &Supply) -> bool {
        let fetched = at.get(with).await;
        self.note(at.name, &fetched);
        matches!(fetched, Ok(None))
    }

    /// Puts a value where it is kept, if the source and `access` allow it.
    pub(crate) async fn put(
        &self,
        at: &At<'_>,
        value: &SecretValue,
        with: &Supply,
    ) -> Result<Put, Error> {
        let may = at.may_put(with).await;
        if !may.map_err(|fault| told(at.name, fault))? {
            let words =
                SafeText::words("Keyless may only read from the source ").as_they_wrote(at.name);
            let why = Error::with(Code::Usage, words.and("; see access in sources.toml"));
            return Ok(Put::ReadOnly(why));
        }
        self.forget(value.path());
        let put = at.declared.backend.put(&at.reference, value, with);
        let given = at.declared.within(put).await;
        // Whoever asked in between got the one before, perhaps.
        self.forget(value.path());
        self.note(at.name, &given);
        given.map(|()| Put::Given).map_err(|fault| told(at.name, fault))
    }

    /// What a declared source holds, in order; values are none of it. Asked are only those that say that they can tell.
    pub(crate) async fn browse(&self, source: &str, with: &Supply) -> Result<Vec<Held>, Error> {
        let Some(declared) = self.sources.get(source) else {
            let words = SafeText::words("sources.toml has no source ").as_they_wrote(source);
            return Err(Error::with(Code::SourceUnknown, words));
        };
        let may = declared.may(Capabilities::LIST, with).await;
        if !may.map_err(|fault| told(source, fault))? {
            let words = SafeText::words("the source ").as_they_wrote(source);
            let words = words
                .and(" can't say what it holds; name what you want of it: --source `source:")
                .as_they_wrote(source)
                .and(":REFERENCE`");
            return Err(Error::with(Code::Usage, words));
        }
        let asked = declared.within(declared.backend.list(with)).await;
        let mut held = asked.map_err(|fault| told(source, fault))?;
        held.sort();
        Ok(held)
    }

    /// Contacts that the store has not kept yet.
    pub(crate) fn new_contacts(&self) -> Vec<(String, State)> {
        self.contacts.lock().expect("nothing panics under it").take_new()
    }

    fn note<T>(&self, source: &str, asked: &Result<T, SourceFault>) {
        let outcome = asked.as_ref().map_or_else(|fault| fault.state, |_| State::Available);
        let mut contacts = self.contacts.lock().expect("nothing panics under it");
        contacts.note(source, outcome, Moment::now());
    }

    /// Every declared source, for people; `supplies` are those that could be had.
    pub(crate) async fn report(
        &self,
        supplies: &BTreeMap<String, Supply>,
        mut contacts: BTreeMap<String, SourceContact>,
    ) -> Vec<SourceReport> {
        // All at once, so that one that hangs holds up no other.
        let none = Supply::default();
        let states = self.sources.iter().map(|(name, declared)| async {
            let with = supplies.get(name).unwrap_or(&none);
            let state = timeout(declared.spec.deadline, declared.backend.state(with));
            state.await.unwrap_or(State::Unavailable)
        });
        let states = join_all(states).await;
        let report = |((name, declared), state): ((&String, &Declared), State)| {
            let report = SourceReport {
                name: name.clone(),
                kind: declared.spec.kind,
                declared: declared.backend.capabilities().words().collect(),
                effective: declared.effective().words().collect(),
                state,
                hint: None,
                last_contact: contacts.remove(name),
            };
            SourceReport { hint: hint(&report, !supplies.contains_key(name)), ..report }
        };
        self.sources.iter().zip(states).map(report).collect()
    }

    /// Sources that lack on this machine what they need, as a program. None is asked, and nothing started. Blocks.
    pub fn lacking(&self) -> Vec<LackingSource> {
        let lacking = |(name, declared): (&String, &Declared)| {
            let SourceFault { state, words } = declared.backend.check_here().err()?;
            let is_missing = state == State::NotInstalled;
            let instead = self.config.fallback_of(name).filter(|_| is_missing).map(str::to_owned);
            Some(LackingSource { name: name.clone(), why: words, is_missing, instead })
        };
        self.sources.iter().filter_map(lacking).collect()
    }

    /// What sources keep on this machine.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.sources.values().flat_map(|declared| declared.backend.files())
    }

    /// What stands in the operator's file and nothing reads.
    pub(crate) fn unread(&self) -> &[String] {
        self.config.unread()
    }

    /// Whether a source goes by this name in a handle.
    pub(crate) fn has_provider(&self, provider: &str) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|(own, declared)| declared.names(own).any(|name| name == provider))
    }

    /// The names of the sources.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }
}

impl RouterConfig {
    /// What its sources keep on this machine; those that are asked over HTTP keep nothing here.
    ///
    /// [`Code::SourcesInvalid`] says which one's settings don't fit.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        // The environment is there without being declared, and may name a file.
        let env = SecretsFile::named();
        let mut files: Vec<_> = env.iter().flat_map(SecretsFile::files).collect();
        for spec in self.elsewhere() {
            files.extend(
                backend(spec, &self.variables, None)?.iter().flat_map(|backend| backend.files()),
            );
        }
        Ok(files)
    }

    fn elsewhere(&self) -> impl Iterator<Item = &SourceSpec> {
        self.sources.values().filter(|spec| spec.kind != SourceType::Local)
    }
}

impl At<'_> {
    /// Its source's name.
    pub(crate) fn source(&self) -> &str {
        self.name
    }

    /// What its source calls the secret.
    pub(crate) fn reference(&self) -> &str {
        &self.reference
    }

    /// Whether it is at `source`, in what that one lists as `reference`: a field of it is in it.
    pub(crate) fn is_in(&self, source: &str, reference: &str) -> bool {
        let field = self.reference.strip_prefix(reference);
        self.name == source && field.is_some_and(|field| field.is_empty() || field.starts_with('#'))
    }

    /// All the ways to write it as `provider://place`.
    pub(crate) fn called(&self) -> Vec<String> {
        let region = self.declared.spec.settings.get("region").and_then(toml::Value::as_str);
        let mut places = written(&self.reference);
        if let Some(region) = region {
            let with_region: Vec<_> =
                places.iter().map(|place| format!("{region}/{place}")).collect();
            places.extend(with_region);
        }
        let names = self.declared.names(self.name);
        let all = names.flat_map(|name| places.iter().map(move |at| format!("{name}://{at}")));
        all.collect()
    }

    /// Whether the source takes values, and the operator lets Keyless give it some.
    pub(crate) async fn may_put(&self, with: &Supply) -> Result<bool, SourceFault> {
        self.declared.may(Capabilities::WRITE, with).await
    }

    async fn get(&self, with: &Supply) -> Result<Option<Fetched>, SourceFault> {
        let Declared { backend, .. } = self.declared;
        let asking = async move {
            // A source that can't say what it can do says in its answer why.
            let asked = backend.asked_capabilities(with).await;
            let can = asked.unwrap_or_else(|_| backend.capabilities());
            if !self.declared.masked(can).contains(Capabilities::READ) {
                let words = "it says that it can't be read from; see CAN in keyless source list";
                return Err(SourceFault::new(State::Available, words));
            }
            backend.get(&self.reference, with).await
        };
        self.declared.within(Box::pin(asking)).await
    }
}

/// What became of a value that was to be put at a source.
pub(crate) enum Put {
    Given,
    /// Keyless may only read there, as this says.
    ReadOnly(Error),
}

impl Declared {
    /// What it goes by in a handle: its own name, and the usual one of its kind.
    fn names<'a>(&self, own: &'a str) -> impl Iterator<Item = &'a str> {
        let usual = self.spec.kind.usual_name().filter(|name| *name != own);
        std::iter::once(own).chain(usual)
    }

    /// What the source calls `place`, if its settings let that be named without a secret.
    fn opened(&self, place: &str) -> Option<String> {
        let region = self.spec.settings.get("region").and_then(toml::Value::as_str);
        let inside = region.and_then(|region| place.strip_prefix(region)?.strip_prefix('/'));
        let place = inside.unwrap_or(place);
        let mut entries = self.spec.references.iter().filter(|_| is_plain(place));
        let (item, field) = entries.find_map(|entry| entry.opened(place))?;
        let item = self.backend.place(item);
        Some(field.map_or_else(|| item.clone(), |field| format!("{item}#{field}")))
    }

    /// What the source answers, in the time that it has.
    async fn within<T>(&self, work: Answer<'_, Result<T, SourceFault>>) -> Result<T, SourceFault> {
        let late = || SourceFault::new(State::Unavailable, "it did not answer in time");
        timeout(self.spec.deadline, work).await.unwrap_or_else(|_| Err(late()))
    }

    /// Whether the source can do that, and the operator lets Keyless do it. A source that does not say has not said no.
    async fn may(&self, what: Capabilities, with: &Supply) -> Result<bool, SourceFault> {
        if !self.masked(what).contains(what) {
            return Ok(false);
        }
        let can = self.within(self.backend.asked_capabilities(with)).await?;
        Ok(self.masked(can).contains(what))
    }

    fn effective(&self) -> Capabilities {
        self.masked(self.backend.capabilities())
    }

    fn masked(&self, capabilities: Capabilities) -> Capabilities {
        match self.spec.access {
            Access::Read => capabilities.read_only(),
            Access::ReadWrite => capabilities,
        }
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("sources", &self.sources.keys()).finish_non_exhaustive()
    }
}

/// How a reference may be written in a handle. A field, which some sources put behind `#`, is a further segment, and
/// `value` is one that need not be written.
fn written(reference: &str) -> Vec<String> {
    let whole = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    // What stands before two slashes is a mount, which is a segment like any other there.
    let whole = whole.trim_start_matches('/').replace("//", "/");
    match whole.split_once('#') {
        None => vec![whole],
        Some((item, "value")) => vec![item.to_owned(), format!("{item}/value")],
        Some((item, field)) => vec![format!("{item}/{field}")],
    }
}

/// The source that `spec` declares; nothing where it is the store, or would be asked over HTTP and there is none to ask
/// over.
fn backend(
    spec: &SourceSpec,
    variables: &BTreeMap<SecretPath, EnvName>,
    http: Option<&Arc<dyn SourceHttp>>,
) -> Result<Option<Box<dyn Backend>>, Error> {
    let settings = &spec.settings;
    let made = match (spec.kind, http.cloned()) {
        (SourceType::Local, _)
        | (
            SourceType::AwsSecretsManager
            | SourceType::AwsSsm
            | SourceType::OpenBao
            | SourceType::Vault,
            None,
        ) => return Ok(None),
        (SourceType::AwsSecretsManager, Some(http)) => {
            AwsSource::new(AwsService::SecretsManager, settings, http).map(boxed)
        }
        (SourceType::AwsSsm, Some(http)) => {
            AwsSource::new(AwsService::Ssm, settings, http).map(boxed)
        }
        (SourceType::OpenBao | SourceType::Vault, Some(http)) => {
            VaultSource::new(settings, http).map(boxed)
        }
        (SourceType::Bitwarden, _) => BitwardenSource::new(settings).map(boxed),
        (SourceType::Env, _) => {
            Ok(boxed(EnvironmentSource::new(variables.clone(), SecretsFile::named())))
        }
        (SourceType::Files, _) => FolderSource::new(settings).map(boxed),
        (SourceType::KeePass, _) => KeePassSource::new(settings).map(boxed),
        (SourceType::Keyring, _) => KeyringSource::new(settings).map(boxed),
        (SourceType::OnePassword, _) => OnePasswordSource::new(settings).map(boxed),
        (SourceType::Pass, _) => PassSource::new(settings).map(boxed),
        (SourceType::Plugin, _) => {
            PluginSource::new(&spec.name, settings, spec.deadline).map(boxed)
        }
    };
    made.map(Some).map_err(|fault| {
        let words = SafeText::words("source ").as_they_wrote(&spec.name).and(": ");
        Error::with(Code::SourcesInvalid, words.as_they_wrote(&fault))
    })
}

fn boxed(source: impl Backend + 'static) -> Box<dyn Backend> {
    Box::new(source)
}

fn told(name: &str, fault: SourceFault) -> Error {
    let mut words = SafeText::words("the source ").as_they_wrote(name);
    if fault.state != State::Available {
        words = words.and(" is ").and(fault.state.as_str());
    }
    Error::with(Code::SecretUnavailable, words.and(": ").and(fault.words))
}

#[cfg(test)]
mod tests {
    use keyless_core::Binding;

    use super::*;
    use crate::source::{HttpAnswer, HttpFault, HttpRequest};

    #[test]
    fn a_handle_writes_a_reference_in_its_own_way() {
        for (reference, place, fits) in [
            ("prod/db-pass", "prod/db-pass", true),
            ("prod/db-pass", "db-pass", false),
            ("/prod/db-pass", "prod/db-pass", true),
            ("op://work/db/password", "work/db/password", true),
            ("api/token#value", "api/token", true),
            ("api/token#user", "api/token", false),
            ("api/token#user", "api/token/user", true),
            ("api/token#user", "api/token/", false),
            ("ops/kv//api/token#value", "ops/kv/api/token", true),
        ] {
            let is_written = written(reference).iter().any(|one| one == place);
            assert_eq!(is_written, fits, "{reference} {place}");
        }
    }

    /// It takes values, and says so too late.
    struct Slow;

    impl Backend for Slow {
        fn capabilities(&self) -> Capabilities {
            Capabilities::READ.and(Capabilities::WRITE)
        }

        fn asked_capabilities<'a>(
            &'a self,
            _: &'a Supply,
        ) -> Answer<'a, Result<Capabilities, SourceFault>> {
            Box::pin(std::future::pending())
        }

        fn state<'a>(&'a self, _: &'a Supply) -> Answer<'a, State> {
            Box::pin(std::future::pending())
        }

        fn get<'a>(
            &'a self,
            _: &'a str,
            _: &'a Supply,
        ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
            Box::pin(std::future::pending())
        }
    }

    /// Who is told that a place takes no values gives up a value that only they have: a refresh token is good once.
    #[tokio::test]
    async fn a_source_that_hangs_has_not_said_that_it_takes_no_values() {
        let config = RouterConfig::parse(
            "[[source]]\nname = \"far\"\ntype = \"files\"\nfolder = \"/none\"\n",
        );
        let mut router = Router::new(config.unwrap(), &(Arc::new(Nobody) as _)).unwrap();
        let declared = router.sources.get_mut("far").unwrap();
        declared.backend = Box::new(Slow);
        declared.spec.deadline = std::time::Duration::from_millis(20);
        let (path, with) = (SecretPath::parse("team/auth/refresh").unwrap(), Supply::default());
        let value = SecretValue::new(path.clone(), b"refresh-token-2".to_vec(), Binding::None);
        let value = value.unwrap();
        for (access, late) in [(Access::Read, false), (Access::ReadWrite, true)] {
            router.sources.get_mut("far").unwrap().spec.access = access;
            let Ok(Place::Source(at)) = router.place(&path, Some(("far", None))) else { panic!() };
            let put = router.put(&at, &value, &with).await;
            assert_eq!(matches!(put, Ok(Put::ReadOnly(_))), !late);
            let told = put.err().map(|error| error.to_string());
            assert_eq!(told.is_some_and(|told| told.contains("did not answer in time")), late);
        }
    }

    struct Nobody;

    impl SourceHttp for Nobody {
        fn send(&self, _: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
            Box::pin(async { Err(HttpFault::Unreachable) })
        }
    }

    #[test]
    fn what_lies_on_this_machine_is_known_without_http() {
        let files = |text: &str| RouterConfig::parse(text).unwrap().files();
        let declared = r#"
            [[source]]
            name = "mounted"
            type = "files"
            folder = "/run/mounted"
            [[source]]
            name = "far"
            type = "vault"
            addr = "https://vault.corp.test:8200"
            [[source]]
            name = "here"
            type = "local-vault"
        "#;
        assert_eq!(files(declared).unwrap(), [PathBuf::from("/run/mounted")]);
        let error = files("[[source]]\nname = \"a\"\ntype = \"files\"\n").unwrap_err();
        assert_eq!(error.code(), Code::SourcesInvalid);
    }
}
