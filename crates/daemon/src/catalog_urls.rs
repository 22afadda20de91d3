//! Providers of the token catalog that are fetched from addresses which the operator named.
//!
//! A catalog says where a freshly typed token may go, so what is fetched is taken only if it is
//! what it was: pinned by its SHA-256, or the same as at the first fetch. Over https alone, never
//! from an internal address, no larger than 256 KiB, and nothing is fetched unless somebody asks:
//! what was fetched before is read from a cache that is checked each time. Every try is on record
//! in `catalog/audit.log`. Source: reference/secrets.md, section 10.

mod document;
mod files;
mod project;

use std::collections::BTreeMap;

use jiff::Timestamp;
use keyless_core::{Authority, Code, Error, SafeText, Scheme};
use keyless_egress::{Client, ClientAnswer, ClientRequest, Whose};
use keyless_vault::{Provider, Providers};
use serde::{Deserialize, Serialize};

use self::files::Files;
pub(crate) use self::files::sha256;
pub use self::project::{ProjectCatalogs, ProjectFile, Trust};
use crate::{config::Config, egress_door::engine_config, places::Places};

const MAX_BYTES: usize = 256 * 1024;
const DAY: u64 = 86_400;

/// `catalog-sources.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Whether anything here counts.
    enable_url_catalogs: bool,
    source: Vec<Source>,
}

/// One address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    url: String,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    refresh_seconds: Option<u64>,
}

/// What became of one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UrlReport {
    /// The address.
    pub url: String,
    /// The provider that it is, when that is known.
    pub provider: Option<String>,
    /// What happened.
    pub outcome: Outcome,
    /// SHA-256 of what was fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What it has to be, and by whose word: `pin:…` or `tofu:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The status of the answer, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// A fetch that is on record.
#[derive(Debug, Deserialize)]
struct Try {
    url: String,
    outcome: Outcome,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    status_code: Option<u16>,
}

/// What happened to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Another media type than JSON.
    BlockedContentType,
    /// Not https.
    BlockedHttpsRequired,
    /// Another status than 200.
    BlockedHttpStatus,
    /// No catalog file.
    BlockedParse,
    /// Not what was pinned.
    BlockedPin,
    /// Of another version of the schema.
    BlockedSchemaVersion,
    /// Over 256 KiB.
    BlockedSize,
    /// An internal address.
    BlockedSsrf,
    /// Not what the first fetch brought.
    BlockedTofuMismatch,
    /// Fetched, and in force.
    Loaded,
    /// Fetched before, and in force.
    LoadedFromCache,
    /// Nobody answered, or not in time, or not to the end.
    NetworkError,
    /// Not fetched yet.
    Pending,
    /// Nobody answered, or not to the end; what was fetched before stays in force.
    ServedStaleCache,
}

/// What an address brought, and is in force.
pub(crate) struct Fetched {
    /// The address.
    pub(crate) url: String,
    /// SHA-256 of what it brought, in lower hex digits.
    pub(crate) sha256: String,
    /// What that says.
    pub(crate) provider: Provider,
}

/// The addresses, and what was fetched from them.
pub struct UrlCatalogs {
    files: Files,
    settings: Settings,
}

impl UrlReport {
    /// Whether it is to count in the place of a provider that is part of Keyless.
    pub fn speaks_for_ours(&self) -> bool {
        let in_force = [Outcome::Loaded, Outcome::LoadedFromCache, Outcome::ServedStaleCache]
            .contains(&self.outcome);
        in_force && self.provider.as_deref().is_some_and(Providers::is_bundled)
    }
}

impl Try {
    /// Whether it brought nothing, and would again as far as is known: it is not held against a word that was taken back since.
    fn still_says(&self, expected: Option<&str>) -> bool {
        match self.outcome {
            Outcome::Loaded
            | Outcome::LoadedFromCache
            | Outcome::Pending
            | Outcome::ServedStaleCache => false,
            Outcome::BlockedPin | Outcome::BlockedTofuMismatch => {
                self.expected.as_deref() == expected
            }
            Outcome::BlockedContentType
            | Outcome::BlockedHttpsRequired
            | Outcome::BlockedHttpStatus
            | Outcome::BlockedParse
            | Outcome::BlockedSchemaVersion
            | Outcome::BlockedSize
            | Outcome::BlockedSsrf
            | Outcome::NetworkError => true,
        }
    }
}

impl Outcome {
    /// What to do about it; nothing where nothing is amiss.
    pub fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::Loaded | Self::LoadedFromCache => return None,
            Self::BlockedContentType => "the server has to say application/json",
            Self::BlockedHttpStatus => "it has to answer with status 200 and without a redirect",
            Self::BlockedHttpsRequired => "name an address with https://",
            Self::BlockedParse | Self::BlockedSchemaVersion => {
                "keyless catalog validate FILE says what is wrong with such a file"
            }
            Self::BlockedPin => {
                "it is not the file that was pinned; keyless catalog pin URL, once you know why"
            }
            Self::BlockedSize => "a catalog has at most 256 KiB",
            Self::BlockedSsrf => {
                "a catalog does not come from an internal address; put the file itself into catalog/ next to config.toml"
            }
            Self::BlockedTofuMismatch => {
                "it is not the file of the first fetch; keyless catalog forget URL, once you know why"
            }
            Self::NetworkError => {
                "see whether the server is up, answers to the end, and its certificate is right"
            }
            Self::Pending => "keyless catalog refresh fetches it",
            Self::ServedStaleCache => {
                "the server does not answer, or not to the end; what it brought before stays in force"
            }
        })
    }
}

impl UrlCatalogs {
    /// Reads the settings. `Code::CatalogInvalid` when they can't be used. Blocks.
    pub fn load(places: &Places) -> Result<Self, Error> {
        let files = Files::of(places);
        let settings = files.settings()?;
        Ok(Self { files, settings })
    }

    /// What is in force, from the cache alone. Blocks.
    pub(crate) fn fetched(&self) -> Vec<Fetched> {
        if !self.settings.enable_url_catalogs {
            return Vec::new();
        }
        let known = self.files.known();
        let sources = self.settings.source.iter();
        let fetched = |source: &Source| {
            let (provider, sha256) = self.cached_with_digest(source, &known)?;
            Some(Fetched { url: source.url.clone(), sha256, provider })
        };
        sources.filter_map(fetched).collect()
    }

    /// Every address and how it stands, without fetching. Blocks.
    pub fn status(&self) -> Vec<UrlReport> {
        let known = self.files.known();
        let report = |source: &Source| {
            let provider = self.cached(source, &known);
            let expected = expected(source, &known).map(Expected::word);
            // That nothing is in force has its reason, unless it was never fetched.
            let last = self
                .files
                .last_try(&source.url)
                .filter(|last| last.still_says(expected.as_deref()));
            let last = last.filter(|_| provider.is_none());
            UrlReport {
                url: source.url.clone(),
                outcome: match (&provider, &last) {
                    (Some(_), _) => Outcome::LoadedFromCache,
                    (None, Some(last)) => last.outcome,
                    (None, None) => Outcome::Pending,
                },
                provider: provider.map(|provider| provider.provider_id),
                sha256: None,
                expected,
                status_code: last.and_then(|last| last.status_code),
            }
        };
        self.settings.source.iter().map(report).collect()
    }

    /// Whether anything of it is in force.
    pub fn is_enabled(&self) -> bool {
        self.settings.enable_url_catalogs
    }

    /// Fails with `Code::Usage` on an address that is not https, and with `Code::StateUnfit` on one that is there already.
    pub fn check_new(&self, url: &str, pin: Option<&str>) -> Result<(), Error> {
        split(url).ok_or_else(|| refused(url, "is no plain https address"))?;
        pin.map_or(Ok(()), check_pin)?;
        if self.names(url) {
            return Err(unfit(url, "is there already"));
        }
        Ok(())
    }

    /// Fetches from an address and names it. Fails as [`check_new`](Self::check_new) does, and with
    /// `Code::CatalogInternal` for an internal address, which is not fetched from as things are.
    pub async fn add(
        &mut self,
        config: &Config,
        url: &str,
        pin: Option<String>,
        refresh_seconds: Option<u64>,
        enable: bool,
    ) -> Result<UrlReport, Error> {
        self.check_new(url, pin.as_deref())?;
        let source = Source { url: url.to_owned(), sha256: pin, refresh_seconds };
        let report = self.refresh_one(&client(config)?, &source, false).await?;
        self.files.note(serde_json::json!(report));
        if report.outcome == Outcome::BlockedSsrf {
            let words = SafeText::default().as_they_wrote(url).and("; nothing was added");
            return Err(Error::with(Code::CatalogInternal, words));
        }
        self.settings = self.files.edit_settings(|document| {
            document::add(document, &source);
            if enable {
                document::enable(document);
            }
        })?;
        Ok(report)
    }

    /// Whether an address is named.
    pub fn names(&self, url: &str) -> bool {
        self.settings.source.iter().any(|source| source.url == url)
    }

    /// Whether an address is named, and the operator has said which file it is to bring.
    pub fn is_pinned(&self, url: &str) -> bool {
        self.settings.source.iter().any(|source| source.url == url && source.sha256.is_some())
    }

    /// Lets what the addresses bring count.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.settings = self.files.edit_settings(document::enable)?;
        Ok(())
    }

    /// Takes an address away, with what was fetched from it.
    pub fn remove(&mut self, url: &str) -> Result<(), Error> {
        self.find(url)?;
        self.files.forget(url)?;
        self.settings = self.files.edit_settings(|document| document::remove(document, url))?;
        Ok(())
    }

    /// Forgets what an address brought at the first fetch: the next one counts as the first.
    pub fn forget(&self, url: &str) -> Result<(), Error> {
        self.find(url)?;
        self.files.forget(url)
    }

    /// Pins an address to `sha256`, or to what was fetched from it. Gives what it is pinned to.
    pub fn pin(&mut self, url: &str, sha256: Option<String>) -> Result<String, Error> {
        self.find(url)?;
        let pin = sha256.or_else(|| self.files.known().get(url).cloned());
        let pin = pin.ok_or_else(|| unfit(url, "was never fetched; say what to pin it to"))?;
        check_pin(&pin)?;
        self.settings = self.files.edit_settings(|document| document::pin(document, url, &pin))?;
        Ok(pin)
    }

    /// Fetches what is older than its time, or everything when `all`.
    pub async fn refresh(&self, config: &Config, all: bool) -> Result<Vec<UrlReport>, Error> {
        let client = client(config)?;
        let mut reports = Vec::with_capacity(self.settings.source.len());
        for source in &self.settings.source {
            reports.push(self.refresh_noted(&client, source, all).await?);
        }
        Ok(reports)
    }

    /// Fetches one address, however fresh it is.
    pub async fn refresh_address(&self, config: &Config, url: &str) -> Result<UrlReport, Error> {
        self.refresh_noted(&client(config)?, self.find(url)?, true).await
    }

    async fn refresh_noted(
        &self,
        client: &Client,
        source: &Source,
        all: bool,
    ) -> Result<UrlReport, Error> {
        let report = self.refresh_one(client, source, all).await?;
        self.files.note(serde_json::json!(report));
        Ok(report)
    }

    async fn refresh_one(
        &self,
        client: &Client,
        source: &Source,
        all: bool,
    ) -> Result<UrlReport, Error> {
        let known = self.files.known();
        let cached = self.cached(source, &known);
        let provider = cached.as_ref().map(|provider| provider.provider_id.clone());
        let report = |outcome, sha256, provider| UrlReport {
            url: source.url.clone(),
            provider,
            outcome,
            sha256,
            expected: expected(source, &known).map(Expected::word),
            status_code: None,
        };
        let age = self.files.fetched_at(&source.url);
        let fresh = age.is_some_and(|at| {
            let passed = Timestamp::now().as_second() - at.as_second();
            (0..i64::try_from(source.refresh_seconds.unwrap_or(DAY)).unwrap_or(i64::MAX))
                .contains(&passed)
        });
        if cached.is_some() && fresh && !all {
            return Ok(report(Outcome::LoadedFromCache, None, provider));
        }
        let answer = match fetch(client, &source.url).await {
            Ok(answer) => answer,
            Err(Unfetched { outcome: Outcome::NetworkError, .. }) if cached.is_some() => {
                return Ok(report(Outcome::ServedStaleCache, None, provider));
            }
            Err(Unfetched { outcome, status_code }) => {
                return Ok(UrlReport { status_code, ..report(outcome, None, provider) });
            }
        };
        let report = |outcome, sha256, provider| UrlReport {
            status_code: Some(answer.status),
            ..report(outcome, sha256, provider)
        };
        let digest = sha256(&answer.body);
        match expected(source, &known) {
            Some(Expected::Pin(pin)) if pin != digest => {
                return Ok(report(Outcome::BlockedPin, Some(digest), provider));
            }
            Some(Expected::Known(first)) if first != digest => {
                return Ok(report(Outcome::BlockedTofuMismatch, Some(digest), provider));
            }
            _ => {}
        }
        let text = String::from_utf8_lossy(&answer.body);
        let Ok(provider) = Provider::parse(&text) else {
            return Ok(report(unreadable(&text), Some(digest), provider));
        };
        self.files.keep(&source.url, &answer.body)?;
        self.files.remember(&source.url, &digest)?;
        Ok(report(Outcome::Loaded, Some(digest), Some(provider.provider_id)))
    }

    /// What was fetched before, if it is still what it has to be.
    fn cached(&self, source: &Source, known: &BTreeMap<String, String>) -> Option<Provider> {
        self.cached_with_digest(source, known).map(|(provider, _)| provider)
    }

    fn cached_with_digest(
        &self,
        source: &Source,
        known: &BTreeMap<String, String>,
    ) -> Option<(Provider, String)> {
        let bytes = self.files.cached(&source.url)?;
        let digest = sha256(&bytes);
        let fits = match expected(source, known)? {
            Expected::Pin(pin) => pin == digest,
            Expected::Known(first) => first == digest,
        };
        let provider = Provider::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        fits.then_some((provider, digest))
    }

    fn find(&self, url: &str) -> Result<&Source, Error> {
        let found = self.settings.source.iter().find(|source| source.url == url);
        found.ok_or_else(|| refused(url, "is no address of catalog-sources.toml"))
    }
}

fn check_pin(pin: &str) -> Result<(), Error> {
    let is_sha256 =
        pin.len() == 64 && pin.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    if is_sha256 { Ok(()) } else { Err(refused(pin, "is no SHA-256 in 64 lower hex digits")) }
}

/// By whose word a file has to be what it is.
enum Expected<'a> {
    Known(&'a str),
    Pin(&'a str),
}

impl Expected<'_> {
    fn word(self) -> String {
        let (whose, sha) = match self {
            Self::Known(sha) => ("tofu", sha),
            Self::Pin(sha) => ("pin", sha),
        };
        // The file can be edited by hand.
        format!("{whose}:{}", sha.get(..12).unwrap_or(sha))
    }
}

fn expected<'a>(source: &'a Source, known: &'a BTreeMap<String, String>) -> Option<Expected<'a>> {
    let pin = source.sha256.as_deref().map(Expected::Pin);
    pin.or_else(|| known.get(&source.url).map(|sha| Expected::Known(sha)))
}

/// Nothing that could be a catalog came.
struct Unfetched {
    outcome: Outcome,
    /// The status of the answer, where there was one.
    status_code: Option<u16>,
}

impl From<Outcome> for Unfetched {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, status_code: None }
    }
}

/// Why a file is no catalog: a newer one may have keys that this version does not know.
fn unreadable(text: &str) -> Outcome {
    let file: Option<serde_json::Value> = serde_json::from_str(text).ok();
    match file.as_ref().and_then(|file| file.get("schema_version")) {
        Some(version) if *version != 1 => Outcome::BlockedSchemaVersion,
        _ => Outcome::BlockedParse,
    }
}

fn client(config: &Config) -> Result<Client, Error> {
    Client::new(engine_config(config, None)?).map_err(|_| {
        Error::with(Code::ConfigInvalid, SafeText::words("[egress] extra_roots can't be used"))
    })
}

async fn fetch(client: &Client, url: &str) -> Result<ClientAnswer, Unfetched> {
    let (authority, target) = split(url).ok_or(Outcome::BlockedHttpsRequired)?;
    let headers = vec![("accept", "application/json"), ("user-agent", "keyless")];
    let request = ClientRequest { method: "GET", target, headers, body: &[] };
    let sent = client.send(Scheme::Https, &authority, Whose::Catalogs, &request, MAX_BYTES).await;
    let answer = sent.map_err(|error| match error.code() {
        Code::AnswerTooLarge => Outcome::BlockedSize,
        Code::InternalDestination => Outcome::BlockedSsrf,
        _ => Outcome::NetworkError,
    })?;
    let blocked = |outcome| Unfetched { outcome, status_code: Some(answer.status) };
    if answer.status != 200 {
        return Err(blocked(Outcome::BlockedHttpStatus));
    }
    let kind = answer.content_type.as_deref().unwrap_or_default();
    match kind.split(';').next().map(str::trim) {
        Some("application/json") => Ok(answer),
        _ => Err(blocked(Outcome::BlockedContentType)),
    }
}

/// Authority and target of a plain https address.
pub(crate) fn split(url: &str) -> Option<(Authority, &str)> {
    let rest = url.strip_prefix("https://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let authority = Authority::parse_for(&rest[..end], Scheme::Https).ok()?;
    let target = if end == rest.len() { "/" } else { &rest[end..] };
    let plain =
        !target.contains('#') && !url.contains(|c: char| c.is_whitespace() || c.is_control());
    plain.then_some((authority, target))
}

fn refused(what: &str, why: &'static str) -> Error {
    Error::with(Code::Usage, place(what, why))
}

fn unfit(what: &str, why: &'static str) -> Error {
    Error::with(Code::StateUnfit, place(what, why))
}

fn place(what: &str, why: &'static str) -> SafeText {
    SafeText::default().as_they_wrote(what).and(" ").and(SafeText::words(why))
}
