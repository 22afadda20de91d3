//! Opens values: from the store, from what the secret names, or by way of the router.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::SourceContact;

use super::{Secret, Vault};
use crate::{
    index::Indexed,
    metadata::SourceConfig,
    router::{Asked, At, KeptAt, MadeOf, Place, Put, Router, SourceReport},
    source::{
        EnvSource, FileSource, Held, LocalSource, Reading, SecretsFile, Source, SourceKind, Supply,
    },
};

impl Vault {
    /// Fetches the value of `path` from where it is kept. The store is checked first if anything
    /// was written since the last look.
    ///
    /// Fails with [`Code::SecretNotFound`], [`Code::SecretUnavailable`] (the source has none),
    /// [`Code::ValueRefused`] (what the source has does not fit), [`Code::SecretCompromised`],
    /// [`Code::HoneypotTouched`] or [`Code::StoreTampered`].
    pub async fn open(&self, path: &SecretPath) -> Result<Reading, Error> {
        let index = self.index().await?;
        let secret = self.find(&index, path)?;
        refuse_withheld(path, &secret, secret.current().map(|version| version.version))?;
        self.last_use.now();
        self.fetch_of(path, &secret).await
    }

    /// As [`Vault::open`], for what goes on by itself: it is no use that keeps an idle store open.
    pub async fn open_unattended(&self, path: &SecretPath) -> Result<Reading, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        refuse_withheld(path, secret, secret.current().map(|version| version.version))?;
        self.fetch_of(path, secret).await
    }

    /// Which of these texts have a secret's value in them; one that names no destination has to be long or the whole
    /// text, as [`SecretValue::is_told_by`] says. Asked of one that is not given out any more as well:
    /// others may know it, and that is one more reason to look for it.
    ///
    /// Fails as [`Vault::open`] does where there is no value to be had.
    pub async fn find_in(&self, path: &SecretPath, texts: &[&[u8]]) -> Result<Vec<bool>, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        self.last_use.now();
        let Reading { value, .. } = self.fetch_of(path, secret).await?;
        let holds = match secret.metadata.egress {
            Some(_) => SecretValue::occurs_in,
            None => SecretValue::is_told_by,
        };
        Ok(texts.iter().map(|text| holds(&value, text)).collect())
    }

    /// The value of any secret, for the vault's own checks: nobody is given it.
    pub(super) async fn fetch(&self, path: &SecretPath) -> Result<Reading, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        self.last_use.now();
        self.fetch_of(path, secret).await
    }

    pub(super) async fn fetch_of(
        &self,
        path: &SecretPath,
        secret: &Indexed,
    ) -> Result<Reading, Error> {
        let binding = secret.metadata.binding();
        let SourceConfig::Routed { source, reference } = &secret.metadata.source else {
            return self.open_directly(path, secret, binding).await;
        };
        let named = source.as_deref().map(|source| (source, reference.as_deref()));
        match self.router()?.place(path, named)? {
            Place::Local => self.open_local(path, secret, binding).await,
            Place::Source(at) => self.open_at(path, secret, binding, at).await,
        }
    }

    /// A value that was in force before, from the store. Whether it is still to be given, others say.
    ///
    /// Fails as [`Vault::open`] does.
    pub async fn open_version(&self, path: &SecretPath, version: u32) -> Result<Reading, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        refuse_withheld(path, secret, Some(version))?;
        self.last_use.now();
        let older = secret.versions.iter().find(|older| older.version == version);
        let older = older.ok_or_else(|| {
            let words = SafeText::default().and(path).and(" has no version ");
            Error::with(Code::SecretNotFound, words.number(version.into()))
        })?;
        let (store, key) = (&self.store, &*self.key()?);
        LocalSource { store, key, current: Some(older) }.read(path, secret.metadata.binding()).await
    }

    /// Where a secret's value is kept, in each way to write that as `provider://place`; nothing of one that is kept here.
    pub fn places(&self, secret: &Secret) -> Vec<String> {
        self.places_of(&secret.path, &secret.metadata.source)
    }

    pub(super) fn places_of(&self, path: &SecretPath, kept: &SourceConfig) -> Vec<String> {
        match kept {
            SourceConfig::Env { variable } => vec![format!("env://{variable}")],
            SourceConfig::File { .. } | SourceConfig::Local => Vec::new(),
            SourceConfig::Routed { source, reference } => {
                let named = source.as_deref().map(|source| (source, reference.as_deref()));
                let found = self.router().and_then(|router| router.place(path, named));
                match found {
                    Ok(Place::Source(at)) => at.called(),
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Where a source is asked for a secret's value; nothing of one that no source keeps.
    pub fn kept_at(&self, secret: &Secret) -> Option<KeptAt> {
        self.router.as_ref()?.kept_at(secret)
    }

    /// Whether there is a source that goes by this name in a handle.
    pub fn has_provider(&self, provider: &str) -> bool {
        provider == "env" || self.router.as_ref().is_some_and(|one| one.has_provider(provider))
    }

    /// Every declared source, and how it is. Nothing without a router.
    pub async fn sources(&self) -> Result<Vec<SourceReport>, Error> {
        let Some(router) = &self.router else { return Ok(Vec::new()) };
        let mut supplies = BTreeMap::new();
        for name in router.names() {
            // One that can't be had shows as the source's state.
            if let Ok(supply) = self.supply(router, name).await {
                supplies.insert(name.to_owned(), supply);
            }
        }
        let contacts = self.store.source_contacts().await?;
        Ok(router.report(&supplies, contacts).await)
    }

    /// What a declared source holds, by the references that a secret may name, and the secret that is kept there already;
    /// values are none of it.
    pub async fn browse(&self, source: &str) -> Result<Vec<(Held, Option<SecretPath>)>, Error> {
        let router = self.router()?;
        let supply = self.supply(router, source).await?;
        let held = router.browse(source, &supply).await?;
        let index = self.index().await?;
        let places: Vec<_> = index
            .present()
            .filter_map(|(path, secret)| {
                let SourceConfig::Routed { source, reference } = &secret.metadata.source else {
                    return None;
                };
                let named = source.as_deref().map(|source| (source, reference.as_deref()));
                match router.place(path, named) {
                    Ok(Place::Source(at)) => Some((path, at)),
                    _ => None,
                }
            })
            .collect();
        let known_as = |one: &Held| {
            let found = places.iter().find(|(_, at)| at.is_in(source, &one.reference));
            found.map(|(path, _)| (*path).clone())
        };
        Ok(held
            .into_iter()
            .map(|one| {
                let path = known_as(&one);
                (one, path)
            })
            .collect())
    }

    /// Files and folders of sources, with values or what opens them.
    pub fn source_files(&self) -> Vec<PathBuf> {
        let Some(router) = &self.router else {
            // Without sources of its own a variable is looked for in the file all the same.
            return SecretsFile::named().iter().flat_map(SecretsFile::files).collect();
        };
        router.files().collect()
    }

    /// What stands in sources.toml and nothing reads: fragments of sentences.
    pub fn unread_of_sources(&self) -> &[String] {
        self.router.as_ref().map(Router::unread).unwrap_or_default()
    }

    /// Puts a value where a routed secret is kept; nothing when that is the store.
    pub(super) async fn put_at_source(&self, value: &SecretValue) -> Result<Option<Put>, Error> {
        let index = self.index().await?;
        let secret = index.find(value.path())?;
        let SourceConfig::Routed { source, reference } = &secret.metadata.source else {
            return Ok(None);
        };
        let named = source.as_deref().map(|source| (source, reference.as_deref()));
        let router = self.router()?;
        match router.place(value.path(), named)? {
            Place::Local => Ok(None),
            Place::Source(at) => {
                let supply = self.supply(router, at.source()).await?;
                let put = router.put(&at, value, &supply).await;
                self.keep_contacts(router).await;
                put.map(Some)
            }
        }
    }

    /// Whether the source of a routed secret says that it has no value of it. One that can't be asked has not said so.
    pub(super) async fn is_empty_at_source(&self, path: &SecretPath) -> bool {
        let asked = async {
            let index = self.index().await?;
            let SourceConfig::Routed { source, reference } = &index.find(path)?.metadata.source
            else {
                return Ok(false);
            };
            let named = source.as_deref().map(|source| (source, reference.as_deref()));
            let router = self.router()?;
            let Place::Source(at) = router.place(path, named)? else { return Ok(false) };
            let supply = self.supply(router, at.source()).await?;
            let is_empty = router.is_empty(&at, &supply).await;
            self.keep_contacts(router).await;
            Ok::<bool, Error>(is_empty)
        };
        asked.await.unwrap_or(false)
    }

    /// Has the store keep how sources were. A value is not withheld where that fails.
    async fn keep_contacts(&self, router: &Router) {
        for (source, outcome) in router.new_contacts() {
            let (at, outcome) = (Timestamp::now(), outcome.as_str().to_owned());
            let _ = self.store.record_source_contact(&source, &SourceContact { at, outcome }).await;
        }
    }

    fn router(&self) -> Result<&Router, Error> {
        let words = "no sources are declared here; see sources.toml";
        self.router
            .as_ref()
            .ok_or_else(|| Error::with(Code::SecretUnavailable, SafeText::words(words)))
    }

    async fn open_at(
        &self,
        path: &SecretPath,
        secret: &Indexed,
        binding: Binding,
        mut at: At<'_>,
    ) -> Result<Reading, Error> {
        let router = self.router()?;
        let made_of = made_of(&at, secret, binding);
        if let Some(value) = router.cached(path, &made_of) {
            return Ok(Reading { value, warnings: Vec::new(), instead: None });
        }
        let own = at.source().to_owned();
        let at_most = secret.metadata.upkeep.cache_ttl_seconds_max;
        loop {
            let supply = self.supply(router, at.source()).await?;
            let asked = router.fetch(path, &at, made_of.clone(), &supply, at_most);
            let asked = asked.await;
            self.keep_contacts(router).await;
            match asked? {
                Asked::Value(value) => {
                    let instead = Some(at.source().to_owned()).filter(|asked| *asked != own);
                    return Ok(Reading { value, warnings: Vec::new(), instead });
                }
                Asked::Elsewhere(Place::Local) => {
                    let reading = self.open_local(path, secret, binding).await?;
                    let instead = Some(SourceKind::Local.as_str().to_owned());
                    return Ok(Reading { instead, ..reading });
                }
                // What is asked in another's stead has nobody in its own.
                Asked::Elsewhere(Place::Source(other)) => at = other,
            }
        }
    }

    /// Whether the store keeps just this value for the secret, for a caller that is about to give it another: also where
    /// nobody is given the value any more.
    pub async fn keeps(&self, path: &SecretPath, value: &[u8]) -> Result<bool, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        if secret.current().is_none() {
            return Ok(false);
        }
        Ok(self.open_local(path, secret, Binding::None).await?.value.is(value))
    }

    /// What a source is asked with: its own credential, and the secrets that its settings name.
    pub(super) async fn supply(&self, router: &Router, source: &str) -> Result<Supply, Error> {
        let credential = match router.credential_of(source) {
            Some(path) => Some(self.open_for_a_source(path).await?),
            None => None,
        };
        let mut named = Vec::new();
        for path in router.named_by(source) {
            named.push(self.open_for_a_source(path).await?);
        }
        Ok(Supply::new(credential, named))
    }

    /// A secret that a source is asked with. A source that keeps it is asked with none itself: so no chain can form.
    async fn open_for_a_source(&self, path: &SecretPath) -> Result<SecretValue, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        refuse_withheld(path, secret, secret.current().map(|version| version.version))?;
        let router = match &secret.metadata.source {
            SourceConfig::Routed { source: None, reference: None } => self.router()?,
            // What the secret itself says is no part of the file whose words were agreed to.
            SourceConfig::Routed { .. } => return Err(Router::refuse_chain(path)),
            _ => return self.open_directly(path, secret, Binding::None).await.map(|it| it.value),
        };
        let at = match router.place_for_a_source(path)? {
            Place::Local => {
                return self.open_local(path, secret, Binding::None).await.map(|it| it.value);
            }
            Place::Source(at) => at,
        };
        // Kept for no time: what a sidecar mounts is renewed, and it is opened each time that the source is asked.
        let made_of = made_of(&at, secret, Binding::None);
        let fetched = router.fetch(path, &at, made_of, &Supply::default(), Some(0)).await;
        self.keep_contacts(router).await;
        match fetched? {
            Asked::Value(value) => Ok(value),
            // Only what lies at the default has another place.
            Asked::Elsewhere(_) => Err(Router::refuse_chain(path)),
        }
    }

    /// Opens a value from the place that the secret itself names; a routed one is not opened here.
    async fn open_directly(
        &self,
        path: &SecretPath,
        secret: &Indexed,
        binding: Binding,
    ) -> Result<Reading, Error> {
        match &secret.metadata.source {
            SourceConfig::Env { variable } => EnvSource::new(variable).read(path, binding).await,
            SourceConfig::File { path: file } => FileSource::new(file).read(path, binding).await,
            SourceConfig::Local | SourceConfig::Routed { .. } => {
                self.open_local(path, secret, binding).await
            }
        }
    }

    async fn open_local(
        &self,
        path: &SecretPath,
        secret: &Indexed,
        binding: Binding,
    ) -> Result<Reading, Error> {
        let (store, key, current) = (&self.store, &*self.key()?, secret.current());
        LocalSource { store, key, current }.read(path, binding).await
    }
}

/// All that a value is made of that a source gives.
fn made_of(at: &At<'_>, secret: &Indexed, binding: Binding) -> MadeOf {
    MadeOf {
        source: at.source().to_owned(),
        reference: at.reference().to_owned(),
        binding,
        created_at: secret.created_at,
        updated_at: secret.updated_at,
    }
}

/// Fails for a version that nobody is given.
fn refuse_withheld(path: &SecretPath, secret: &Indexed, version: Option<u32>) -> Result<(), Error> {
    let refuse = |code| Err(Error::with(code, SafeText::default().and(path)));
    match &secret.metadata {
        metadata if metadata.honeypot => refuse(Code::HoneypotTouched),
        metadata if metadata.compromises(version) => refuse(Code::SecretCompromised),
        _ => Ok(()),
    }
}
