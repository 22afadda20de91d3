//! The source `vault`: HashiCorp Vault or OpenBao, key-value engine version 2.
//!
//! A reference is `PATH#FIELD` below the mount, or `MOUNT//PATH#FIELD` below another one; the field is
//! `value` when none is named. It logs in with a token, or with AppRole (`role_id` here, the secret id as credential), whose token is
//! kept in memory until it ends. Writing keeps the other fields and fails when somebody else wrote
//! in between. What it holds is told by its keys, folder by folder; no secret is read for that. Source: <https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2>

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyless_core::{SafeText, SecretPath, SecretValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{
        Answer, Backend, Capabilities, Fetched, Held, MAX_HELD, SourceFault, State, holds_too_much,
        no_text,
    },
    http::{HttpAnswer, HttpRequest, SourceHttp, is_ever_asked},
    supply::{Setting, Supply},
};
use crate::{
    moment::Moment,
    router::{optional, required},
};

/// Between the mount, which may have slashes, and the path: no path has two of them in a row.
const BELOW: &str = "//";
/// Of a token that the server lets in.
const CLOSED: &str = "the server answered 403: its token's policy does not allow this; reading takes read of MOUNT/data/PATH, writing create and update";

/// What is said of an address that would carry the token in the clear.
const IN_THE_CLEAR: &str =
    "addr has http://, which is for this machine alone (localhost, 127.0.0.1): write https://";

/// One server and mount.
pub(crate) struct VaultSource {
    http: Arc<dyn SourceHttp>,
    address: String,
    mount: String,
    namespace: Option<String>,
    role_id: Option<Setting>,
    /// The folder that is looked through, with a slash behind it; empty for the whole mount.
    browse_below: String,
    session: Mutex<Option<Session>>,
    /// Held while it logs in.
    logging_in: tokio::sync::Mutex<()>,
}

/// What a reference names.
struct Place<'a> {
    /// Another than the source's own.
    mount: Option<&'a str>,
    path: &'a str,
    field: &'a str,
}

/// A token got by AppRole.
struct Session {
    token: Zeroizing<String>,
    until: Moment,
    /// A digest of what it was got with.
    got_with: [u8; 32],
}

#[derive(Deserialize)]
struct Login<'a> {
    #[serde(borrow)]
    auth: Auth<'a>,
}

#[derive(Deserialize)]
struct Auth<'a> {
    client_token: &'a str,
    #[serde(default)]
    lease_duration: u64,
}

#[derive(Deserialize)]
struct Secret<'a> {
    #[serde(default)]
    lease_duration: u64,
    #[serde(borrow)]
    data: Versioned<'a>,
}

#[derive(Deserialize)]
struct Versioned<'a> {
    #[serde(borrow)]
    data: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    version: u64,
}

#[derive(Deserialize)]
struct Listing {
    data: Keys,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<String>,
}

#[derive(Serialize)]
struct Write<'a> {
    options: Options,
    data: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

#[derive(Serialize)]
struct Options {
    cas: u64,
}

impl VaultSource {
    pub(crate) fn new(settings: &Table, http: Arc<dyn SourceHttp>) -> Result<Self, String> {
        let address = required(settings, "addr")?;
        if settings.contains_key("token") {
            return Err("a token does not stand in sources.toml: keep it as a secret and name it under [source_credentials]".to_owned());
        }
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return Err("addr is no https:// URL (http:// is for this machine alone)".to_owned());
        }
        if !is_ever_asked(&address) {
            return Err(IN_THE_CLEAR.to_owned());
        }
        Ok(Self {
            http,
            address: address.trim_end_matches('/').to_owned(),
            mount: optional(settings, "mount")?.unwrap_or("secret".to_owned()),
            namespace: optional(settings, "namespace")?,
            role_id: optional(settings, "role_id")?.as_deref().map(Setting::parse).transpose()?,
            browse_below: browse_below(settings)?,
            session: Mutex::new(None),
            logging_in: tokio::sync::Mutex::default(),
        })
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpAnswer, SourceFault> {
        let request = match &self.namespace {
            Some(namespace) => request.header("x-vault-namespace", namespace),
            None => request,
        };
        self.http.send(request).await.map_err(|fault| SourceFault {
            state: State::Unavailable,
            words: SafeText::default().as_they_wrote(&fault.to_string()),
        })
    }

    async fn token(&self, with: &Supply) -> Result<Zeroizing<String>, SourceFault> {
        let none = || {
            SourceFault::new(
                State::NeedsCredential,
                "it has no credential; see [source_credentials]",
            )
        };
        let credential = with.credential().ok_or_else(none)?.expose_to_its_source();
        let text = std::str::from_utf8(credential).map_err(|_| none())?;
        match &self.role_id {
            None => Ok(Zeroizing::new(text.to_owned())),
            Some(role) => self.log_in(role.resolve(with)?, text).await,
        }
    }

    /// One at a time, and those that wait find the session of the first: a secret id may be good for a single login.
    async fn log_in(&self, role: &str, secret_id: &str) -> Result<Zeroizing<String>, SourceFault> {
        let _turn = self.logging_in.lock().await;
        let got_with = digest(role, secret_id);
        if let Some(session) = &*self.session.lock().expect("nothing panics under it")
            && Moment::now() < session.until
            && session.got_with == got_with
        {
            return Ok(session.token.clone());
        }
        let body =
            serde_json::to_vec(&BTreeMap::from([("role_id", role), ("secret_id", secret_id)]));
        let body = Zeroizing::new(body.map_err(|_| unreadable())?);
        let url = format!("{}/v1/auth/approle/login", self.address);
        let answer = self.send(HttpRequest::new("POST", url).json(body)).await?;
        if answer.status != 200 {
            return Err(refusal(answer.status));
        }
        let login: Login<'_> = serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
        let token = Zeroizing::new(login.auth.client_token.to_owned());
        // Given up a little early, so that it does not end under way.
        let until =
            Moment::now() + Duration::from_secs(login.auth.lease_duration.saturating_sub(5));
        let session = Session { token: token.clone(), until, got_with };
        *self.session.lock().expect("nothing panics under it") = Some(session);
        Ok(token)
    }

    /// What is at `place`. A secret whose last version was deleted is there without data: what is written over it counts
    /// on from that version.
    async fn read(
        &self,
        place: &Place<'_>,
        token: &str,
    ) -> Result<Option<HttpAnswer>, SourceFault> {
        let request = HttpRequest::new("GET", self.url(place)).header("x-vault-token", token);
        let answer = self.send(request).await?;
        match answer.status {
            200 => Ok(Some(answer)),
            404 if serde_json::from_slice::<Secret<'_>>(&answer.body).is_ok() => Ok(Some(answer)),
            404 => Ok(None),
            status => Err(self.refused(status, token).await),
        }
    }

    /// The keys of one folder; those of folders end with a slash. 404 is a folder without any.
    async fn keys(&self, folder: &str, token: &str) -> Result<Vec<String>, SourceFault> {
        let folder = escaped(folder);
        let url = format!("{}/v1/{}/metadata/{folder}?list=true", self.address, self.mount);
        let answer = self.send(HttpRequest::new("GET", url).header("x-vault-token", token)).await?;
        match answer.status {
            200 => {
                let listing: Listing =
                    serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
                Ok(listing.data.keys)
            }
            404 => Ok(Vec::new()),
            status => Err(self.refused(status, token).await),
        }
    }

    /// Why nothing was given. With 403 the server says of a token that has ended what it says of one that may not have this:
    /// it is asked which. A token that ended early is not used again.
    async fn refused(&self, status: u16, token: &str) -> SourceFault {
        if status == 403 && self.look_up(token).await.is_ok_and(|answer| answer == 200) {
            return SourceFault::new(State::Available, CLOSED);
        }
        let mut session = self.session.lock().expect("nothing panics under it");
        // Another one may have been got since.
        session.take_if(|session| session.token.as_str() == token);
        drop(session);
        refusal(status)
    }

    /// The status that the server answers about the token itself.
    async fn look_up(&self, token: &str) -> Result<u16, SourceFault> {
        let url = format!("{}/v1/auth/token/lookup-self", self.address);
        let asked = HttpRequest::new("GET", url).header("x-vault-token", token);
        Ok(self.send(asked).await?.status)
    }

    fn url(&self, Place { mount, path, .. }: &Place<'_>) -> String {
        let mount = mount.map_or_else(|| self.mount.clone(), escaped);
        format!("{}/v1/{mount}/data/{}", self.address, escaped(path))
    }
}

impl Backend for VaultSource {
    fn capabilities(&self) -> Capabilities {
        let changes = Capabilities::WRITE.and(Capabilities::ROTATE);
        Capabilities::READ.and(Capabilities::LIST).and(changes).and(Capabilities::AUDIT_LOGGED)
    }

    fn reference(&self, path: &SecretPath, rest: &str, route: Option<&Table>) -> String {
        let said = |key: &str| route?.get(key)?.as_str();
        let field = said("field").unwrap_or("value");
        let rest = if rest.is_empty() { path.as_str() } else { rest };
        let mount = said("mount").map(|mount| mount.trim_matches('/'));
        match mount.filter(|mount| !mount.is_empty() && *mount != self.mount) {
            Some(mount) => format!("{mount}{BELOW}{rest}#{field}"),
            None => format!("{rest}#{field}"),
        }
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            let health = HttpRequest::new("GET", format!("{}/v1/sys/health", self.address));
            match self.send(health).await {
                // 429 and 473 are standbys, which forward.
                Ok(HttpAnswer { status: 200 | 429 | 473, .. }) => {}
                Ok(HttpAnswer { status: 503, .. }) => return State::Locked,
                Ok(_) => return State::Unavailable,
                Err(fault) => return fault.state,
            }
            let token = match self.token(with).await {
                Ok(token) => token,
                Err(fault) => return fault.state,
            };
            match self.look_up(&token).await {
                Ok(200) => State::Available,
                Ok(status) => refusal(status).state,
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let token = self.token(with).await?;
            let (mut held, mut folders, mut seen) =
                (Vec::new(), vec![self.browse_below.clone()], 0);
            while let Some(folder) = folders.pop() {
                let keys = match self.keys(&folder, &token).await {
                    // A policy may leave out folders of what it lets be listed.
                    Err(SourceFault { state: State::Available | State::Locked, .. })
                        if folder != self.browse_below =>
                    {
                        continue;
                    }
                    asked => asked?,
                };
                seen += 1 + keys.len();
                if seen > MAX_HELD {
                    return Err(holds_too_much());
                }
                for key in keys {
                    let reference = format!("{folder}{key}");
                    if key.ends_with('/') {
                        folders.push(reference);
                    } else {
                        held.push(Held { reference, name: None });
                    }
                }
            }
            Ok(held)
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let place = Place::of(reference);
            let token = self.token(with).await?;
            let Some(answer) = self.read(&place, &token).await? else { return Ok(None) };
            let secret: Secret<'_> =
                serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
            let fields = secret.data.data.unwrap_or_default();
            let Some(raw) = fields.get(place.field) else { return Ok(None) };
            let lease =
                (secret.lease_duration > 0).then(|| Duration::from_secs(secret.lease_duration));
            Ok(Some(Fetched { bytes: text_of(raw)?, lease }))
        })
    }

    fn put<'a>(
        &'a self,
        reference: &'a str,
        value: &'a SecretValue,
        with: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async move {
            let place = Place::of(reference);
            let token = self.token(with).await?;
            let there = self.read(&place, &token).await?;
            let old =
                there.as_ref().map(|answer| serde_json::from_slice::<Secret<'_>>(&answer.body));
            let old = old.transpose().map_err(|_| unreadable())?;
            let cas = old.as_ref().map_or(0, |old| old.data.metadata.version);
            let mut data = old.and_then(|old| old.data.data).unwrap_or_default();
            let text = std::str::from_utf8(value.expose_to_its_source()).map_err(|_| no_text())?;
            let quoted = quoted(text)?;
            let quoted = serde_json::from_slice(&quoted).map_err(|_| unreadable())?;
            data.insert(Cow::Borrowed(place.field), quoted);
            // Room for all of it: what outgrows its room leaves a copy behind that nobody wipes.
            let others = there.as_ref().map_or(0, |answer| answer.body.len());
            let room = others + quoted.get().len() + 6 * place.field.len() + 256;
            let mut body = Zeroizing::new(Vec::with_capacity(room));
            serde_json::to_writer(&mut *body, &Write { options: Options { cas }, data })
                .map_err(|_| unreadable())?;
            let request = HttpRequest::new("POST", self.url(&place)).json(body);
            let answer = self.send(request.header("x-vault-token", &token)).await?;
            match answer.status {
                200 | 204 => Ok(()),
                400 => Err(SourceFault::new(
                    State::Available,
                    "somebody else wrote in between; try again",
                )),
                status => Err(self.refused(status, &token).await),
            }
        })
    }

    fn forget(&self) {
        *self.session.lock().expect("nothing panics under it") = None;
    }
}

/// The setting of that name: what alone is looked through when the source says what it holds, so that its policy need
/// not allow more.
pub(super) fn browse_below(settings: &Table) -> Result<String, String> {
    let below = optional(settings, "browse_below")?.unwrap_or_default();
    match below.trim_matches('/') {
        "" => Ok(String::new()),
        below => Ok(format!("{below}/")),
    }
}

impl<'a> Place<'a> {
    fn of(reference: &'a str) -> Self {
        let (place, field) = reference.rsplit_once('#').unwrap_or((reference, "value"));
        match place.split_once(BELOW) {
            Some((mount, path)) if !mount.is_empty() => Self { mount: Some(mount), path, field },
            _ => Self { mount: None, path: place, field },
        }
    }
}

/// A field as text: strings as they are, everything else as JSON has it.
pub(super) fn text_of(raw: &RawValue) -> Result<Zeroizing<Vec<u8>>, SourceFault> {
    if raw.get().starts_with('"') {
        let text: String = serde_json::from_str(raw.get()).map_err(|_| unreadable())?;
        return Ok(Zeroizing::new(text.into_bytes()));
    }
    serde_json::from_str::<IgnoredAny>(raw.get()).map_err(|_| unreadable())?;
    Ok(Zeroizing::new(raw.get().as_bytes().to_vec()))
}

/// A value as a string of JSON. Its room is that of the longest one, so that no shorter copy is left behind unwiped.
pub(super) fn quoted(text: &str) -> Result<Zeroizing<Vec<u8>>, SourceFault> {
    let mut quoted = Zeroizing::new(Vec::with_capacity(6 * text.len() + 2));
    serde_json::to_writer(&mut *quoted, text).map_err(|_| unreadable())?;
    Ok(quoted)
}

fn digest(role: &str, secret_id: &str) -> [u8; 32] {
    let parted = Sha256::new().chain_update(role.len().to_le_bytes());
    parted.chain_update(role).chain_update(secret_id).finalize().into()
}

/// Percent-encodes everything but what a path of ours has.
fn escaped(path: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');
    utf8_percent_encode(path, KEPT).to_string()
}

fn refusal(status: u16) -> SourceFault {
    let state = match status {
        400 | 401 | 403 => State::Locked,
        _ => State::Unavailable,
    };
    let words = SafeText::words("the server answered ").number(status.into());
    let words = match status {
        403 => words.and(": its credential has ended, or its policy does not allow this"),
        429 => words.and(": it is asked too often"),
        503 => words.and(": it is sealed, or in maintenance"),
        _ => words,
    };
    SourceFault { state, words }
}

fn unreadable() -> SourceFault {
    SourceFault::new(State::Unavailable, "the server's answer can't be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::http::HttpFault;

    /// Nobody is asked.
    struct Nobody;

    impl SourceHttp for Nobody {
        fn send(&self, _: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
            Box::pin(async { Err(HttpFault::Unreachable) })
        }
    }

    /// A server with one secret, which says what it was told to keep.
    struct Kept(&'static str, Mutex<Vec<u8>>);

    impl SourceHttp for Kept {
        fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
            if request.method == "POST" {
                *self.1.lock().unwrap() = request.body.to_vec();
            }
            let body = Zeroizing::new(self.0.as_bytes().to_vec());
            Box::pin(async move { Ok(HttpAnswer { status: 200, body }) })
        }
    }

    /// A server that takes each secret id once, and its time to answer.
    #[derive(Default)]
    struct Once(Mutex<Vec<String>>);

    impl SourceHttp for Once {
        fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                let answer = |status, body: String| {
                    Ok(HttpAnswer { status, body: Zeroizing::new(body.into_bytes()) })
                };
                if request.method == "GET" {
                    let secret = r#"{"data":{"data":{"value":"of-it"},"metadata":{"version":1}}}"#;
                    return answer(200, secret.to_owned());
                }
                let login: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                let secret_id = login["secret_id"].as_str().unwrap().to_owned();
                let mut taken = self.0.lock().unwrap();
                if taken.contains(&secret_id) {
                    return answer(400, "{}".to_owned());
                }
                let client_token = format!("token-by-{secret_id}");
                taken.push(secret_id);
                let auth =
                    serde_json::json!({ "client_token": client_token, "lease_duration": 600 });
                answer(200, serde_json::json!({ "auth": auth }).to_string())
            })
        }
    }

    #[tokio::test]
    async fn many_at_once_log_in_once_and_another_credential_anew() {
        let http = Arc::new(Once::default());
        let settings = "addr = \"https://v.test\"\nrole_id = \"role\"".parse().unwrap();
        let source = VaultSource::new(&settings, Arc::clone(&http) as _).unwrap();
        let by = |secret_id: &str| {
            let path = SecretPath::parse("team/vault/secret-id").unwrap();
            let value = secret_id.as_bytes().to_vec();
            let value = SecretValue::new(path, value, keyless_core::Binding::None).unwrap();
            Supply::new(Some(value), Vec::new())
        };
        let first = by("first-secret-id");
        let get = || source.get("api/token", &first);
        let (one, two, three) = tokio::join!(get(), get(), get());
        assert!([one, two, three].iter().all(Result::is_ok));
        source.get("api/token", &by("second-secret-id")).await.ok().flatten().unwrap();
        assert_eq!(*http.0.lock().unwrap(), ["first-secret-id", "second-secret-id"]);
    }

    /// Writers of JSON may escape any letter of a key: Go's do so with `&`, PHP's with what is no ASCII.
    #[tokio::test]
    async fn a_field_is_found_whose_name_is_escaped() {
        let body = r#"{"data":{"data":{"a\u0026b":"value-of-it","gr\u00fcn":"other"},"metadata":{"version":3}}}"#;
        let http = Arc::new(Kept(body, Mutex::default()));
        let settings = "addr = \"https://v.test\"".parse().unwrap();
        let source = VaultSource::new(&settings, Arc::clone(&http) as _).unwrap();
        let path = SecretPath::parse("team/api/token").unwrap();
        let value = |text: &str| {
            let bytes = text.as_bytes().to_vec();
            SecretValue::new(path.clone(), bytes, keyless_core::Binding::None).unwrap()
        };
        let with = Supply::new(Some(value("token")), Vec::new());
        let got = source.get("api#a&b", &with).await.unwrap().unwrap();
        assert_eq!(got.bytes.as_slice(), b"value-of-it");
        source.put("api#a&b", &value("fre\"sh"), &with).await.unwrap();
        let kept: serde_json::Value = serde_json::from_slice(&http.1.lock().unwrap()).unwrap();
        let data = serde_json::json!({ "a&b": "fre\"sh", "grün": "other" });
        assert_eq!((&kept["data"], &kept["options"]["cas"]), (&data, &serde_json::json!(3)));
    }

    #[test]
    fn a_quoted_value_never_outgrows_its_room() {
        for text in ["plain", "\u{1}\u{2}\u{1f}", "\"\\\n", "grün"] {
            let quoted = quoted(text).unwrap();
            assert_eq!(quoted.capacity(), 6 * text.len() + 2, "{text:?}");
            assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
        }
    }

    #[test]
    fn a_route_may_lead_to_a_mount_of_its_own() {
        let settings = "addr = \"https://v.test\"\nmount = \"kv\"".parse().unwrap();
        let source = VaultSource::new(&settings, Arc::new(Nobody)).unwrap();
        let path = SecretPath::parse("team/api/token").unwrap();
        for (route, reference, url) in [
            ("", "api/token#value", "/v1/kv/data/api/token"),
            ("mount = \"kv\"", "api/token#value", "/v1/kv/data/api/token"),
            ("mount = \"ops/kv/\"", "ops/kv//api/token#value", "/v1/ops/kv/data/api/token"),
            ("mount = \"b\"\nfield = \"x\"", "b//api/token#x", "/v1/b/data/api/token"),
        ] {
            let made = source.reference(&path, "api/token", Some(&route.parse().unwrap()));
            assert_eq!(made, reference, "{route}");
            assert_eq!(source.url(&Place::of(&made)), format!("https://v.test{url}"), "{route}");
        }
    }
}
